// SPDX-License-Identifier: Apache-2.0
/// @file slot_kernels.cuh
/// The small kernels around the codec's: they turn its results into headers, headers into its
/// items, and its results into what the host reads. Each is one thread block; descriptions come as
/// parameters, kMaxSlotsPerLaunch at a time.
#pragma once

#include <cstdint>

#include "cinch/cuda.h"
#include "collectives/device.h"
#include "collectives/slot.h"

namespace cinch::collectives {

inline constexpr uint32_t kMaxSlotsPerLaunch = 64;
inline constexpr uint32_t kSlotThreads = 64;

/// What headers said, combined; in device memory, one for each use of a step.
struct Summary {
  unsigned long long ratio;
  unsigned long long raw_nanoseconds;
  unsigned long long compressed_nanoseconds;
  unsigned long long reserved;
};

struct EncodedSlot {
  SlotHeader* header;
  uint64_t original_bytes;
  uint64_t coded_bytes;  ///< Of the sample, or original_bytes.
  uint32_t first_result;
  uint32_t result_count;
  uint32_t use;
  uint32_t sampled;
};

struct ArrivedSlot {
  const SlotHeader* header;
  uint64_t wire_bytes;
  void* destination;
  uint64_t bytes;
  uint32_t use;
  uint32_t item;  ///< Index of its item; kNoItem for a header alone or this rank's own.
};
inline constexpr uint32_t kNoItem = 0xFFFFFFFF;

struct UseTimes {
  uint64_t raw_nanoseconds;
  uint64_t compressed_nanoseconds;
  KeyRecord* record;
};

template <typename Entry>
struct EntryList {
  uint32_t count;
  uint32_t first;  ///< Index of the first one in the step.
  Entry entries[kMaxSlotsPerLaunch];
};

/// What a step's kernels share, zeroed before a step: errors[0] counts frames that did not fit, and
/// errors[1] those that are wrong.
struct StepState {
  uint32_t errors[4];
};

__device__ inline uint64_t RatioOf(const EncodedSlot& slot, const cinch_cuda_result* results) {
  uint64_t frame_bytes = 0;
  for (uint32_t i = 0; i < slot.result_count; ++i) {
    const cinch_cuda_result& result = results[slot.first_result + i];
    // What could not be coded counts as incompressible.
    if (result.status != CINCH_OK) return kRatioOne;
    frame_bytes += result.output_bytes;
  }
  if (slot.coded_bytes == 0) return 0;
  // Frames are at most a little larger than 64 GiB, so the product fits.
  return (frame_bytes * kRatioOne + slot.coded_bytes - 1) / slot.coded_bytes;
}

__global__ void __launch_bounds__(kSlotThreads)
    CombineRatios(EntryList<EncodedSlot> slots, const cinch_cuda_result* results, Summary* sums) {
  for (uint32_t i = threadIdx.x; i < slots.count; i += blockDim.x) {
    const EncodedSlot& slot = slots.entries[i];
    atomicMax(&sums[slot.use].ratio, RatioOf(slot, results));
  }
}

__global__ void __launch_bounds__(kSlotThreads)
    WriteHeaders(EntryList<EncodedSlot> slots, const cinch_cuda_result* results,
                 const Summary* sums) {
  for (uint32_t i = threadIdx.x; i < slots.count; i += blockDim.x) {
    const EncodedSlot& slot = slots.entries[i];
    SlotHeader header{};
    header.magic = kSlotMagic;
    header.version = kSlotVersion;
    header.original_bytes = slot.original_bytes;
    header.frame_bytes = slot.sampled != 0 ? 0 : results[slot.first_result].output_bytes;
    header.ratio = sums[slot.use].ratio;
    header.raw_nanoseconds = sums[slot.use].raw_nanoseconds;
    header.compressed_nanoseconds = sums[slot.use].compressed_nanoseconds;
    *slot.header = header;
  }
}

/// Starts the sums of the uses with this rank's times.
__global__ void __launch_bounds__(kSlotThreads)
    StartSums(EntryList<UseTimes> uses, Summary* sums, StepState* state) {
  for (uint32_t i = threadIdx.x; i < uses.count; i += blockDim.x) {
    const UseTimes& use = uses.entries[i];
    sums[uses.first + i] = {0, use.raw_nanoseconds, use.compressed_nanoseconds, 0};
  }
  if (uses.first == 0 && threadIdx.x < 4) state->errors[threadIdx.x] = 0;
}

/// Adds what arrived to the sums and makes the decoder's items of it.
__global__ void __launch_bounds__(kSlotThreads)
    ReadHeaders(EntryList<ArrivedSlot> slots, cinch_cuda_item* items, Summary* sums,
                StepState* state) {
  for (uint32_t i = threadIdx.x; i < slots.count; i += blockDim.x) {
    const ArrivedSlot& slot = slots.entries[i];
    const SlotHeader header = *slot.header;
    const bool frame = slot.wire_bytes > sizeof(SlotHeader);
    const uint64_t room = slot.wire_bytes - sizeof(SlotHeader);
    bool valid = header.magic == kSlotMagic && header.version == kSlotVersion;
    if (valid) {
      atomicMax(&sums[slot.use].ratio, header.ratio);
      atomicMax(&sums[slot.use].raw_nanoseconds, header.raw_nanoseconds);
      atomicMax(&sums[slot.use].compressed_nanoseconds, header.compressed_nanoseconds);
    }
    if (!frame) continue;
    if (slot.item != kNoItem) valid = valid && header.original_bytes == slot.bytes;
    const bool fits = header.frame_bytes <= room;
    if (!valid) atomicAdd(&state->errors[1], 1U);
    if (valid && !fits) atomicAdd(&state->errors[0], 1U);
    if (slot.item == kNoItem) continue;
    const bool decode = valid && fits;
    cinch_cuda_item item{};
    // What is not to be decoded yet becomes an item that nothing is done for.
    item.input = slot.header + 1;
    item.input_bytes = decode ? header.frame_bytes : 0;
    item.output = slot.destination;
    item.output_capacity_bytes = slot.bytes;
    items[slot.item] = item;
  }
}

/// Checks what the decoder made of the items that were to be decoded.
__global__ void __launch_bounds__(kSlotThreads)
    CheckResults(const cinch_cuda_item* items, const cinch_cuda_result* results, uint32_t count,
                 StepState* state) {
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    if (items[i].input_bytes == 0) continue;
    const cinch_cuda_result& result = results[i];
    const bool good =
        result.status == CINCH_OK && result.output_bytes == items[i].output_capacity_bytes;
    if (!good) atomicAdd(&state->errors[1], 1U);
  }
}

