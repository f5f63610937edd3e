// SPDX-License-Identifier: Apache-2.0
/// @file layout.h
/// The structs of the frame format and every size and offset in it (docs/format.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/dtype.h"
#include "format/host_device.h"

namespace cinch::format {

inline constexpr uint32_t kMagic = 0x48434E43;  // "CNCH"
inline constexpr uint16_t kVersion = 1;
inline constexpr uint32_t kBlockBytes = 32768;
inline constexpr uint32_t kPayloadUnitBytes = 16;
inline constexpr uint32_t kLevels = 4;
inline constexpr uint32_t kCodedLevelSymbols = 3;
inline constexpr uint32_t kCodedEscape = 3;
inline constexpr uint32_t kMaxLevel0Bits = 3;
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{1} << 36;
inline constexpr uint8_t kFlagChecksum = 1;
inline constexpr uint8_t kFlagDelta = 2;
inline constexpr uint32_t kHeaderHashIndex = 0xFFFFFFFF;

enum class BlockMode : uint8_t { kStored = 0, kConstant = 1, kCascade = 2, kSparse = 4 };

/// Section 2.1. Little-endian in memory, as every supported machine is.
struct FrameHeader {
  uint32_t magic;
  uint16_t version;
  uint8_t dtype;
  uint8_t flags;
  uint64_t original_bytes;
  uint64_t payload_bytes;
  uint32_t block_count;
  uint32_t block_bytes;
  uint64_t content_hash;
  uint64_t base_hash;
  uint8_t reserved[12];
  uint32_t header_hash;
};
static_assert(sizeof(FrameHeader) == 64);
static_assert(offsetof(FrameHeader, header_hash) == 60);

/// Section 4.
struct BlockHeader {
  uint32_t checksum;
  uint8_t mode;
  uint8_t dtype;
  uint8_t level0_bits;
  uint8_t zero_planes;
};
static_assert(sizeof(BlockHeader) == 8);

/// Section 5: where each level's window starts in the alphabet that is left after the windows of
/// the levels above it were taken out.
struct Codebook {
  uint8_t window_start[kLevels];
};
static_assert(sizeof(Codebook) == 4);

/// Section 5: how many elements of the block escaped each level. The last are raw bytes.
struct EscapeCounts {
  uint16_t count[kLevels];
};
static_assert(sizeof(EscapeCounts) == 8);

inline constexpr uint32_t kStoredDataOffset = 16;  // header and 8 reserved bytes
inline constexpr uint32_t kConstantPayloadBytes = 16;
inline constexpr uint32_t kCodebookOffset = 8;
inline constexpr uint32_t kEscapeCountOffset = 12;
inline constexpr uint32_t kResidueOffset = 24;
/// No block's payload is larger than this: stored is always possible.
inline constexpr uint32_t kMaxBlockPayloadBytes = kStoredDataOffset + kBlockBytes;

CINCH_HOST_DEVICE constexpr uint64_t CeilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
CINCH_HOST_DEVICE constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return CeilDivide(value, alignment) * alignment;
}

CINCH_HOST_DEVICE constexpr uint64_t BlockCount(uint64_t original_bytes) {
  return CeilDivide(original_bytes, kBlockBytes);
}
CINCH_HOST_DEVICE constexpr uint64_t IndexBytes(uint64_t block_count) {
  return AlignUp(4 * block_count, kPayloadUnitBytes);
}
CINCH_HOST_DEVICE constexpr uint64_t PayloadOffset(uint64_t block_count) {
  return sizeof(FrameHeader) + IndexBytes(block_count);
}
/// The length of block `index` of an input.
CINCH_HOST_DEVICE constexpr uint32_t BlockLength(uint64_t original_bytes, uint64_t index) {
  const uint64_t left = original_bytes - index * kBlockBytes;
  return static_cast<uint32_t>(left < kBlockBytes ? left : kBlockBytes);
}
CINCH_HOST_DEVICE constexpr uint32_t StoredPayloadBytes(uint32_t length_bytes) {
  return static_cast<uint32_t>(AlignUp(kStoredDataOffset + length_bytes, kPayloadUnitBytes));
}
/// The largest frame of an input; see cinch_compress_bound.
CINCH_HOST_DEVICE constexpr uint64_t FrameBound(uint64_t original_bytes) {
  const uint64_t blocks = BlockCount(original_bytes);
  const uint64_t full_blocks = original_bytes / kBlockBytes;
  const auto tail = static_cast<uint32_t>(original_bytes % kBlockBytes);
  return PayloadOffset(blocks) + full_blocks * kMaxBlockPayloadBytes +
         (tail != 0 ? StoredPayloadBytes(tail) : 0);
}

