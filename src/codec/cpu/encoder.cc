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

/// Codes a cascade block's tiles one after another.
class CascadeEncoder {
 public:
  CascadeEncoder(const BlockInput& input, const CascadePlan& plan, uint8_t* payload)
      : input_(input),
        layout_(format::MakeCascadeLayout(plan.dtype, input.length_bytes, plan.choice.level0_bits,
                                          plan.zero_planes)),
        zero_planes_(plan.zero_planes),
        functions_(FunctionsOf(plan.dtype)),
        cascade_(plan.choice),
        payload_(payload) {}

  /// Everything from tile_end on, the padding included. Returns the payload's size, or 0 when the
  /// block is better stored.
  uint32_t Run() {
    const uint32_t stored_bytes = format::StoredPayloadBytes(input_.length_bytes);
    if (layout_.PayloadBytes(0) >= stored_bytes) return 0;
    std::memset(payload_ + format::kTileEndOffset, 0,
                layout_.residue_offset - format::kTileEndOffset);
    PrefetchLines(payload_, 0, layout_.coded_offset);
    // Two passes: the coded parts of different tiles do not wait for each other, and what the first
    // pass has written to the lists has left the store buffer by then.
    for (uint32_t tile = 0; tile < layout_.tiles; ++tile) EncodePlain(tile);
    for (uint32_t tile = 0; tile < layout_.tiles; ++tile) {
      AppendCoded(tile);
      if (coded_bytes_ > 0xFFFF || layout_.PayloadBytes(coded_bytes_) >= stored_bytes) return 0;
      const auto tile_end = static_cast<uint16_t>(coded_bytes_);
      std::memcpy(payload_ + format::kTileEndOffset + 2 * tile, &tile_end, 2);
    }
    return FinishTail();
  }

 private:
  /// A tile's residues and level-0 codes; what escapes goes to the tile's list.
  void EncodePlain(uint32_t tile) {
    const uint32_t count = layout_.TileElements(tile);
    const uint8_t* bytes = input_.bytes + size_t{tile} * kTile * layout_.traits.element_bytes;
    uint8_t* residues = payload_ + layout_.ResidueOffset(tile);
    uint8_t* low_planes =
        count == kTile ? SplitFull(bytes, residues) : SplitPartial(bytes, count, residues);
    const uint32_t low_bits = layout_.traits.residue_bits % 8;
    if (low_bits != 0) PackLowBits(split_.low_bits.at, count, low_bits, low_planes);

    list_[tile] = tile == 0 ? lists_ : NextList(tile - 1);
    escapes_[tile] = 0;
    if (layout_.level0_bits == 0) return;
    if (count != kTile) std::memset(codes_.at, 0, kTile);
    escapes_[tile] =
        EncodeLevel0(cascade_.level[0], split_.symbols.at, count, codes_.at, list_[tile]);
    PackLevel0(codes_.at, count, layout_.level0_bits, payload_ + layout_.CodeOffset(tile));
  }

  /// Where the list after a tile's begins: a multiple of 64 behind it, since whole vectors are
  /// written.
  uint8_t* NextList(uint32_t tile) const {
    return list_[tile] + format::AlignUp(escapes_[tile] + 1, kVectorSlack);
  }

  /// Byte planes straight to their places. Returns what comes behind them.
  uint8_t* SplitFull(const uint8_t* bytes, uint8_t* plane) {
    PlanePointers planes;
    for (uint32_t k = 0; k < layout_.traits.residue_bits / 8; ++k) {
      const bool stored = ((zero_planes_ >> k) & 1) == 0;
      planes.at[k] = stored ? plane : scratch_.planes[k];
      if (stored) plane += kTile;
    }
    functions_.split(bytes, planes, &split_);
    return plane;
  }

  /// The same by way of a full tile of padding.
  uint8_t* SplitPartial(const uint8_t* bytes, uint32_t count, uint8_t* plane) {
    const format::DtypeTraits& traits = layout_.traits;
    const uint32_t tile_bytes = count * traits.element_bytes;
    PlanePointers planes;
    for (uint32_t k = 0; k < kMaxPlanes; ++k) planes.at[k] = scratch_.planes[k];
    std::memcpy(scratch_.elements, bytes, tile_bytes);
    std::memset(scratch_.elements + tile_bytes, 0, kTile * traits.element_bytes - tile_bytes);
    functions_.split(scratch_.elements, planes, &split_);
    SplitLooseElements(traits, count, bytes, planes, &split_);
    // A sign may have been rotated into the padding.
    std::memset(split_.low_bits.at + count, 0, kTile - count);
    for (uint32_t k = 0; k < traits.residue_bits / 8; ++k) {
      if (((zero_planes_ >> k) & 1) != 0) continue;
      std::memcpy(plane, scratch_.planes[k], count);
      plane += count;
    }
    return plane;
  }

  /// Appends a tile's coded part.
  void AppendCoded(uint32_t tile) {
    const uint32_t at = layout_.coded_offset + coded_bytes_;
    if (at + kMaxCodedBytes + kVectorSlack <= kEncodeCapacityBytes) {
      coded_bytes_ += EncodeCoded(cascade_, escapes_[tile], list_[tile], payload_ + at);
      return;
    }
    // Near the end of the payload's room, where this block will probably be stored.
    uint8_t coded[kMaxCodedBytes + kVectorSlack];
    const uint32_t size = EncodeCoded(cascade_, escapes_[tile], list_[tile], coded);
    if (at + size <= kEncodeCapacityBytes) std::memcpy(payload_ + at, coded, size);
    coded_bytes_ += size;
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
  const uint32_t zero_planes_;
  const ElementFunctions functions_;
  const Cascade cascade_;
  uint8_t* const payload_;
  uint32_t coded_bytes_ = 0;
  SplitTile split_;
  TileBytes codes_;
  TileScratch scratch_;
  uint32_t escapes_[kMaxTiles];
  uint8_t* list_[kMaxTiles];  ///< What escaped level 0, a list for each tile.
  alignas(64) uint8_t lists_[kMaxTiles * (kTile + kVectorSlack)];
};

/// Steps 1 to 3 of section 7.4.
enum class Verdict { kStored, kConstant, kCascade };

Verdict PlanBlock(const BlockInput& input, CascadePlan* plan) {
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

}  // namespace

EncodedBlock EncodeBlock(const BlockInput& input, uint8_t* payload) {
  // Hashing also brings the block into the cache.
  uint64_t hash = 0;
  if (input.checksum) {
    hash = HashBlock(input.bytes, input.length_bytes, input.index);
  } else {
    TouchForReading(input.bytes, input.length_bytes);
  }
  CascadePlan plan{};
  plan.dtype = ChooseDtype(input);
  switch (PlanBlock(input, &plan)) {
    case Verdict::kConstant:
      return StoreConstant(input, hash, payload);
    case Verdict::kCascade:
      return EncodeCascade(input, plan, hash, payload);
    case Verdict::kStored:
      break;
  }
  return StoreBlock(input, hash, payload);
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

}  // namespace cinch::codec::cpu
#endif
