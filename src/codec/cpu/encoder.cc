// SPDX-License-Identifier: Apache-2.0
// Section 7 of docs/format.md. Compiled once for each SIMD target.
#include "codec/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/cpu/encoder.cc"
// Includes this file again for each target; must come before highway.h.
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"

#include <cstring>

#include "codec/cpu/cascade_encode-inl.h"
#include "codec/cpu/codebook-inl.h"
#include "codec/cpu/detect-inl.h"
#include "codec/cpu/elements-inl.h"
#include "codec/cpu/hash-inl.h"
#include "codec/cpu/kernels.h"
#include "codec/cpu/loose_elements.h"
#include "codec/cpu/memory_stream.h"
#include "codec/cpu/planes-inl.h"
#include "codec/cpu/sample.h"
#include "codec/cpu/sparse-inl.h"
#include "codec/plan/codebook.h"
#include "codec/plan/dtype_choice.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {
namespace {

/// What the encoder has decided about a cascade block.
struct CascadePlan {
  uint32_t dtype;
  uint32_t zero_planes;
  CodebookChoice choice;
};

EncodedBlock StoreBlock(const BlockInput& input, uint64_t hash, uint8_t* payload) {
  const uint32_t payload_bytes = format::StoredPayloadBytes(input.length_bytes);
  const uint32_t end = format::kStoredDataOffset + input.length_bytes;
  format::BlockHeader header{};
  header.checksum = static_cast<uint32_t>(hash);
  std::memset(payload, 0, format::kStoredDataOffset);
  std::memcpy(payload, &header, sizeof header);
  std::memcpy(payload + format::kStoredDataOffset, input.bytes, input.length_bytes);
  std::memset(payload + end, 0, payload_bytes - end);
  return {payload_bytes, hash};
}

bool IsConstant(const BlockInput& input) {
  return input.length_bytes <= 8 ||
         std::memcmp(input.bytes, input.bytes + 8, input.length_bytes - 8) == 0;
}

EncodedBlock StoreConstant(const BlockInput& input, uint64_t hash, uint8_t* payload) {
  format::BlockHeader header{};
  header.checksum = static_cast<uint32_t>(hash);
  header.mode = static_cast<uint8_t>(format::BlockMode::kConstant);
  std::memset(payload, 0, format::kConstantPayloadBytes);
  std::memcpy(payload, &header, sizeof header);
  std::memcpy(payload + sizeof header, input.bytes,
              input.length_bytes < 8 ? input.length_bytes : 8);
  return {format::kConstantPayloadBytes, hash};
}

/// Codes a cascade block: all that is at a fixed place chunk by chunk, then level by level what
/// escaped.
class CascadeEncoder {
 public:
  CascadeEncoder(const BlockInput& input, const CascadePlan& plan, uint8_t* payload)
      : input_(input),
        layout_(format::MakeCascadeLayout(plan.dtype, input.length_bytes, plan.choice.level0_bits,
                                          plan.zero_planes)),
        stored_bytes_(format::StoredPayloadBytes(input.length_bytes)),
        functions_(FunctionsOf(plan.dtype)),
        cascade_(plan.choice),
        payload_(payload) {
    uint8_t* plane = payload + format::kResidueOffset;
    for (uint32_t k = 0; k < layout_.traits.residue_bits / 8; ++k) {
      const bool stored = ((plan.zero_planes >> k) & 1) == 0;
      planes_.at[k] = stored ? plane : nullptr;
      if (stored) plane += layout_.elements;
    }
    low_bits_ = SmallField<uint8_t>::At(layout_.traits.residue_bits % 8, plane, layout_.elements);
    codes_ = SmallField<uint8_t>::At(plan.choice.level0_bits, payload + layout_.code_offset,
                                     layout_.elements);
  }

  /// Everything from the counts of escapes on, the padding included. Returns the payload's size, or
  /// 0 when the block is better stored.
  uint32_t Run() {
    if (layout_.PayloadBytes(0) >= stored_bytes_) return 0;
    PrefetchLines(payload_, 0, layout_.coded_offset);
    uint32_t escaped = 0;
    for (uint32_t first = 0; first < layout_.elements; first += kChunk) {
      escaped += EncodePlain(first, list_.at + escaped);
    }
    return AppendCoded(escaped) ? FinishTail() : 0;
  }