/// Section 5.1: how many bytes a field of `bits` bits takes for `elements` elements.
CINCH_HOST_DEVICE constexpr uint32_t FieldBytes(uint32_t bits, uint32_t elements) {
  uint32_t bytes = (bits / 8) * elements;
  if ((bits & 4) != 0) bytes += (elements + 1) / 2;
  if ((bits & 2) != 0) bytes += (elements + 3) / 4;
  if ((bits & 1) != 0) bytes += (elements + 7) / 8;
  return bytes;
}

CINCH_HOST_DEVICE constexpr uint32_t CountBits(uint32_t value) {
  uint32_t count = 0;
  for (; value != 0; value &= value - 1) ++count;
  return count;
}

/// The symbols that level `level` names: the width of its window.
CINCH_HOST_DEVICE constexpr uint32_t WindowWidth(uint32_t level0_bits, uint32_t level) {
  if (level != 0) return kCodedLevelSymbols;
  return level0_bits == 0 ? 1 : (1U << level0_bits) - 1;
}

/// The symbol that `code` names at `level`.
CINCH_HOST_DEVICE constexpr uint32_t SymbolOf(const Codebook& codebook, uint32_t level0_bits,
                                              uint32_t level, uint32_t code) {
  uint32_t symbol = codebook.window_start[level] + code;
  while (level-- != 0) {
    if (symbol >= codebook.window_start[level]) symbol += WindowWidth(level0_bits, level);
  }
  return symbol;
}

/// Section 5: every window lies in its alphabet; without escapes the lower levels have none.
CINCH_HOST_DEVICE constexpr bool IsValidCodebook(const Codebook& codebook, uint32_t level0_bits,
                                                 uint32_t symbol_bits) {
  uint32_t left = 1U << symbol_bits;
  for (uint32_t level = 0; level < kLevels; ++level) {
    const uint32_t width = WindowWidth(level0_bits, level);
    const bool absent = level0_bits == 0 && level != 0;
    if (absent ? codebook.window_start[level] != 0 : codebook.window_start[level] + width > left) {
      return false;
    }
    left -= width;
  }
  return true;
}

/// Section 5.2: the bytes of the codes of a level whose list has `entries` entries.
CINCH_HOST_DEVICE constexpr uint32_t CodeListBytes(uint32_t entries) { return (entries + 3) / 4; }

/// The size of a block's coded part.
CINCH_HOST_DEVICE constexpr uint32_t CodedBytes(const EscapeCounts& escapes) {
  return CodeListBytes(escapes.count[0]) + CodeListBytes(escapes.count[1]) +
         CodeListBytes(escapes.count[2]) + escapes.count[3];
}

/// Where things are in a cascade block, from its payload's start.
struct CascadeLayout {
  DtypeTraits traits;
  uint32_t elements;      ///< m
  uint32_t tail_bytes;    ///< n mod W
  uint32_t plane_bits;    ///< Residue bits that are stored: R less 8 for each zero plane.
  uint32_t code_offset;   ///< Of the level-0 codes; the residues end here.
  uint32_t coded_offset;  ///< Of the coded part; the plain part ends here.

  /// The payload's size for a coded part of `coded_bytes` bytes.
  CINCH_HOST_DEVICE constexpr uint32_t PayloadBytes(uint32_t coded_bytes) const {
    return static_cast<uint32_t>(
        AlignUp(uint64_t{coded_offset} + coded_bytes + tail_bytes, kPayloadUnitBytes));
  }
};

/// The layout of a cascade block of `length_bytes` original bytes.
CINCH_HOST_DEVICE constexpr CascadeLayout MakeCascadeLayout(uint32_t dtype, uint32_t length_bytes,
                                                            uint32_t level0_bits,
                                                            uint32_t zero_planes) {
  CascadeLayout layout{};
  layout.traits = TraitsOf(dtype);
  layout.elements = length_bytes / layout.traits.element_bytes;
  layout.tail_bytes = length_bytes % layout.traits.element_bytes;
  layout.plane_bits = layout.traits.residue_bits - 8 * CountBits(zero_planes);
  layout.code_offset = kResidueOffset + FieldBytes(layout.plane_bits, layout.elements);
  layout.coded_offset = layout.code_offset + FieldBytes(level0_bits, layout.elements);
  return layout;
}

