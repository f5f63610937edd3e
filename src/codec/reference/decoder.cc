// SPDX-License-Identifier: Apache-2.0
// Sections 4 and 5 of docs/format.md, in the document's order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "codec/block_codec.h"
#include "codec/reference/elements.h"
#include "codec/reference/planes.h"
#include "codec/reference/reference.h"
#include "codec/reference/sparse.h"
#include "format/block_hash.h"

namespace cinch::codec::reference {
namespace {

bool AllZero(const uint8_t* begin, const uint8_t* end) {
  return std::all_of(begin, end, [](uint8_t byte) { return byte == 0; });
}

Status DecodeStored(const BlockPayload& payload, uint8_t* output) {
  if (payload.payload_bytes != format::StoredPayloadBytes(payload.length_bytes)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  const uint8_t* data = payload.bytes + format::kStoredDataOffset;
  const uint8_t* data_end = data + payload.length_bytes;
  if (!AllZero(payload.bytes + sizeof(format::BlockHeader), data) ||
      !AllZero(data_end, payload.bytes + payload.payload_bytes)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  std::copy(data, data_end, output);
  return CINCH_OK;
}

Status DecodeConstant(const BlockPayload& payload, uint8_t* output) {
  if (payload.payload_bytes != format::kConstantPayloadBytes) return CINCH_ERROR_FRAME_BLOCK;
  const uint8_t* pattern = payload.bytes + sizeof(format::BlockHeader);
  if (!AllZero(pattern + std::min(payload.length_bytes, 8U), pattern + 8)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  for (uint32_t j = 0; j < payload.length_bytes; ++j) output[j] = pattern[j % 8];
  return CINCH_OK;
}

/// What a cascade block says of itself before its fields.
struct Cascade {
  format::BlockHeader header;
  format::Codebook codebook;
  format::EscapeCounts escapes;
  format::CascadeLayout layout;

  uint32_t SymbolOf(uint32_t level, uint32_t code) const {
    return format::SymbolOf(codebook, header.level0_bits, level, code);
  }
};

/// Section 5.2: resolves the symbols of `escaped`, positions into `symbols`, from the coded part.
/// False when the codes do not bear out the counts.
bool DecodeCoded(const Cascade& cascade, const uint8_t* coded, std::vector<uint32_t> escaped,
                 std::vector<uint32_t>* symbols) {
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    if (escaped.size() != cascade.escapes.count[level - 1]) return false;
    std::vector<uint64_t> codes;
    const auto entries = static_cast<uint32_t>(escaped.size());
    if (!ReadField(coded, entries, 2, 0, &codes)) return false;
    coded += format::CodeListBytes(entries);
    std::vector<uint32_t> still_escaped;
    for (uint32_t j = 0; j < entries; ++j) {
      const auto code = static_cast<uint32_t>(codes[j]);
      if (code == format::kCodedEscape) {
        still_escaped.push_back(escaped[j]);
      } else {
        (*symbols)[escaped[j]] = cascade.SymbolOf(level, code);
      }
    }
    escaped = std::move(still_escaped);
  }
  if (escaped.size() != cascade.escapes.count[format::kLevels - 1]) return false;
  for (const uint32_t element : escaped) {
    const uint32_t symbol = *coded++;
    if (symbol >= (1U << cascade.layout.traits.symbol_bits)) return false;
    (*symbols)[element] = symbol;
  }
  return true;
}

/// Section 5.1 and on: all elements of the block whose payload, of the right size, is `payload`.
bool DecodeElements(const Cascade& cascade, const uint8_t* payload,
                    std::vector<uint64_t>* elements) {
  const format::CascadeLayout& layout = cascade.layout;
  const uint32_t level0_bits = cascade.header.level0_bits;
  std::vector<uint64_t> residues;
  std::vector<uint64_t> codes;
  if (!ReadField(payload + format::kResidueOffset, layout.elements, layout.traits.residue_bits,
                 cascade.header.zero_planes, &residues) ||
      !ReadField(payload + layout.code_offset, layout.elements, level0_bits, 0, &codes)) {
    return false;
  }
  std::vector<uint32_t> symbols(layout.elements);
  std::vector<uint32_t> escaped;
  const uint32_t escape = format::WindowWidth(level0_bits, 0);
  for (uint32_t j = 0; j < layout.elements; ++j) {
    const auto code = static_cast<uint32_t>(codes[j]);
    if (code == escape) {
      escaped.push_back(j);
    } else {
      symbols[j] = cascade.SymbolOf(0, code);
    }
  }
  if (!DecodeCoded(cascade, payload + layout.coded_offset, std::move(escaped), &symbols)) {
    return false;
  }
  for (uint32_t j = 0; j < layout.elements; ++j) {
    elements->push_back(format::Join(cascade.header.dtype, {symbols[j], residues[j]}));
  }
  return true;
}

/// Reads and checks everything before the fields, so that all sizes and offsets hold.
bool ReadCascade(const BlockPayload& payload, const format::BlockHeader& header, Cascade* cascade) {
  if (payload.payload_bytes < format::kResidueOffset || !format::IsBlockDtype(header.dtype) ||
      header.level0_bits > format::kMaxLevel0Bits) {
    return false;
  }
  const format::DtypeTraits traits = format::TraitsOf(header.dtype);
  if ((header.zero_planes >> (traits.residue_bits / 8)) != 0) return false;
  cascade->header = header;
  cascade->layout = format::MakeCascadeLayout(header.dtype, payload.length_bytes,
                                              header.level0_bits, header.zero_planes);
  std::memcpy(&cascade->codebook, payload.bytes + format::kCodebookOffset,
              sizeof cascade->codebook);
  std::memcpy(&cascade->escapes, payload.bytes + format::kEscapeCountOffset,
              sizeof cascade->escapes);
  const uint32_t payload_bytes = cascade->layout.PayloadBytes(format::CodedBytes(cascade->escapes));
  return cascade->layout.elements != 0 && payload.payload_bytes == payload_bytes &&
         payload_bytes < format::StoredPayloadBytes(payload.length_bytes) &&
         format::IsValidCodebook(cascade->codebook, header.level0_bits, traits.symbol_bits);
}

Status DecodeCascade(const BlockPayload& payload, const format::BlockHeader& header,
                     uint8_t* output) {
  Cascade cascade;
  if (!ReadCascade(payload, header, &cascade)) return CINCH_ERROR_FRAME_BLOCK;
  const format::CascadeLayout& layout = cascade.layout;
  const uint8_t* tail = payload.bytes + layout.coded_offset + format::CodedBytes(cascade.escapes);
  if (!AllZero(payload.bytes + format::kEscapeCountOffset + sizeof cascade.escapes,
               payload.bytes + format::kResidueOffset) ||
      !AllZero(tail + layout.tail_bytes, payload.bytes + payload.payload_bytes)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  std::vector<uint64_t> elements;
  if (!DecodeElements(cascade, payload.bytes, &elements)) return CINCH_ERROR_FRAME_BLOCK;
  StoreElements(header.dtype, elements, output);
  std::copy(tail, tail + layout.tail_bytes, output + payload.length_bytes - layout.tail_bytes);
  return CINCH_OK;
}

/// Section 4, all modes but sparse.
Status DecodeSimple(const BlockPayload& payload, const format::BlockHeader& header,
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

/// The inner payload of a sparse block, decoded.
Status DecodeInner(const BlockPayload& payload, uint32_t dtype, const format::SparseLayout& layout,
                   std::vector<uint8_t>* inner) {
  const BlockPayload inner_payload{payload.bytes + layout.inner_offset,
                                   payload.payload_bytes - layout.inner_offset, layout.inner_bytes,
                                   0, false};
  format::BlockHeader header;
  std::memcpy(&header, inner_payload.bytes, sizeof header);
  const bool cascade = header.mode == static_cast<uint8_t>(format::BlockMode::kCascade);
  if (header.checksum != 0 || (cascade && header.dtype != dtype)) return CINCH_ERROR_FRAME_BLOCK;
  inner->resize(layout.inner_bytes);
  return DecodeSimple(inner_payload, header, inner->data());
}

/// Section 5.4.
Status DecodeSparse(const BlockPayload& payload, const format::BlockHeader& header,
                    uint8_t* output) {
  if (!format::IsBlockDtype(header.dtype) || header.level0_bits != 0 || header.zero_planes != 0) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  format::SparseCounts counts;
  std::memcpy(&counts, payload.bytes + format::kSparseCountsOffset, sizeof counts);
  const format::SparseLayout layout =
      format::MakeSparseLayout(header.dtype, payload.length_bytes, counts);
  std::vector<bool> zero;
  if (layout.elements == 0 || counts.elements > layout.elements || layout.inner_bytes == 0 ||
      payload.payload_bytes < layout.inner_offset + sizeof header + 8 ||
      payload.payload_bytes >= format::StoredPayloadBytes(payload.length_bytes) ||
      !ReadMaps(payload.bytes, layout, counts, &zero) ||
      !AllZero(payload.bytes + layout.bytes_end, payload.bytes + layout.inner_offset)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  std::vector<uint8_t> inner;
  CINCH_RETURN_IF_ERROR(DecodeInner(payload, header.dtype, layout, &inner));
  const uint32_t element_bytes = format::TraitsOf(header.dtype).element_bytes;
  const uint8_t* next = inner.data();
  for (uint32_t j = 0; j < layout.elements; ++j) {
    uint8_t* element = output + j * element_bytes;
    if (zero[j]) {
      std::fill(element, element + element_bytes, uint8_t{0});
    } else {
      std::copy(next, next + element_bytes, element);
      next += element_bytes;
    }
  }
  std::copy(next, next + layout.tail_bytes, output + layout.elements * element_bytes);
  return CINCH_OK;
}

}  // namespace

Status DecodeBlock(const BlockPayload& payload, uint8_t* output, uint64_t* hash) {
  format::BlockHeader header;
  std::memcpy(&header, payload.bytes, sizeof header);
  const bool sparse = header.mode == static_cast<uint8_t>(format::BlockMode::kSparse);
  CINCH_RETURN_IF_ERROR(sparse ? DecodeSparse(payload, header, output)
                               : DecodeSimple(payload, header, output));
  if (payload.base != nullptr) {
    for (uint32_t i = 0; i < payload.length_bytes; ++i) {
      output[i] = static_cast<uint8_t>(output[i] ^ payload.base[i]);
    }
  }
  *hash = payload.checksum ? format::BlockHash(output, payload.length_bytes, payload.index) : 0;
  return static_cast<uint32_t>(*hash) == header.checksum ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
}

}  // namespace cinch::codec::reference
