// SPDX-License-Identifier: Apache-2.0
/// @file create_patch.cuh
/// From two versions of a tensor to a patch, in one pass over both.
#pragma once

#include "codec/patch/cuda/patch_device.cuh"

namespace cinch::codec::gpu {

struct CreateParameters {
  const uint8_t* base;
  const uint8_t* data;
  uint64_t bytes;
  uint8_t* patch;
  uint64_t capacity_bytes;
  cinch_cuda_patch_result* result;
  PatchScratch* scratch;
  uint64_t* states;  ///< Of each block (look_back.cuh); all zero.
  uint32_t block_count;
  uint32_t aligned;  ///< 1: base and data are.
};

/// What the threads of a thread block tell each other.
struct CreateShared {
  Stage base;
  Stage data;
  uint32_t block;
  uint32_t width;
  uint32_t place_units;
  uint32_t placed;
  uint32_t exceptions;
  uint64_t base_sum[kPatchWarps];
  uint64_t data_sum[kPatchWarps];
  uint32_t lengths[8];  ///< Samples of bit lengths 2k + 1 (low), 2k + 2 (high).
  uint32_t row_count[kPatchRows * kPatchWarps];  ///< Exceptions of a warp in a row, then before.
};

/// The differences of two chunks.
__device__ __forceinline__ Chunk Differences(const Chunk& base, const Chunk& data) {
  Chunk difference;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t step = __vsub2(data.pair[i], base.pair[i]);
    // Zigzag of both halves: twice the step, all bits flipped when it is negative.
    const uint32_t negative = ((step >> 15) & 0x00010001) * 0xFFFF;
    difference.pair[i] = ((step << 1) & 0xFFFEFFFE) ^ negative;
  }
  return difference;
}

__device__ __forceinline__ uint32_t WordOf(const Chunk& chunk, int word) {
  return (chunk.pair[word / 2] >> (16 * (word % 2))) & 0xFFFF;
}

/// Bit k: word k is 2^width or more.
__device__ __forceinline__ uint32_t ExceptionBits(const Chunk& chunk, uint32_t width) {
  const uint32_t mask = (0xFFFFu << width) & 0xFFFF;
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits |= (chunk.pair[i] & mask) != 0 ? 1u << (2 * i) : 0;
    bits |= (chunk.pair[i] & (mask << 16)) != 0 ? 2u << (2 * i) : 0;
  }
  return bits;
}

/// Adds a chunk's bit lengths to the block's. All lanes.
__device__ __forceinline__ void AddLengths(CreateShared& shared, const Chunk& sample) {
  uint64_t counts = 0;  // Of length k + 1 in bits 4k: at most 8.
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const uint32_t word = WordOf(sample, k);
    if (word != 0) counts += uint64_t{1} << (4 * (31 - __clz(static_cast<int>(word))));
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const auto both = static_cast<uint32_t>(counts >> (8 * k));
    const uint32_t sum = __reduce_add_sync(kAllLanes, (both & 0xF) | (((both >> 4) & 0xF) << 16));
    if (threadIdx.x % 32 == k && sum != 0) atomicAdd(&shared.lengths[k], sum);
  }
}

/// The width of least cost, the smallest on a tie. By one warp.
__device__ __forceinline__ uint32_t ChooseWidth(const CreateShared& shared, uint32_t samples) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t key = 0xFFFFFFFF;
  if (lane < format::kPatchWidthCount) {
    const uint32_t width = format::PatchWidthAt(lane);
    uint32_t exceptions = 0;
    for (uint32_t length = width + 1; length <= 16; ++length) {
      const uint32_t both = shared.lengths[(length - 1) / 2];
      exceptions += (both >> (16 * ((length - 1) % 2))) & 0xFFFF;
    }
    key = ((width * samples + 32 * exceptions) << 5) | width;
  }
  return __reduce_min_sync(kAllLanes, key) & 31;
}

__device__ __forceinline__ uint32_t SampleCount(uint32_t words) {
  uint32_t count = 0;
  for (uint32_t chunk = 0; chunk * kChunkWords < words; ++chunk) {
    if (chunk / kPatchThreads != chunk % 8) continue;
    count += words - chunk * kChunkWords < kChunkWords ? words - chunk * kChunkWords : kChunkWords;
  }
  return count;
}

