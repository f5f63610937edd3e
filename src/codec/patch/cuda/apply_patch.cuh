// SPDX-License-Identifier: Apache-2.0
/// @file apply_patch.cuh
/// From a version of a tensor and a patch, which is untrusted, to the next version.
#pragma once

#include "codec/patch/cuda/patch_device.cuh"

namespace cinch::codec::gpu {

struct ApplyParameters {
  const uint8_t* base;
  const uint8_t* patch;
  uint8_t* data;
  uint64_t bytes;
  uint64_t patch_bytes;
  uint64_t base_hash;
  cinch_cuda_patch_result* result;
  PatchScratch* scratch;
  uint32_t block_count;
  uint32_t aligned;  ///< 1: base and data are.
};

struct ApplyShared {
  Stage base;
  /// Differences that the list gives, 0 for words that are not in it. All zero between blocks.
  alignas(16) uint16_t listed[format::kMaxPatchWords];
  format::PatchHeader header;
  cinch_status status;
  uint32_t bad;
  uint64_t sum[kPatchWarps];
};

/// As ReadPatchHeader() and cinch_patch_apply() check it. By one thread.
__device__ inline cinch_status CheckPatchHeader(const ApplyParameters& p,
                                                format::PatchHeader& header) {
  if (p.patch_bytes < sizeof(header)) return CINCH_ERROR_FRAME_TRUNCATED;
  header = *reinterpret_cast<const format::PatchHeader*>(p.patch);
  if (header.magic != format::kPatchMagic) return CINCH_ERROR_FRAME_MAGIC;
  if (header.version != format::kPatchVersion) return CINCH_ERROR_FRAME_VERSION;
  const auto hash = static_cast<uint32_t>(
      format::BlockHash(reinterpret_cast<const uint8_t*>(&header),
                        offsetof(format::PatchHeader, header_hash), format::kHeaderHashIndex));
  if (hash != header.header_hash) return CINCH_ERROR_FRAME_HEADER;
  uint32_t reserved = header.reserved0;
  for (const uint8_t byte : header.reserved1) reserved |= byte;
  if (reserved != 0) return CINCH_ERROR_FRAME_RESERVED;
  if (header.original_bytes > CINCH_MAX_FRAME_INPUT_BYTES ||
      header.block_bytes != format::kBlockBytes ||
      header.block_count != format::BlockCount(header.original_bytes) ||
      header.payload_bytes % format::kPayloadUnitBytes != 0 ||
      header.payload_bytes >= format::kMaxPayloadBytes) {
    return CINCH_ERROR_FRAME_HEADER;
  }
  const uint64_t whole = format::PayloadOffset(header.block_count) + header.payload_bytes;
  if (p.patch_bytes < whole) return CINCH_ERROR_FRAME_TRUNCATED;
  if (p.patch_bytes > whole) return CINCH_ERROR_FRAME_TRAILING;
  if (header.original_bytes != p.bytes || header.base_hash != p.base_hash) {
    return CINCH_ERROR_FRAME_BASE_MISSING;
  }
  const auto* index = reinterpret_cast<const uint32_t*>(p.patch + sizeof(header));
  for (uint32_t i = header.block_count; i < format::IndexBytes(header.block_count) / 4; ++i) {
    if (index[i] != 0) return CINCH_ERROR_FRAME_RESERVED;
  }
  return CINCH_OK;
}

template <uint32_t kBits, typename Word>
__device__ __forceinline__ void UnpackPlane(const uint8_t*& plane, uint32_t& shift, Chunk& chunk,
                                            uint32_t number, uint32_t words, uint32_t& bad) {
  const uint32_t plane_bytes = format::PatchPlaneBytes(words, kBits);
  const uint8_t* at = plane + number * sizeof(Word);
  uint64_t packed = 0;
  if (words == format::kMaxPatchWords) {
    packed = *reinterpret_cast<const Word*>(at);
  } else {
    for (uint32_t i = 0; i < sizeof(Word); ++i) {
      if (number * sizeof(Word) + i < plane_bytes) packed |= uint64_t{at[i]} << (8 * i);
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const auto part = static_cast<uint32_t>(packed >> (kBits * k)) & ((1u << kBits) - 1);
    chunk.pair[k / 2] |= part << (shift + 16 * (k % 2));
    if (number * kChunkWords + k >= words) bad |= part;
  }
  plane += plane_bytes;
  shift += kBits;
}

__device__ __forceinline__ Chunk ReadFieldChunk(const uint8_t* field, uint32_t number,
                                                uint32_t words, uint32_t width, uint32_t& bad) {
  Chunk chunk{};
  uint32_t shift = 0;
  const uint8_t* plane = field;
  if (width >= 8) UnpackPlane<8, uint64_t>(plane, shift, chunk, number, words, bad);
  if (width >= 16) UnpackPlane<8, uint64_t>(plane, shift, chunk, number, words, bad);
  if ((width & 4) != 0) UnpackPlane<4, uint32_t>(plane, shift, chunk, number, words, bad);
  if ((width & 2) != 0) UnpackPlane<2, uint16_t>(plane, shift, chunk, number, words, bad);
  if ((width & 1) != 0) UnpackPlane<1, uint8_t>(plane, shift, chunk, number, words, bad);
  return chunk;
}

__device__ __forceinline__ Chunk AddDifferences(const Chunk& base, const Chunk& difference) {
  Chunk result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t negative = (difference.pair[i] & 0x00010001) * 0xFFFF;
    const uint32_t step = ((difference.pair[i] >> 1) & 0x7FFF7FFF) ^ negative;
    result.pair[i] = __vadd2(base.pair[i], step);
  }
  return result;
}

/// A block that has changed.
struct PatchedBlock {
  const uint8_t* field;
  const uint16_t* positions;
  const uint16_t* values;
  uint32_t words;
  uint32_t width;
  uint32_t exceptions;
  uint32_t checksum;
};

/// Checks a block's header and its size. Every thread for itself.
__device__ __forceinline__ bool OpenBlock(const uint8_t* payload, uint32_t bytes, uint32_t words,
                                          PatchedBlock& opened) {
  const auto header = *reinterpret_cast<const format::PatchBlockHeader*>(payload);
  if (header.width > format::kMaxPatchWidth || header.reserved != 0 || header.exceptions > words ||
      bytes != format::PatchPayloadBytes(words, header.width, header.exceptions)) {
    return false;
  }
  opened.words = words;
  opened.width = header.width;
  opened.exceptions = header.exceptions;
  opened.checksum = header.checksum;
  opened.field = payload + sizeof(header);
  opened.positions = reinterpret_cast<const uint16_t*>(
      opened.field + format::PatchFieldBytes(words, header.width));
  opened.values = opened.positions + header.exceptions;
  return true;
}

/// Puts the list in its places, and checks it and the zeroes after it. All threads.
__device__ __forceinline__ uint32_t SpreadList(ApplyShared& shared, const PatchedBlock& block,
                                               const uint8_t* end) {
  uint32_t bad = 0;
  for (uint32_t i = threadIdx.x; i < block.exceptions; i += kPatchThreads) {
    const uint32_t position = block.positions[i];
    const uint32_t value = block.values[i];
    const bool ascending = i == 0 || block.positions[i - 1] < position;
    if (!ascending || position >= block.words || (value >> block.width) == 0) {
      bad = 1;
    } else {
      shared.listed[position] = static_cast<uint16_t>(value);
    }
  }
  if (threadIdx.x == 0) {
    const auto* rest = reinterpret_cast<const uint8_t*>(block.values + block.exceptions);
    for (; rest < end; ++rest) bad |= *rest;
    uint32_t used = block.width / 8 * block.words;
    for (uint32_t bits = 4; bits > 0; bits /= 2) {
      if ((block.width & bits) != 0) used += format::PatchPlaneBytes(block.words, bits);
    }
    for (; used < format::PatchFieldBytes(block.words, block.width); ++used) {
      bad |= block.field[used];
    }
  }
  return bad;
}

/// Takes a chunk of the list's differences and leaves zeroes.
__device__ __forceinline__ Chunk TakeListed(ApplyShared& shared, uint32_t number) {
  auto* place = reinterpret_cast<uint4*>(shared.listed) + number;
  const uint4 all = *place;
  if ((all.x | all.y | all.z | all.w) != 0) *place = make_uint4(0, 0, 0, 0);
  return {{all.x, all.y, all.z, all.w}};
}

__device__ __forceinline__ void FinishApply(const ApplyParameters& p, uint64_t expected_hash) {
  const uint64_t key = *reinterpret_cast<volatile uint64_t*>(&p.scratch->error_key);
  cinch_cuda_patch_result result{};
  result.patch_bytes = p.patch_bytes;
  result.base_hash = p.base_hash;
  result.result_hash = *reinterpret_cast<volatile uint64_t*>(&p.scratch->result_hash);
  result.status = key != 0                              ? StatusOfKey(key)
                  : result.result_hash != expected_hash ? CINCH_ERROR_FRAME_CHECKSUM
                                                        : CINCH_OK;
  *p.result = result;
}

/// A chunk's new contents. `patched` null: as they were.
__device__ __forceinline__ Chunk PatchChunk(ApplyShared& shared, const PatchedBlock* patched,
                                            Chunk chunk, uint32_t number, uint32_t valid,
                                            uint32_t& bad) {
  if (patched == nullptr) return chunk;
  Chunk difference{};
  if (patched->width != 0 && valid > 0) {
    difference = ReadFieldChunk(patched->field, number, patched->words, patched->width, bad);
  }
  const Chunk listed = TakeListed(shared, number);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t mask = ((listed.pair[i] & 0xFFFF) != 0 ? 0xFFFFu : 0) |
                          ((listed.pair[i] >> 16) != 0 ? 0xFFFF0000u : 0);
    difference.pair[i] = (difference.pair[i] & ~mask) | listed.pair[i];
  }
  chunk = AddDifferences(chunk, difference);
  // A last odd byte has no byte above it that could change.
  if (valid < kChunkBytes && valid % 2 != 0) {
    bad |= (chunk.pair[valid / 4] >> (8 * (valid % 4))) & 0xFF;
  }
  return chunk;
}

