// SPDX-License-Identifier: Apache-2.0
// Section 7 of docs/format.md.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "codec/block_codec.h"
#include "codec/plan/codebook.h"
#include "codec/plan/dtype_choice.h"
#include "codec/reference/elements.h"
#include "codec/reference/planes.h"
#include "codec/reference/reference.h"
#include "codec/reference/sparse.h"
#include "format/block_hash.h"

namespace cinch::codec::reference {
namespace {

bool InSample(uint32_t element) {
  return element % 8 == 2 * ((element / 256) % 4) + (element / 1024) % 2;
}
bool InDetectionSample(uint32_t element) {
  return InSample(element) && (element % 64) / 8 == (element / 64) % 8;
}

/// A block's elements under a dtype, split.
struct SplitBlock {
  uint32_t dtype;
  std::vector<bool> zero;  ///< All bytes are.
  std::vector<uint64_t> symbols;
  std::vector<uint64_t> residues;
};

SplitBlock SplitAs(uint32_t dtype, const BlockInput& input) {
  SplitBlock block{dtype, ZeroElements(dtype, input.bytes, input.length_bytes), {}, {}};
  for (const uint64_t element : LoadElements(dtype, input.bytes, input.length_bytes)) {
    const format::SplitElement parts = format::Split(dtype, element);
    block.symbols.push_back(parts.symbol);
    block.residues.push_back(parts.residue);
  }
  return block;
}

/// Residue byte planes that are zero in all of the elements that `in_set` picks.
template <typename InSet>
uint32_t ZeroPlanes(const SplitBlock& block, InSet in_set) {
  uint64_t any = 0;
  for (uint32_t j = 0; j < block.residues.size(); ++j) {
    if (in_set(j)) any |= block.residues[j];
  }
  return ZeroPlanesOf(any, block.dtype);
}

template <typename InSet>
SymbolCounts CountSymbols(const SplitBlock& block, InSet in_set) {
  SymbolCounts counts;
  for (uint32_t j = 0; j < block.symbols.size(); ++j) {
    if (in_set(j)) counts.Add(static_cast<uint32_t>(block.symbols[j]));
  }
  return counts;
}

/// How many of the elements that `in_set` picks are zero.
template <typename InSet>
uint32_t CountZeros(const SplitBlock& block, InSet in_set) {
  uint32_t zeros = 0;
  for (uint32_t j = 0; j < block.zero.size(); ++j) {
    if (in_set(j) && block.zero[j]) ++zeros;
  }
  return zeros;
}

uint32_t ChooseDtype(const BlockInput& input) {
  if (input.dtype != CINCH_DTYPE_AUTO) return input.dtype;
  const SplitBlock bytes = SplitAs(CINCH_DTYPE_BYTES, input);
  const bool zeros_count = format::HasManyZeros(CountSymbols(bytes, InDetectionSample).total,
                                                CountZeros(bytes, InDetectionSample));
  DtypeChooser chooser;
  for (const uint32_t dtype : kAutoDtypes) {
    if (format::TraitsOf(dtype).element_bytes > input.length_bytes) continue;
    const SplitBlock block = SplitAs(dtype, input);
    chooser.Consider(dtype, CountSymbols(block, InDetectionSample),
                     ZeroPlanes(block, InDetectionSample),
                     zeros_count ? CountZeros(block, InDetectionSample) : 0);
  }
  return chooser.best_dtype();
}

/// A whole payload; its checksum is still 0.
std::vector<uint8_t> Finish(format::BlockHeader header, const std::vector<uint8_t>& body) {
  std::vector<uint8_t> payload(
      format::AlignUp(sizeof header + body.size(), format::kPayloadUnitBytes), 0);
  std::memcpy(payload.data(), &header, sizeof header);
  std::copy(body.begin(), body.end(), payload.begin() + sizeof header);
  return payload;
}

std::vector<uint8_t> EncodeStored(const BlockInput& input) {
  std::vector<uint8_t> body(format::kStoredDataOffset - sizeof(format::BlockHeader), 0);
  body.insert(body.end(), input.bytes, input.bytes + input.length_bytes);
  return Finish({}, body);
}

bool IsConstant(const BlockInput& input) {
  for (uint32_t j = 8; j < input.length_bytes; ++j) {
    if (input.bytes[j] != input.bytes[j % 8]) return false;
  }
  return true;
}

std::vector<uint8_t> EncodeConstant(const BlockInput& input) {
  std::vector<uint8_t> body(8, 0);
  std::copy(input.bytes, input.bytes + std::min(input.length_bytes, 8U), body.begin());
  format::BlockHeader header{};
  header.mode = static_cast<uint8_t>(format::BlockMode::kConstant);
  return Finish(header, body);
}

/// The code of `symbol` at `level`: its window's width when it escapes.
uint32_t CodeOf(const CodebookChoice& choice, uint32_t level, uint64_t symbol) {
  const uint32_t width = format::WindowWidth(choice.level0_bits, level);
  uint32_t code = 0;
  while (code < width &&
         format::SymbolOf(choice.codebook, choice.level0_bits, level, code) != symbol) {
    ++code;
  }
  return code;
}

/// Section 5.2: appends the codes of the symbols that escaped level 0 and counts the escapes.
void WriteCoded(const CodebookChoice& choice, std::vector<uint64_t> escaped,
                format::EscapeCounts* escapes, std::vector<uint8_t>* out) {
  escapes->count[0] = static_cast<uint16_t>(escaped.size());
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    std::vector<uint64_t> codes;
    std::vector<uint64_t> still_escaped;
    for (const uint64_t symbol : escaped) {
      codes.push_back(CodeOf(choice, level, symbol));
      if (codes.back() == format::kCodedEscape) still_escaped.push_back(symbol);
    }
    WriteField(codes, 2, 0, out);
    escaped = std::move(still_escaped);
    escapes->count[level] = static_cast<uint16_t>(escaped.size());
  }
  for (const uint64_t symbol : escaped) out->push_back(static_cast<uint8_t>(symbol));
}

/// Section 5. Nothing when the block is better stored.
std::optional<std::vector<uint8_t>> CascadeBody(const BlockInput& input, const SplitBlock& block,
                                                const CodebookChoice& choice,
                                                uint32_t zero_planes) {
  std::vector<uint64_t> codes;
  std::vector<uint64_t> escaped;
  for (const uint64_t symbol : block.symbols) {
    codes.push_back(CodeOf(choice, 0, symbol));
    if (codes.back() == format::WindowWidth(choice.level0_bits, 0)) escaped.push_back(symbol);
  }
  constexpr size_t kBodyOffset = sizeof(format::BlockHeader);
  std::vector<uint8_t> body(format::kResidueOffset - kBodyOffset, 0);
  WriteField(block.residues, format::TraitsOf(block.dtype).residue_bits, zero_planes, &body);
  WriteField(codes, choice.level0_bits, 0, &body);
  format::EscapeCounts escapes;
  WriteCoded(choice, std::move(escaped), &escapes, &body);
  std::memcpy(&body[format::kCodebookOffset - kBodyOffset], &choice.codebook,
              sizeof choice.codebook);
  std::memcpy(&body[format::kEscapeCountOffset - kBodyOffset], &escapes, sizeof escapes);

  const format::CascadeLayout layout =
      format::MakeCascadeLayout(block.dtype, input.length_bytes, choice.level0_bits, zero_planes);
  const uint8_t* end = input.bytes + input.length_bytes;
  body.insert(body.end(), end - layout.tail_bytes, end);
  if (layout.PayloadBytes(format::CodedBytes(escapes)) >=
      format::StoredPayloadBytes(input.length_bytes)) {
    return std::nullopt;
  }
  return body;
}

std::vector<uint8_t> EncodeAs(uint32_t dtype, const BlockInput& input, bool allow_sparse);

/// Section 5.4. Nothing when the block is better stored.
std::optional<std::vector<uint8_t>> SparseBody(const BlockInput& input, const SplitBlock& block) {
  std::vector<uint8_t> body = SparseMaps(block.zero);
  const std::vector<uint8_t> inner =
      InnerBytes(block.dtype, block.zero, input.bytes, input.length_bytes);
  BlockInput inner_input = input;
  inner_input.bytes = inner.data();
  inner_input.length_bytes = static_cast<uint32_t>(inner.size());
  const std::vector<uint8_t> payload = EncodeAs(block.dtype, inner_input, false);
  body.insert(body.end(), payload.begin(), payload.end());
  if (sizeof(format::BlockHeader) + body.size() >= format::StoredPayloadBytes(input.length_bytes)) {
    return std::nullopt;
  }
  return body;
}

bool InnerFits(const SplitBlock& block) {
  const auto not_zero = std::count(block.zero.begin(), block.zero.end(), false);
  return format::InnerFits(static_cast<uint32_t>(block.zero.size()),
                           static_cast<uint32_t>(not_zero));
}

std::vector<uint8_t> EncodeSparse(const BlockInput& input, const SplitBlock& block) {
  const auto body = SparseBody(input, block);
  if (!body) return EncodeStored(input);
  format::BlockHeader header{};
  header.mode = static_cast<uint8_t>(format::BlockMode::kSparse);
  header.dtype = static_cast<uint8_t>(block.dtype);
  return Finish(header, *body);
}

std::vector<uint8_t> EncodeCascade(const BlockInput& input, const SplitBlock& block,
                                   const CodebookChoice& choice) {
  const uint32_t zero_planes = ZeroPlanes(block, [](uint32_t) { return true; });
  const auto body = CascadeBody(input, block, choice, zero_planes);
  if (!body) return EncodeStored(input);
  format::BlockHeader header{};
  header.mode = static_cast<uint8_t>(format::BlockMode::kCascade);
  header.dtype = static_cast<uint8_t>(block.dtype);
  header.level0_bits = static_cast<uint8_t>(choice.level0_bits);
  header.zero_planes = static_cast<uint8_t>(zero_planes);
  return Finish(header, *body);
}

/// Section 7.4: the payload of the bytes as they are, without its checksum.
std::vector<uint8_t> EncodeAs(uint32_t dtype, const BlockInput& input, bool allow_sparse) {
  const SplitBlock block = SplitAs(dtype, input);
  if (block.symbols.empty()) return IsConstant(input) ? EncodeConstant(input) : EncodeStored(input);

  const SymbolCounts counts = CountSymbols(block, InSample);
  const format::DtypeTraits traits = format::TraitsOf(dtype);
  CodebookChoice choice = ChooseCodebook(counts, traits.symbol_bits, true);
  if (choice.single_symbol && IsConstant(input)) return EncodeConstant(input);
  const uint32_t sample_zero_planes = ZeroPlanes(block, InSample);
  if (allow_sparse &&
      format::IsSparse(
          traits.element_bytes, traits.residue_bits - 8 * format::CountBits(sample_zero_planes),
          counts.total, CountZeros(block, InSample), static_cast<uint32_t>(choice.cost_bits)) &&
      InnerFits(block)) {
    return EncodeSparse(input, block);
  }
  if (choice.single_symbol) {
    const uint64_t symbol = choice.codebook.window_start[0];
    if (!std::all_of(block.symbols.begin(), block.symbols.end(),
                     [symbol](uint64_t other) { return other == symbol; })) {
      choice = ChooseCodebook(counts, traits.symbol_bits, false);
    }
  }
  if (!WorthCoding(dtype, choice.cost_bits, counts.total, sample_zero_planes)) {
    return EncodeStored(input);
  }
  return EncodeCascade(input, block, choice);
}

}  // namespace

EncodedBlock EncodeBlock(const BlockInput& input, uint8_t* payload) {
  std::vector<uint8_t> bytes(input.bytes, input.bytes + input.length_bytes);
  if (input.base != nullptr) XorBytes(input.base, &bytes);
  BlockInput coded = input;
  coded.bytes = bytes.data();
  const std::vector<uint8_t> encoded = EncodeAs(ChooseDtype(coded), coded, true);
  std::copy(encoded.begin(), encoded.end(), payload);
  const uint64_t hash =
      input.checksum ? format::BlockHash(input.bytes, input.length_bytes, input.index) : 0;
  const auto checksum = static_cast<uint32_t>(hash);
  std::memcpy(payload + offsetof(format::BlockHeader, checksum), &checksum, sizeof checksum);
  return {static_cast<uint32_t>(encoded.size()), hash};
}

}  // namespace cinch::codec::reference