/// Turns the warps' counts into what comes before them; returns the sum. By one warp.
__device__ __forceinline__ uint32_t PlaceRows(CreateShared& shared) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t first = shared.row_count[2 * lane];
  const uint32_t second = shared.row_count[2 * lane + 1];
  const uint32_t inclusive = ScanInclusive(first + second);
  const uint32_t before = inclusive - first - second;
  shared.row_count[2 * lane] = before;
  shared.row_count[2 * lane + 1] = before + first;
  return __shfl_sync(kAllLanes, inclusive, 31);
}

/// Stores `count` low bytes of `value`; all of a chunk's at once when the block is whole.
template <typename Word>
__device__ __forceinline__ void StorePlane(uint8_t* plane, uint32_t chunk, uint64_t value,
                                           uint32_t plane_bytes) {
  uint8_t* at = plane + chunk * sizeof(Word);
  if (plane_bytes == format::kMaxPatchWords / kChunkWords * sizeof(Word)) {
    *reinterpret_cast<Word*>(at) = static_cast<Word>(value);
    return;
  }
  for (uint32_t i = 0; i < sizeof(Word); ++i) {
    if (chunk * sizeof(Word) + i < plane_bytes) at[i] = static_cast<uint8_t>(value >> (8 * i));
  }
}

template <uint32_t kBits, typename Word>
__device__ __forceinline__ void PackPlane(uint8_t*& plane, uint32_t& shift, const Chunk& chunk,
                                          uint32_t number, uint32_t words) {
  uint64_t packed = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const uint32_t part = (WordOf(chunk, k) >> shift) & ((1u << kBits) - 1);
    packed |= uint64_t{part} << (kBits * k);
  }
  const uint32_t plane_bytes = format::PatchPlaneBytes(words, kBits);
  StorePlane<Word>(plane, number, packed, plane_bytes);
  plane += plane_bytes;
  shift += kBits;
}

/// Writes a chunk's part of the field; words of `exceptions` count as zero.
__device__ __forceinline__ void WriteField(uint8_t* field, Chunk chunk, uint32_t number,
                                           uint32_t words, uint32_t width, uint32_t exceptions) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if ((exceptions >> (2 * i)) & 1) chunk.pair[i] &= 0xFFFF0000;
    if ((exceptions >> (2 * i)) & 2) chunk.pair[i] &= 0x0000FFFF;
  }
  uint32_t shift = 0;
  uint8_t* plane = field;
  if (width >= 8) PackPlane<8, uint64_t>(plane, shift, chunk, number, words);
  if (width >= 16) PackPlane<8, uint64_t>(plane, shift, chunk, number, words);
  if ((width & 4) != 0) PackPlane<4, uint32_t>(plane, shift, chunk, number, words);
  if ((width & 2) != 0) PackPlane<2, uint16_t>(plane, shift, chunk, number, words);
  if ((width & 1) != 0) PackPlane<1, uint8_t>(plane, shift, chunk, number, words);
}

/// By one thread, once everything else is written.
__device__ __forceinline__ void FinishPatch(const CreateParameters& p) {
  PatchScratch* scratch = p.scratch;
  const uint64_t key = *reinterpret_cast<volatile uint64_t*>(&scratch->error_key);
  cinch_cuda_patch_result result{};
  result.base_hash = *reinterpret_cast<volatile uint64_t*>(&scratch->base_hash);
  result.result_hash = *reinterpret_cast<volatile uint64_t*>(&scratch->result_hash);
  result.status = key == 0 ? CINCH_OK : StatusOfKey(key);
  if (key == 0) {
    format::PatchHeader header{};
    header.magic = format::kPatchMagic;
    header.version = format::kPatchVersion;
    header.original_bytes = p.bytes;
    header.payload_bytes = uint64_t{*reinterpret_cast<volatile uint32_t*>(&scratch->total_units)} *
                           format::kPayloadUnitBytes;
    header.block_count = p.block_count;
    header.block_bytes = format::kBlockBytes;
    header.base_hash = result.base_hash;
    header.result_hash = result.result_hash;
    header.header_hash = static_cast<uint32_t>(
        format::BlockHash(reinterpret_cast<const uint8_t*>(&header),
                          offsetof(format::PatchHeader, header_hash), format::kHeaderHashIndex));
    *reinterpret_cast<format::PatchHeader*>(p.patch) = header;
    auto* index = reinterpret_cast<uint32_t*>(p.patch + sizeof(header));
    for (uint32_t i = p.block_count; i < format::IndexBytes(p.block_count) / 4; ++i) index[i] = 0;
    result.patch_bytes = format::PayloadOffset(p.block_count) + header.payload_bytes;
  }
  *p.result = result;
}

