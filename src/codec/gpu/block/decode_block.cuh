// SPDX-License-Identifier: Apache-2.0
/// @file decode_block.cuh
/// One block by one team, from untrusted bytes, with the verdicts of the plain decoder
/// (docs/format.md, sections 4 to 6).
#pragma once

#include <cstdint>

#include "cinch/status.h"
#include "codec/gpu/block/copy.cuh"
#include "codec/gpu/block/decode_lists.cuh"
#include "codec/gpu/block/sample.cuh"
#include "codec/gpu/block/sparse_decode.cuh"
#include "codec/gpu/block/survey.cuh"
#include "codec/gpu/block/workspace.cuh"

namespace cinch::codec::gpu {

/// A payload to decode. `bytes` is 16-byte aligned, in any memory that nobody changes.
struct DecodeTask {
  const uint8_t* bytes;
  uint32_t payload_bytes;  ///< 16 to format::kMaxBlockPayloadBytes, a multiple of 16.
  uint32_t length_bytes;   ///< Original bytes, 1 to format::kBlockBytes.
  uint64_t index;
  bool checksum;
  const uint8_t* base = nullptr;  ///< What the bytes are relative to; null for nothing.
};

/// Finds the lists' places from the counts.
CINCH_PORTABLE void FindLists(const uint8_t* payload, CascadeHead* head) {
  uint32_t at = head->layout.coded_offset;
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    head->escapes.count[level] =
        LoadAligned<uint16_t>(payload + format::kEscapeCountOffset + 2 * level);
  }
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    head->codes_offset[level] = at;
    at += format::CodeListBytes(head->listed(level));
  }
  head->codes_offset[0] = at;
  head->coded_bytes = at + head->escapes.count[format::kLevels - 1] - head->layout.coded_offset;
}

/// Every check that needs no field. Memory beyond payload_bytes is not read.
CINCH_PORTABLE CascadeHead CheckCascadeHead(const uint8_t* payload, uint32_t payload_bytes,
                                            uint32_t length_bytes) {
  CascadeHead head{};
  if (payload_bytes < format::kResidueOffset) return head;
  const uint32_t dtype = payload[5];
  head.level0_bits = payload[6];
  head.zero_planes = payload[7];
  if (!format::IsBlockDtype(dtype) || head.level0_bits > format::kMaxLevel0Bits) return head;
  const format::DtypeTraits traits = format::TraitsOf(dtype);
  if ((head.zero_planes >> (traits.residue_bits / 8)) != 0) return head;
  head.symbol_bits = traits.symbol_bits;
  head.transform = TransformOf(dtype);
  head.layout = format::MakeCascadeLayout(dtype, length_bytes, head.level0_bits, head.zero_planes);
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    head.codebook.window_start[level] = payload[format::kCodebookOffset + level];
  }
  FindLists(payload, &head);
  head.valid = head.layout.elements != 0 &&
               payload_bytes == head.layout.PayloadBytes(head.coded_bytes) &&
               payload_bytes < format::StoredPayloadBytes(length_bytes) &&
               format::IsValidCodebook(head.codebook, head.level0_bits, traits.symbol_bits);
  return head;
}

template <typename Team>
CINCH_TEAM bool WarpJoinOf(const Team& team, const CascadeHead& head, const uint8_t* payload,
                           const uint8_t* from, DecodeWorkspace* workspace) {
  switch (16 * head.layout.traits.element_bytes + head.symbol_bits) {
    case 16 * 1 + 4:
      return WarpJoin<1, 4>(team, head, payload, from, workspace);
    case 16 * 1 + 5:
      return WarpJoin<1, 5>(team, head, payload, from, workspace);
    case 16 * 1 + 8:
      return WarpJoin<1, 8>(team, head, payload, from, workspace);
    case 16 * 2 + 5:
      return WarpJoin<2, 5>(team, head, payload, from, workspace);
    case 16 * 2 + 8:
      return WarpJoin<2, 8>(team, head, payload, from, workspace);
    case 16 * 4 + 8:
      return WarpJoin<4, 8>(team, head, payload, from, workspace);
    default:
      return WarpJoin<8, 8>(team, head, payload, from, workspace);
  }
}

/// This thread's share of what is checked byte by byte; true when it found something.
template <typename Team>
CINCH_TEAM bool SeesBadBytes(const Team& team, const DecodeTask& task, const CascadeHead& head,
                             const uint8_t* payload) {
  const uint32_t tail = head.layout.coded_offset + head.coded_bytes;
  bool bad = SeesNonZero(team, payload, format::kEscapeCountOffset + sizeof(format::EscapeCounts),
                         format::kResidueOffset);
  bad |= SeesNonZero(team, payload, tail + head.layout.tail_bytes, task.payload_bytes);
  for (uint32_t at = head.codes_offset[0] + team.thread(); at < tail; at += team.threads()) {
    bad |= (payload[at] >> head.symbol_bits) != 0;
  }
  return bad;
}