/// All threads: one block. Returns its sum of hash terms in every lane of a warp.
__device__ __forceinline__ uint64_t ApplyBlock(const ApplyParameters& p, ApplyShared& shared,
                                               uint32_t block, const PatchedBlock* patched,
                                               uint32_t length, bool staged, uint32_t& bad) {
  const uint64_t start = uint64_t{block} * format::kBlockBytes;
  const bool copies = p.base != p.data || patched != nullptr;
  uint64_t sum = 0;
#pragma unroll
  for (uint32_t row = 0; row < kPatchRows; ++row) {
    const uint32_t number = row * kPatchThreads + threadIdx.x;
    const uint32_t valid = ValidBytes(number, length);
    const uint64_t at = start + uint64_t{number} * kChunkBytes;
    const Chunk base =
        staged ? FromStage(shared.base, number) : LoadChunk(p.base + at, valid, p.aligned != 0);
    const Chunk chunk = PatchChunk(shared, patched, base, number, valid, bad);
    sum += ChunkHash(chunk, number, valid);
    if (copies) StoreChunk(p.data + at, chunk, valid, p.aligned != 0);
  }
  return WarpSum(sum);
}

/// Where a block's payload is, in units.
struct PayloadRange {
  uint32_t begin;
  uint32_t end;
};
__device__ __forceinline__ PayloadRange ReadIndex(const ApplyParameters& p, uint32_t block) {
  const auto* index = reinterpret_cast<const uint32_t*>(p.patch + sizeof(format::PatchHeader));
  if (block >= p.block_count) return {0, 0};
  return {block == 0 ? 0 : index[block - 1], index[block]};
}