/// What is known of a block once it is read.
struct BlockSurvey {
  Chunk difference[kPatchRows];
  bool changed;
};

/// Reads a block: its differences in registers, its sums and bit lengths in shared memory. All
/// threads; ends with a barrier, after which the stages are free.
__device__ __forceinline__ void SurveyBlock(const CreateParameters& p, CreateShared& shared,
                                            uint32_t block, uint32_t length, bool staged,
                                            BlockSurvey& survey) {
  const uint64_t start = uint64_t{block} * format::kBlockBytes;
  uint64_t base_sum = 0;
  uint64_t data_sum = 0;
  uint32_t any = 0;
  Chunk sample{};
#pragma unroll
  for (uint32_t row = 0; row < kPatchRows; ++row) {
    const uint32_t number = row * kPatchThreads + threadIdx.x;
    const uint32_t valid = ValidBytes(number, length);
    const uint64_t at = start + uint64_t{number} * kChunkBytes;
    const Chunk base =
        staged ? FromStage(shared.base, number) : LoadChunk(p.base + at, valid, p.aligned != 0);
    const Chunk data =
        staged ? FromStage(shared.data, number) : LoadChunk(p.data + at, valid, p.aligned != 0);
    base_sum += ChunkHash(base, number, valid);
    data_sum += ChunkHash(data, number, valid);
    survey.difference[row] = Differences(base, data);
    any |= survey.difference[row].pair[0] | survey.difference[row].pair[1] |
           survey.difference[row].pair[2] | survey.difference[row].pair[3];
    if (row == threadIdx.x % 8) sample = survey.difference[row];
  }
  base_sum = WarpSum(base_sum);
  data_sum = WarpSum(data_sum);
  if (threadIdx.x % 32 == 0) {
    shared.base_sum[threadIdx.x / 32] = base_sum;
    shared.data_sum[threadIdx.x / 32] = data_sum;
  }
  AddLengths(shared, sample);
  survey.changed = __syncthreads_or(any != 0) != 0;
}

/// Which words are exceptions, and where this thread's stand in the list.
struct ExceptionPlaces {
  uint64_t bits;                    ///< Bit 8r + k: word k of row r.
  uint32_t before[kPatchRows / 2];  ///< Before this lane's in its warp's part of rows 2i, 2i + 1.
};

__device__ __forceinline__ void CountExceptions(CreateShared& shared, const BlockSurvey& survey,
                                                uint32_t width, ExceptionPlaces& places) {
  const uint32_t warp = threadIdx.x / 32;
  places.bits = 0;
#pragma unroll
  for (uint32_t half = 0; half < kPatchRows / 2; ++half) {
    const uint32_t low = ExceptionBits(survey.difference[2 * half], width);
    const uint32_t high = ExceptionBits(survey.difference[2 * half + 1], width);
    places.bits |= uint64_t{low | (high << 8)} << (16 * half);
    const uint32_t own =
        static_cast<uint32_t>(__popc(low)) | (static_cast<uint32_t>(__popc(high)) << 16);
    const uint32_t inclusive = ScanInclusive(own);
    places.before[half] = inclusive - own;
    if (threadIdx.x % 32 == 31) {
      shared.row_count[2 * half * kPatchWarps + warp] = inclusive & 0xFFFF;
      shared.row_count[(2 * half + 1) * kPatchWarps + warp] = inclusive >> 16;
    }
  }
}