template <typename Team>
CINCH_TEAM bool SyncDecodeCascade(const Team& team, const DecodeTask& task,
                                  DecodeWorkspace* workspace) {
  const uint8_t* payload = task.bytes;
  const CascadeHead head = CheckCascadeHead(payload, task.payload_bytes, task.length_bytes);
  if (!head.valid) return false;
  for (uint32_t i = team.thread(); i < 8 * format::kLevels; i += team.threads()) {
    const uint32_t level = i / 8;
    const bool named = i % 8 < format::WindowWidth(head.level0_bits, level);
    workspace->symbol_of_code[level][i % 8] =
        named ? format::SymbolOf(head.codebook, head.level0_bits, level, i % 8) : 0;
  }
  bool valid = !SeesBadBytes(team, task, head, payload);
  WarpCountLevels(team, head, payload, workspace, &valid);
  team.Sync();
  const EscapeTotals totals = WarpTotals(team, workspace->escapes);
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    valid &= totals.all[level] == head.escapes.count[level];
  }
  // The lists are only followed once the counts are known to be true.
  if (team.SyncAny(!valid)) return false;
  SyncExpandLists(team, head, totals, payload, workspace);
  valid = WarpJoinOf(team, head, payload, workspace->list + totals.before[0], workspace);
  const uint32_t tail = head.layout.coded_offset + head.coded_bytes;
  for (uint32_t i = team.thread(); i < head.layout.tail_bytes; i += team.threads()) {
    workspace->original[task.length_bytes - head.layout.tail_bytes + i] = payload[tail + i];
  }
  return !team.SyncAny(!valid);
}

template <typename Team>
CINCH_TEAM bool SyncDecodeStored(const Team& team, const DecodeTask& task,
                                 DecodeWorkspace* workspace) {
  if (task.payload_bytes != format::StoredPayloadBytes(task.length_bytes)) return false;
  const uint8_t* payload = task.bytes;
  const uint32_t data_end = format::kStoredDataOffset + task.length_bytes;
  bool reserved =
      SeesNonZero(team, payload, sizeof(format::BlockHeader), format::kStoredDataOffset);
  reserved |= SeesNonZero(team, payload, data_end, task.payload_bytes);
  CopyBytes(team, workspace->original, payload + format::kStoredDataOffset, task.length_bytes);
  return !team.SyncAny(reserved);
}

template <typename Team>
CINCH_TEAM bool SyncDecodeConstant(const Team& team, const DecodeTask& task,
                                   DecodeWorkspace* workspace) {
  if (task.payload_bytes != format::kConstantPayloadBytes) return false;
  const uint8_t* bytes = task.bytes + sizeof(format::BlockHeader);
  const auto pattern = LoadAligned<Words2>(bytes);
  bool reserved = false;
  for (uint32_t i = task.length_bytes; i < 8; ++i) reserved |= bytes[i] != 0;
  if (reserved) return false;  // in all threads alike
  for (uint32_t at = 8 * team.thread(); at < task.length_bytes; at += 8 * team.threads()) {
    StoreAligned(workspace->original + at, pattern);
  }
  team.Sync();
  return true;
}

/// The payload of any block, or that inside of a sparse one, into workspace->original.
template <typename Team>
CINCH_TEAM bool SyncDecodePayload(const Team& team, const DecodeTask& task,
                                  DecodeWorkspace* workspace) {
  const auto tag = LoadAligned<uint32_t>(task.bytes + 4);
  if ((tag & 0xFF) == static_cast<uint32_t>(format::BlockMode::kCascade)) {
    return SyncDecodeCascade(team, task, workspace);
  }
  if (tag == static_cast<uint32_t>(format::BlockMode::kStored)) {
    return SyncDecodeStored(team, task, workspace);
  }
  if (tag == static_cast<uint32_t>(format::BlockMode::kConstant)) {
    return SyncDecodeConstant(team, task, workspace);
  }
  return false;
}

/// Decodes a block into the workspace's `original`; the same status in every thread: OK,
/// FRAME_BLOCK or FRAME_CHECKSUM. `*hash` gets BlockHash, or 0 without checksum. The bytes are
/// complete and visible to the team. Called by all threads, who have left the block before.
template <typename Team>
CINCH_TEAM Status SyncDecodeBlock(const Team& team, const DecodeTask& task,
                                  DecodeWorkspace* workspace, uint64_t* hash) {
  if (team.thread() == 0) workspace->hash_sum = 0;
  team.Sync();
  const auto head = LoadAligned<Words2>(task.bytes);
  const bool is_sparse = (head.word[1] & 0xFF) == static_cast<uint32_t>(format::BlockMode::kSparse);
  *hash = 0;
  DecodeTask inner = task;
  SparseHead sparse{};
  GroupTotals totals{};
  if (is_sparse) {
    sparse = CheckSparseHead(task.bytes, task.payload_bytes, task.length_bytes);
    if (!sparse.valid || !SyncCheckMaps(team, sparse, task.bytes, workspace, &totals)) {
      return CINCH_ERROR_FRAME_BLOCK;
    }
    inner.bytes += sparse.layout.inner_offset;
    inner.payload_bytes -= sparse.layout.inner_offset;
    inner.length_bytes = sparse.layout.inner_bytes;
  }
  if (!SyncDecodePayload(team, inner, workspace)) return CINCH_ERROR_FRAME_BLOCK;
  if (is_sparse) {
    SyncExpandSparse(team, sparse, totals, task.bytes, task.length_bytes, workspace);
  }
  if (task.base != nullptr) {
    XorBytes(team, workspace->original, task.base, task.length_bytes);
    team.Sync();
  }
  if (task.checksum) {
    ZeroBytes(team, workspace->original, task.length_bytes, task.length_bytes + 8);
    team.Sync();
    *hash =
        SyncHash(team, workspace->original, task.length_bytes, task.index, &workspace->hash_sum);
  }
  return static_cast<uint32_t>(*hash) == head.word[0] ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
}

}  // namespace cinch::codec::gpu
