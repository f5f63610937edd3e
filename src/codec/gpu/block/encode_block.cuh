// SPDX-License-Identifier: Apache-2.0
/// @file encode_block.cuh
/// One block by one team: the encoder of docs/format.md, section 7, for every dtype, length and
/// alignment. Kernels that are faster on whole blocks of one dtype must give the same bytes.
#pragma once

#include <cstdint>

#include "codec/gpu/block/codebook.cuh"
#include "codec/gpu/block/copy.cuh"
#include "codec/gpu/block/detect.cuh"
#include "codec/gpu/block/encode_lists.cuh"
#include "codec/gpu/block/sample.cuh"
#include "codec/gpu/block/sparse_encode.cuh"
#include "codec/gpu/block/survey.cuh"
#include "codec/gpu/block/workspace.cuh"

namespace cinch::codec::gpu {

/// A block to encode. `bytes` may have any alignment.
struct EncodeTask {
  const uint8_t* bytes;
  uint32_t length_bytes;  ///< 1 to format::kBlockBytes.
  uint32_t dtype;         ///< A frame dtype: auto is allowed.
  uint64_t index;         ///< The block's place in its frame.
  bool checksum;
  const uint8_t* base = nullptr;  ///< What the bytes are coded relative to; null for nothing.
};

/// The payload stands in the workspace.
struct EncodeResult {
  uint32_t payload_bytes;
  uint64_t hash;  ///< BlockHash, or 0 without checksum.
};

/// Clears what is counted of a block.
template <typename Team>
CINCH_TEAM void ClearCounts(const Team& team, uint32_t payload_begin, EncodeWorkspace* workspace) {
  for (uint32_t i = team.thread(); i < 256; i += team.threads()) workspace->counts[i] = 0;
  if (team.thread() == 0) {
    workspace->any_word[0] = workspace->any_word[1] = 0;
    workspace->sample_word[0] = workspace->sample_word[1] = 0;
    workspace->differs = 0;
    workspace->samples = 0;
    workspace->zeros = 0;
    workspace->payload_begin = payload_begin;
  }
}

/// Brings the block into the workspace and clears what is counted there.
template <typename Team>
CINCH_TEAM void SyncLoadOriginal(const Team& team, const EncodeTask& task,
                                 EncodeWorkspace* workspace) {
  CopyBytes(team, workspace->original, task.bytes, task.length_bytes);
  ZeroBytes(team, workspace->original, task.length_bytes, task.length_bytes + 16);
  ClearCounts(team, 0, workspace);
  if (team.thread() == 0) workspace->hash_sum = 0;
  team.Sync();
}

/// Stage a stored block, from the input: its copy in the workspace may be used up.
template <typename Team>
CINCH_TEAM uint32_t SyncStore(const Team& team, const EncodeTask& task, uint32_t checksum,
                              EncodeWorkspace* workspace) {
  const uint32_t payload_bytes = format::StoredPayloadBytes(task.length_bytes);
  uint8_t* payload = workspace->payload;
  team.Sync();
  if (team.thread() == 0) StoreAligned(payload, Words4{{checksum, 0, 0, 0}});
  CopyBytes(team, payload + format::kStoredDataOffset, task.bytes, task.length_bytes);
  ZeroBytes(team, payload, format::kStoredDataOffset + task.length_bytes, payload_bytes);
  team.Sync();
  if (task.base != nullptr) {
    XorBytes(team, payload + format::kStoredDataOffset, task.base, task.length_bytes);
    team.Sync();
  }
  return payload_bytes;
}

/// The same for the inner bytes of a sparse block, at their place.
template <typename Team>
CINCH_TEAM uint32_t SyncStoreInner(const Team& team, const EncodeTask& task,
                                   const DtypeFacts& facts, const SparseJob& job,
                                   EncodeWorkspace* workspace) {
  const uint32_t payload_bytes = format::StoredPayloadBytes(job.layout.inner_bytes);
  team.Sync();
  SyncLoadOriginal(team, task, workspace);
  if (task.base != nullptr) {
    XorBytes(team, workspace->original, task.base, task.length_bytes);
    team.Sync();
  }
  uint8_t* payload = workspace->payload + job.layout.inner_offset;
  uint8_t* data = payload + format::kStoredDataOffset;
  ZeroBytes(team, payload, 0, format::kStoredDataOffset);
  ZeroBytes(team, payload, format::kStoredDataOffset + job.layout.inner_bytes, payload_bytes);
  WarpGatherInnerOf(team, facts, job, *workspace, data);
  const uint32_t tail = job.layout.tail_bytes;
  for (uint32_t i = team.thread(); i < tail; i += team.threads()) {
    data[job.layout.inner_bytes - tail + i] = workspace->original[task.length_bytes - tail + i];
  }
  team.Sync();
  return payload_bytes;
}

template <typename Team>
CINCH_TEAM uint32_t SyncStoreConstant(const Team& team, uint32_t checksum,
                                      EncodeWorkspace* workspace) {
  if (team.thread() == 0) {
    // Bytes behind the block are zero in the workspace, as the pattern wants them.
    const auto pattern = LoadAligned<Words2>(workspace->original);
    const uint32_t tag = static_cast<uint32_t>(format::BlockMode::kConstant);
    StoreAligned(PayloadOf(workspace), Words4{{checksum, tag, pattern.word[0], pattern.word[1]}});
  }
  team.Sync();
  return format::kConstantPayloadBytes;
}

/// Everything before the residues, by one thread.
CINCH_PORTABLE void WriteCascadeHead(const CascadeJob& job, uint32_t dtype, const Shape& shape,
                                     const EscapeTotals& totals, uint32_t checksum,
                                     uint8_t* payload) {
  const uint32_t tag = static_cast<uint32_t>(format::BlockMode::kCascade) | (dtype << 8) |
                       (job.level0_bits << 16) | (job.zero_planes << 24);
  uint32_t codebook = 0;
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    codebook |= shape.window_start[level] << (8 * level);
  }
  static_assert(format::kCodebookOffset == 8 && format::kEscapeCountOffset == 12);
  static_assert(format::kResidueOffset == 24);
  StoreAligned(payload, Words4{{checksum, tag, codebook, totals.all[0] | (totals.all[1] << 16)}});
  StoreAligned(payload + 16, Words2{{totals.all[2] | (totals.all[3] << 16), 0}});
}

