// SPDX-License-Identifier: Apache-2.0
// Sections 4 and 5 of docs/format.md. Compiled once for each SIMD target. Payloads are untrusted:
// nothing outside them is read, and whatever is wrong with one becomes a status.
#include "codec/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/cpu/decoder.cc"
// Includes this file again for each target; must come before highway.h.
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"

#include <cstring>

#include "codec/cpu/cascade_decode-inl.h"
#include "codec/cpu/elements-inl.h"
#include "codec/cpu/hash-inl.h"
#include "codec/cpu/kernels.h"
#include "codec/cpu/loose_elements.h"
#include "codec/cpu/memory_stream.h"
#include "codec/cpu/planes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {
namespace {

/// For the few bytes between fields.
bool AllZero(const uint8_t* begin, const uint8_t* end) {
  uint32_t any = 0;
  for (; begin != end; ++begin) any |= *begin;
  return any == 0;
}

Status DecodeStored(const BlockPayload& payload, uint8_t* output) {
  if (payload.payload_bytes != format::StoredPayloadBytes(payload.length_bytes)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  const uint8_t* data = payload.bytes + format::kStoredDataOffset;
  if (!AllZero(payload.bytes + sizeof(format::BlockHeader), data) ||
      !AllZero(data + payload.length_bytes, payload.bytes + payload.payload_bytes)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  std::memcpy(output, data, payload.length_bytes);
  return CINCH_OK;
}

Status DecodeConstant(const BlockPayload& payload, uint8_t* output) {
  if (payload.payload_bytes != format::kConstantPayloadBytes) return CINCH_ERROR_FRAME_BLOCK;
  const uint8_t* pattern = payload.bytes + sizeof(format::BlockHeader);
  const uint32_t whole = payload.length_bytes / 8 * 8;
  for (uint32_t j = 0; j < whole; j += 8) std::memcpy(output + j, pattern, 8);
  std::memcpy(output + whole, pattern, payload.length_bytes - whole);
  return CINCH_OK;
}

/// Decodes a cascade block whose header fields have been found valid.
class CascadeDecoder {
 public:
  CascadeDecoder(const BlockPayload& payload, const format::BlockHeader& header,
                 const format::CascadeLayout& layout, const format::Codebook& codebook,
                 uint8_t* output)
      : payload_(payload),
        layout_(layout),
        zero_planes_(header.zero_planes),
        functions_(FunctionsOf(header.dtype)),
        tables_(codebook, layout.level0_bits, layout.traits.symbol_bits),
        output_(output) {
    if (zero_planes_ != 0) std::memset(scratch_.planes, 0, sizeof scratch_.planes);
  }

  uint32_t TileEnd(uint32_t tile) const {
    uint16_t end;
    std::memcpy(&end, payload_.bytes + format::kTileEndOffset + 2 * tile, 2);
    return end;
  }

  /// All tiles; false when one is not valid.
  bool Run() {
    TouchForReading(payload_.bytes, payload_.payload_bytes);
    PrefetchLines(output_, 0, payload_.length_bytes);
    switch (layout_.level0_bits) {
      case 0:
        return RunWithoutCodes();
      case 1:
        return RunWithCodes<1>();
      case 2:
        return RunWithCodes<2>();
      default:
        return RunWithCodes<3>();
    }
  }

 private:
  /// level0_bits 0: one symbol, no coded parts.
  bool RunWithoutCodes() {
    std::memset(split_.symbols.at, tables_.symbols[0][0], sizeof split_.symbols.at);
    for (uint32_t tile = 0; tile < layout_.tiles; ++tile) {
      if (TileEnd(tile) != 0 || !JoinTile(tile)) return false;
    }
    return true;
  }

  template <uint32_t kBits>
  bool RunWithCodes() {
    CodedTile coded[kMaxTiles];
    PackedCodes codes[kMaxTiles];
    for (uint32_t tile = 0; tile < layout_.tiles; ++tile) {
      if (!LocateLevel0<kBits>(tile, &codes[tile]) ||
          !LocateTileCoded(tile, CountEscapes<kBits>(codes[tile]), &coded[tile])) {
        return false;
      }
    }
    uint8_t* list[kMaxTiles];
    uint8_t* next_list = lists_;
    for (uint32_t tile = 0; tile < layout_.tiles; ++tile) {
      list[tile] = next_list;
      ResolveCoded(tables_, coded[tile], list[tile]);
      next_list += format::AlignUp(coded[tile].count[1] + 1, kVectorSlack);
    }
    const uint32_t tile_share = payload_.payload_bytes / layout_.tiles;
    for (uint32_t tile = 0; tile < layout_.tiles; ++tile) {
      // The next block's payload, which a frame has right behind this one.
      PrefetchLines(payload_.bytes, payload_.payload_bytes + tile * tile_share, tile_share);
      ResolveLevel<kBits>(codes[tile], kTile, tables_.symbols[0], list[tile], split_.symbols.at);
      if (!JoinTile(tile)) return false;
    }
    return true;
  }

  /// Finds a tile's level-0 codes; those of a partial tile are copied, padded with code 0. False
  /// when a reserved bit is set.
  template <uint32_t kBits>
  bool LocateLevel0(uint32_t tile, PackedCodes* codes) {
    const uint32_t count = layout_.TileElements(tile);
    const uint8_t* low = payload_.bytes + layout_.CodeOffset(tile);
    const uint32_t low_bytes = kBits == 1 ? 0 : (count + 3) / 4;
    const uint32_t high_bytes = kBits == 2 ? 0 : (count + 7) / 8;
    *codes = {low, low + low_bytes};
    if (count == kTile) return true;
    if (low_bytes != 0 && count % 4 != 0 && low[low_bytes - 1] >> (2 * (count % 4)) != 0) {
      return false;
    }
    if (high_bytes != 0 && count % 8 != 0 && low[low_bytes + high_bytes - 1] >> (count % 8) != 0) {
      return false;
    }
    std::memset(last_codes_, 0, sizeof last_codes_);
    std::memcpy(last_codes_, codes->low, low_bytes);
    std::memcpy(last_codes_ + kTile / 4, codes->high, high_bytes);
    *codes = {last_codes_, last_codes_ + kTile / 4};
    return true;
  }

  /// Finds the pieces of a tile's coded part, `escapes` elements having escaped level 0.
  bool LocateTileCoded(uint32_t tile, uint32_t escapes, CodedTile* coded) {
    const uint32_t begin = tile == 0 ? 0 : TileEnd(tile - 1);
    const uint32_t end = TileEnd(tile);
    const uint32_t all_end = TileEnd(layout_.tiles - 1);
    if (end < begin || end > all_end || end - begin > kMaxCodedBytes) return false;
    const uint8_t* bytes = payload_.bytes + layout_.coded_offset + begin;
    if (layout_.coded_offset + end + kVectorSlack > payload_.payload_bytes) {
      // Too near the payload's end for whole vectors. From the first such tile on, less than
      // kVectorSlack bytes follow; later tiles find themselves in the copy.
      if (!end_is_copied_) {
        end_is_copied_ = true;
        copied_from_ = begin;
        std::memcpy(coded_end_, bytes, all_end - begin);
      }
      bytes = coded_end_ + (begin - copied_from_);
    }
    return LocateCoded(escapes, bytes, end - begin, tables_.alphabet, coded);
  }

  /// Joins a tile's symbols with its residues.
  bool JoinTile(uint32_t tile) {
    const uint32_t count = layout_.TileElements(tile);
    const uint32_t low_bits = layout_.traits.residue_bits % 8;
    ConstPlanePointers planes;
    const uint8_t* low_planes =
        LocatePlanes(payload_.bytes + layout_.ResidueOffset(tile), count, &planes);
    if (low_bits != 0 && !UnpackLowBits(low_planes, count, low_bits, split_.low_bits.at)) {
      return false;
    }
    uint8_t* to = output_ + size_t{tile} * kTile * layout_.traits.element_bytes;
    if (count == kTile) {
      functions_.join(split_, planes, to);
    } else {
      functions_.join(split_, planes, scratch_.elements);
      JoinLooseElements(layout_.traits, count, split_, planes, scratch_.elements);
      std::memcpy(to, scratch_.elements, count * layout_.traits.element_bytes);
    }
    return true;
  }

  /// Finds a tile's byte planes; those of a partial tile are copied, because whole vectors will be
  /// read. Returns what comes after them.
  const uint8_t* LocatePlanes(const uint8_t* plane, uint32_t count, ConstPlanePointers* planes) {
    for (uint32_t k = 0; k < layout_.traits.residue_bits / 8; ++k) {
      planes->at[k] = scratch_.planes[k];
      if (((zero_planes_ >> k) & 1) != 0) continue;
      if (count == kTile) {
        planes->at[k] = plane;
      } else {
        std::memcpy(scratch_.planes[k], plane, count);
      }
      plane += count;
    }
    return plane;
  }

  const BlockPayload& payload_;
  const format::CascadeLayout& layout_;
  const uint32_t zero_planes_;
  const ElementFunctions functions_;
  const CascadeTables tables_;
  uint8_t* const output_;
  bool end_is_copied_ = false;
  uint32_t copied_from_ = 0;
  SplitTile split_;
  TileScratch scratch_;
  uint8_t last_codes_[kTile / 4 + kTile / 8];
  uint8_t coded_end_[kMaxCodedBytes + 2 * kVectorSlack];
  /// The symbols of what escaped level 0, a list for each tile.
  alignas(64) uint8_t lists_[(kMaxTiles + 1) * (kTile + kVectorSlack)];
};

Status DecodeCascade(const BlockPayload& payload, const format::BlockHeader& header,
                     uint8_t* output) {
  if (!format::IsBlockDtype(header.dtype) || header.level0_bits > format::kMaxLevel0Bits) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  const format::DtypeTraits traits = format::TraitsOf(header.dtype);
  if ((header.zero_planes >> (traits.residue_bits / 8)) != 0) return CINCH_ERROR_FRAME_BLOCK;
  const format::CascadeLayout layout = format::MakeCascadeLayout(
      header.dtype, payload.length_bytes, header.level0_bits, header.zero_planes);
  if (layout.elements == 0 || payload.payload_bytes < layout.PayloadBytes(0)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  format::Codebook codebook;
  std::memcpy(&codebook, payload.bytes + format::kCodebookOffset, sizeof codebook);
  if (!format::IsValidCodebook(codebook, header.level0_bits, traits.symbol_bits)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  CascadeDecoder decoder(payload, header, layout, codebook, output);
  const uint32_t coded_bytes = decoder.TileEnd(layout.tiles - 1);
  if (payload.payload_bytes != layout.PayloadBytes(coded_bytes)) return CINCH_ERROR_FRAME_BLOCK;
  const uint8_t* tail = payload.bytes + layout.coded_offset + coded_bytes;
  if (!AllZero(payload.bytes + format::kTileEndOffset + 2 * layout.tiles,
               payload.bytes + layout.residue_offset) ||
      !AllZero(tail + layout.tail_bytes, payload.bytes + payload.payload_bytes) || !decoder.Run()) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  std::memcpy(output + payload.length_bytes - layout.tail_bytes, tail, layout.tail_bytes);
  return CINCH_OK;
}

Status DecodeByMode(const BlockPayload& payload, const format::BlockHeader& header,
                    uint8_t* output) {
  const auto mode = static_cast<format::BlockMode>(header.mode);
  if (mode == format::BlockMode::kCascade) return DecodeCascade(payload, header, output);
  if (header.dtype != 0 || header.level0_bits != 0 || header.zero_planes != 0) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  if (mode == format::BlockMode::kStored) return DecodeStored(payload, output);
  if (mode == format::BlockMode::kConstant) return DecodeConstant(payload, output);
  return CINCH_ERROR_FRAME_BLOCK;
}

}  // namespace

Status DecodeBlock(const BlockPayload& payload, uint8_t* output, uint64_t* hash) {
  format::BlockHeader header;
  std::memcpy(&header, payload.bytes, sizeof header);
  const Status status = DecodeByMode(payload, header, output);
  if (status != CINCH_OK) return status;
  *hash = payload.checksum ? HashBlock(output, payload.length_bytes, payload.index) : 0;
  return static_cast<uint32_t>(*hash) == header.checksum ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cinch::codec::cpu {

DecodeFunction DecoderFor(int64_t target) {
  switch (target) {
#if HWY_TARGETS & HWY_AVX3_DL
    case HWY_AVX3_DL:
      return N_AVX3_DL::DecodeBlock;
#endif
#if HWY_TARGETS & HWY_AVX2
    case HWY_AVX2:
      return N_AVX2::DecodeBlock;
#endif
#if HWY_TARGETS & HWY_NEON
    case HWY_NEON:
      return N_NEON::DecodeBlock;
#endif
#if HWY_TARGETS & HWY_EMU128
    case HWY_EMU128:
      return N_EMU128::DecodeBlock;
#endif
    default:
      return nullptr;
  }
}

}  // namespace cinch::codec::cpu
#endif