/// The header of a block's payload, its index entry, and the zeroes that nothing else writes. By
/// one thread.
__device__ __forceinline__ void WriteBlockHead(const CreateParameters& p, uint32_t block,
                                               uint32_t words, uint32_t width, uint32_t exceptions,
                                               uint32_t bytes, uint32_t checksum, uint32_t place) {
  const uint32_t end = place + bytes / format::kPayloadUnitBytes;
  reinterpret_cast<uint32_t*>(p.patch + sizeof(format::PatchHeader))[block] = end;
  if (block + 1 == p.block_count) p.scratch->total_units = end;
  if (bytes == 0) return;
  uint8_t* payload =
      p.patch + format::PayloadOffset(p.block_count) + uint64_t{place} * format::kPayloadUnitBytes;
  const format::PatchBlockHeader header{static_cast<uint8_t>(width), 0,
                                        static_cast<uint16_t>(exceptions), checksum};
  *reinterpret_cast<format::PatchBlockHeader*>(payload) = header;
  uint32_t field = width / 8 * words;
  for (uint32_t bits = 4; bits > 0; bits /= 2) {
    if ((width & bits) != 0) field += format::PatchPlaneBytes(words, bits);
  }
  const uint32_t list = format::PatchFieldBytes(words, width);
  uint8_t* contents = payload + sizeof(header);
  for (uint32_t i = field; i < list; ++i) contents[i] = 0;
  for (uint32_t i = list + 4 * exceptions; i + sizeof(header) < bytes; ++i) contents[i] = 0;
}

/// Finds the block's place and says it to all. By the first warp.
__device__ __forceinline__ void PlaceBlock(const CreateParameters& p, CreateShared& shared,
                                           uint32_t block, uint32_t length, bool changed) {
  const uint32_t words = format::PatchWords(length);
  uint32_t width = shared.width;
  uint32_t exceptions = 0;
  uint32_t bytes = 0;
  if (changed) {
    exceptions = PlaceRows(shared);
    const uint32_t most = format::PatchPayloadBytes(words, format::kMaxPatchWidth, 0);
    bytes = format::PatchPayloadBytes(words, width, exceptions);
    if (bytes > most) {
      width = format::kMaxPatchWidth;
      exceptions = 0;
      bytes = most;
    }
  }
  uint32_t place = 0;
  const bool placed = WarpPlace(p.states, block, bytes / format::kPayloadUnitBytes, 1, &place);
  if (threadIdx.x != 0) return;
  uint64_t base_hash = 0;
  uint64_t data_hash = 0;
  for (uint32_t i = 0; i < kPatchWarps; ++i) {
    base_hash += shared.base_sum[i];
    data_hash += shared.data_sum[i];
  }
  base_hash = format::FinishHash(base_hash, length, block);
  data_hash = format::FinishHash(data_hash, length, block);
  atomicAdd(reinterpret_cast<unsigned long long*>(&p.scratch->base_hash), base_hash);
  atomicAdd(reinterpret_cast<unsigned long long*>(&p.scratch->result_hash), data_hash);
  const uint64_t end =
      format::PayloadOffset(p.block_count) + uint64_t{place} * format::kPayloadUnitBytes + bytes;
  const bool fits = end <= p.capacity_bytes;
  if (!placed) ReportPatchError(p.scratch, block, CINCH_ERROR_TIMEOUT);
  if (!fits) ReportPatchError(p.scratch, block, CINCH_ERROR_DESTINATION_TOO_SMALL);
  shared.placed = placed && fits ? 1 : 0;
  shared.place_units = place;
  shared.width = width;
  shared.exceptions = exceptions;
  if (shared.placed == 0) return;
  WriteBlockHead(p, block, words, width, exceptions, bytes, static_cast<uint32_t>(data_hash),
                 place);
}

