// SPDX-License-Identifier: Apache-2.0
#include "bench_peer.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>

#include "exchange.h"
#include "file_hash.h"

namespace cinch::cli {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kRequestTag = 0x636E6211;
constexpr uint64_t kReplyTag = 0x636E6212;
constexpr uint64_t kBenchDataTag = 0x636E6213;
constexpr uint64_t kMaxTextBytes = 4096;
constexpr uint64_t kMaxMessageBytes = uint64_t{8} << 30;
/// A sender makes its data between two requests.
constexpr double kRequestSeconds = 600;

Outcome Unexpected() {
  return FromStatus(CINCH_ERROR_PROTOCOL,
                    "the other end did not answer as a benchmark does; run the same version there");
}

double NumberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

/// Receives one message into `buffer` and describes it.
Outcome ReceiveMessage(cinch_endpoint* endpoint, TouchedBuffer* buffer, uint64_t bytes,
                       std::string* reply) {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = kBenchDataTag;
  options.tag_mask = exchange::kAllTagBits;
  cinch_operation* started = nullptr;
  const Status status = cinch_recv(endpoint, buffer->data(), bytes, &options, &started);
  const OperationHandle operation(started);
  if (status != CINCH_OK) {
    return DescribeTransferFailure(status);
  }
  // The sender's clock starts after this word: the receive is posted.
  Outcome outcome = exchange::SendText(endpoint, kReplyTag, "{\"ready\":true}");
  if (Outcome received = Await(operation.get(), nullptr); !received.ok()) {
    return received;
  }
  cinch_transfer_stats stats{};
  stats.struct_size = sizeof(stats);
  if (cinch_operation_get_stats(operation.get(), &stats) != CINCH_OK) {
    stats = {};
  }
  const Json json = {{"hash", ShortHash({buffer->data(), bytes})},
                     {"codec_busy_seconds", stats.codec_busy_seconds},
                     {"hidden_codec_seconds", stats.hidden_codec_seconds},
                     {"decode_seconds", stats.decode_seconds}};
  *reply = json.dump();
  return outcome;
}

}  // namespace

Outcome BenchSender::Ask(const std::string& request, std::string* answer) {
  Outcome outcome;
  if (!request.empty()) {
    outcome = exchange::SendText(endpoint_, kRequestTag, request);
  }
  return outcome.ok() ? exchange::ReceiveText(endpoint_, kReplyTag, kMaxTextBytes, kRequestSeconds,
                                              nullptr, answer)
                      : outcome;
}

Outcome BenchSender::Measure(const BenchData& data, cinch_policy policy, MessageSample* sample) {
  const uint64_t bytes = data.buffer.size_bytes();
  std::string answer;
  if (Outcome outcome = Ask(Json{{"bytes", bytes}}.dump(), &answer); !outcome.ok()) {
    return outcome;
  }
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = kBenchDataTag;
  options.dtype = data.dtype;
  options.policy = policy;
  options.name = data.label.c_str();
  options.confirm = 1;
  cinch_operation* started = nullptr;
  const auto start = Clock::now();
  const Status status = cinch_send(endpoint_, data.buffer.data(), bytes, &options, &started);
  const OperationHandle operation(started);
  if (status != CINCH_OK) {
    return DescribeTransferFailure(status);
  }
  Outcome outcome = Await(operation.get(), nullptr);
  sample->seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (outcome.ok()) {
    outcome = Ask({}, &answer);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  sample->sender.struct_size = sizeof(sample->sender);
  cinch_operation_info info{};
  info.struct_size = sizeof(info);
  if (cinch_operation_get_stats(operation.get(), &sample->sender) != CINCH_OK ||
      cinch_operation_get_info(operation.get(), &info) != CINCH_OK) {
    return FromStatus(CINCH_ERROR_INTERNAL, "a finished operation has no statistics");
  }
  sample->policy = info.policy;
  const Json reply = Json::parse(answer, nullptr, false);
  if (!reply.is_object() || !reply.contains("hash") || !reply["hash"].is_number_unsigned()) {
    return Unexpected();
  }
  if (reply["hash"].get<uint64_t>() != ShortHash({data.buffer.data(), bytes})) {
    return Refuse(ExitCode::kBadData, "other bytes arrived than were sent; please report it");
  }
  sample->receiver_codec_busy_seconds = NumberOf(reply, "codec_busy_seconds");
  sample->receiver_hidden_codec_seconds = NumberOf(reply, "hidden_codec_seconds");
  sample->decode_seconds = NumberOf(reply, "decode_seconds");
  return {};
}

Outcome BenchSender::End() {
  return exchange::SendText(endpoint_, kRequestTag, Json{{"bytes", Json()}}.dump());
}

Outcome ServeBench(cinch_endpoint* endpoint) {
  TouchedBuffer buffer;
  while (true) {
    std::string request;
    Outcome outcome = exchange::ReceiveText(endpoint, kRequestTag, kMaxTextBytes, kRequestSeconds,
                                            nullptr, &request);
    if (!outcome.ok()) {
      return outcome;
    }
    const Json json = Json::parse(request, nullptr, false);
    if (!json.is_object() || !json.contains("bytes")) {
      return Unexpected();
    }
    if (json["bytes"].is_null()) {
      return {};
    }
    if (!json["bytes"].is_number_unsigned() || json["bytes"].get<uint64_t>() > kMaxMessageBytes) {
      return Unexpected();
    }
    const auto bytes = json["bytes"].get<uint64_t>();
    if (buffer.size_bytes() < bytes) {
      buffer = TouchedBuffer(bytes);
    }
    std::string reply;
    outcome = ReceiveMessage(endpoint, &buffer, bytes, &reply);
    if (outcome.ok()) {
      outcome = exchange::SendText(endpoint, kReplyTag, reply);
    }
    if (!outcome.ok()) {
      return outcome;
    }
  }
}

}  // namespace cinch::cli