/// What the tail's bytes and the coded part are ORed into.
template <typename Team>
CINCH_TEAM void SyncZeroCoded(const Team& team, const format::CascadeLayout& layout,
                              uint32_t payload_bytes, uint8_t* payload) {
  ZeroBytes(team, payload, layout.coded_offset, payload_bytes);
  team.Sync();
}

template <typename Team>
CINCH_TEAM void WriteTail(const Team& team, const format::CascadeLayout& layout,
                          uint32_t coded_bytes, uint32_t length_bytes, EncodeWorkspace* workspace) {
  const uint32_t tail = layout.coded_offset + coded_bytes;
  for (uint32_t i = team.thread(); i < layout.tail_bytes; i += team.threads()) {
    OrByte(team, PayloadOf(workspace), tail + i,
           workspace->original[length_bytes - layout.tail_bytes + i]);
  }
}

CINCH_PORTABLE uint32_t CodedBytes(const EscapeTotals& totals) {
  return format::CodeListBytes(totals.all[0]) + format::CodeListBytes(totals.all[1]) +
         format::CodeListBytes(totals.all[2]) + totals.all[3];
}

template <uint32_t kElementBytes, typename Team>
CINCH_TEAM CascadeJob SyncMakeJob(const Team& team, uint32_t length_bytes, const DtypeFacts& facts,
                                  const Shape& shape, EncodeWorkspace* workspace) {
  CascadeJob job{};
  job.transform = facts.transform;
  job.level0_bits = shape.level0_bits;
  job.zero_planes =
      ZeroPlanesIn(AnyElement<kElementBytes>(*workspace, facts.elements, facts.transform), facts);
  job.layout =
      format::MakeCascadeLayout(facts.dtype, length_bytes, shape.level0_bits, job.zero_planes);
  job.window_start = shape.window_start[0];
  job.window_width = format::WindowWidth(shape.level0_bits, 0);
  for (uint32_t symbol = team.thread(); symbol < 256; symbol += team.threads()) {
    workspace->place_of_symbol[symbol] = static_cast<uint8_t>(PlaceOfSymbol(shape, symbol));
  }
  team.Sync();
  return job;
}

/// Codes the cascade; 0 when the block is better stored.
template <uint32_t kElementBytes, uint32_t kSymbolBits, typename Team>
CINCH_TEAM uint32_t SyncCodeCascade(const Team& team, uint32_t length_bytes,
                                    const DtypeFacts& facts, const Shape& shape, uint32_t checksum,
                                    EncodeWorkspace* workspace) {
  const CascadeJob job = SyncMakeJob<kElementBytes>(team, length_bytes, facts, shape, workspace);
  const Share share = ShareOf(team, facts.elements, kOctet);
  uint8_t* list = workspace->original + share.begin * kElementBytes;
  const uint32_t listed = WarpCodeLevel0<kElementBytes, kSymbolBits>(team, job, share, workspace);
  WarpCountEscapes(team, list, listed, workspace);
  team.Sync();
  const EscapeTotals totals = WarpTotals(team, workspace->escapes);
  const uint32_t coded_bytes = CodedBytes(totals);
  const uint32_t payload_bytes = job.layout.PayloadBytes(coded_bytes);
  if (payload_bytes >= format::StoredPayloadBytes(length_bytes)) return 0;
  SyncZeroCoded(team, job.layout, payload_bytes, PayloadOf(workspace));
  WarpCodeLists(team, totals, job.layout.coded_offset, list, workspace);
  WriteTail(team, job.layout, coded_bytes, length_bytes, workspace);
  if (team.thread() == 0) {
    WriteCascadeHead(job, facts.dtype, shape, totals, checksum, PayloadOf(workspace));
  }
  team.Sync();
  return payload_bytes;
}

