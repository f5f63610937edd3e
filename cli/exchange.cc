// SPDX-License-Identifier: Apache-2.0
#include "exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "interrupt.h"
#include "segments.h"
#include "strict_json.h"
#include "table.h"

namespace cinch::cli::exchange {
namespace {

using Json = nlohmann::json;

constexpr double kSliceSeconds = 0.1;
/// Far below 2^64, so that sums of kMaxFiles of them cannot overflow.
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 47;
/// Escaped and repaired, it takes at most three times as much, which fits kMaxAnswerBytes.
constexpr size_t kMaxMessageBytes = 1000;

Outcome Broken(const std::string& what) {
  return FromStatus(CINCH_ERROR_PROTOCOL, "the other end sent " + what);
}

bool ReadUnsigned(const Json& object, const char* key, uint64_t limit, uint64_t* value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() > limit) {
    return false;
  }
  *value = found->get<uint64_t>();
  return true;
}

Outcome ReadFile(const Json& object, uint64_t chunk_bytes, FileEntry* file) {
  if (!object.is_object() || object.size() != 3 || !object.contains("name") ||
      !object["name"].is_string() ||
      !ReadUnsigned(object, "bytes", kMaxFileBytes, &file->size_bytes) ||
      !ReadUnsigned(object, "chunks", kMaxFileBytes, &file->chunks)) {
    return Broken("a list of files with a bad entry");
  }
  file->name = object["name"].get<std::string>();
  if (Outcome outcome = CheckName(file->name); !outcome.ok()) {
    return outcome;
  }
  const uint64_t fewest = (file->size_bytes + chunk_bytes - 1) / chunk_bytes;
  if (file->chunks < fewest || file->chunks > file->size_bytes) {
    return Broken("a number of messages that does not suit the file's size");
  }
  return {};
}

}  // namespace

uint64_t Manifest::total_bytes() const {
  uint64_t total = 0;
  for (const FileEntry& file : files) {
    total += file.size_bytes;
  }
  return total;
}

uint64_t Manifest::total_chunks() const {
  uint64_t total = 0;
  for (const FileEntry& file : files) {
    total += file.chunks;
  }
  return total;
}

Outcome CheckName(const std::string& name) {
  const bool controls = Printable(name) != name;
  if (name.empty() || name.size() > kMaxNameBytes || name.front() == '.' || controls ||
      name.find_first_of("/\\") != std::string::npos) {
    return FromStatus(CINCH_ERROR_PROTOCOL,
                      fmt::format("'{}' is not allowed as a file's name: it must be one path "
                                  "component that does not begin with a dot",
                                  Printable(name.substr(0, kMaxNameBytes))));
  }
  return {};
}

std::string EncodeManifest(const Manifest& manifest) {
  Json files = Json::array();
  for (const FileEntry& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.size_bytes}, {"chunks", file.chunks}});
  }
  const Json root = {{"cinch_files", kProtocolVersion},
                     {"chunk_bytes", manifest.chunk_bytes},
                     {"files", std::move(files)}};
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Outcome DecodeManifest(const std::string& json, Manifest* manifest) {
  // The list, its files, and each of them.
  const Json root = ParseStrictJson(json, {.depth = 3, .containers = kMaxFiles + 2});
  uint64_t version = 0;
  Manifest result;
  if (!root.is_object() || !ReadUnsigned(root, "cinch_files", ~uint64_t{0}, &version)) {
    return Broken("something that is no list of files");
  }
  if (version != kProtocolVersion) {
    return FromStatus(CINCH_ERROR_VERSION_MISMATCH,
                      fmt::format("the sender speaks version {} of the file protocol, this program "
                                  "version {}; install the same version at both ends",
                                  version, kProtocolVersion));
  }
  if (root.size() != 3 || !ReadUnsigned(root, "chunk_bytes", kChunkBytes, &result.chunk_bytes) ||
      result.chunk_bytes == 0 || !root.contains("files") || !root["files"].is_array() ||
      root["files"].empty() || root["files"].size() > kMaxFiles) {
    return Broken("a list of files with a bad field");
  }
  std::set<std::string> names;
  for (const Json& entry : root["files"]) {
    FileEntry file;
    if (Outcome outcome = ReadFile(entry, result.chunk_bytes, &file); !outcome.ok()) {
      return outcome;
    }
    if (!names.insert(file.name).second) {
      return Broken(fmt::format("two files named '{}'", Printable(file.name)));
    }
    result.files.push_back(std::move(file));
  }
  *manifest = std::move(result);
  return {};
}

