// SPDX-License-Identifier: Apache-2.0
// The device of collectives/device.h that is one.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "collectives/cuda/reduce_kernel.cuh"
#include "collectives/cuda/slot_kernels.cuh"
#include "collectives/device.h"
#include "collectives/nccl_api.h"

namespace cinch::collectives {
namespace {

Status Check(cudaError_t error) {
  if (error == cudaSuccess) return CINCH_OK;
  // Not left behind for the application to find.
  (void)cudaGetLastError();
  return error == cudaErrorMemoryAllocation ? CINCH_ERROR_OUT_OF_MEMORY : CINCH_ERROR_DEVICE;
}

cudaStream_t Cuda(Stream stream) { return static_cast<cudaStream_t>(stream); }

using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);

WaitValue FindWaitValue() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function,
                                                             12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<WaitValue>(function);
}

/// Loads every kernel of this file for the current device. A kernel that is loaded later waits for
/// the whole device, and may be needed to let a stream of it go on.
Status LoadKernels() {
  const void* const kernels[] = {
      reinterpret_cast<const void*>(&CombineRatios),
      reinterpret_cast<const void*>(&WriteHeaders),
      reinterpret_cast<const void*>(&StartSums),
      reinterpret_cast<const void*>(&ReadHeaders),
      reinterpret_cast<const void*>(&CheckResults),
      reinterpret_cast<const void*>(&WriteKeyRecords),
      reinterpret_cast<const void*>(&WriteStepRecord),
      reinterpret_cast<const void*>(&WriteFlag),
      reinterpret_cast<const void*>(&ReduceKernel<float>),
      reinterpret_cast<const void*>(&ReduceKernel<__half>),
      reinterpret_cast<const void*>(&ReduceKernel<__nv_bfloat16>),
  };
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes{};
    CINCH_RETURN_IF_ERROR(Check(cudaFuncGetAttributes(&attributes, kernel)));
  }
  return CINCH_OK;
}

/// The parts of a workspace.
struct WorkspaceLayout {
  cinch_cuda_scratch scratch{};
  cinch_cuda_item* items = nullptr;
  cinch_cuda_result* results = nullptr;
  Summary* sums = nullptr;
  StepState* state = nullptr;
  uint64_t bytes = 0;

  WorkspaceLayout(void* memory, uint64_t max_items, uint64_t max_input_bytes) {
    auto* base = static_cast<uint8_t*>(memory);
    const auto take = [&](uint64_t size) {
      uint8_t* part = base + bytes;
      bytes = AlignUp(bytes + size, 256);
      return part;
    };
    scratch.struct_size = sizeof(scratch);
    scratch.max_items = max_items;
    scratch.max_input_bytes = max_input_bytes;
    scratch.memory_bytes = cinch_cuda_scratch_bytes(max_items, max_input_bytes);
    scratch.memory = take(scratch.memory_bytes);
    items = reinterpret_cast<cinch_cuda_item*>(take(max_items * sizeof(cinch_cuda_item)));
    results = reinterpret_cast<cinch_cuda_result*>(take(max_items * sizeof(cinch_cuda_result)));
    // A use has at least one slot, in or out.
    sums = reinterpret_cast<Summary*>(take(2 * max_items * sizeof(Summary)));
    state = reinterpret_cast<StepState*>(take(sizeof(StepState)));
  }
  explicit WorkspaceLayout(const Workspace& workspace)
      : WorkspaceLayout(workspace.memory, workspace.max_items, workspace.max_input_bytes) {}
};

/// Calls `launch` with lists of at most kMaxSlotsPerLaunch entries.
template <typename Entry, typename Launch>
Status ForLists(const std::vector<Entry>& entries, const Launch& launch) {
  for (size_t at = 0; at < entries.size(); at += kMaxSlotsPerLaunch) {
    EntryList<Entry> list{};
    list.count = static_cast<uint32_t>(std::min<size_t>(kMaxSlotsPerLaunch, entries.size() - at));
    list.first = static_cast<uint32_t>(at);
    std::copy_n(entries.begin() + static_cast<std::ptrdiff_t>(at), list.count, list.entries);
    launch(list);
    CINCH_RETURN_IF_ERROR(Check(cudaGetLastError()));
  }
  return CINCH_OK;
}

std::vector<UseTimes> Times(std::span<const SlotUse> uses) {
  std::vector<UseTimes> times;
  for (const SlotUse& use : uses) {
    times.push_back({use.raw_nanoseconds, use.compressed_nanoseconds, use.record});
  }
  return times;
}

