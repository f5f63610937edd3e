// SPDX-License-Identifier: Apache-2.0
#include "container_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "interrupt.h"
#include "table.h"

namespace cinch::cli::container {
namespace {

Outcome BrokenFrame(const std::string& name, uint64_t offset_bytes, Status status) {
  return {ExitCode::kBadData, status,
          fmt::format("not a valid .cinch file: the frame at byte {} (of '{}'): {}", offset_bytes,
                      Printable(name), cinch_status_text(status))};
}

}  // namespace

Outcome Reader::Open(std::span<const std::byte> file, Reader* reader) {
  Reader opened;
  opened.file_ = file;
  if (Outcome outcome = DecodeHeader(file, &opened.header_); !outcome.ok()) {
    return outcome;
  }
  const uint64_t directory_bytes = opened.header_.directory_bytes;
  if (directory_bytes > file.size() - kHeaderBytes) {
    return Refuse(ExitCode::kBadData, "not a valid .cinch file: it ends within its directory");
  }
  const std::span<const std::byte> directory = file.subspan(kHeaderBytes, directory_bytes);
  if (ShortHash(directory) != opened.header_.directory_hash) {
    return Refuse(ExitCode::kBadData, "not a valid .cinch file: its directory is damaged");
  }
  const std::string_view json(reinterpret_cast<const char*>(directory.data()), directory.size());
  Outcome outcome = DecodeDirectory(json, opened.header_.original_bytes, &opened.directory_);
  if (outcome.ok()) {
    outcome = opened.FindFrames(kHeaderBytes + directory_bytes);
  }
  if (outcome.ok()) {
    *reader = std::move(opened);
  }
  return outcome;
}

Outcome Reader::FindFrames(uint64_t offset_bytes) {
  const uint64_t body_offset_bytes = offset_bytes;
  for (size_t index = 0; index < directory_.segments.size(); ++index) {
    uint64_t left_bytes = directory_.segments[index].size_bytes;
    while (left_bytes > 0) {
      const uint64_t expected_bytes = std::min(header_.chunk_bytes, left_bytes);
      if (Outcome outcome = FindFrame(index, expected_bytes, &offset_bytes); !outcome.ok()) {
        return outcome;
      }
      left_bytes -= expected_bytes;
    }
  }
  if (Outcome outcome = DecodeTrailer(file_.subspan(offset_bytes), &trailer_); !outcome.ok()) {
    return outcome;
  }
  if (trailer_.frame_count != frames_.size() ||
      trailer_.body_bytes != offset_bytes - body_offset_bytes) {
    return Refuse(ExitCode::kBadData,
                  "not a valid .cinch file: its trailer does not belong to its frames");
  }
  return {};
}

Outcome Reader::FindFrame(size_t segment, uint64_t expected_bytes, uint64_t* offset_bytes) {
  const std::string& name = directory_.segments[segment].name;
  // Only header and index, whose size follows from what the frame must hold: blocks are checked
  // when they are decoded.
  const uint64_t blocks = (expected_bytes + kFrameBlockBytes - 1) / kFrameBlockBytes;
  const uint64_t head_bytes = kFrameHeaderBytes + (4 * blocks + 15) / 16 * 16;
  const std::span<const std::byte> rest = file_.subspan(*offset_bytes);
  cinch_frame_info info{};
  info.struct_size = sizeof(info);
  const Status status =
      cinch_frame_inspect(rest.data(), std::min<uint64_t>(rest.size(), head_bytes), &info);
  if (status != CINCH_OK) {
    return BrokenFrame(name, *offset_bytes, status);
  }
  if (info.original_bytes != expected_bytes) {
    return BrokenFrame(name, *offset_bytes, CINCH_ERROR_FRAME_HEADER);
  }
  if (info.frame_bytes > rest.size()) {
    return BrokenFrame(name, *offset_bytes, CINCH_ERROR_FRAME_TRUNCATED);
  }
  frames_.push_back({segment, *offset_bytes, info.frame_bytes, expected_bytes});
  needs_base_ |= info.is_delta != 0;
  *offset_bytes += info.frame_bytes;
  return {};
}

Outcome Reader::DecodeAll(cinch_codec* codec, std::span<const std::byte> base, Progress* progress,
                          const OnChunk& on_chunk) const {
  const uint64_t capacity_bytes = std::min(header_.chunk_bytes, header_.original_bytes);
  const std::unique_ptr<std::byte[]> buffer(new std::byte[std::max<uint64_t>(1, capacity_bytes)]);
  FileHash hash;
  for (const FrameRange& range : frames_) {
    if (Interrupted()) {
      return InterruptedOutcome();
    }
    const auto chunk_base = base.first(std::min<uint64_t>(range.original_bytes, base.size()));
    base = base.subspan(chunk_base.size());
    const cinch_base held{chunk_base.data(), chunk_base.size(), 0, 0};
    uint64_t decoded_bytes = 0;
    const Status status =
        cinch_decompress_delta(codec, file_.data() + range.offset_bytes, range.size_bytes, &held,
                               buffer.get(), capacity_bytes, &decoded_bytes);
    if (status == CINCH_ERROR_FRAME_BASE_MISMATCH) {
      return {ExitCode::kUsage, status,
              fmt::format("the file named with --base is not the one that this .cinch file is "
                          "relative to: they differ in '{}'",
                          Printable(directory_.segments[range.segment].name))};
    }
    if (status != CINCH_OK) {
      return BrokenFrame(directory_.segments[range.segment].name, range.offset_bytes, status);
    }
    const std::span<const std::byte> chunk(buffer.get(), decoded_bytes);
    hash.Update(chunk);
    if (Outcome outcome = on_chunk(range, chunk); !outcome.ok()) {
      return outcome;
    }
    progress->Advance(chunk.size());
  }
  if (hash.Digest() != trailer_.digest) {
    return Refuse(ExitCode::kBadData,
                  "the decoded data do not match the checksum of the original file");
  }
  return {};
}

Outcome OpenBaseOf(const Reader& reader, const std::string& path, tensors::MappedFile* base) {
  if (!reader.needs_base()) {
    return {};
  }
  if (path.empty()) {
    return {ExitCode::kUsage, CINCH_ERROR_FRAME_BASE_MISSING,
            fmt::format("this .cinch file is relative to another version of its contents, a file "
                        "of {} bytes: name it with --base",
                        reader.original_bytes())};
  }
  return OpenBase(path, reader.original_bytes(), base);
}

}  // namespace cinch::cli::container