/// The field and the list. All threads.
__device__ __forceinline__ void WriteContents(const CreateParameters& p, const CreateShared& shared,
                                              const BlockSurvey& survey,
                                              const ExceptionPlaces& places, uint32_t words) {
  uint8_t* payload = p.patch + format::PayloadOffset(p.block_count) +
                     uint64_t{shared.place_units} * format::kPayloadUnitBytes;
  uint8_t* field = payload + sizeof(format::PatchBlockHeader);
  const uint32_t width = shared.width;
  const uint64_t exception_bits = width == format::kMaxPatchWidth ? 0 : places.bits;
  auto* positions = reinterpret_cast<uint16_t*>(field + format::PatchFieldBytes(words, width));
  uint16_t* values = positions + shared.exceptions;
#pragma unroll
  for (uint32_t row = 0; row < kPatchRows; ++row) {
    const uint32_t number = row * kPatchThreads + threadIdx.x;
    const auto bits = static_cast<uint32_t>(exception_bits >> (8 * row)) & 0xFF;
    if (width != 0 && number * kChunkWords < words) {
      WriteField(field, survey.difference[row], number, words, width, bits);
    }
    if (bits == 0) continue;
    uint32_t at = shared.row_count[row * kPatchWarps + threadIdx.x / 32] +
                  ((places.before[row / 2] >> (16 * (row % 2))) & 0xFFFF);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (((bits >> k) & 1) == 0) continue;
      positions[at] = static_cast<uint16_t>(number * kChunkWords + k);
      values[at] = static_cast<uint16_t>(WordOf(survey.difference[row], k));
      ++at;
    }
  }
}

/// Thread blocks take blocks in order by ticket, the next one while they still work at one: its
/// bytes are on their way meanwhile.
__global__ void __launch_bounds__(kPatchThreads, 3) CreatePatchKernel(const CreateParameters p) {
  extern __shared__ __align__(16) uint8_t shared_bytes[];
  CreateShared& shared = *reinterpret_cast<CreateShared*>(shared_bytes);
  const auto whole = [&](uint32_t block) {
    return p.aligned != 0 && block < p.block_count &&
           format::BlockLength(p.bytes, block) == format::kBlockBytes;
  };
  const auto prefetch = [&](uint32_t block) {
    if (whole(block)) {
      Prefetch(shared.base, p.base + uint64_t{block} * format::kBlockBytes);
      Prefetch(shared.data, p.data + uint64_t{block} * format::kBlockBytes);
    }
    __pipeline_commit();
  };
  if (threadIdx.x == 0) shared.block = atomicAdd(&p.scratch->ticket, 1);
  if (threadIdx.x < 8) shared.lengths[threadIdx.x] = 0;
  __syncthreads();
  uint32_t block = shared.block;
  prefetch(block);
  while (block < p.block_count) {
    uint32_t drawn = 0;
    if (threadIdx.x == 0) drawn = atomicAdd(&p.scratch->ticket, 1);
    const uint32_t length = format::BlockLength(p.bytes, block);
    const uint32_t words = format::PatchWords(length);
    __pipeline_wait_prior(0);
    BlockSurvey survey;
    SurveyBlock(p, shared, block, length, whole(block), survey);
    if (threadIdx.x / 32 == 0 && survey.changed) {
      const uint32_t samples = words == format::kMaxPatchWords ? words / 8 : SampleCount(words);
      const uint32_t width = ChooseWidth(shared, samples);
      if (threadIdx.x == 0) shared.width = width;
    }
    if (threadIdx.x == 0) shared.block = drawn;
    __syncthreads();
    const uint32_t next = shared.block;
    prefetch(next);
    ExceptionPlaces places{};
    if (survey.changed) {
      CountExceptions(shared, survey, shared.width, places);
      if (threadIdx.x < 8) shared.lengths[threadIdx.x] = 0;
      __syncthreads();
    }
    if (threadIdx.x / 32 == 0) PlaceBlock(p, shared, block, length, survey.changed);
    __syncthreads();
    if (survey.changed && shared.placed != 0) WriteContents(p, shared, survey, places, words);
    block = next;
    __syncthreads();
  }
}

__global__ void FinishPatchKernel(const CreateParameters p) { FinishPatch(p); }

}  // namespace cinch::codec::gpu
