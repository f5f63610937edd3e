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
#include "codec/cpu/sparse-inl.h"

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
  const uint32_t used = payload.length_bytes < 8 ? payload.length_bytes : 8;
  if (!AllZero(pattern + used, pattern + 8)) return CINCH_ERROR_FRAME_BLOCK;
  const uint32_t whole = payload.length_bytes / 8 * 8;
  for (uint32_t j = 0; j < whole; j += 8) std::memcpy(output + j, pattern, 8);
  std::memcpy(output + whole, pattern, payload.length_bytes - whole);
  return CINCH_OK;
}

/// What a cascade block says of itself before its fields.
struct CascadeHead {
  format::BlockHeader block;
  format::Codebook codebook;
  format::EscapeCounts escapes;
  format::CascadeLayout layout;
};

/// Decodes a cascade block whose head has been found valid.
class CascadeDecoder {
 public:
  CascadeDecoder(const BlockPayload& payload, const CascadeHead& head, uint8_t* output)
      : payload_(payload),
        head_(head),
        layout_(head.layout),
        functions_(FunctionsOf(head.block.dtype)),
        tables_(head.codebook, head.block.level0_bits, head.layout.traits.symbol_bits),
        output_(output) {}

  /// All elements; false when they are not valid.
  bool Run() {
    TouchForReading(payload_.bytes, payload_.payload_bytes);
    PrefetchLines(output_, 0, payload_.length_bytes);
    LocateResidues();
    switch (head_.block.level0_bits) {
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
  void LocateResidues() {
    const uint8_t* plane = payload_.bytes + format::kResidueOffset;
    for (uint32_t k = 0; k < layout_.traits.residue_bits / 8; ++k) {
      const bool stored = ((head_.block.zero_planes >> k) & 1) == 0;
      planes_.at[k] = stored ? plane : nullptr;
      if (stored) {
        plane += layout_.elements;
      } else {
        std::memset(scratch_.planes[k], 0, kChunk);
      }
    }
    low_bits_ = PackedCodes::At(layout_.traits.residue_bits % 8, plane, layout_.elements);
  }

  uint32_t CountFrom(uint32_t first) const {
    const uint32_t left = layout_.elements - first;
    return left < kChunk ? left : kChunk;
  }

  /// level0_bits 0: one symbol, no coded part.
  bool RunWithoutCodes() {
    if (head_.escapes.count[0] != 0) return false;
    std::memset(split_.symbols.at, tables_.symbols[0][0], sizeof split_.symbols.at);
    for (uint32_t first = 0; first < layout_.elements; first += kChunk) {
      if (!JoinChunk(first)) return false;
    }
    return true;
  }

  template <uint32_t kBits>
  bool RunWithCodes() {
    // Whole vectors will be read, and the coded part is near the payload's end.
    std::memcpy(coded_.at, payload_.bytes + layout_.coded_offset,
                format::CodedBytes(head_.escapes));
    if (!escaped_.Resolve(tables_, head_.escapes, coded_.at)) return false;
    const uint8_t* list = escaped_.begin();
    const uint8_t* const list_end = list + head_.escapes.count[0];
    const auto chunks = static_cast<uint32_t>(format::CeilDivide(layout_.elements, kChunk));
    const uint32_t share_bytes = payload_.payload_bytes / chunks;
    uint32_t next_payload = payload_.payload_bytes;
    for (uint32_t first = 0; first < layout_.elements; first += kChunk) {
      // The next block's payload, which a frame has right behind this one.
      PrefetchLines(payload_.bytes, next_payload, share_bytes);
      next_payload += share_bytes;
      PackedCodes codes;
      if (!LocateLevel0<kBits>(first, &codes)) return false;
      list = ResolveCodes<kBits>(codes, kChunk, tables_.symbols[0], list, split_.symbols.at);
      if (list > list_end || !JoinChunk(first)) return false;
    }
    return list == list_end;
  }

  /// Finds a chunk's level-0 codes; those of a partial chunk are copied, padded with code 0. False
  /// when a reserved bit is set.
  template <uint32_t kBits>
  bool LocateLevel0(uint32_t first, PackedCodes* codes) {
    const uint8_t* plane = payload_.bytes + layout_.code_offset;
    *codes = PackedCodes::At(kBits, plane, layout_.elements).From(first);
    const uint32_t count = CountFrom(first);
    if (count == kChunk) return true;
    uint8_t* const low = last_codes_;
    uint8_t* const high = last_codes_ + kChunk / 4;
    if (kBits != 1 && !CopyPartialPlane<2>(codes->low, count, low)) return false;
    if (kBits != 2 && !CopyPartialPlane<1>(codes->high, count, high)) return false;
    *codes = {kBits, low, high};
    return true;
  }

  /// Joins a chunk's symbols with its residues.
  bool JoinChunk(uint32_t first) {
    const uint32_t count = CountFrom(first);
    if (low_bits_.bits != 0 && !UnpackLowBits(low_bits_.From(first), count, split_.low_bits.at)) {
      return false;
    }
    const ConstPlanePointers planes = LocatePlanes(first, count);
    uint8_t* to = output_ + size_t{first} * layout_.traits.element_bytes;
    if (count == kChunk) {
      functions_.join(split_, planes, to);
    } else {
      functions_.join(split_, planes, scratch_.elements);
      JoinLooseElements(layout_.traits, count, split_, planes, scratch_.elements);
      std::memcpy(to, scratch_.elements, count * layout_.traits.element_bytes);
    }
    return true;
  }

  /// Finds a chunk's byte planes; those of a partial chunk are copied, because whole vectors will
  /// be read.
  ConstPlanePointers LocatePlanes(uint32_t first, uint32_t count) {
    ConstPlanePointers planes;
    for (uint32_t k = 0; k < layout_.traits.residue_bits / 8; ++k) {
      planes.at[k] = scratch_.planes[k];
      if (planes_.at[k] == nullptr) continue;
      if (count == kChunk) {
        planes.at[k] = planes_.at[k] + first;
      } else {
        std::memcpy(scratch_.planes[k], planes_.at[k] + first, count);
      }
    }
    return planes;
  }

  const BlockPayload& payload_;
  const CascadeHead& head_;
  const format::CascadeLayout& layout_;
  const ElementFunctions functions_;
  const CascadeTables tables_;
  uint8_t* const output_;
  ConstPlanePointers planes_;  ///< Null for planes that are not stored.
  SmallField<const uint8_t> low_bits_;
  SplitChunk split_;
  ChunkScratch scratch_;
  uint8_t last_codes_[kChunk / 4 + kChunk / 8];
  ListBytes coded_;
  EscapedSymbols escaped_;
};

/// Reads and checks everything before the fields, so that all sizes and offsets hold.
bool ReadCascadeHead(const BlockPayload& payload, const format::BlockHeader& header,
                     CascadeHead* head) {
  if (payload.payload_bytes < format::kResidueOffset || !format::IsBlockDtype(header.dtype) ||
      header.level0_bits > format::kMaxLevel0Bits) {
    return false;
  }
  const format::DtypeTraits traits = format::TraitsOf(header.dtype);
  if ((header.zero_planes >> (traits.residue_bits / 8)) != 0) return false;
  head->block = header;
  head->layout = format::MakeCascadeLayout(header.dtype, payload.length_bytes, header.level0_bits,
                                           header.zero_planes);
  std::memcpy(&head->codebook, payload.bytes + format::kCodebookOffset, sizeof head->codebook);
  std::memcpy(&head->escapes, payload.bytes + format::kEscapeCountOffset, sizeof head->escapes);
  uint32_t most = head->layout.elements;
  for (const uint32_t count : head->escapes.count) {
    if (count > most) return false;
    most = count;
  }
  return head->layout.elements != 0 &&
         payload.payload_bytes == head->layout.PayloadBytes(format::CodedBytes(head->escapes)) &&
         payload.payload_bytes < format::StoredPayloadBytes(payload.length_bytes) &&
         format::IsValidCodebook(head->codebook, header.level0_bits, traits.symbol_bits);
}

Status DecodeCascade(const BlockPayload& payload, const format::BlockHeader& header,
                     uint8_t* output) {
  CascadeHead head;
  if (!ReadCascadeHead(payload, header, &head)) return CINCH_ERROR_FRAME_BLOCK;
  const uint32_t tail_bytes = head.layout.tail_bytes;
  const uint8_t* tail = payload.bytes + head.layout.coded_offset + format::CodedBytes(head.escapes);
  if (!AllZero(payload.bytes + format::kEscapeCountOffset + sizeof head.escapes,
               payload.bytes + format::kResidueOffset) ||
      !AllZero(tail + tail_bytes, payload.bytes + payload.payload_bytes) ||
      !CascadeDecoder(payload, head, output).Run()) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  std::memcpy(output + payload.length_bytes - tail_bytes, tail, tail_bytes);
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

/// Section 5.4. A vector past the map is read, which may not be there: the map is copied.
Status DecodeSparse(const BlockPayload& payload, const format::BlockHeader& header,
                    uint8_t* output) {
  if (!format::IsBlockDtype(header.dtype) || header.level0_bits != 0 || header.zero_planes != 0) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  format::SparseCounts counts;
  std::memcpy(&counts, payload.bytes + format::kSparseCountsOffset, sizeof counts);
  const format::SparseLayout layout =
      format::MakeSparseLayout(header.dtype, payload.length_bytes, counts);
  if (layout.elements == 0 || counts.groups > layout.groups || counts.elements > layout.elements ||
      layout.inner_bytes == 0 ||
      payload.payload_bytes < layout.inner_offset + format::kPayloadUnitBytes ||
      payload.payload_bytes >= format::StoredPayloadBytes(payload.length_bytes) ||
      !MapIsValid(payload.bytes, layout, counts) ||
      !AllZero(payload.bytes + layout.bytes_end, payload.bytes + layout.inner_offset)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  const BlockPayload inner_payload{payload.bytes + layout.inner_offset,
                                   payload.payload_bytes - layout.inner_offset, layout.inner_bytes,
                                   0, false};
  format::BlockHeader inner_header;
  std::memcpy(&inner_header, inner_payload.bytes, sizeof inner_header);
  const bool cascade = inner_header.mode == static_cast<uint8_t>(format::BlockMode::kCascade);
  if (inner_header.checksum != 0 || (cascade && inner_header.dtype != header.dtype)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  BlockBytes inner;
  const Status status = DecodeByMode(inner_payload, inner_header, inner.at);
  if (status != CINCH_OK) return status;
  ElementMap list;
  ElementMap map;
  std::memcpy(list.at, payload.bytes + layout.bytes_offset, counts.groups);
  UnpackMap(payload.bytes + format::kSparseBitsOffset, layout.groups, list.at, &map);
  const uint32_t element_bytes = format::TraitsOf(header.dtype).element_bytes;
  ScatterElementsOf(element_bytes, inner.at, map, layout.elements, output);
  std::memcpy(output + payload.length_bytes - layout.tail_bytes,
              inner.at + layout.inner_bytes - layout.tail_bytes, layout.tail_bytes);
  return CINCH_OK;
}

}  // namespace

Status DecodeBlock(const BlockPayload& payload, uint8_t* output, uint64_t* hash) {
  format::BlockHeader header;
  std::memcpy(&header, payload.bytes, sizeof header);
  const bool sparse = header.mode == static_cast<uint8_t>(format::BlockMode::kSparse);
  const Status status =
      sparse ? DecodeSparse(payload, header, output) : DecodeByMode(payload, header, output);
  if (status != CINCH_OK) return status;
  if (payload.base != nullptr) XorInto(output, payload.base, payload.length_bytes, output);
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