Status StartStep(Stream stream, const WorkspaceLayout& layout, std::span<const SlotUse> uses) {
  return ForLists(Times(uses), [&](const EntryList<UseTimes>& list) {
    StartSums<<<1, kSlotThreads, 0, Cuda(stream)>>>(list, layout.sums, layout.state);
  });
}

cinch_cuda_options Options(Stream stream, bool items_on_host) {
  cinch_cuda_options options;
  cinch_cuda_options_init(&options);
  options.stream = stream;
  // NCCL's network has checksums of its own.
  options.checksum = 0;
  options.items_on_host = items_on_host ? 1 : 0;
  return options;
}

void AddItems(const OutSlot& out, std::vector<cinch_cuda_item>* items, EncodedSlot* slot) {
  slot->header = reinterpret_cast<SlotHeader*>(out.slot);
  slot->original_bytes = out.bytes;
  slot->first_result = static_cast<uint32_t>(items->size());
  slot->result_count = out.sampled ? SampleSlices(out.bytes) : 1;
  slot->use = out.use;
  slot->sampled = out.sampled ? 1 : 0;
  const uint64_t length = out.sampled ? SampleSliceLength(out.bytes) : out.bytes;
  slot->coded_bytes = length * slot->result_count;
  const uint64_t capacity = AlignUp(format::FrameBound(length), 256);
  // Slices begin where blocks and elements do.
  const uint64_t distance = out.bytes / slot->result_count / 256 * 256;
  uint8_t* frames = out.slot + sizeof(SlotHeader);
  for (uint64_t i = 0; i < slot->result_count; ++i) {
    cinch_cuda_item item{};
    item.input = static_cast<const uint8_t*>(out.source) + i * distance;
    item.input_bytes = length;
    item.output = frames + i * capacity;
    item.output_capacity_bytes = capacity;
    item.dtype = out.dtype;
    items->push_back(item);
  }
}

template <typename Element>
cudaError_t LaunchReduce(cudaStream_t stream, const Reduction& reduction) {
  ReduceSources sources{};
  std::copy_n(reduction.sources, reduction.source_count, sources.pointers);
  uint64_t bits = reinterpret_cast<uint64_t>(reduction.output);
  for (uint32_t i = 0; i < reduction.source_count; ++i) {
    bits |= reinterpret_cast<uint64_t>(reduction.sources[i]);
  }
  const uint64_t vectors = bits % 16 == 0 ? reduction.elements / Pack<Element>::kElements : 0;
  const uint64_t threads = vectors != 0 ? vectors : reduction.elements;
  // Enough to fill any GPU; each thread does several packs of a large reduction.
  constexpr uint64_t kMaxBlocks = 1024;
  const auto blocks = static_cast<uint32_t>(
      std::clamp<uint64_t>((threads + kReduceThreads - 1) / kReduceThreads, 1, kMaxBlocks));
  ReduceKernel<Element><<<blocks, kReduceThreads, 0, stream>>>(
      sources, reduction.source_count, static_cast<Element*>(reduction.output), reduction.elements,
      vectors, reduction.scale);
  return cudaGetLastError();
}

class RealDevice final : public Device {
 public:
  int Select(int device) override {
    int previous = device;
    (void)Check(cudaGetDevice(&previous));
    if (previous != device) (void)Check(cudaSetDevice(device));
    return previous;
  }

