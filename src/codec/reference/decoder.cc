// SPDX-License-Identifier: Apache-2.0
// Sections 4 and 5 of docs/format.md, in the document's order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "codec/block_codec.h"
#include "codec/reference/elements.h"
#include "codec/reference/planes.h"
#include "codec/reference/reference.h"
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
  for (uint32_t j = 0; j < payload.length_bytes; ++j) output[j] = pattern[j % 8];
  return CINCH_OK;
}

/// A tile's coded part (5.2): resolves the symbols of `escaped`, positions into `symbols`.
/// False when the bytes are not exactly what the codes need.
bool DecodeCoded(const format::Codebook& codebook, uint32_t level0_bits, uint32_t symbol_bits,
                 const uint8_t* bytes, uint32_t coded_bytes, std::vector<uint32_t> escaped,
                 std::vector<uint32_t>* symbols) {
  uint32_t at = 0;
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    const auto code_bytes = static_cast<uint32_t>(format::CeilDivide(escaped.size(), 4));
    if (coded_bytes - at < code_bytes) return false;
    std::vector<uint32_t> still_escaped;
    for (uint32_t j = 0; j < 4 * code_bytes; ++j) {
      const uint32_t code = (bytes[at + j / 4] >> (2 * (j % 4))) & 3U;
      if (j >= escaped.size()) {
        if (code != 0) return false;
      } else if (code == format::kCodedEscape) {
        still_escaped.push_back(escaped[j]);
      } else {
        (*symbols)[escaped[j]] = format::SymbolOf(codebook, level0_bits, level, code);
      }
    }
    at += code_bytes;
    escaped = std::move(still_escaped);
  }
  if (coded_bytes - at != escaped.size()) return false;
  for (const uint32_t element : escaped) {
    const uint32_t symbol = bytes[at++];
    if (symbol >= (1U << symbol_bits)) return false;
    (*symbols)[element] = symbol;
  }
  return true;
}

/// One tile of the block at `payload`, whose coded part is [coded, coded + coded_bytes).
bool DecodeTile(const format::BlockHeader& header, const format::CascadeLayout& layout,
                const format::Codebook& codebook, uint32_t tile, const uint8_t* payload,
                const uint8_t* coded, uint32_t coded_bytes, std::vector<uint64_t>* elements) {
  const uint32_t count = layout.TileElements(tile);
  std::vector<uint64_t> codes;
  std::vector<uint64_t> residues;
  if (!ReadField(payload + layout.CodeOffset(tile), count, header.level0_bits, 0, &codes) ||
      !ReadField(payload + layout.ResidueOffset(tile), count, layout.traits.residue_bits,
                 header.zero_planes, &residues)) {
    return false;
  }
  std::vector<uint32_t> symbols(count);
  std::vector<uint32_t> escaped;
  const uint32_t escape = format::WindowWidth(header.level0_bits, 0);
  for (uint32_t j = 0; j < count; ++j) {
    if (codes[j] == escape) {
      escaped.push_back(j);
    } else {
      const auto code = static_cast<uint32_t>(codes[j]);
      symbols[j] = format::SymbolOf(codebook, header.level0_bits, 0, code);
    }
  }
  if (!DecodeCoded(codebook, header.level0_bits, layout.traits.symbol_bits, coded, coded_bytes,
                   std::move(escaped), &symbols)) {
    return false;
  }
  for (uint32_t j = 0; j < count; ++j) {
    elements->push_back(format::Join(header.dtype, {symbols[j], residues[j]}));
  }
  return true;
}

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
  const auto tile_end = [&](uint32_t tile) {
    return static_cast<uint32_t>(
        LoadLittle(payload.bytes + format::kTileEndOffset + 2 * tile, 2));
  };
  const uint32_t coded_bytes = tile_end(layout.tiles - 1);
  if (payload.payload_bytes != layout.PayloadBytes(coded_bytes)) return CINCH_ERROR_FRAME_BLOCK;
  const uint8_t* tail = payload.bytes + layout.coded_offset + coded_bytes;
  if (!AllZero(payload.bytes + format::kTileEndOffset + 2 * layout.tiles,
               payload.bytes + layout.residue_offset) ||
      !AllZero(tail + layout.tail_bytes, payload.bytes + payload.payload_bytes)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }

  std::vector<uint64_t> elements;
  uint32_t coded_begin = 0;
  for (uint32_t tile = 0; tile < layout.tiles; ++tile) {
    const uint32_t coded_end = tile_end(tile);
    if (coded_end < coded_begin || coded_end > coded_bytes) return CINCH_ERROR_FRAME_BLOCK;
    if (!DecodeTile(header, layout, codebook, tile, payload.bytes,
                    payload.bytes + layout.coded_offset + coded_begin, coded_end - coded_begin,
                    &elements)) {
      return CINCH_ERROR_FRAME_BLOCK;
    }
    coded_begin = coded_end;
  }
  StoreElements(header.dtype, elements, output);
  std::copy(tail, tail + layout.tail_bytes, output + payload.length_bytes - layout.tail_bytes);
  return CINCH_OK;
}

}  // namespace

Status DecodeBlock(const BlockPayload& payload, uint8_t* output, uint64_t* hash) {
  format::BlockHeader header;
  std::memcpy(&header, payload.bytes, sizeof header);
  const auto mode = static_cast<format::BlockMode>(header.mode);
  Status status = CINCH_ERROR_FRAME_BLOCK;
  if (mode == format::BlockMode::kCascade) {
    status = DecodeCascade(payload, header, output);
  } else if (header.dtype == 0 && header.level0_bits == 0 && header.zero_planes == 0) {
    if (mode == format::BlockMode::kStored) status = DecodeStored(payload, output);
    if (mode == format::BlockMode::kConstant) status = DecodeConstant(payload, output);
  }
  if (status != CINCH_OK) return status;
  *hash = payload.checksum ? format::BlockHash(output, payload.length_bytes, payload.index) : 0;
  return static_cast<uint32_t>(*hash) == header.checksum ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
}

}  // namespace cinch::codec::reference
