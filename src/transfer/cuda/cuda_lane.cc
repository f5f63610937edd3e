// SPDX-License-Identifier: Apache-2.0
// A stream with what one batch of segments needs on it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cinch/cuda.h"
#include "transfer/cuda/copy_pieces.h"
#include "transfer/cuda/cuda_support.h"

namespace cinch::transfer {
namespace {

using Kind = DeviceTask::Kind;

class CudaLane final : public DeviceLane {
 public:
  CudaLane(int device, const LaneOptions& options) : device_(device), options_(options) {}
  ~CudaLane() override;

  [[nodiscard]] Status Open();
  [[nodiscard]] Status Submit(std::span<DeviceTask* const> tasks) override;
  [[nodiscard]] bool Poll() override;

 private:
  [[nodiscard]] Status Enqueue();
  [[nodiscard]] Status WaitForCallers();
  [[nodiscard]] Status EnqueueEncode();
  [[nodiscard]] Status EnqueueDecode();
  [[nodiscard]] Status EnqueueCopies(bool gather);
  [[nodiscard]] Status EnqueuePlainScatter(const DeviceTask& task);
  [[nodiscard]] Status NeedFlat(uint64_t bytes);
  [[nodiscard]] Status NeedEntries(size_t count);
  [[nodiscard]] Status CopyEntries(bool gather);
  void AddEntries(const DeviceTask& task, uint8_t* flat);
  [[nodiscard]] uint8_t* FlatPlace(const DeviceTask& task);
  void TakeResults(Status status);

  const int device_;
  const LaneOptions options_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  std::unique_ptr<DeviceBuffer> scratch_memory_;
  cinch_cuda_scratch scratch_{};
  cinch_cuda_options codec_options_{};
  std::unique_ptr<DeviceBuffer> results_memory_;
  std::unique_ptr<DeviceBuffer> flat_;     // The batch's bytes where they are not in one piece.
  std::unique_ptr<DeviceBuffer> entries_;  // Pinned: the table of the copy kernel.
  std::vector<CopyEntry> copies_;
  std::vector<DeviceTask*> tasks_;
  std::vector<cinch_cuda_item> items_;
  uint64_t flat_used_bytes_ = 0;

  [[nodiscard]] cinch_cuda_result* results() const {
    return reinterpret_cast<cinch_cuda_result*>(results_memory_->data());
  }
};

CudaLane::~CudaLane() {
  const CurrentDevice current(device_);
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  if (done_ != nullptr) cudaEventDestroy(done_);
}

Status CudaLane::Open() {
  CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
  CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming)));
  CINCH_RETURN_IF_ERROR(
      AllocateCudaPinned(device_, kMaxTasks * sizeof(cinch_cuda_result), results_memory_));
  scratch_.struct_size = sizeof(scratch_);
  scratch_.max_items = kMaxTasks;
  scratch_.max_input_bytes = options_.max_batch_bytes;
  scratch_.memory_bytes = cinch_cuda_scratch_bytes(kMaxTasks, options_.max_batch_bytes);
  CINCH_RETURN_IF_ERROR(AllocateCudaDevice(device_, scratch_.memory_bytes, scratch_memory_));
  scratch_.memory = scratch_memory_->data();
  CINCH_RETURN_IF_ERROR(cinch_cuda_scratch_init(&scratch_, stream_));
  cinch_cuda_options_init(&codec_options_);
  codec_options_.stream = stream_;
  codec_options_.max_ctas = options_.max_ctas;
  codec_options_.items_on_host = 1;
  return CINCH_OK;
}

Status CudaLane::Submit(std::span<DeviceTask* const> tasks) {
  const CurrentDevice current(device_);
  CINCH_RETURN_IF_ERROR(current.status());
  tasks_.assign(tasks.begin(), tasks.end());
  copies_.clear();
  items_.clear();
  flat_used_bytes_ = 0;
  Status status = Enqueue();
  if (status == CINCH_OK) status = StatusOfCuda(cudaEventRecord(done_, stream_));
  if (status == CINCH_OK) return CINCH_OK;
  // Some of it may be under way: nothing may be in use once the error is told.
  cudaStreamSynchronize(stream_);
  cudaGetLastError();
  return status;
}

Status CudaLane::Enqueue() {
  CINCH_RETURN_IF_ERROR(WaitForCallers());
  switch (tasks_.front()->kind) {
    case Kind::kEncode:
      return EnqueueEncode();
    case Kind::kDecode:
      return EnqueueDecode();
    case Kind::kGather:
      return EnqueueCopies(true);
    case Kind::kScatter:
      return EnqueueCopies(false);
  }
  return CINCH_ERROR_INTERNAL;
}

Status CudaLane::WaitForCallers() {
  const StreamPoint* last = nullptr;
  for (const DeviceTask* task : tasks_) {
    const StreamPoint* point = task->pieces->after().get();
    if (point == nullptr || point == last) continue;
    last = point;
    const cudaEvent_t event = static_cast<const CudaEvent*>(point)->get();
    CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaStreamWaitEvent(stream_, event, 0)));
  }
  return CINCH_OK;
}

Status CudaLane::NeedFlat(uint64_t bytes) {
  if (flat_ != nullptr && flat_->bytes() >= bytes) return CINCH_OK;
  flat_.reset();
  return AllocateCudaDevice(device_, std::max(bytes, options_.max_batch_bytes), flat_);
}

Status CudaLane::NeedEntries(size_t count) {
  constexpr size_t kFewEntries = 4096;
  const size_t bytes = std::max(count, kFewEntries) * sizeof(CopyEntry);
  if (entries_ != nullptr && entries_->bytes() >= bytes) return CINCH_OK;
  entries_.reset();
  return AllocateCudaPinned(device_, bytes, entries_);
}

