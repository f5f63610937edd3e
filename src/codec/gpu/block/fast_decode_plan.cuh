// SPDX-License-Identifier: Apache-2.0
/// @file fast_decode_plan.cuh
/// What a warp finds out about a cascade block before the warps that decode it look at it: whether
/// it is one for the fast path, every check that needs no counting, and where everything is.
#pragma once

#include <cstdint>

#include "codec/gpu/block/decode_block.cuh"
#include "codec/gpu/warp/lanes.cuh"

namespace cinch::codec::gpu {

/// How elements are put together from symbols and residues: by the element's bytes W and the
/// symbol's bits S.
enum class FastFormat : uint32_t {
  kByteOf4,  ///< W 1, S 4: fp8 e4m3.
  kByteOf5,  ///< W 1, S 5: fp8 e5m2.
  kByteOf8,  ///< W 1, S 8: bytes and their like.
  kHalfOf5,  ///< W 2, S 5: fp16.
  kHalfOf8,  ///< W 2, S 8: bf16, int16.
  kWordOf8,  ///< W 4, S 8: fp32, int32.
  kLongOf8,  ///< W 8, S 8: fp64, int64.
  kNone,
};

/// The fast path's numbers. A unit is 16 bytes of the original; a lane decodes one at a time, a
/// warp up to kGroups times 32 that follow one another.
struct FastDecode {
  static constexpr uint32_t kWarps = 16;
  static constexpr uint32_t kThreads = 32 * kWarps;
  static constexpr uint32_t kUnitBytes = 16;
  static constexpr uint32_t kGroups = format::kBlockBytes / (kUnitBytes * kThreads);
  /// Original bytes are a multiple of this: no field of any dtype then ends inside a byte, and
  /// whatever a unit reads is aligned.
  static constexpr uint32_t kLengthStep = 32;
  /// A warp expands a chunk of a list: 512 entries if that suffices for all lists, else 1024.
  static constexpr uint32_t kChunkShift = 9;
  /// Symbols of the lists of levels 0, 1 and 2. Every list is at most as long as the one before.
  static constexpr uint32_t kList0Bytes = (kWarps << (kChunkShift + 1)) + 64;
  static constexpr uint32_t kList1Bytes = kList0Bytes / 2 + 32;
  static constexpr uint32_t kList2Bytes = kList0Bytes / 3 + 64;
};
static_assert(FastDecode::kGroups == 4);

/// How the lists' entries are shared out to warps: chunks of levels 1 to 3 are numbered through.
struct FastChunks {
  uint32_t shift;   ///< A chunk has 1 << shift entries.
  uint32_t end[3];  ///< Where each level's chunks end.
};

/// Where a block's fields are, from its payload's start, and how its units are put together.
struct FastFields {
  static constexpr uint32_t kMaxPlanes = 7;
  uint32_t units;
  uint32_t groups;  ///< Of 32 units, for each warp.
  uint32_t level0_bits;
  uint32_t codes;      ///< Level 0's.
  uint32_t code_bits;  ///< Level 0's bit plane, for 3-bit codes.
  uint32_t
      planes[kMaxPlanes];  ///< The residue's planes, from the lowest; 0 for one that is left out.
  uint32_t rotation;       ///< 1 when words are rotated.
  uint32_t moves_sign;     ///< 1 when the sign goes back above the symbol.
};

struct DecodePlan {
  FastFields fields;
  uint32_t listed[4];  ///< Escapes of levels 0 to 3: entries of levels 1 to 3, and raw symbols.
  uint32_t lists[4];   ///< Codes of levels 1 to 3, and raw symbols, from the payload's start.
  FastChunks chunks;
  uint32_t raw_shift;  ///< Symbols stand at an element's upper end: 8 - S.
  /// Symbols that codes name, shifted up: byte c is code c's, of each level.
  uint32_t books[format::kLevels][2];
};

/// What has to be known of a dtype, in a word.
struct FastDtype {
  uint32_t word;

  __device__ __forceinline__ static FastDtype Of(uint32_t dtype) {
    if (!format::IsBlockDtype(dtype)) return {0};
    const format::DtypeTraits traits = format::TraitsOf(dtype);
    const Transform transform = TransformOf(dtype);
    return {traits.symbol_bits | (traits.residue_bits << 8) |
            (ShiftOf(traits.element_bytes) << 16) |
            (static_cast<uint32_t>(FormatOf(traits)) << 20) |
            (transform == Transform::kRotate ? 1U << 24 : 0) |
            (transform == Transform::kMoveSign ? 1U << 25 : 0)};
  }
  __device__ __forceinline__ bool known() const { return word != 0; }
  __device__ __forceinline__ uint32_t symbol_bits() const { return word & 0xFF; }
  __device__ __forceinline__ uint32_t residue_bits() const { return (word >> 8) & 0xFF; }
  __device__ __forceinline__ uint32_t element_shift() const { return (word >> 16) & 15; }
  __device__ __forceinline__ FastFormat format() const {
    return static_cast<FastFormat>((word >> 20) & 15);
  }
  __device__ __forceinline__ uint32_t rotation() const { return (word >> 24) & 1; }
  __device__ __forceinline__ uint32_t moves_sign() const { return (word >> 25) & 1; }

