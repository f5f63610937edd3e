// SPDX-License-Identifier: Apache-2.0
#include "file_receiver.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <chrono>
#include <utility>

#include "byte_sink.h"
#include "file_hash.h"
#include "interrupt.h"

namespace cinch::cli {
namespace {

/// As many as a sender keeps pending: 64 MiB.
constexpr size_t kSlots = 4;
/// How long a sender may take to read why it was refused.
constexpr double kFarewellSeconds = 5;
constexpr uint64_t kDigestBytes = 32;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Tells the sender how it went. A refused sender hangs up when it has read that; closing earlier
/// could overtake the words.
void Tell(cinch_endpoint* endpoint, uint64_t tag, const Outcome& outcome) {
  const Outcome told = exchange::SendText(endpoint, tag, exchange::EncodeAnswer(outcome));
  const auto start = Clock::now();
  while (told.ok() && !outcome.ok() && !Interrupted() && SecondsSince(start) < kFarewellSeconds &&
         cinch_endpoint_state(endpoint) == CINCH_OK) {
    cinch_message_info info{};
    info.struct_size = sizeof(info);
    // Only to wait and to make progress: no message has this tag.
    static_cast<void>(cinch_probe(endpoint, 0, exchange::kAllTagBits, 0.05, &info));
  }
}

}  // namespace

FileReceiver::~FileReceiver() { EndReceives(); }

Outcome FileReceiver::TakeManifest() {
  std::string json;
  Outcome outcome =
      exchange::ReceiveText(endpoint_, exchange::kManifestTag, exchange::kMaxManifestBytes,
                            options_.timeout_seconds, nullptr, &json);
  if (!outcome.ok()) {
    return outcome;
  }
  outcome = exchange::DecodeManifest(json, &manifest_);
  if (outcome.ok()) {
    outcome = CheckManifest();
  }
  if (outcome.ok()) {
    // Reserving takes time on some file systems: before the sender begins.
    outcome = Prepare(manifest_.files.front());
  }
  Tell(endpoint_, exchange::kAnswerTag, outcome);
  return outcome;
}

Outcome FileReceiver::CheckManifest() const {
  struct statvfs space {};
  if (statvfs(options_.directory.c_str(), &space) != 0) {
    return FromStatus(CINCH_ERROR_IO, fmt::format("'{}' is not a directory", options_.directory));
  }
  const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  if (manifest_.total_bytes() > free_bytes) {
    return FromStatus(CINCH_ERROR_NO_SPACE,
                      fmt::format("the files have {} bytes, but '{}' has room for {}; free space "
                                  "there or choose another directory",
                                  manifest_.total_bytes(), options_.directory, free_bytes));
  }
  for (const exchange::FileEntry& entry : manifest_.files) {
    if (!options_.force && NameExists(options_.directory + '/' + entry.name)) {
      return Refuse(ExitCode::kExists,
                    fmt::format("'{}' exists already in the receiver's directory; remove it there "
                                "or start the receiver with --force",
                                entry.name));
    }
  }
  return {};
}

Outcome FileReceiver::Receive(Progress* progress, TransferReport* report) {
  progress_ = progress;
  const auto start = Clock::now();
  chunks_to_post_ = manifest_.total_chunks();
  for (size_t index = 0; index < kSlots && index < chunks_to_post_; ++index) {
    Slot slot;
    slot.buffer.reset(new std::byte[manifest_.chunk_bytes]);
    idle_.push_back(std::move(slot));
  }
  Outcome outcome = ReceiveFiles(report);
  EndReceives();
  report->total_seconds = SecondsSince(start);
  ReadStatistics(endpoint_, report);
  Tell(endpoint_, exchange::kResultTag, outcome);
  return outcome;
}

Outcome FileReceiver::ReceiveFiles(TransferReport* report) {
  const auto start = Clock::now();
  for (size_t index = 0; index < manifest_.files.size(); ++index) {
    const exchange::FileEntry& entry = manifest_.files[index];
    FileDigest digest{};
    Outcome outcome = PostReceives();
    if (outcome.ok() && index > 0) {
      outcome = Prepare(entry);
    }
    if (outcome.ok()) {
      outcome = ReceiveFile(entry, &digest);
    }
    if (!outcome.ok()) {
      return outcome;
    }
    report->files.push_back({entry.name, entry.size_bytes, ToHex(digest)});
    report->payload_bytes += entry.size_bytes;
    report->seconds = SecondsSince(start);
  }
  return {};
}

Outcome FileReceiver::Prepare(const exchange::FileEntry& entry) {
  std::string message;
  const auto if_exists = options_.force ? tensors::AtomicFile::IfExists::kReplace
                                        : tensors::AtomicFile::IfExists::kFail;
  const Status status = tensors::AtomicFile::Create(options_.directory + '/' + entry.name,
                                                    entry.size_bytes, if_exists, &file_, &message);
  return FromStatus(status, message);
}

Outcome FileReceiver::ReceiveFile(const exchange::FileEntry& entry, FileDigest* digest) {
  FileHash hash;
  uint64_t offset_bytes = 0;
  for (uint64_t chunk = 0; chunk < entry.chunks; ++chunk) {
    uint64_t chunk_bytes = 0;
    Outcome outcome = PostReceives();
    if (outcome.ok()) {
      outcome = TakeChunk(offset_bytes, entry.size_bytes - offset_bytes, &hash, &chunk_bytes);
    }
    if (!outcome.ok()) {
      return outcome;
    }
    offset_bytes += chunk_bytes;
  }
  if (offset_bytes != entry.size_bytes) {
    return FromStatus(CINCH_ERROR_PROTOCOL,
                      fmt::format("'{}' came with fewer bytes than announced", entry.name));
  }
  *digest = hash.Digest();
  if (Outcome outcome = TakeDigest(*digest); !outcome.ok()) {
    outcome.message = fmt::format("'{}': {}", entry.name, outcome.message);
    return outcome;
  }
  std::string message;
  const Status status = file_.Commit(&message);
  return FromStatus(status, message);
}

Outcome FileReceiver::PostReceives() {
  while (chunks_to_post_ > 0 && !idle_.empty()) {
    cinch_transfer_options options;
    cinch_transfer_options_init(&options);
    options.tag = exchange::kDataTag;
    options.tag_mask = exchange::kAllTagBits;
    Slot slot = std::move(idle_.front());
    idle_.pop_front();
    cinch_operation* started = nullptr;
    const Status status =
        cinch_recv(endpoint_, slot.buffer.get(), manifest_.chunk_bytes, &options, &started);
    if (status != CINCH_OK) {
      return DescribeTransferFailure(status);
    }
    slot.operation.reset(started);
    posted_.push_back(std::move(slot));
    --chunks_to_post_;
  }
  return {};
}

Outcome FileReceiver::TakeChunk(uint64_t offset_bytes, uint64_t left_bytes, FileHash* hash,
                                uint64_t* chunk_bytes) {
  Outcome outcome = Await(posted_.front().operation.get(), [this] {
    cinch_operation_info info{};
    info.struct_size = sizeof(info);
    if (cinch_operation_get_info(posted_.front().operation.get(), &info) == CINCH_OK) {
      progress_->Set(done_bytes_ + info.bytes_done);
    }
    return Outcome{};
  });
  Slot slot = std::move(posted_.front());
  posted_.pop_front();
  cinch_operation_info info{};
  info.struct_size = sizeof(info);
  if (outcome.ok()) {
    outcome = FromStatus(cinch_operation_get_info(slot.operation.get(), &info), {});
  }
  if (!outcome.ok()) {
    return outcome;
  }
  if (info.message_bytes == 0 || info.message_bytes > left_bytes) {
    return FromStatus(CINCH_ERROR_PROTOCOL, "a data message has not the size it must have");
  }
  const std::span<const std::byte> bytes(slot.buffer.get(), info.message_bytes);
  hash->Update(bytes);
  std::string message;
  const Status status = file_.WriteAt(offset_bytes, bytes, &message);
  *chunk_bytes = bytes.size();
  done_bytes_ += bytes.size();
  progress_->Set(done_bytes_);
  slot.operation.reset();
  idle_.push_back(std::move(slot));
  return FromStatus(status, message);
}

Outcome FileReceiver::TakeDigest(const FileDigest& actual) {
  std::string text;
  if (Outcome outcome = exchange::ReceiveText(endpoint_, exchange::kDigestTag, kDigestBytes,
                                              options_.timeout_seconds, nullptr, &text);
      !outcome.ok()) {
    return outcome;
  }
  FileDigest expected{};
  if (!FromHex(text, &expected)) {
    return FromStatus(CINCH_ERROR_PROTOCOL, "the sender's checksum is not one");
  }
  if (expected != actual) {
    return Refuse(ExitCode::kBadData,
                  "the bytes received do not match the sender's checksum; was the file changed "
                  "meanwhile? Nothing was stored");
  }
  return {};
}

void FileReceiver::EndReceives() {
  for (Slot& slot : posted_) {
    static_cast<void>(cinch_cancel(slot.operation.get()));
  }
  for (Slot& slot : posted_) {
    // Only a completed operation lets go of its buffer.
    while (cinch_wait(slot.operation.get(), 0.1) == CINCH_IN_PROGRESS) {
    }
  }
  posted_.clear();
}

}  // namespace cinch::cli
