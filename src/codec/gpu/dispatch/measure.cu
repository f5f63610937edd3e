// SPDX-License-Identifier: Apache-2.0
// cinch_cuda_measure: the only call that allocates and waits.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/guarded.h"
#include "base/status.h"
#include "cinch/cuda.h"
#include "codec/gpu/dispatch/device.cuh"
#include "codec/gpu/dispatch/options.h"
#include "format/layout.h"

namespace cinch::codec::gpu {
namespace {

/// Several times the second-level cache of the largest device.
constexpr uint64_t kColdBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxSets = 16;
constexpr uint32_t kWarmUps = 3;

struct DeviceFree {
  void operator()(uint8_t* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<uint8_t, DeviceFree>;

struct EventDestroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, EventDestroy>;

Status Allocate(uint64_t bytes, DeviceMemory* memory) {
  void* allocated = nullptr;
  const cudaError_t error = cudaMalloc(&allocated, std::max<uint64_t>(bytes, 1));
  memory->reset(static_cast<uint8_t*>(allocated));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return CINCH_ERROR_OUT_OF_MEMORY;
  }
  return StatusOf(error);
}

/// One copy of the data, its frames and what they are decompressed to.
struct DataSet {
  DeviceMemory input;
  DeviceMemory frames;
  DeviceMemory output;
  DeviceMemory compress_items;
  DeviceMemory decompress_items;
};

class Measurement {
 public:
  Measurement(const cinch_cuda_options& options, uint64_t input_bytes, uint64_t item_bytes)
      : options_(options),
        stream_(static_cast<cudaStream_t>(options.stream)),
        input_bytes_(input_bytes),
        item_bytes_(item_bytes),
        item_count_(format::CeilDivide(input_bytes, item_bytes)),
        frame_room_(format::AlignUp(cinch_compress_bound(std::min(input_bytes, item_bytes)), 256)),
        results_(item_count_) {
    options_.items_on_host = 0;
    options_.progress = nullptr;
    options_.available_bytes = nullptr;
  }

  Status Prepare(cinch_dtype dtype, const void* input) {
    cudaEvent_t events[2] = {};
    for (int i = 0; i < 2; ++i) {
      CINCH_RETURN_IF_ERROR(StatusOf(cudaEventCreate(&events[i])));
      events_[i].reset(events[i]);
    }
    const uint64_t scratch_bytes = cinch_cuda_scratch_bytes(item_count_, input_bytes_);
    CINCH_RETURN_IF_ERROR(Allocate(scratch_bytes, &scratch_memory_));
    scratch_ = {sizeof scratch_, scratch_memory_.get(), scratch_bytes, item_count_, input_bytes_};
    CINCH_RETURN_IF_ERROR(cinch_cuda_scratch_init(&scratch_, options_.stream));
    CINCH_RETURN_IF_ERROR(Allocate(item_count_ * sizeof(cinch_cuda_result), &device_results_));
    sets_.resize(std::clamp<uint64_t>(format::CeilDivide(kColdBytes, input_bytes_), 1, kMaxSets));
    for (DataSet& set : sets_) CINCH_RETURN_IF_ERROR(PrepareSet(dtype, input, &set));
    return CINCH_OK;
  }

  Status Compress(const DataSet& set) {
    return cinch_cuda_compress_batch(&options_, Items(set.compress_items), item_count_, Results(),
                                     &scratch_);
  }
  Status Decompress(const DataSet& set) {
    return cinch_cuda_decompress_batch(&options_, Items(set.decompress_items), item_count_,
                                       Results(), &scratch_);
  }
  Status Copy(const DataSet& set) {
    return StatusOf(cudaMemcpyAsync(set.output.get(), set.input.get(), input_bytes_,
                                    cudaMemcpyDeviceToDevice, stream_));
  }

