// SPDX-License-Identifier: Apache-2.0
#include "file_sender.h"

#include <fmt/format.h>

#include <utility>

#include "file_hash.h"
#include "interrupt.h"

namespace cinch::cli {
namespace {

/// Enough that the wire never waits for the next message.
constexpr size_t kPendingMessages = 4;
/// For the receiver's last words, when the connection broke.
constexpr double kExplainSeconds = 1;

}  // namespace

Outcome FileSender::Send(const std::vector<OutgoingFile>& files, TransferReport* report) {
  const auto announce_start = std::chrono::steady_clock::now();
  Outcome outcome = Announce(files);
  if (!outcome.ok()) {
    return outcome;
  }
  const auto start = std::chrono::steady_clock::now();
  for (const OutgoingFile& outgoing : files) {
    FileDigest digest{};
    outcome = SendFile(outgoing, &digest);
    if (!outcome.ok()) {
      return Explain(outcome);
    }
    report->files.push_back({outgoing.name, outgoing.file.bytes().size(), ToHex(digest)});
    report->payload_bytes += outgoing.file.bytes().size();
  }
  outcome = AwaitAll();
  if (!outcome.ok()) {
    return Explain(outcome);
  }
  report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string result;
  outcome = exchange::ReceiveText(endpoint_, exchange::kResultTag, exchange::kMaxAnswerBytes,
                                  timeout_seconds_, nullptr, &result);
  if (!outcome.ok()) {
    outcome.message =
        "everything was sent, but the receiver did not confirm that it stored the "
        "files: " +
        outcome.message;
    return outcome;
  }
  report->total_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - announce_start).count();
  ReadStatistics(endpoint_, report);
  return exchange::DecodeAnswer(result);
}

Outcome FileSender::Announce(const std::vector<OutgoingFile>& files) {
  exchange::Manifest manifest;
  manifest.chunk_bytes = kChunkBytes;
  for (const OutgoingFile& outgoing : files) {
    manifest.files.push_back({outgoing.name, outgoing.file.bytes().size(), outgoing.chunks.size()});
  }
  const std::string json = exchange::EncodeManifest(manifest);
  if (json.size() > exchange::kMaxManifestBytes) {
    return FromStatus(CINCH_ERROR_TOO_LARGE, "too many files for one transfer; send fewer at once");
  }
  Outcome outcome = exchange::SendText(endpoint_, exchange::kManifestTag, json);
  std::string answer;
  if (outcome.ok()) {
    outcome = exchange::ReceiveText(endpoint_, exchange::kAnswerTag, exchange::kMaxAnswerBytes,
                                    timeout_seconds_, nullptr, &answer);
  }
  return outcome.ok() ? exchange::DecodeAnswer(answer) : outcome;
}

Outcome FileSender::SendFile(const OutgoingFile& outgoing, FileDigest* digest) {
  FileHash hash;
  for (const Chunk& chunk : outgoing.chunks) {
    const auto bytes = outgoing.file.bytes().subspan(chunk.offset_bytes, chunk.size_bytes);
    cinch_transfer_options options;
    cinch_transfer_options_init(&options);
    options.tag = exchange::kDataTag;
    options.dtype = chunk.dtype;
    options.name = outgoing.segments[chunk.segment].name.c_str();
    // What is hashed is what the receiver must get, even if somebody changes the file meanwhile.
    hash.Update(bytes);
    Outcome outcome = Post(bytes.data(), bytes.size(), options, bytes.size(), {});
    if (!outcome.ok()) {
      return outcome;
    }
  }
  *digest = hash.Digest();
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = exchange::kDigestTag;
  options.policy = CINCH_POLICY_RAW;
  return Post(nullptr, 0, options, 0, ToHex(*digest));
}

Outcome FileSender::Post(const void* data, uint64_t bytes, const cinch_transfer_options& options,
                         uint64_t payload_bytes, std::string text) {
  while (pending_.size() >= kPendingMessages) {
    if (Outcome outcome = AwaitOldest(); !outcome.ok()) {
      return outcome;
    }
  }
  Pending& pending = pending_.emplace_back();
  pending.payload_bytes = payload_bytes;
  pending.text = std::move(text);
  if (!pending.text.empty()) {
    data = pending.text.data();
    bytes = pending.text.size();
  }
  cinch_operation* started = nullptr;
  const Status status = cinch_send(endpoint_, data, bytes, &options, &started);
  if (status != CINCH_OK) {
    pending_.pop_back();
    return DescribeTransferFailure(status);
  }
  pending.operation.reset(started);
  return {};
}

Outcome FileSender::AwaitOldest() {
  Outcome outcome = Await(pending_.front().operation.get(), [this] { return OnSlice(); });
  if (outcome.ok()) {
    done_bytes_ += pending_.front().payload_bytes;
    pending_.pop_front();
    progress_->Set(done_bytes_);
  }
  return outcome;
}

Outcome FileSender::AwaitAll() {
  Outcome outcome;
  while (outcome.ok() && !pending_.empty()) {
    outcome = AwaitOldest();
  }
  return outcome;
}

Outcome FileSender::OnSlice() {
  uint64_t done_bytes = done_bytes_;
  for (const Pending& pending : pending_) {
    cinch_operation_info info{};
    info.struct_size = sizeof(info);
    if (pending.payload_bytes > 0 &&
        cinch_operation_get_info(pending.operation.get(), &info) == CINCH_OK) {
      done_bytes += info.bytes_done;
    }
  }
  progress_->Set(done_bytes);
  if (exchange::HasArrived(endpoint_, exchange::kResultTag)) {
    return FromStatus(CINCH_ERROR_CANCELLED, "the receiver stopped");
  }
  return {};
}

Outcome FileSender::Explain(const Outcome& outcome) {
  if (outcome.code == ExitCode::kInterrupted) {
    return outcome;
  }
  std::string result;
  if (!exchange::ReceiveText(endpoint_, exchange::kResultTag, exchange::kMaxAnswerBytes,
                             kExplainSeconds, nullptr, &result)
           .ok()) {
    return outcome;
  }
  Outcome answer = exchange::DecodeAnswer(result);
  return answer.ok() ? outcome : answer;
}

}  // namespace cinch::cli