 private:
  /// A chunk's residues and level-0 codes; what escapes goes to `list`. Returns how many do.
  uint32_t EncodePlain(uint32_t first, uint8_t* list) {
    const uint32_t left = layout_.elements - first;
    const uint32_t count = left < kChunk ? left : kChunk;
    if (count == kChunk) {
      SplitFull(first);
    } else {
      SplitPartial(first, count);
    }
    if (low_bits_.bits != 0) PackSmallField(split_.low_bits.at, count, low_bits_.From(first));
    if (codes_.bits == 0) return 0;
    ChunkBytes codes;
    if (count != kChunk) std::memset(codes.at, 0, kChunk);
    const uint32_t escaped =
        EncodeLevel0(cascade_.level[0], split_.symbols.at, count, codes.at, list);
    PackSmallField(codes.at, count, codes_.From(first));
    return escaped;
  }

  const uint8_t* Elements(uint32_t first) const {
    return input_.bytes + size_t{first} * layout_.traits.element_bytes;
  }

  /// Byte planes straight to their places.
  void SplitFull(uint32_t first) {
    PlanePointers planes;
    for (uint32_t k = 0; k < layout_.traits.residue_bits / 8; ++k) {
      planes.at[k] = planes_.at[k] != nullptr ? planes_.at[k] + first : scratch_.planes[k];
    }
    functions_.split(Elements(first), planes, &split_);
  }

  /// The same by way of a full chunk of padding.
  void SplitPartial(uint32_t first, uint32_t count) {
    const format::DtypeTraits& traits = layout_.traits;
    const uint32_t bytes = count * traits.element_bytes;
    PlanePointers planes;
    for (uint32_t k = 0; k < kMaxPlanes; ++k) planes.at[k] = scratch_.planes[k];
    std::memcpy(scratch_.elements, Elements(first), bytes);
    std::memset(scratch_.elements + bytes, 0, kChunk * traits.element_bytes - bytes);
    functions_.split(scratch_.elements, planes, &split_);
    SplitLooseElements(traits, count, Elements(first), planes, &split_);
    // A sign may have been rotated into the padding.
    std::memset(split_.low_bits.at + count, 0, kChunk - count);
    for (uint32_t k = 0; k < traits.residue_bits / 8; ++k) {
      if (planes_.at[k] != nullptr) std::memcpy(planes_.at[k] + first, scratch_.planes[k], count);
    }
  }

  /// The coded part of the `count` elements that escaped level 0, and the counts. False as soon as
  /// the block is better stored: nothing is written far past the payload's room.
  bool AppendCoded(uint32_t count) {
    format::EscapeCounts escapes;
    escapes.count[0] = static_cast<uint16_t>(count);
    for (uint32_t level = 1; level < format::kLevels; ++level) {
      uint8_t* to = payload_ + layout_.coded_offset + coded_bytes_;
      coded_bytes_ += format::CodeListBytes(count);
      if (layout_.PayloadBytes(coded_bytes_) >= stored_bytes_) return false;
      count =
          EncodeCodedLevel(cascade_.level[level - 1], cascade_.level[level], count, list_.at, to);
      escapes.count[level] = static_cast<uint16_t>(count);
    }
    uint8_t* raw = payload_ + layout_.coded_offset + coded_bytes_;
    coded_bytes_ += count;
    if (layout_.PayloadBytes(coded_bytes_) >= stored_bytes_) return false;
    StoreRawSymbols(cascade_, count, list_.at, raw);
    constexpr uint32_t kCountsEnd = format::kEscapeCountOffset + sizeof escapes;
    std::memcpy(payload_ + format::kEscapeCountOffset, &escapes, sizeof escapes);
    std::memset(payload_ + kCountsEnd, 0, format::kResidueOffset - kCountsEnd);
    return true;
  }

  uint32_t FinishTail() {
    const uint32_t payload_bytes = layout_.PayloadBytes(coded_bytes_);
    const uint32_t at = layout_.coded_offset + coded_bytes_;
    const uint8_t* tail = input_.bytes + input_.length_bytes - layout_.tail_bytes;
    std::memcpy(payload_ + at, tail, layout_.tail_bytes);
    std::memset(payload_ + at + layout_.tail_bytes, 0, payload_bytes - at - layout_.tail_bytes);
    return payload_bytes;
  }

