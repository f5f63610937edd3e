// SPDX-License-Identifier: Apache-2.0
/// @file frame_format.h
/// Reading and writing a frame's header and index (docs/format.md, section 2).
#pragma once

#include <cstdint>

#include "cinch/status.h"
#include "format/layout.h"

namespace cinch::codec {

/// The fields of a header that vary.
struct HeaderFields {
  uint32_t dtype;
  bool checksum;
  bool delta;
  uint64_t original_bytes;
  uint64_t payload_bytes;
  uint64_t content_hash;
  uint64_t base_hash;  ///< 0 unless delta.
};

/// Fills in magic, version, counts and header hash around them.
format::FrameHeader MakeHeader(const HeaderFields& fields);

/// A view of an untrusted frame. Every pointer stays inside it.
class FrameView {
 public:
  /// Checks the header against all rules and that header and index lie in `available_bytes`.
  /// OK, FRAME_TRUNCATED, FRAME_MAGIC, FRAME_VERSION, FRAME_RESERVED, FRAME_HEADER.
  Status ParseHeader(const uint8_t* frame, uint64_t available_bytes);
  /// Checks that the frame fills `available_bytes` exactly and that the index is sound.
  /// OK, FRAME_TRUNCATED, FRAME_TRAILING, FRAME_INDEX, FRAME_RESERVED.
  Status ParseWhole(const uint8_t* frame, uint64_t available_bytes);

  const format::FrameHeader& header() const { return header_; }
  bool checksum() const { return (header_.flags & format::kFlagChecksum) != 0; }
  bool delta() const { return (header_.flags & format::kFlagDelta) != 0; }
  uint64_t frame_bytes() const {
    return format::PayloadOffset(header_.block_count) + header_.payload_bytes;
  }
  /// Where block `block`'s payload starts and ends, from the payload's start. Valid after
  /// ParseWhole.
  uint64_t BlockBegin(uint64_t block) const { return block == 0 ? 0 : BlockEnd(block - 1); }
  uint64_t BlockEnd(uint64_t block) const;
  const uint8_t* payload() const { return frame_ + format::PayloadOffset(header_.block_count); }

 private:
  const uint8_t* frame_ = nullptr;
  format::FrameHeader header_ = {};
};

}  // namespace cinch::codec