__global__ void __launch_bounds__(kSlotThreads)
    WriteKeyRecords(EntryList<UseTimes> uses, const Summary* sums) {
  for (uint32_t i = threadIdx.x; i < uses.count; i += blockDim.x) {
    KeyRecord* record = uses.entries[i].record;
    if (record == nullptr) continue;
    const Summary& sum = sums[uses.first + i];
    record->ratio = sum.ratio;
    record->raw_nanoseconds = sum.raw_nanoseconds;
    record->compressed_nanoseconds = sum.compressed_nanoseconds;
    __threadfence_system();
    *reinterpret_cast<volatile uint32_t*>(&record->ready) = 1;
  }
}

/// Lets the stream go on when everything is good, and tells the host in any case. The flag pairs
/// with the stream's wait; outcome_target, written after the outcome, with the host's acquiring
/// load.
__global__ void WriteStepRecord(const StepState* state, StepRecord* record, uint32_t target) {
  const Outcome outcome = state->errors[1] != 0   ? Outcome::kCorrupt
                          : state->errors[0] != 0 ? Outcome::kOverflow
                                                  : Outcome::kGood;
  auto* words = reinterpret_cast<volatile StepRecord*>(record);
  words->outcome = static_cast<uint32_t>(outcome);
  __threadfence_system();
  if (outcome == Outcome::kGood) words->flag = target;
  __threadfence_system();
  words->outcome_target = target;
}

__global__ void WriteFlag(uint32_t* flag, uint32_t value) {
  __threadfence_system();
  *reinterpret_cast<volatile uint32_t*>(flag) = value;
}

}  // namespace cinch::collectives