/// Checks a block's place and opens it. Every thread for itself.
__device__ __forceinline__ cinch_status OpenRange(const ApplyParameters& p, uint32_t block,
                                                  uint32_t all_units, const PayloadRange& range,
                                                  uint32_t length, PatchedBlock& patched) {
  const bool last = block + 1 == p.block_count;
  if (range.end < range.begin || range.end > all_units || (last && range.end != all_units)) {
    return CINCH_ERROR_FRAME_INDEX;
  }
  if (range.end == range.begin) return CINCH_OK;
  constexpr uint32_t kMostUnits = 2 * format::kBlockBytes / format::kPayloadUnitBytes;
  const uint32_t units = range.end - range.begin;
  const uint32_t bytes = (units < kMostUnits ? units : kMostUnits) * format::kPayloadUnitBytes;
  const uint8_t* payload = p.patch + format::PayloadOffset(p.block_count) +
                           uint64_t{range.begin} * format::kPayloadUnitBytes;
  return OpenBlock(payload, bytes, format::PatchWords(length), patched) ? CINCH_OK
                                                                        : CINCH_ERROR_FRAME_BLOCK;
}

/// Adds up a block's hash and says what was wrong. By one thread.
__device__ __forceinline__ void JudgeBlock(const ApplyParameters& p, const ApplyShared& shared,
                                           uint32_t block, uint32_t length, bool changed,
                                           uint32_t checksum, cinch_status status) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < kPatchWarps; ++i) hash += shared.sum[i];
  hash = format::FinishHash(hash, length, block);
  if (status == CINCH_OK && changed && static_cast<uint32_t>(hash) != checksum) {
    status = CINCH_ERROR_FRAME_CHECKSUM;
  }
  if (status != CINCH_OK) ReportPatchError(p.scratch, block, status);
  atomicAdd(reinterpret_cast<unsigned long long*>(&p.scratch->result_hash), hash);
}