  bool IsCapturing(Stream stream) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(Cuda(stream), &status);
    return Check(error) != CINCH_OK || status != cudaStreamCaptureStatusNone;
  }

  Status Allocate(Stream stream, uint64_t bytes, void** memory) override {
    return Check(cudaMallocAsync(memory, bytes, Cuda(stream)));
  }
  void Free(Stream stream, void* memory) override {
    (void)Check(cudaFreeAsync(memory, Cuda(stream)));
  }
  Status AllocatePinned(uint64_t bytes, void** memory) override {
    CINCH_RETURN_IF_ERROR(
        Check(cudaHostAlloc(memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable)));
    std::fill_n(static_cast<uint8_t*>(*memory), bytes, uint8_t{0});
    return CINCH_OK;
  }
  void FreePinned(void* memory) override { (void)Check(cudaFreeHost(memory)); }

  Status CreateStream(Stream* stream) override {
    cudaStream_t created = nullptr;
    if (wait_value_ == nullptr) wait_value_ = FindWaitValue();
    if (wait_value_ == nullptr) return CINCH_ERROR_UNSUPPORTED;
    CINCH_RETURN_IF_ERROR(LoadKernels());
    int least = 0;
    int greatest = 0;
    CINCH_RETURN_IF_ERROR(Check(cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    CINCH_RETURN_IF_ERROR(
        Check(cudaStreamCreateWithPriority(&created, cudaStreamNonBlocking, greatest)));
    *stream = created;
    return CINCH_OK;
  }
  void DestroyStream(Stream stream) override { (void)Check(cudaStreamDestroy(Cuda(stream))); }

  Status CreateEvent(Event* event) override {
    cudaEvent_t created = nullptr;
    CINCH_RETURN_IF_ERROR(Check(cudaEventCreate(&created)));
    *event = created;
    return CINCH_OK;
  }
  void DestroyEvent(Event event) override {
    (void)Check(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
  }
  Status RecordEvent(Event event, Stream stream) override {
    return Check(cudaEventRecord(static_cast<cudaEvent_t>(event), Cuda(stream)));
  }
  Status WaitEvent(Stream stream, Event event) override {
    return Check(cudaStreamWaitEvent(Cuda(stream), static_cast<cudaEvent_t>(event), 0));
  }
  Status QueryEvent(Event event) override {
    const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return CINCH_IN_PROGRESS;
    }
    return Check(error);
  }
  double SecondsBetween(Event start, Event stop) override {
    float milliseconds = 0;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(start),
                                                   static_cast<cudaEvent_t>(stop));
    return Check(error) == CINCH_OK ? static_cast<double>(milliseconds) * 1e-3 : 0;
  }

  Status Copy(Stream stream, void* destination, const void* source, uint64_t bytes) override {
    return Check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, Cuda(stream)));
  }
  Status WaitFlag(Stream stream, uint32_t* flag, uint32_t value) override {
    // Pinned memory has the same address on both sides.
    const auto address = reinterpret_cast<CUdeviceptr>(flag);
    const CUresult result =
        wait_value_(reinterpret_cast<CUstream>(stream), address, value, CU_STREAM_WAIT_VALUE_GEQ);
    return result == CUDA_SUCCESS ? CINCH_OK : CINCH_ERROR_DEVICE;
  }
  Status SetFlag(Stream stream, uint32_t* flag, uint32_t value) override {
    WriteFlag<<<1, 1, 0, Cuda(stream)>>>(flag, value);
    return Check(cudaGetLastError());
  }

  uint64_t WorkspaceBytes(uint64_t max_items, uint64_t max_input_bytes) override {
    return WorkspaceLayout(nullptr, max_items, max_input_bytes).bytes;
  }
  Status PrepareWorkspace(Stream stream, const Workspace& workspace) override {
    const WorkspaceLayout layout(workspace);
    return cinch_cuda_scratch_init(&layout.scratch, stream);
  }

  Status Encode(Stream stream, const Workspace& workspace, std::span<const OutSlot> out,
                std::span<const SlotUse> uses) override;
  Status Decode(Stream stream, const Workspace& workspace, std::span<const OutSlot> out,
                std::span<const InSlot> in, std::span<const SlotUse> uses,
                StepRecord* record) override;
  Status DecodeWhole(Stream stream, const Workspace& workspace, std::span<const WholeFrame> frames,
                     StepRecord* record) override;

  Status Reduce(Stream stream, const Reduction& reduction) override {
    switch (reduction.dtype) {
      case kNcclFloat16:
        return Check(LaunchReduce<__half>(Cuda(stream), reduction));
      case kNcclBfloat16:
        return Check(LaunchReduce<__nv_bfloat16>(Cuda(stream), reduction));
      case kNcclFloat32:
        return Check(LaunchReduce<float>(Cuda(stream), reduction));
      default:
        return CINCH_ERROR_UNSUPPORTED;
    }
  }

 private:
  WaitValue wait_value_ = nullptr;
};

Status RealDevice::Encode(Stream stream, const Workspace& workspace, std::span<const OutSlot> out,
                          std::span<const SlotUse> uses) {
  const WorkspaceLayout layout(workspace);
  std::vector<cinch_cuda_item> items;
  std::vector<EncodedSlot> slots(out.size());
  for (size_t i = 0; i < out.size(); ++i) AddItems(out[i], &items, &slots[i]);
  CINCH_RETURN_IF_ERROR(StartStep(stream, layout, uses));
  const cinch_cuda_options options = Options(stream, true);
  CINCH_RETURN_IF_ERROR(cinch_cuda_compress_batch(&options, items.data(), items.size(),
                                                  layout.results, &layout.scratch));
  CINCH_RETURN_IF_ERROR(ForLists(slots, [&](const EntryList<EncodedSlot>& list) {
    CombineRatios<<<1, kSlotThreads, 0, Cuda(stream)>>>(list, layout.results, layout.sums);
  }));
  return ForLists(slots, [&](const EntryList<EncodedSlot>& list) {
    WriteHeaders<<<1, kSlotThreads, 0, Cuda(stream)>>>(list, layout.results, layout.sums);
  });
}

