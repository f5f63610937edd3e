// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "byte_sink.h"
#include "container_format.h"
#include "handles.h"
#include "progress.h"
#include "tensors/mapped_file.h"

namespace cinch::cli::container {

/// Where a frame is and what it stands for.
struct FrameRange {
  size_t segment = 0;
  /// In the container.
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t original_bytes = 0;
};

/// An opened container, of which only frames' contents remain to be checked.
class Reader {
 public:
  /// Reads header, directory, the frames' headers and the trailer of a whole container; its bytes
  /// must outlive the reader. Every frame then lies inside the file and says the size that the
  /// directory says.
  static Outcome Open(std::span<const std::byte> file, Reader* reader);

  uint64_t original_bytes() const { return header_.original_bytes; }
  const Directory& directory() const { return directory_; }
  const std::vector<FrameRange>& frames() const { return frames_; }
  std::span<const std::byte> frame(const FrameRange& range) const {
    return file_.subspan(range.offset_bytes, range.size_bytes);
  }
  const FileDigest& digest() const { return trailer_.digest; }
  /// Whether a frame is relative to the bytes of another file at its own place there.
  bool needs_base() const { return needs_base_; }

  using OnChunk = std::function<Outcome(const FrameRange& range, std::span<const std::byte> chunk)>;
  /// Decodes all frames in order, hands each one's contents to `on_chunk` and compares the digest
  /// of the whole at the end. `base` has as many bytes as the original, or is empty when none is
  /// needed. Memory: one chunk.
  Outcome DecodeAll(cinch_codec* codec, std::span<const std::byte> base, Progress* progress,
                    const OnChunk& on_chunk) const;

 private:
  Outcome FindFrames(uint64_t offset_bytes);
  Outcome FindFrame(size_t segment, uint64_t expected_bytes, uint64_t* offset_bytes);

  std::span<const std::byte> file_;
  Header header_;
  Trailer trailer_;
  Directory directory_;
  std::vector<FrameRange> frames_;
  bool needs_base_ = false;
};

/// Opens the file at `path`, from --base, if the container needs it. Otherwise the path is not
/// looked at and `base` stays empty.
Outcome OpenBaseOf(const Reader& reader, const std::string& path, tensors::MappedFile* base);

}  // namespace cinch::cli::container