/// The next block's bytes and place in the patch are on their way while one is patched.
__global__ void __launch_bounds__(kPatchThreads, 3) ApplyPatchKernel(const ApplyParameters p) {
  extern __shared__ __align__(16) uint8_t shared_bytes[];
  ApplyShared& shared = *reinterpret_cast<ApplyShared*>(shared_bytes);
  const auto whole = [&](uint32_t block) {
    return p.aligned != 0 && block < p.block_count &&
           format::BlockLength(p.bytes, block) == format::kBlockBytes;
  };
  const auto prefetch = [&](uint32_t block) {
    if (whole(block)) Prefetch(shared.base, p.base + uint64_t{block} * format::kBlockBytes);
    __pipeline_commit();
  };
  uint32_t block = blockIdx.x;
  prefetch(block);
  for (uint32_t i = threadIdx.x; i < format::kMaxPatchWords / kChunkWords; i += kPatchThreads) {
    reinterpret_cast<uint4*>(shared.listed)[i] = make_uint4(0, 0, 0, 0);
  }
  if (threadIdx.x == 0) shared.status = CheckPatchHeader(p, shared.header);
  __syncthreads();
  if (shared.status != CINCH_OK) {
    if (block == 0 && threadIdx.x == 0) ReportPatchError(p.scratch, 0, shared.status);
    return;
  }
  const auto all_units =
      static_cast<uint32_t>(shared.header.payload_bytes / format::kPayloadUnitBytes);
  PayloadRange range = ReadIndex(p, block);
  for (; block < p.block_count; block += gridDim.x) {
    const PayloadRange next_range = ReadIndex(p, block + gridDim.x);
    const uint32_t length = format::BlockLength(p.bytes, block);
    const bool changed = range.end != range.begin;
    PatchedBlock patched{};
    cinch_status status = OpenRange(p, block, all_units, range, length, patched);
    uint32_t bad = 0;
    if (status == CINCH_OK && changed) {
      const uint8_t* end = p.patch + format::PayloadOffset(p.block_count) +
                           uint64_t{range.end} * format::kPayloadUnitBytes;
      bad = SpreadList(shared, patched, end);
      __syncthreads();
    }
    __pipeline_wait_prior(0);
    if (status == CINCH_OK) {
      const uint64_t sum =
          ApplyBlock(p, shared, block, changed ? &patched : nullptr, length, whole(block), bad);
      if (threadIdx.x % 32 == 0) shared.sum[threadIdx.x / 32] = sum;
    }
    prefetch(block + gridDim.x);  // Each thread has read its own part of the stage.
    if (__syncthreads_or(bad != 0) != 0) status = CINCH_ERROR_FRAME_BLOCK;
    if (threadIdx.x == 0) {
      JudgeBlock(p, shared, block, length, changed, patched.checksum, status);
    }
    range = next_range;
    __syncthreads();
  }
}

__global__ void FinishApplyKernel(const ApplyParameters p) {
  const auto* header = reinterpret_cast<const format::PatchHeader*>(p.patch);
  // A patch that is shorter than a header has been reported; its hash is not read.
  const bool readable = p.patch_bytes >= sizeof(format::PatchHeader);
  FinishApply(p, readable ? header->result_hash : 0);
}

}  // namespace cinch::codec::gpu