  const BlockInput& input_;
  const format::CascadeLayout layout_;
  const uint32_t stored_bytes_;
  const ElementFunctions functions_;
  const Cascade cascade_;
  uint8_t* const payload_;
  uint32_t coded_bytes_ = 0;
  PlanePointers planes_;  ///< Null for planes that are not stored.
  SmallField<uint8_t> low_bits_;
  SmallField<uint8_t> codes_;
  SplitChunk split_;
  ChunkScratch scratch_;
  ListBytes list_;  ///< What escaped the level above.
};

/// Steps 1 to 5 of section 7.4.
enum class Verdict { kStored, kConstant, kCascade, kSparse };

/// Step 2, for a block whose codebook has been chosen.
bool PlanSparse(const BlockInput& input, const CascadePlan& plan, const SymbolCounts& counts) {
  if (!format::HasManyZeros(counts.total, counts.count[0])) return false;
  const format::DtypeTraits traits = format::TraitsOf(plan.dtype);
  return format::IsSparse(
      traits.element_bytes, traits.residue_bits - 8 * format::CountBits(plan.zero_planes),
      counts.total, CountSampleZeros(plan.dtype, input.bytes, input.length_bytes),
      static_cast<uint32_t>(plan.choice.cost_bits));
}

Verdict PlanBlock(const BlockInput& input, bool allow_sparse, CascadePlan* plan) {
  const uint32_t dtype = plan->dtype;
  const format::DtypeTraits traits = format::TraitsOf(dtype);
  if (input.length_bytes < traits.element_bytes) {
    return IsConstant(input) ? Verdict::kConstant : Verdict::kStored;
  }
  SymbolCounts counts;
  CountSample(dtype, input.bytes, input.length_bytes, &counts);
  plan->choice = FastChooseCodebook(counts, traits.symbol_bits, true);
  if (plan->choice.single_symbol && IsConstant(input)) return Verdict::kConstant;

  // A plane that is not zero in the sample is not zero: mostly there is nothing to scan for.
  const uint32_t sample_zero_planes = SampleZeroPlanes(dtype, input.bytes, input.length_bytes);
  plan->zero_planes = sample_zero_planes;
  if (allow_sparse && PlanSparse(input, *plan, counts)) return Verdict::kSparse;
  if (plan->choice.single_symbol || sample_zero_planes != 0) {
    const ElementBits bits = FunctionsOf(dtype).scan(input.bytes, input.length_bytes);
    plan->zero_planes = ZeroPlanesOf(bits.any, dtype);
    const bool one_symbol = bits.any >> traits.residue_bits == bits.all >> traits.residue_bits;
    if (plan->choice.single_symbol && !one_symbol) {
      plan->choice = FastChooseCodebook(counts, traits.symbol_bits, false);
    }
  }
  if (!WorthCoding(dtype, plan->choice.cost_bits, counts.total, sample_zero_planes)) {
    return Verdict::kStored;
  }
  return Verdict::kCascade;
}

/// The cascade of a planned block, or the block stored when that is not larger.
EncodedBlock EncodeCascade(const BlockInput& input, const CascadePlan& plan, uint64_t hash,
                           uint8_t* payload) {
  const uint32_t payload_bytes = CascadeEncoder(input, plan, payload).Run();
  if (payload_bytes == 0) return StoreBlock(input, hash, payload);
  format::BlockHeader header{};
  header.checksum = static_cast<uint32_t>(hash);
  header.mode = static_cast<uint8_t>(format::BlockMode::kCascade);
  header.dtype = static_cast<uint8_t>(plan.dtype);
  header.level0_bits = static_cast<uint8_t>(plan.choice.level0_bits);
  header.zero_planes = static_cast<uint8_t>(plan.zero_planes);
  std::memcpy(payload, &header, sizeof header);
  std::memcpy(payload + format::kCodebookOffset, &plan.choice.codebook,
              sizeof plan.choice.codebook);
  return {payload_bytes, hash};
}

EncodedBlock EncodeAs(const BlockInput& input, uint32_t dtype, bool allow_sparse, uint64_t hash,
                      uint8_t* payload);

/// A sparse block, or the block stored when that is not larger.
EncodedBlock EncodeSparse(const BlockInput& input, uint32_t dtype, uint64_t hash,
                          uint8_t* payload) {
  const uint32_t element_bytes = format::TraitsOf(dtype).element_bytes;
  const uint32_t elements = input.length_bytes / element_bytes;
  ElementMap map;
  BlockBytes inner;
  const uint32_t gathered = GatherElementsOf(element_bytes, input.bytes, elements, inner.at, &map);
  if (!format::InnerFits(elements, gathered / element_bytes)) {
    return EncodeAs(input, dtype, false, hash, payload);
  }
  const auto groups = static_cast<uint32_t>(format::CeilDivide(elements, format::kSparseGroup));
  const uint32_t bytes = PackMap(map, groups, payload + format::kSparseBitsOffset);
  const format::SparseCounts counts{static_cast<uint16_t>(bytes),
                                    static_cast<uint16_t>(gathered / element_bytes)};
  const format::SparseLayout layout = format::MakeSparseLayout(dtype, input.length_bytes, counts);
  std::memcpy(inner.at + gathered, input.bytes + input.length_bytes - layout.tail_bytes,
              layout.tail_bytes);

  // An encoder may write past its payload, and the outer one's room may end there.
  alignas(64) uint8_t inner_payload[kEncodeCapacityBytes];
  BlockInput inner_input = input;
  inner_input.bytes = inner.at;
  inner_input.length_bytes = layout.inner_bytes;
  const uint32_t inner_size = EncodeAs(inner_input, dtype, false, 0, inner_payload).payload_bytes;
  const uint32_t payload_bytes = layout.inner_offset + inner_size;
  if (payload_bytes >= format::StoredPayloadBytes(input.length_bytes)) {
    return StoreBlock(input, hash, payload);
  }
  format::BlockHeader header{};
  header.checksum = static_cast<uint32_t>(hash);
  header.mode = static_cast<uint8_t>(format::BlockMode::kSparse);
  header.dtype = static_cast<uint8_t>(dtype);
  std::memcpy(payload, &header, sizeof header);
  std::memcpy(payload + format::kSparseCountsOffset, &counts, sizeof counts);
  std::memset(payload + layout.bytes_end, 0, layout.inner_offset - layout.bytes_end);
  std::memcpy(payload + layout.inner_offset, inner_payload, inner_size);
  return {payload_bytes, hash};
}

/// Section 7.4: the bytes as they are.
EncodedBlock EncodeAs(const BlockInput& input, uint32_t dtype, bool allow_sparse, uint64_t hash,
                      uint8_t* payload) {
  CascadePlan plan{};
  plan.dtype = dtype;
  switch (PlanBlock(input, allow_sparse, &plan)) {
    case Verdict::kConstant:
      return StoreConstant(input, hash, payload);
    case Verdict::kCascade:
      return EncodeCascade(input, plan, hash, payload);
    case Verdict::kSparse:
      return EncodeSparse(input, dtype, hash, payload);
    case Verdict::kStored:
      break;
  }
  return StoreBlock(input, hash, payload);
}

/// Codes the difference from the base.
EncodedBlock EncodeDelta(const BlockInput& input, uint64_t hash, uint8_t* payload) {
  BlockBytes difference;
  XorInto(input.bytes, input.base, input.length_bytes, difference.at);
  BlockInput coded = input;
  coded.bytes = difference.at;
  return EncodeAs(coded, ChooseDtype(coded), true, hash, payload);
}

}  // namespace