std::string EncodeAnswer(const Outcome& outcome) {
  const Json root = {{"code", static_cast<int>(outcome.code)},
                     {"status", static_cast<int>(outcome.status)},
                     {"message", Printable(outcome.message.substr(0, kMaxMessageBytes))}};
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Outcome DecodeAnswer(const std::string& json) {
  const Json root = ParseStrictJson(json, {.depth = 1, .containers = 1});
  if (!root.is_object() || root.size() != 3 || !root.contains("code") ||
      !root["code"].is_number_integer() || !root.contains("status") ||
      !root["status"].is_number_integer() || !root.contains("message") ||
      !root["message"].is_string()) {
    return Broken("an answer that is none");
  }
  if (root["code"].get<int64_t>() == 0) {
    return {};
  }
  // Whatever went wrong over there, here it is the peer that failed, and only its words count.
  const std::string message = Printable(root["message"].get<std::string>());
  return Refuse(ExitCode::kPeer, "the receiver refused: " + message.substr(0, kMaxMessageBytes));
}

Outcome SendText(cinch_endpoint* endpoint, uint64_t tag, const std::string& text) {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = tag;
  options.policy = CINCH_POLICY_RAW;
  options.confirm = 1;
  cinch_operation* started = nullptr;
  const Status status = cinch_send(endpoint, text.data(), text.size(), &options, &started);
  const OperationHandle operation(started);
  if (status != CINCH_OK) {
    return DescribeTransferFailure(status);
  }
  return Await(operation.get(), nullptr);
}

Outcome ReceiveText(cinch_endpoint* endpoint, uint64_t tag, uint64_t max_bytes,
                    double timeout_seconds, const std::function<Outcome()>& between,
                    std::string* text) {
  const auto start = std::chrono::steady_clock::now();
  cinch_message_info info{};
  info.struct_size = sizeof(info);
  while (true) {
    const Status status = cinch_probe(endpoint, tag, kAllTagBits, kSliceSeconds, &info);
    if (status == CINCH_OK) {
      break;
    }
    if (status != CINCH_ERROR_TIMEOUT) {
      return DescribeTransferFailure(status);
    }
    Outcome outcome = between ? between() : Outcome{};
    if (outcome.ok() && Interrupted()) {
      outcome = InterruptedOutcome();
    }
    if (!outcome.ok()) {
      return outcome;
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (timeout_seconds > 0 && elapsed.count() > timeout_seconds) {
      return DescribeTransferFailure(CINCH_ERROR_TIMEOUT);
    }
  }
  if (info.bytes > max_bytes) {
    return Broken(
        fmt::format("a message of {} bytes where {} are the most", info.bytes, max_bytes));
  }
  text->resize(info.bytes);
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = tag;
  options.tag_mask = kAllTagBits;
  cinch_operation* started = nullptr;
  const Status status = cinch_recv(endpoint, text->data(), text->size(), &options, &started);
  const OperationHandle operation(started);
  return status == CINCH_OK ? Await(operation.get(), nullptr) : DescribeTransferFailure(status);
}

bool HasArrived(cinch_endpoint* endpoint, uint64_t tag) {
  cinch_message_info info{};
  info.struct_size = sizeof(info);
  return cinch_probe(endpoint, tag, kAllTagBits, 0, &info) == CINCH_OK;
}

}  // namespace cinch::cli::exchange