template <typename Team>
CINCH_TEAM uint32_t SyncCodeCascadeOf(const Team& team, uint32_t length_bytes,
                                      const DtypeFacts& facts, const Shape& shape,
                                      uint32_t checksum, EncodeWorkspace* workspace) {
  switch (16 * facts.element_bytes + facts.symbol_bits) {
    case 16 * 1 + 4:
      return SyncCodeCascade<1, 4>(team, length_bytes, facts, shape, checksum, workspace);
    case 16 * 1 + 5:
      return SyncCodeCascade<1, 5>(team, length_bytes, facts, shape, checksum, workspace);
    case 16 * 1 + 8:
      return SyncCodeCascade<1, 8>(team, length_bytes, facts, shape, checksum, workspace);
    case 16 * 2 + 5:
      return SyncCodeCascade<2, 5>(team, length_bytes, facts, shape, checksum, workspace);
    case 16 * 2 + 8:
      return SyncCodeCascade<2, 8>(team, length_bytes, facts, shape, checksum, workspace);
    case 16 * 4 + 8:
      return SyncCodeCascade<4, 8>(team, length_bytes, facts, shape, checksum, workspace);
    default:
      return SyncCodeCascade<8, 8>(team, length_bytes, facts, shape, checksum, workspace);
  }
}

/// True when all elements have the symbol `symbol`.
template <typename Team>
CINCH_TEAM bool SyncAllHave(const Team& team, const DtypeFacts& facts, uint32_t symbol,
                            const EncodeWorkspace& workspace) {
  bool other = false;
  for (uint32_t j = team.thread(); j < facts.elements; j += team.threads()) {
    other |= facts.SymbolOf(LoadElement(workspace.original, j, facts)) != symbol;
  }
  return !team.SyncAny(other);
}

/// The windows of the block's sample (section 7.2 and step 1 of 7.4).
template <typename Team>
CINCH_TEAM Shape SyncPlan(const Team& team, const DtypeFacts& facts, uint32_t single_symbol,
                          EncodeWorkspace* workspace) {
  if (single_symbol < 256 && SyncAllHave(team, facts, single_symbol, *workspace)) {
    Shape shape{};
    shape.window_start[0] = single_symbol;
    return shape;
  }
  return SyncChooseShape(team, facts.symbol_bits, workspace);
}

/// Section 7.4, step 3.
CINCH_PORTABLE bool WorthCoding(const DtypeFacts& facts, uint32_t cost_bits,
                                const EncodeWorkspace& workspace) {
  const uint64_t any = (uint64_t{workspace.sample_word[1]} << 32) | workspace.sample_word[0];
  const uint64_t raw_bits = uint64_t{workspace.samples} * 8 * facts.element_bytes;
  return EstimatedBits(facts, cost_bits, workspace.samples, ZeroPlanesIn(any, facts)) <
         raw_bits - raw_bits / 64;
}

/// Section 7.4, step 2, of a block whose samples have been counted.
template <typename Team>
CINCH_TEAM bool SyncIsSparse(const Team& team, const DtypeFacts& facts, uint32_t single_symbol,
                             EncodeWorkspace* workspace) {
  const uint32_t samples = workspace->samples;
  if (!format::HasManyZeros(samples, workspace->counts[0])) return false;
  const uint32_t zeros = workspace->zeros;
  const uint64_t any = (uint64_t{workspace->sample_word[1]} << 32) | workspace->sample_word[0];
  const uint32_t residue_bits =
      facts.residue_bits - 8 * format::CountBits(ZeroPlanesIn(any, facts));
  const auto is_sparse = [&](uint32_t cost_bits) {
    return format::IsSparse(facts.element_bytes, residue_bits, samples, zeros, cost_bits);
  };
  // Mostly so whatever the codebook costs.
  if (is_sparse(0)) return true;
  if (single_symbol < 256 || !format::HasManyZeros(samples, zeros)) return false;
  const bool sparse = is_sparse(SyncChooseShape(team, facts.symbol_bits, workspace).cost_bits);
  team.Sync();
  return sparse;
}