EncodedBlock EncodeBlock(const BlockInput& input, uint8_t* payload) {
  // Hashing also brings the block into the cache.
  uint64_t hash = 0;
  if (input.checksum) {
    hash = HashBlock(input.bytes, input.length_bytes, input.index);
  } else {
    TouchForReading(input.bytes, input.length_bytes);
  }
  if (input.base != nullptr) return EncodeDelta(input, hash, payload);
  return EncodeAs(input, ChooseDtype(input), true, hash, payload);
}

/// For bytes that are not coded.
uint64_t HashBytes(const uint8_t* bytes, uint32_t length_bytes, uint64_t index) {
  return HashBlock(bytes, length_bytes, index);
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cinch::codec::cpu {

EncodeFunction EncoderFor(int64_t target) {
  switch (target) {
#if HWY_TARGETS & HWY_AVX3_DL
    case HWY_AVX3_DL:
      return N_AVX3_DL::EncodeBlock;
#endif
#if HWY_TARGETS & HWY_AVX2
    case HWY_AVX2:
      return N_AVX2::EncodeBlock;
#endif
#if HWY_TARGETS & HWY_NEON
    case HWY_NEON:
      return N_NEON::EncodeBlock;
#endif
#if HWY_TARGETS & HWY_EMU128
    case HWY_EMU128:
      return N_EMU128::EncodeBlock;
#endif
    default:
      return nullptr;
  }
}

HashFunction HasherFor(int64_t target) {
  switch (target) {
#if HWY_TARGETS & HWY_AVX3_DL
    case HWY_AVX3_DL:
      return N_AVX3_DL::HashBytes;
#endif
#if HWY_TARGETS & HWY_AVX2
    case HWY_AVX2:
      return N_AVX2::HashBytes;
#endif
#if HWY_TARGETS & HWY_NEON
    case HWY_NEON:
      return N_NEON::HashBytes;
#endif
#if HWY_TARGETS & HWY_EMU128
    case HWY_EMU128:
      return N_EMU128::HashBytes;
#endif
    default:
      return nullptr;
  }
}

}  // namespace cinch::codec::cpu
#endif
