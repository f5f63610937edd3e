// SPDX-License-Identifier: Apache-2.0
// The C ABI of cinch/cuda.h: checks, parameters, launches.
#include <algorithm>
#include <cstring>

#include "base/guarded.h"
#include "base/status.h"
#include "cinch/cuda.h"
#include "codec/gpu/dispatch/device.cuh"
#include "codec/gpu/dispatch/kernels.cuh"
#include "codec/gpu/dispatch/options.h"

namespace cinch::codec::gpu {
namespace {

constexpr uint64_t kScratchAlignment = 256;

Status OpenScratch(const cinch_cuda_scratch* scratch, Scratch* layout, uint64_t* bytes) {
  if (scratch == nullptr || scratch->struct_size != sizeof *scratch || scratch->memory == nullptr ||
      !IsAligned(scratch->memory, kScratchAlignment)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  *bytes = cinch_cuda_scratch_bytes(scratch->max_items, scratch->max_input_bytes);
  if (*bytes == 0 || scratch->memory_bytes < *bytes) return CINCH_ERROR_INVALID_ARGUMENT;
  LayOutScratch(static_cast<uint8_t*>(scratch->memory), scratch->max_items,
                MaxUnits(scratch->max_items, scratch->max_input_bytes), layout);
  return CINCH_OK;
}

/// A call's arguments.
struct Call {
  bool compress;
  const cinch_cuda_options* options;
  const cinch_cuda_item* items;
  uint64_t item_count;
  cinch_cuda_result* results;
  const cinch_cuda_scratch* scratch;
};

/// The most thread blocks that can have work; unknown when only the device can read the items.
uint64_t UsefulCtas(const Call& call) {
  if (call.options->items_on_host == 0) return ~uint64_t{0};
  uint64_t units = 0;
  for (uint64_t i = 0; i < call.item_count; ++i) {
    // A frame's blocks are known from its header only: its output bounds them.
    const uint64_t bytes = call.compress
                               ? call.items[i].input_bytes
                               : std::max(call.items[i].output_capacity_bytes, uint64_t{1});
    units += format::BlockCount(std::min<uint64_t>(bytes, CINCH_MAX_FRAME_INPUT_BYTES)) + 1;
  }
  return units;
}

Status Enqueue(const Call& call, const Scratch& scratch, const DeviceCapacity& capacity) {
  auto* stream = static_cast<cudaStream_t>(call.options->stream);
  const auto item_count = static_cast<uint32_t>(call.item_count);
  BatchParameters batch{};
  batch.scratch = scratch;
  batch.results = call.results;
  batch.progress = call.options->progress;
  batch.item_count = item_count;
  batch.checksum = call.options->checksum != 0 ? 1 : 0;
  const cinch_base* bases = call.options->bases;
  batch.has_bases = bases != nullptr ? 1 : 0;
  batch.available_bytes = call.options->available_bytes;
  batch.available_timeout_ns = call.options->available_timeout_ns != 0
                                   ? call.options->available_timeout_ns
                                   : kArrivalTimeoutNanoseconds;
  // All thread blocks must agree on what of an item has arrived: planned once, by one thread.
  batch.planned = item_count > kInlineItems || batch.available_bytes != nullptr ? 1 : 0;
  if (call.options->items_on_host == 0) {
    batch.items = call.items;
    batch.bases = bases;
  } else if (batch.planned == 0) {
    std::memcpy(batch.inline_items, call.items, item_count * sizeof *call.items);
    if (bases != nullptr) std::memcpy(batch.inline_bases, bases, item_count * sizeof *bases);
  } else {
    batch.items = scratch.items;
    CINCH_RETURN_IF_ERROR(StatusOf(LaunchUpload(scratch.items, call.items, item_count, stream)));
    if (bases != nullptr) {
      batch.bases = scratch.bases;
      CINCH_RETURN_IF_ERROR(StatusOf(LaunchUpload(scratch.bases, bases, item_count, stream)));
    }
  }
  if (batch.planned != 0) {
    CINCH_RETURN_IF_ERROR(StatusOf(LaunchPlan(batch, call.compress, stream)));
  }
  uint64_t ctas = call.compress ? capacity.encode_ctas : capacity.decode_ctas;
  if (call.options->max_ctas != 0) ctas = std::min<uint64_t>(ctas, call.options->max_ctas);
  const auto grid = static_cast<uint32_t>(std::min(ctas, UsefulCtas(call)));
  return StatusOf(call.compress ? LaunchEncode(batch, grid, stream)
                                : LaunchDecode(batch, grid, stream));
}

Status RunBatch(Call call) {
  cinch_cuda_options options;
  CINCH_RETURN_IF_ERROR(ReadOptions(call.options, &options));
  call.options = &options;
  if ((call.compress && options.available_bytes != nullptr) ||
      (call.item_count != 0 && (call.items == nullptr || call.results == nullptr))) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  Scratch scratch;
  uint64_t scratch_bytes = 0;
  CINCH_RETURN_IF_ERROR(OpenScratch(call.scratch, &scratch, &scratch_bytes));
  if (call.item_count > call.scratch->max_items) return CINCH_ERROR_TOO_LARGE;
  if (call.item_count == 0) return CINCH_OK;
  const StreamDevice device(static_cast<cudaStream_t>(call.options->stream));
  CINCH_RETURN_IF_ERROR(device.status());
  DeviceCapacity capacity;
  CINCH_RETURN_IF_ERROR(PrepareDevice(device.device(), &capacity));
  return Enqueue(call, scratch, capacity);
}

}  // namespace
}  // namespace cinch::codec::gpu

using namespace cinch::codec::gpu;
using cinch::Guarded;
using cinch::Status;

extern "C" {

cinch_status cinch_cuda_scratch_init(const cinch_cuda_scratch* scratch, void* stream) {
  return Guarded([&]() -> Status {
    Scratch layout;
    uint64_t bytes = 0;
    CINCH_RETURN_IF_ERROR(OpenScratch(scratch, &layout, &bytes));
    const StreamDevice device(static_cast<cudaStream_t>(stream));
    CINCH_RETURN_IF_ERROR(device.status());
    DeviceCapacity capacity;
    CINCH_RETURN_IF_ERROR(PrepareDevice(device.device(), &capacity));
    return StatusOf(LaunchPrepareScratch(layout, bytes, static_cast<cudaStream_t>(stream)));
  });
}

cinch_status cinch_cuda_compress_batch(const cinch_cuda_options* options,
                                       const cinch_cuda_item* items, uint64_t item_count,
                                       cinch_cuda_result* results,
                                       const cinch_cuda_scratch* scratch) {
  return Guarded([&] { return RunBatch({true, options, items, item_count, results, scratch}); });
}

cinch_status cinch_cuda_decompress_batch(const cinch_cuda_options* options,
                                         const cinch_cuda_item* items, uint64_t item_count,
                                         cinch_cuda_result* results,
                                         const cinch_cuda_scratch* scratch) {
  return Guarded([&] { return RunBatch({false, options, items, item_count, results, scratch}); });
}

cinch_status cinch_cuda_content_hash(void* stream_handle, const void* bytes, uint64_t size_bytes,
                                     uint64_t* content_hash) {
  return Guarded([&]() -> Status {
    if (content_hash == nullptr || !IsAligned(content_hash, alignof(uint64_t)) ||
        (bytes == nullptr && size_bytes != 0)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    if (size_bytes > CINCH_MAX_FRAME_INPUT_BYTES) return CINCH_ERROR_TOO_LARGE;
    auto* stream = static_cast<cudaStream_t>(stream_handle);
    const StreamDevice device(stream);
    CINCH_RETURN_IF_ERROR(device.status());
    DeviceCapacity capacity;
    CINCH_RETURN_IF_ERROR(PrepareDevice(device.device(), &capacity));
    CINCH_RETURN_IF_ERROR(StatusOf(cudaMemsetAsync(content_hash, 0, sizeof *content_hash, stream)));
    if (size_bytes == 0) return CINCH_OK;
    const uint64_t blocks = cinch::format::BlockCount(size_bytes);
    const auto ctas =
        static_cast<uint32_t>(std::min<uint64_t>(blocks, uint64_t{4} * capacity.encode_ctas));
    return StatusOf(LaunchContentHash(static_cast<const uint8_t*>(bytes), size_bytes, content_hash,
                                      ctas, stream));
  });
}

}  // extern "C"