/// Section 5.4: how many groups have, and how many elements are, something else than zero.
struct SparseCounts {
  uint16_t groups;
  uint16_t elements;
};
static_assert(sizeof(SparseCounts) == 4);

inline constexpr uint32_t kSparseGroup = 8;  ///< Elements of a group.
inline constexpr uint32_t kSparseCountsOffset = 8;
inline constexpr uint32_t kSparseBitsOffset = 12;

/// Where things are in a sparse block, from its payload's start.
struct SparseLayout {
  uint32_t elements;      ///< m
  uint32_t groups;        ///< G
  uint32_t tail_bytes;    ///< n mod W
  uint32_t bytes_offset;  ///< Of the groups' bytes; the groups' bits end here.
  uint32_t bytes_end;
  uint32_t inner_offset;  ///< Of the inner payload.
  uint32_t inner_bytes;   ///< The inner payload's original bytes.
};

/// The layout of a sparse block of `length_bytes` original bytes; for untrusted counts, too.
CINCH_HOST_DEVICE constexpr SparseLayout MakeSparseLayout(uint32_t dtype, uint32_t length_bytes,
                                                          const SparseCounts& counts) {
  SparseLayout layout{};
  const uint32_t element_bytes = TraitsOf(dtype).element_bytes;
  layout.elements = length_bytes / element_bytes;
  layout.groups = static_cast<uint32_t>(CeilDivide(layout.elements, kSparseGroup));
  layout.tail_bytes = length_bytes % element_bytes;
  layout.bytes_offset = kSparseBitsOffset + static_cast<uint32_t>(CeilDivide(layout.groups, 8));
  layout.bytes_end = layout.bytes_offset + counts.groups;
  layout.inner_offset = static_cast<uint32_t>(AlignUp(layout.bytes_end, kPayloadUnitBytes));
  layout.inner_bytes = counts.elements * element_bytes + layout.tail_bytes;
  return layout;
}

/// Section 7.3: the bitmaps of `samples` elements of which `zeros` are zero, in bits.
CINCH_HOST_DEVICE constexpr uint32_t SparseMapBits(uint32_t samples, uint32_t zeros) {
  const uint32_t bytes = kSparseGroup * (samples - zeros);
  return samples / 8 + (bytes < samples ? bytes : samples);
}

/// Section 7.3: what `auto` estimates for a sparse block of such samples, in bits. `residue_bits`:
/// R less 8 for each plane that is zero in the whole sample.
CINCH_HOST_DEVICE constexpr uint32_t SparseEstimate(uint32_t element_bytes, uint32_t residue_bits,
                                                    uint32_t samples, uint32_t zeros,
                                                    uint32_t cost_bits) {
  const uint32_t others = samples - zeros;
  const uint32_t least_cost = samples + others;
  const uint32_t coded =
      residue_bits * others + (cost_bits > least_cost ? cost_bits : least_cost) - samples;
  const uint32_t stored = 8 * element_bytes * others;
  return SparseMapBits(samples, zeros) + (coded < stored ? coded : stored);
}

/// Sections 7.3 and 7.4: whether a sparse block is worth a thought.
CINCH_HOST_DEVICE constexpr bool HasManyZeros(uint32_t samples, uint32_t zeros) {
  return 4 * zeros >= samples;
}

/// Section 7.4, step 2. `residue_bits`: R less 8 for each plane that is zero in the whole sample.
CINCH_HOST_DEVICE constexpr bool IsSparse(uint32_t element_bytes, uint32_t residue_bits,
                                          uint32_t samples, uint32_t zeros, uint32_t cost_bits) {
  const uint32_t maps = SparseMapBits(samples, zeros);
  return HasManyZeros(samples, zeros) &&
         (zeros * (residue_bits + 1) > maps ||
          cost_bits + samples * residue_bits > maps + 8 * element_bytes * (samples - zeros));
}

/// The last condition of the same step.
CINCH_HOST_DEVICE constexpr bool InnerFits(uint32_t elements, uint32_t not_zero) {
  return 16 * not_zero <= 13 * elements;
}

}  // namespace cinch::format
