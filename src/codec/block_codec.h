// SPDX-License-Identifier: Apache-2.0
/// @file block_codec.h
/// What a codec does for one block (docs/format.md, sections 4 to 7). Frames are put together from
/// blocks by codec/frame, the same for every codec.
#pragma once

#include <cstdint>

#include "cinch/codec.h"
#include "format/layout.h"

namespace cinch::codec {

/// An encoder may write this much past the payload it returns.
inline constexpr uint32_t kEncodeSlackBytes = 256;
/// Room that `BlockCodec::Encode` needs at its output.
inline constexpr uint32_t kEncodeCapacityBytes = format::kMaxBlockPayloadBytes + kEncodeSlackBytes;

/// Original bytes of one block.
struct BlockInput {
  const uint8_t* bytes;
  uint32_t length_bytes;  ///< 1 to format::kBlockBytes.
  uint32_t dtype;         ///< A frame dtype: auto is allowed.
  uint64_t index;         ///< The block's place in its frame.
  bool checksum;
  const uint8_t* base = nullptr;  ///< What the bytes are coded relative to; null for nothing.
};

struct EncodedBlock {
  uint32_t payload_bytes;  ///< A multiple of 16, at most format::kMaxBlockPayloadBytes.
  uint64_t hash;           ///< BlockHash, or 0 without checksum.
};

/// One block's payload, untrusted.
struct BlockPayload {
  const uint8_t* bytes;
  uint32_t payload_bytes;  ///< At least 16, a multiple of 16; any size, also too large.
  uint32_t length_bytes;   ///< Original bytes, 1 to format::kBlockBytes.
  uint64_t index;
  bool checksum;
  const uint8_t* base = nullptr;  ///< As in BlockInput; must not overlap the output.
};

/// A block codec holds no state: one object serves all threads.
class BlockCodec {
 public:
  virtual ~BlockCodec() = default;

  /// Encodes a block to `payload`, which has room for kEncodeCapacityBytes.
  virtual EncodedBlock Encode(const BlockInput& input, uint8_t* payload) const = 0;

  /// Decodes a block to `output`, which has room for exactly `length_bytes`; `hash` receives its
  /// BlockHash, or 0 without checksum. OK, FRAME_BLOCK, FRAME_CHECKSUM. On an error the contents
  /// of `output` are unspecified.
  virtual Status Decode(const BlockPayload& payload, uint8_t* output, uint64_t* hash) const = 0;

  /// BlockHash of 1 to format::kBlockBytes bytes as block `index`.
  virtual uint64_t Hash(const uint8_t* bytes, uint32_t length_bytes, uint64_t index) const = 0;
};

/// Plain scalar code in the order of the format document.
const BlockCodec& ReferenceBlockCodec();
/// SIMD, the best target of this machine.
const BlockCodec& CpuBlockCodec();

}  // namespace cinch::codec
