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
#include "codec/cpu/fields-inl.h"
#include "codec/cpu/hash-inl.h"
#include "codec/cpu/kernels.h"

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

bool AllBelow(const uint8_t* symbols, uint32_t count, uint32_t limit) {
  for (uint32_t i = 0; i < count; ++i) {
    if (symbols[i] >= limit) return false;
  }
  return true;
}

bool CodebookIsValid(const format::Codebook& codebook, uint32_t level0_bits, uint32_t symbol_bits) {
  const uint32_t alphabet = 1U << symbol_bits;
  const uint32_t used = format::Level0Symbols(level0_bits);
  return AllBelow(codebook.level0, used, alphabet) &&
         AllBelow(codebook.level0 + used, format::kMaxLevel0Symbols - used, 1) &&
         AllBelow(codebook.coded[0], format::kCodedLevels * format::kCodedLevelSymbols,
                  level0_bits == 0 ? 1 : alphabet);
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
        tables_(codebook, layout.traits.symbol_bits),
        output_(output) {
    if (zero_planes_ != 0) std::memset(scratch_.planes, 0, sizeof scratch_.planes);
    if (layout.level0_bits == 0) {
      std::memset(split_.symbols.at, codebook.level0[0], sizeof split_.symbols.at);
    }
  }

  /// All tiles; false when one is not valid. `coded_bytes` is the size of all coded parts.
  bool Run(uint32_t coded_bytes) {
    uint32_t begin = 0;
    for (uint32_t tile = 0; tile < layout_.tiles; ++tile) {
      const uint32_t end = TileEnd(tile);
      if (end < begin || end > coded_bytes) return false;
      if (!DecodeTile(tile, layout_.coded_offset + begin, end - begin)) return false;
      begin = end;
    }
    return true;
  }

  uint32_t TileEnd(uint32_t tile) const {
    uint16_t end;
    std::memcpy(&end, payload_.bytes + format::kTileEndOffset + 2 * tile, 2);
    return end;
  }

 private:
  bool DecodeTile(uint32_t tile, uint32_t coded_offset, uint32_t coded_bytes) {
    const uint32_t count = layout_.TileElements(tile);
    const uint32_t low_bits = layout_.traits.residue_bits % 8;
    const uint8_t* plain = payload_.bytes + layout_.TilePlainOffset(tile);
    if (!DecodeSymbols(plain, count, coded_offset, coded_bytes)) return false;
    ConstPlanePointers planes;
    const uint8_t* low_field =
        LocatePlanes(plain + format::FieldBytes(layout_.level0_bits, count), count, &planes);
    if (low_bits != 0 && !UnpackField(low_field, count, low_bits, split_.low_bits.at)) {
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

  bool DecodeSymbols(const uint8_t* codes_field, uint32_t count, uint32_t coded_offset,
                     uint32_t coded_bytes) {
    const uint32_t level0_bits = layout_.level0_bits;
    if (level0_bits == 0) return coded_bytes == 0;
    LevelCodes* level0 = &cascade_.level[0];
    level0->count = count;
    if (!UnpackField(codes_field, count, level0_bits, level0->codes.at)) return false;
    const uint32_t escapes = FindEscapes((1U << level0_bits) - 1, level0);
    if (coded_bytes > kMaxCodedBytes) return false;
    const uint8_t* coded = payload_.bytes + coded_offset;
    if (coded_offset + coded_bytes + kVectorSlack > payload_.payload_bytes) {
      std::memcpy(cascade_.coded, coded, coded_bytes);
      coded = cascade_.coded;
    }
    if (!DecodeCoded(tables_, escapes, coded, coded_bytes, &cascade_, &cascade_.lists[1])) {
      return false;
    }
    ResolveLevel(*level0, tables_.level0, cascade_.lists[1].at, &split_.symbols);
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
  SplitTile split_;
  CascadeScratch cascade_;
  TileScratch scratch_;
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
  if (!CodebookIsValid(codebook, header.level0_bits, traits.symbol_bits)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  CascadeDecoder decoder(payload, header, layout, codebook, output);
  const uint32_t coded_bytes = decoder.TileEnd(layout.tiles - 1);
  if (payload.payload_bytes != layout.PayloadBytes(coded_bytes)) return CINCH_ERROR_FRAME_BLOCK;
  const uint8_t* tail = payload.bytes + layout.coded_offset + coded_bytes;
  if (!AllZero(payload.bytes + format::kTileEndOffset + 2 * layout.tiles,
               payload.bytes + layout.plain_offset) ||
      !AllZero(tail + layout.tail_bytes, payload.bytes + payload.payload_bytes) ||
      !decoder.Run(coded_bytes)) {
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