 private:
  __device__ __forceinline__ static uint32_t ShiftOf(uint32_t element_bytes) {
    return element_bytes == 8 ? 3 : element_bytes / 2;
  }
  __device__ __forceinline__ static FastFormat FormatOf(const format::DtypeTraits& traits) {
    if (traits.element_bytes == 8) return FastFormat::kLongOf8;
    if (traits.element_bytes == 4) return FastFormat::kWordOf8;
    if (traits.element_bytes == 2) {
      return traits.symbol_bits == 8 ? FastFormat::kHalfOf8 : FastFormat::kHalfOf5;
    }
    return traits.symbol_bits == 8   ? FastFormat::kByteOf8
           : traits.symbol_bits == 5 ? FastFormat::kByteOf5
                                     : FastFormat::kByteOf4;
  }
};
inline constexpr uint32_t kFastDtypes = 32;  ///< More than there are.

/// A cascade block's head, taken apart; the same in all lanes.
struct FastHead {
  FastDtype dtype;
  uint32_t level0_bits;
  uint32_t zero_planes;
  uint32_t window_starts;
  uint32_t counts[2];
  uint32_t reserved;
  uint32_t elements;
  uint32_t byte_planes;  ///< As many bits as the dtype has byte planes.
  uint32_t partial;      ///< Where the residue's planes of less than a byte begin.
  uint32_t codes;
  uint32_t coded;

  __device__ __forceinline__ FastHead(const uint8_t* payload, uint32_t length_bytes,
                                      const uint32_t* dtypes) {
    const auto first = LoadAligned<Words4>(payload);
    const auto second = LoadAligned<Words2>(payload + 16);
    const uint32_t tag = first.word[1];
    dtype = {dtypes[(tag >> 8) % kFastDtypes]};
    if (((tag >> 8) & 0xFF) >= kFastDtypes) dtype = {0};
    level0_bits = (tag >> 16) & 0xFF;
    zero_planes = tag >> 24;
    window_starts = first.word[2];
    counts[0] = first.word[3];
    counts[1] = second.word[0];
    reserved = second.word[1];
    elements = length_bytes >> dtype.element_shift();
    byte_planes = (1U << (dtype.residue_bits() / 8)) - 1;
    partial = format::kResidueOffset + elements * CountOnes(byte_planes & ~zero_planes);
    codes = partial + elements * (dtype.residue_bits() % 8) / 8;
    coded = codes + elements * level0_bits / 8;
  }
  __device__ __forceinline__ uint32_t width0() const {
    return level0_bits == 0 ? 1 : (1U << level0_bits) - 1;
  }
  __device__ __forceinline__ uint32_t start(uint32_t level) const {
    return (window_starts >> (8 * level)) & 0xFF;
  }
  /// Whether the fields' sizes can be told from it.
  __device__ __forceinline__ bool IsKnown() const {
    return dtype.known() && level0_bits <= format::kMaxLevel0Bits &&
           (zero_planes & ~byte_planes) == 0 && reserved == 0;
  }
  /// The lane's level's window lies in what is left of the alphabet.
  __device__ __forceinline__ bool HasWindow(uint32_t level) const {
    if (level == 0) return start(0) + width0() <= 1U << dtype.symbol_bits();
    if (level0_bits == 0) return start(level) == 0;
    return start(level) + width0() + 3 * level <= 1U << dtype.symbol_bits();
  }
  /// The symbol that a code of a level names.
  __device__ __forceinline__ uint32_t Symbol(uint32_t level, uint32_t code) const {
    uint32_t symbol = start(level) + code;
#pragma unroll
    for (uint32_t above = format::kLevels - 1; above-- > 0;) {
      const uint32_t width = above == 0 ? width0() : format::kCodedLevelSymbols;
      if (above < level && symbol >= start(above)) symbol += width;
    }
    return symbol;
  }
};

/// Each four lanes: the sum over the lanes up to this one of the four.
__device__ __forceinline__ uint32_t ScanFour(uint32_t value) {
  const uint32_t place = threadIdx.x % 4;
  const uint32_t one = __shfl_up_sync(kAllLanes, value, 1);
  if (place >= 1) value += one;
  const uint32_t two = __shfl_up_sync(kAllLanes, value, 2);
  if (place >= 2) value += two;
  return value;
}

/// By one thread: shares a block's units out.
__device__ __forceinline__ void PlanUnits(uint32_t length_bytes, FastFields* fields) {
  fields->units = length_bytes / FastDecode::kUnitBytes;
  fields->groups = (fields->units + FastDecode::kThreads - 1) / FastDecode::kThreads;
}

/// All lanes: writes where the fields are.
__device__ __forceinline__ void WarpPlanFields(const FastHead& head, uint32_t length_bytes,
                                               FastFields* fields) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t bytes = head.dtype.residue_bits() / 8;
  const uint32_t below = (1U << (lane % 8)) - 1;
  uint32_t plane = 0;
  if (lane < bytes) {
    const bool left_out = ((head.zero_planes >> lane) & 1) != 0;
    plane = left_out
                ? 0
                : format::kResidueOffset + head.elements * CountOnes(below & ~head.zero_planes);
  } else {
    // The second one, a bit plane, follows a crumb plane.
    plane = head.partial + (lane == bytes ? 0 : head.elements / 4);
  }
  if (lane < FastFields::kMaxPlanes) fields->planes[lane] = plane;
  if (lane != 0) return;
  PlanUnits(length_bytes, fields);
  fields->level0_bits = head.level0_bits;
  fields->codes = head.codes;
  fields->code_bits = head.codes + head.elements / 4;
  fields->rotation = head.dtype.rotation();
  fields->moves_sign = head.dtype.moves_sign();
}