/// What has become of bytes in the workspace.
struct CodedBytesResult {
  uint32_t payload_bytes;  ///< 0: they are to be stored.
  bool sparse;             ///< They are to be coded as a sparse block.
};

/// Section 7.4 but for what is stored and sparse, of bytes in the workspace that SurveyWords has
/// seen.
template <typename Team>
CINCH_TEAM CodedBytesResult SyncEncodeBytes(const Team& team, const DtypeFacts& facts,
                                            uint32_t length_bytes, bool allow_sparse,
                                            uint32_t checksum, EncodeWorkspace* workspace) {
  CountSample(team, facts, workspace);
  team.Sync();
  const bool constant = length_bytes <= 8 || workspace->differs == 0;
  if (facts.elements == 0) return {SyncStoreConstant(team, checksum, workspace), false};
  const uint32_t single_symbol = WarpSingleSymbol(team, workspace->counts, workspace->samples);
  if (single_symbol < 256 && constant) {
    return {SyncStoreConstant(team, checksum, workspace), false};
  }
  if (allow_sparse && SyncIsSparse(team, facts, single_symbol, workspace)) return {0, true};
  const Shape shape = SyncPlan(team, facts, single_symbol, workspace);
  if (!WorthCoding(facts, shape.cost_bits, *workspace)) return {0, false};
  return {SyncCodeCascadeOf(team, length_bytes, facts, shape, checksum, workspace), false};
}

/// Puts the head before what is inside. Returns the payload's size, or 0 when the block is better
/// stored.
template <typename Team>
CINCH_TEAM uint32_t SyncFinishSparse(const Team& team, const SparseJob& job, uint32_t dtype,
                                     uint32_t inner_payload_bytes, uint32_t length_bytes,
                                     uint32_t checksum, uint8_t* payload) {
  const uint32_t payload_bytes = job.layout.inner_offset + inner_payload_bytes;
  if (payload_bytes >= format::StoredPayloadBytes(length_bytes)) return 0;
  if (team.thread() == 0) {
    const uint32_t tag = static_cast<uint32_t>(format::BlockMode::kSparse) | (dtype << 8);
    StoreAligned(payload, Words2{{checksum, tag}});
    StoreAligned(payload + format::kSparseCountsOffset,
                 uint32_t{job.counts.groups} | (uint32_t{job.counts.elements} << 16));
  }
  team.Sync();
  return payload_bytes;
}

/// Encodes a block; the result is the same in every thread, and the payload in the workspace is
/// complete and visible to the team. Called by all threads.
template <typename Team>
CINCH_TEAM EncodeResult SyncEncodeBlock(const Team& team, const EncodeTask& task,
                                        EncodeWorkspace* workspace) {
  SyncLoadOriginal(team, task, workspace);
  uint64_t hash = 0;
  if (task.checksum) {
    hash = SyncHash(team, workspace->original, task.length_bytes, task.index, &workspace->hash_sum);
  }
  if (task.base != nullptr) {
    team.Sync();
    XorBytes(team, workspace->original, task.base, task.length_bytes);
    team.Sync();
  }
  SurveyWords(team, task.length_bytes, workspace);
  uint32_t dtype = task.dtype;
  if (dtype == CINCH_DTYPE_AUTO) dtype = SyncDetectDtype(team, task.length_bytes, workspace);
  const DtypeFacts outer = FactsOf(dtype, task.length_bytes);
  // At most twice more: as a sparse block, and as none after all.
  DtypeFacts facts = outer;
  uint32_t length_bytes = task.length_bytes;
  bool allow_sparse = true;
  bool inside = false;
  SparseJob job{};
  CodedBytesResult coded{};
  for (;;) {
    coded = SyncEncodeBytes(team, facts, length_bytes, allow_sparse,
                            inside ? 0 : static_cast<uint32_t>(hash), workspace);
    if (!coded.sparse) break;
    allow_sparse = false;
    inside = SyncMakeInnerOf(team, outer, task.length_bytes, workspace, &job);
    if (inside) length_bytes = job.layout.inner_bytes;
    facts = FactsOf(dtype, length_bytes);
    ClearCounts(team, inside ? job.layout.inner_offset : 0, workspace);
    team.Sync();
    SurveyWords(team, length_bytes, workspace);
  }
  uint32_t payload_bytes = coded.payload_bytes;
  if (inside) {
    if (payload_bytes == 0) payload_bytes = SyncStoreInner(team, task, outer, job, workspace);
    payload_bytes = SyncFinishSparse(team, job, dtype, payload_bytes, task.length_bytes,
                                     static_cast<uint32_t>(hash), workspace->payload);
  }
  if (payload_bytes == 0) {
    payload_bytes = SyncStore(team, task, static_cast<uint32_t>(hash), workspace);
  }
  return {payload_bytes, hash};
}

}  // namespace cinch::codec::gpu