Status RealDevice::Decode(Stream stream, const Workspace& workspace, std::span<const OutSlot> out,
                          std::span<const InSlot> in, std::span<const SlotUse> uses,
                          StepRecord* record) {
  const WorkspaceLayout layout(workspace);
  std::vector<ArrivedSlot> slots;
  uint32_t items = 0;
  for (const OutSlot& slot : out) {
    slots.push_back({reinterpret_cast<const SlotHeader*>(slot.slot), slot.wire_bytes, nullptr,
                     slot.bytes, slot.use, kNoItem});
  }
  for (const InSlot& slot : in) {
    const bool frame = slot.wire_bytes > sizeof(SlotHeader);
    slots.push_back({reinterpret_cast<const SlotHeader*>(slot.slot), slot.wire_bytes,
                     slot.destination, slot.bytes, slot.use, frame ? items : kNoItem});
    if (frame) ++items;
  }
  CINCH_RETURN_IF_ERROR(StartStep(stream, layout, uses));
  CINCH_RETURN_IF_ERROR(ForLists(slots, [&](const EntryList<ArrivedSlot>& list) {
    ReadHeaders<<<1, kSlotThreads, 0, Cuda(stream)>>>(list, layout.items, layout.sums,
                                                      layout.state);
  }));
  if (items != 0) {
    const cinch_cuda_options options = Options(stream, false);
    CINCH_RETURN_IF_ERROR(cinch_cuda_decompress_batch(&options, layout.items, items, layout.results,
                                                      &layout.scratch));
    CheckResults<<<1, kSlotThreads, 0, Cuda(stream)>>>(layout.items, layout.results, items,
                                                       layout.state);
    CINCH_RETURN_IF_ERROR(Check(cudaGetLastError()));
  }
  CINCH_RETURN_IF_ERROR(ForLists(Times(uses), [&](const EntryList<UseTimes>& list) {
    WriteKeyRecords<<<1, kSlotThreads, 0, Cuda(stream)>>>(list, layout.sums);
  }));
  if (record == nullptr) return CINCH_OK;
  WriteStepRecord<<<1, 1, 0, Cuda(stream)>>>(layout.state, record, record->target);
  return Check(cudaGetLastError());
}

Status RealDevice::DecodeWhole(Stream stream, const Workspace& workspace,
                               std::span<const WholeFrame> frames, StepRecord* record) {
  const WorkspaceLayout layout(workspace);
  std::vector<cinch_cuda_item> items;
  for (const WholeFrame& frame : frames) {
    cinch_cuda_item item{};
    item.input = frame.frame;
    item.input_bytes = frame.frame_bytes;
    item.output = frame.destination;
    item.output_capacity_bytes = frame.bytes;
    items.push_back(item);
  }
  CINCH_RETURN_IF_ERROR(Check(cudaMemsetAsync(layout.state, 0, sizeof(StepState), Cuda(stream))));
  if (!items.empty()) {
    const cinch_cuda_options options = Options(stream, true);
    CINCH_RETURN_IF_ERROR(cinch_cuda_decompress_batch(&options, items.data(), items.size(),
                                                      layout.results, &layout.scratch));
    // The items as the check wants them: what ReadHeaders left for these had nothing to decode.
    CINCH_RETURN_IF_ERROR(
        Check(cudaMemcpyAsync(layout.items, items.data(), items.size() * sizeof(cinch_cuda_item),
                              cudaMemcpyHostToDevice, Cuda(stream))));
    CheckResults<<<1, kSlotThreads, 0, Cuda(stream)>>>(
        layout.items, layout.results, static_cast<uint32_t>(items.size()), layout.state);
    CINCH_RETURN_IF_ERROR(Check(cudaGetLastError()));
  }
  WriteStepRecord<<<1, 1, 0, Cuda(stream)>>>(layout.state, record, record->target);
  return Check(cudaGetLastError());
}

}  // namespace

Device* CudaDevice() {
  // Never destroyed: used by what runs at exit.
  static auto* const device = new RealDevice;
  return device;
}

}  // namespace cinch::collectives
