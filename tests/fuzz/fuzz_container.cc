// SPDX-License-Identifier: Apache-2.0
// Reads arbitrary bytes as a .cinch file. The first byte chooses: the file as it is, a directory
// (after 8 bytes that say what it must cover), or a file whose hashes are put right first, so that
// mutations reach what lies behind them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "container_reader.h"

namespace {

using namespace cinch::cli;  // The target is about one namespace only.

constexpr size_t kHashOffset = 56;
constexpr size_t kDirectoryBytesOffset = 24;
constexpr size_t kDirectoryHashOffset = 40;
constexpr uint64_t kMostBaseBytes = uint64_t{1} << 20;

void Require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
  }
}

void RequireReason(const Outcome& outcome) {
  Require(outcome.code == ExitCode::kBadData, "a bad file is bad data and nothing else");
  Require(!outcome.message.empty(), "a refusal has a reason");
}

cinch_codec* Codec() {
  static const CodecHandle codec = [] {
    CodecHandle created;
    Require(CreateCodec(CINCH_BACKEND_CPU, 1, &created).ok(), "a codec can be created");
    return created;
  }();
  return codec.get();
}

void CheckFile(std::span<const std::byte> file) {
  container::Reader reader;
  const Outcome opened = container::Reader::Open(file, &reader);
  if (!opened.ok()) {
    RequireReason(opened);
    Require(reader.frames().empty(), "a refusal leaves the reader alone");
    return;
  }
  uint64_t end_bytes = 0;
  for (const container::FrameRange& range : reader.frames()) {
    Require(range.segment < reader.directory().segments.size(), "a frame belongs to a segment");
    Require(range.offset_bytes >= end_bytes && range.size_bytes <= file.size() &&
                range.offset_bytes <= file.size() - range.size_bytes,
            "frames lie in the file, one after another");
    end_bytes = range.offset_bytes + range.size_bytes;
  }
  // What it is relative to is all zero here.
  if (reader.needs_base() && reader.original_bytes() > kMostBaseBytes) return;
  const std::vector<std::byte> base(reader.needs_base() ? reader.original_bytes() : 0);
  Progress progress("", 0, false);
  uint64_t decoded_bytes = 0;
  const Outcome decoded = reader.DecodeAll(
      Codec(), base, &progress,
      [&](const container::FrameRange& range, std::span<const std::byte> chunk) -> Outcome {
        Require(chunk.size() == range.original_bytes, "a frame has the size that was announced");
        decoded_bytes += chunk.size();
        return {};
      });
  if (decoded.ok()) {
    Require(decoded_bytes == reader.original_bytes(), "all of the original came");
  } else if (decoded.status == CINCH_ERROR_FRAME_BASE_MISMATCH) {
    Require(reader.needs_base() && decoded.code == ExitCode::kUsage && !decoded.message.empty(),
            "another base is the user's to name");
  } else {
    RequireReason(decoded);
  }
}

void CheckDirectory(std::span<const std::byte> input) {
  uint64_t original_bytes = 0;
  if (input.size() < sizeof original_bytes) return;
  std::memcpy(&original_bytes, input.data(), sizeof original_bytes);
  const std::span<const std::byte> json = input.subspan(sizeof original_bytes);
  container::Directory directory;
  const Outcome outcome = container::DecodeDirectory(
      {reinterpret_cast<const char*>(json.data()), json.size()}, original_bytes, &directory);
  if (!outcome.ok()) {
    RequireReason(outcome);
    return;
  }
  uint64_t end_bytes = 0;
  for (const Segment& segment : directory.segments) {
    Require(segment.offset_bytes == end_bytes, "segments follow each other");
    end_bytes += segment.size_bytes;
  }
  Require(end_bytes == original_bytes, "segments cover the original");
  std::string again;
  container::Directory second;
  Require(container::EncodeDirectory(directory.segments, directory.is_safetensors, &again).ok() &&
              container::DecodeDirectory(again, original_bytes, &second).ok(),
          "what was read can be written and read again");
  Require(second.segments.size() == directory.segments.size(), "all segments survive");
}

void PutHash(std::span<std::byte> bytes, size_t offset, std::span<const std::byte> of) {
  const uint64_t hash = ShortHash(of);
  std::memcpy(bytes.data() + offset, &hash, sizeof hash);
}

void CheckRepaired(std::span<const std::byte> input) {
  std::vector<std::byte> file(input.begin(), input.end());
  const std::span<std::byte> bytes(file);
  if (file.size() < container::kHeaderBytes + container::kTrailerBytes) return;
  uint64_t directory_bytes = 0;
  std::memcpy(&directory_bytes, file.data() + kDirectoryBytesOffset, sizeof directory_bytes);
  if (directory_bytes <= file.size() - container::kHeaderBytes) {
    PutHash(bytes, kDirectoryHashOffset, bytes.subspan(container::kHeaderBytes, directory_bytes));
  }
  PutHash(bytes, kHashOffset, bytes.first(kHashOffset));
  const std::span<std::byte> trailer = bytes.last(container::kTrailerBytes);
  PutHash(trailer, kHashOffset, trailer.first(kHashOffset));
  CheckFile(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  if (size_bytes == 0) return 0;
  const auto input = std::as_bytes(std::span(data + 1, size_bytes - 1));
  switch (data[0] % 3) {
    case 0:
      CheckFile(input);
      break;
    case 1:
      CheckDirectory(input);
      break;
    default:
      CheckRepaired(input);
      break;
  }
  return 0;
}