  /// The median of `repeats` runs, each over another set.
  template <typename Run>
  Status Time(uint32_t repeats, double* seconds, Run run) {
    std::vector<float> milliseconds;
    for (uint32_t i = 0; i < repeats + kWarmUps; ++i) {
      CINCH_RETURN_IF_ERROR(StatusOf(cudaEventRecord(events_[0].get(), stream_)));
      CINCH_RETURN_IF_ERROR(run(sets_[i % sets_.size()]));
      CINCH_RETURN_IF_ERROR(StatusOf(cudaEventRecord(events_[1].get(), stream_)));
      CINCH_RETURN_IF_ERROR(StatusOf(cudaEventSynchronize(events_[1].get())));
      float elapsed = 0;
      CINCH_RETURN_IF_ERROR(
          StatusOf(cudaEventElapsedTime(&elapsed, events_[0].get(), events_[1].get())));
      if (i >= kWarmUps) milliseconds.push_back(elapsed);
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    *seconds = 1e-3 * static_cast<double>(milliseconds[milliseconds.size() / 2]);
    return FirstBad();
  }

  /// The status of the first bad item of the last call.
  Status FirstBad() {
    CINCH_RETURN_IF_ERROR(StatusOf(cudaMemcpyAsync(results_.data(), device_results_.get(),
                                                   item_count_ * sizeof(cinch_cuda_result),
                                                   cudaMemcpyDeviceToHost, stream_)));
    CINCH_RETURN_IF_ERROR(StatusOf(cudaStreamSynchronize(stream_)));
    for (const cinch_cuda_result& result : results_) CINCH_RETURN_IF_ERROR(result.status);
    return CINCH_OK;
  }

  /// Compresses every set once and tells the decompression how large the frames are.
  Status CompressAll(uint64_t* frame_bytes) {
    for (DataSet& set : sets_) {
      CINCH_RETURN_IF_ERROR(Compress(set));
      CINCH_RETURN_IF_ERROR(FirstBad());
      *frame_bytes = 0;
      std::vector<cinch_cuda_item> items(item_count_);
      for (uint64_t i = 0; i < item_count_; ++i) {
        *frame_bytes += results_[i].output_bytes;
        items[i] = {set.frames.get() + i * frame_room_,
                    results_[i].output_bytes,
                    set.output.get() + i * item_bytes_,
                    ItemBytes(i),
                    CINCH_DTYPE_BYTES,
                    0};
      }
      CINCH_RETURN_IF_ERROR(UploadItems(items, &set.decompress_items));
    }
    return CINCH_OK;
  }

  /// Whether every set came back as it was.
  Status Verify(const void* input) {
    std::vector<uint8_t> output(input_bytes_);
    for (const DataSet& set : sets_) {
      CINCH_RETURN_IF_ERROR(
          StatusOf(cudaMemsetAsync(set.output.get(), 0xA5, input_bytes_, stream_)));
      CINCH_RETURN_IF_ERROR(Decompress(set));
      CINCH_RETURN_IF_ERROR(FirstBad());
      CINCH_RETURN_IF_ERROR(StatusOf(cudaMemcpyAsync(output.data(), set.output.get(), input_bytes_,
                                                     cudaMemcpyDeviceToHost, stream_)));
      CINCH_RETURN_IF_ERROR(StatusOf(cudaStreamSynchronize(stream_)));
      if (std::memcmp(output.data(), input, input_bytes_) != 0) return CINCH_ERROR_INTERNAL;
    }
    return CINCH_OK;
  }

 private:
  uint64_t ItemBytes(uint64_t i) const {
    return std::min(item_bytes_, input_bytes_ - i * item_bytes_);
  }
  static const cinch_cuda_item* Items(const DeviceMemory& memory) {
    return reinterpret_cast<const cinch_cuda_item*>(memory.get());
  }
  cinch_cuda_result* Results() const {
    return reinterpret_cast<cinch_cuda_result*>(device_results_.get());
  }

  Status UploadItems(const std::vector<cinch_cuda_item>& items, DeviceMemory* memory) {
    CINCH_RETURN_IF_ERROR(Allocate(item_count_ * sizeof(cinch_cuda_item), memory));
    CINCH_RETURN_IF_ERROR(
        StatusOf(cudaMemcpyAsync(memory->get(), items.data(), item_count_ * sizeof(cinch_cuda_item),
                                 cudaMemcpyHostToDevice, stream_)));
    return StatusOf(cudaStreamSynchronize(stream_));
  }

  Status PrepareSet(cinch_dtype dtype, const void* input, DataSet* set) {
    CINCH_RETURN_IF_ERROR(Allocate(input_bytes_, &set->input));
    CINCH_RETURN_IF_ERROR(Allocate(input_bytes_, &set->output));
    CINCH_RETURN_IF_ERROR(Allocate(item_count_ * frame_room_, &set->frames));
    CINCH_RETURN_IF_ERROR(StatusOf(
        cudaMemcpyAsync(set->input.get(), input, input_bytes_, cudaMemcpyHostToDevice, stream_)));
    std::vector<cinch_cuda_item> items(item_count_);
    for (uint64_t i = 0; i < item_count_; ++i) {
      items[i] = {set->input.get() + i * item_bytes_,
                  ItemBytes(i),
                  set->frames.get() + i * frame_room_,
                  frame_room_,
                  dtype,
                  0};
    }
    return UploadItems(items, &set->compress_items);
  }

  cinch_cuda_options options_;
  cudaStream_t stream_;
  uint64_t input_bytes_;
  uint64_t item_bytes_;
  uint64_t item_count_;
  uint64_t frame_room_;
  std::vector<cinch_cuda_result> results_;
  std::vector<DataSet> sets_;
  DeviceMemory device_results_;
  DeviceMemory scratch_memory_;
  cinch_cuda_scratch scratch_ = {};
  Event events_[2];
};

Status Measure(const cinch_cuda_options& options, cinch_dtype dtype, const void* input,
               uint64_t input_bytes, uint64_t item_bytes, uint32_t repeats,
               cinch_cuda_speed* speed) {
  const StreamDevice device(static_cast<cudaStream_t>(options.stream));
  CINCH_RETURN_IF_ERROR(device.status());
  Measurement measurement(options, input_bytes, item_bytes);
  CINCH_RETURN_IF_ERROR(measurement.Prepare(dtype, input));
  CINCH_RETURN_IF_ERROR(measurement.CompressAll(&speed->frame_bytes));
  CINCH_RETURN_IF_ERROR(measurement.Verify(input));
  CINCH_RETURN_IF_ERROR(measurement.Time(
      repeats, &speed->copy_seconds, [&](const DataSet& set) { return measurement.Copy(set); }));
  CINCH_RETURN_IF_ERROR(
      measurement.Time(repeats, &speed->compress_seconds,
                       [&](const DataSet& set) { return measurement.Compress(set); }));
  return measurement.Time(repeats, &speed->decompress_seconds,
                          [&](const DataSet& set) { return measurement.Decompress(set); });
}

}  // namespace
}  // namespace cinch::codec::gpu

extern "C" cinch_status cinch_cuda_measure(const cinch_cuda_options* options, cinch_dtype dtype,
                                           const void* input, uint64_t input_bytes,
                                           uint64_t item_bytes, uint32_t repeats,
                                           cinch_cuda_speed* speed) {
  return cinch::Guarded([&]() -> cinch::Status {
    cinch_cuda_options own;
    CINCH_RETURN_IF_ERROR(cinch::codec::gpu::ReadOptions(options, &own));
    if (input == nullptr || input_bytes == 0 || input_bytes > CINCH_MAX_FRAME_INPUT_BYTES ||
        repeats == 0 || speed == nullptr || speed->struct_size != sizeof *speed) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    return cinch::codec::gpu::Measure(own, dtype, input, input_bytes,
                                      item_bytes == 0 ? input_bytes : item_bytes, repeats, speed);
  });
}