// Where a task's bytes stand in one piece: the caller's memory itself, or room of the lane's.
uint8_t* CudaLane::FlatPlace(const DeviceTask& task) {
  uint8_t* in_place = task.pieces->Contiguous(task.offset, task.bytes);
  if (in_place != nullptr) return in_place;
  constexpr uint64_t kAlignment = 256;
  uint8_t* flat = flat_->data() + flat_used_bytes_;
  flat_used_bytes_ += (task.bytes + kAlignment - 1) / kAlignment * kAlignment;
  AddEntries(task, flat);
  return flat;
}

void CudaLane::AddEntries(const DeviceTask& task, uint8_t* flat) {
  task.pieces->ForRange(task.offset, task.bytes, [&](uint8_t* at, uint64_t done, uint64_t bytes) {
    while (bytes > 0) {
      const uint64_t step = std::min(bytes, kMaxCopyEntryBytes);
      copies_.push_back({at, flat + done, step});
      at += step;
      done += step;
      bytes -= step;
    }
  });
}

Status CudaLane::CopyEntries(bool gather) {
  if (copies_.empty()) return CINCH_OK;
  CINCH_RETURN_IF_ERROR(NeedEntries(copies_.size()));
  std::memcpy(entries_->data(), copies_.data(), copies_.size() * sizeof(CopyEntry));
  return StatusOfCuda(LaunchCopyPieces(reinterpret_cast<const CopyEntry*>(entries_->data()),
                                       static_cast<uint32_t>(copies_.size()), gather,
                                       options_.max_ctas, stream_));
}

uint64_t ScatteredBytes(std::span<DeviceTask* const> tasks) {
  constexpr uint64_t kAlignment = 256;
  uint64_t bytes = 0;
  for (const DeviceTask* task : tasks) {
    if (task->pieces->Contiguous(task->offset, task->bytes) == nullptr) {
      bytes += task->bytes + kAlignment;
    }
  }
  return bytes;
}

Status CudaLane::EnqueueEncode() {
  const uint64_t flat_bytes = ScatteredBytes(tasks_);
  if (flat_bytes > 0) CINCH_RETURN_IF_ERROR(NeedFlat(flat_bytes));
  for (const DeviceTask* task : tasks_) {
    items_.push_back({FlatPlace(*task), task->bytes, task->wire, task->wire_bytes, task->dtype, 0});
  }
  CINCH_RETURN_IF_ERROR(CopyEntries(true));
  codec_options_.checksum = tasks_.front()->checksum ? 1 : 0;
  return cinch_cuda_compress_batch(&codec_options_, items_.data(), items_.size(), results(),
                                   &scratch_);
}

Status CudaLane::EnqueueDecode() {
  const uint64_t flat_bytes = ScatteredBytes(tasks_);
  if (flat_bytes > 0) CINCH_RETURN_IF_ERROR(NeedFlat(flat_bytes));
  for (const DeviceTask* task : tasks_) {
    items_.push_back(
        {task->wire, task->wire_bytes, FlatPlace(*task), task->bytes, CINCH_DTYPE_AUTO, 0});
  }
  CINCH_RETURN_IF_ERROR(cinch_cuda_decompress_batch(&codec_options_, items_.data(), items_.size(),
                                                    results(), &scratch_));
  return CopyEntries(false);
}

Status CudaLane::EnqueuePlainScatter(const DeviceTask& task) {
  Status status = CINCH_OK;
  task.pieces->ForRange(task.offset, task.bytes, [&](uint8_t* at, uint64_t done, uint64_t bytes) {
    if (status != CINCH_OK) return;
    status =
        StatusOfCuda(cudaMemcpyAsync(at, task.wire + done, bytes, cudaMemcpyHostToDevice, stream_));
  });
  return status;
}

// Whole pieces are the copy engines' work, many small ones a kernel's.
Status CudaLane::EnqueueCopies(bool gather) {
  for (const DeviceTask* task : tasks_) {
    uint8_t* piece = task->pieces->Contiguous(task->offset, task->bytes);
    if (task->wire_is_plain) {
      CINCH_RETURN_IF_ERROR(EnqueuePlainScatter(*task));
    } else if (piece == nullptr) {
      AddEntries(*task, task->wire);
    } else {
      CINCH_RETURN_IF_ERROR(
          StatusOfCuda(cudaMemcpyAsync(gather ? task->wire : piece, gather ? piece : task->wire,
                                       task->bytes, cudaMemcpyDefault, stream_)));
    }
  }
  return CopyEntries(gather);
}

bool CudaLane::Poll() {
  const cudaError_t error = cudaEventQuery(done_);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // It is no error, but would be reported as one later.
    return false;
  }
  TakeResults(StatusOfCuda(error));
  return true;
}

void CudaLane::TakeResults(Status status) {
  const bool coded = tasks_.front()->kind == Kind::kEncode || tasks_.front()->kind == Kind::kDecode;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    DeviceTask& task = *tasks_[i];
    task.status = status;
    task.output_bytes = task.bytes;
    if (status != CINCH_OK || !coded) continue;
    task.status = results()[i].status;
    task.output_bytes = results()[i].output_bytes;
  }
  tasks_.clear();
}

}  // namespace

Status OpenCudaLane(int device, const LaneOptions& options, std::unique_ptr<DeviceLane>& lane) {
  auto opened = std::make_unique<CudaLane>(device, options);
  CINCH_RETURN_IF_ERROR(opened->Open());
  lane = std::move(opened);
  return CINCH_OK;
}

}  // namespace cinch::transfer