/// What is to be done with a cascade block.
struct DecodeVerdict {
  bool valid;         ///< As far as can be told without counting.
  FastFormat format;  ///< kNone: not a block for the fast path.
  bool wide;          ///< Level 0's codes have 3 bits.
};

/// By one warp, the same in all lanes: looks at the cascade block at `payload`, in shared memory,
/// of `length_bytes` original bytes, a multiple of FastDecode::kLengthStep. Four lanes look at a
/// level each. `dtypes` has FastDtype's words. The checks are those of CheckCascadeHead and
/// SeesBadBytes, and that no level has more escapes than the one before.
__device__ __forceinline__ DecodeVerdict WarpPlanDecode(const uint8_t* payload,
                                                        uint32_t payload_bytes,
                                                        uint32_t length_bytes,
                                                        const uint32_t* dtypes, DecodePlan* plan) {
  constexpr DecodeVerdict kInvalid{false, FastFormat::kNone, false};
  constexpr DecodeVerdict kOther{true, FastFormat::kNone, false};
  const FastHead head(payload, length_bytes, dtypes);
  if (payload_bytes < format::kResidueOffset || !head.IsKnown()) return kInvalid;
  const FastFormat format = head.dtype.format();
  // A bit plane of four elements ends inside a byte.
  if (format == FastFormat::kLongOf8 && head.elements % 8 != 0) return kOther;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t level = lane % 4;
  const uint32_t count =
      ((level < 2 ? head.counts[0] : head.counts[1]) >> (16 * (level % 2))) & 0xFFFF;
  const uint32_t above = __shfl_up_sync(kAllLanes, count, 1);
  const uint32_t list_bytes = level == 3 ? count : (count + 3) / 4;
  const uint32_t list_end = head.coded + ScanFour(list_bytes);
  const uint32_t list = list_end - list_bytes;
  const uint32_t end = __shfl_sync(kAllLanes, list_end, 3);
  bool bad = count > (level == 0 ? head.elements : above) || !head.HasWindow(level);
  if ((end + 15) / 16 * 16 != payload_bytes ||
      payload_bytes >= format::StoredPayloadBytes(length_bytes) || __any_sync(kAllLanes, bad)) {
    return kInvalid;
  }
  // From here on all lists are known to lie in the payload.
  if (level != 3 && count % 4 != 0) bad = (payload[list + count / 4] >> (2 * (count % 4))) != 0;
  const uint32_t raws = __shfl_sync(kAllLanes, list, 3);
  if (lane < 16 && end + lane < payload_bytes) bad |= payload[end + lane] != 0;
  if (head.dtype.symbol_bits() < 8) {
#pragma unroll 1
    for (uint32_t at = raws + lane; at < end; at += 32) {
      bad |= (payload[at] >> head.dtype.symbol_bits()) != 0;
    }
  }
  if (__any_sync(kAllLanes, bad)) return kInvalid;
  constexpr uint32_t kShort = FastDecode::kChunkShift;
  constexpr uint32_t kLong = kShort + 1;
  const uint32_t short_chunks = level == 3 ? 0 : (count + (1U << kShort) - 1) >> kShort;
  const uint32_t long_chunks = level == 3 ? 0 : (count + (1U << kLong) - 1) >> kLong;
  const uint32_t chunk_end = ScanFour(short_chunks | (long_chunks << 16));
  const uint32_t chunks = __shfl_sync(kAllLanes, chunk_end, 3);
  const bool is_short = (chunks & 0xFFFF) <= FastDecode::kWarps;
  if (!is_short && (chunks >> 16) > FastDecode::kWarps) return kOther;
  if (lane < 4) {
    plan->listed[lane] = count;
    plan->lists[lane] = list;
    if (lane < 3) plan->chunks.end[lane] = is_short ? chunk_end & 0xFFFF : chunk_end >> 16;
  }
  if (lane == 0) {
    plan->chunks.shift = is_short ? kShort : kLong;
    plan->raw_shift = 8 - head.dtype.symbol_bits();
  }
  reinterpret_cast<uint8_t*>(plan->books)[lane] =
      static_cast<uint8_t>(head.Symbol(lane / 8, lane % 8) << (8 - head.dtype.symbol_bits()));
  WarpPlanFields(head, length_bytes, &plan->fields);
  __syncwarp();
  return {true, format, head.level0_bits == format::kMaxLevel0Bits};
}

}  // namespace cinch::codec::gpu
