// SPDX-License-Identifier: Apache-2.0
#include "transfer/fake_devices.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "transfer/segment_codec.h"

namespace cinch::transfer_test {
namespace {

using transfer::DeviceBuffer;
using transfer::DeviceTask;

class HostBuffer final : public DeviceBuffer {
 public:
  explicit HostBuffer(uint64_t bytes) : memory_(bytes + kAlignment) {}
  [[nodiscard]] uint8_t* data() const override {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<uint8_t*>((at + kAlignment - 1) / kAlignment * kAlignment);
  }
  [[nodiscard]] uint64_t bytes() const override { return memory_.size() - kAlignment; }

 private:
  static constexpr uint64_t kAlignment = 256;
  std::vector<uint8_t> memory_;
};

class BorrowedBuffer final : public DeviceBuffer {
 public:
  BorrowedBuffer(uint8_t* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  [[nodiscard]] uint8_t* data() const override { return data_; }
  [[nodiscard]] uint64_t bytes() const override { return bytes_; }

 private:
  uint8_t* data_;
  uint64_t bytes_;
};

struct FakePoint final : transfer::StreamPoint {
  FakeStream* stream = nullptr;
};

class FakeLane final : public transfer::DeviceLane {
 public:
  explicit FakeLane(FakeDevices& devices) : devices_(devices) {
    EXPECT_EQ(transfer::CreateCpuSegmentCodec(codec_), CINCH_OK);
  }

  [[nodiscard]] Status Submit(std::span<DeviceTask* const> tasks) override {
    if (devices_.faults.broken) return CINCH_ERROR_DEVICE;
    EXPECT_TRUE(tasks_.empty() && !tasks.empty() && tasks.size() <= kMaxTasks);
    tasks_.assign(tasks.begin(), tasks.end());
    ++devices_.submitted_batches;
    devices_.submitted_tasks += tasks.size();
    polls_ = 0;
    return CINCH_OK;
  }

  [[nodiscard]] bool Poll() override {
    for (const DeviceTask* task : tasks_) {
      const auto* point = static_cast<const FakePoint*>(task->pieces->after().get());
      if (point != nullptr && point->stream != nullptr && !point->stream->reached) return false;
    }
    if (++polls_ < 2) return false;
    for (DeviceTask* task : tasks_) Run(*task);
    tasks_.clear();
    return true;
  }

 private:
  void Run(DeviceTask& task) {
    std::vector<uint8_t> flat(task.bytes);
    uint8_t* wire = devices_.View(task.wire);
    task.output_bytes = task.bytes;
    const bool outwards =
        task.kind == DeviceTask::Kind::kEncode || task.kind == DeviceTask::Kind::kGather;
    if (outwards) Copy(task, flat.data(), true);
    switch (task.kind) {
      case DeviceTask::Kind::kEncode:
        task.status = codec_->Encode(task.dtype, task.checksum, flat.data(), flat.size(), wire,
                                     task.wire_bytes, task.output_bytes);
        break;
      case DeviceTask::Kind::kDecode:
        task.status =
            codec_->Decode(wire, task.wire_bytes, flat.data(), flat.size(), task.output_bytes);
        break;
      case DeviceTask::Kind::kGather:
        std::memcpy(wire, flat.data(), flat.size());
        break;
      case DeviceTask::Kind::kScatter:
        std::memcpy(flat.data(), wire, flat.size());
        break;
    }
    if (!outwards) Copy(task, flat.data(), false);
  }

  void Copy(const DeviceTask& task, uint8_t* flat, bool gather) {
    task.pieces->ForRange(task.offset, task.bytes, [&](uint8_t* at, uint64_t done, uint64_t bytes) {
      uint8_t* view = devices_.View(at);
      std::memcpy(gather ? flat + done : view, gather ? view : flat + done, bytes);
    });
  }

  FakeDevices& devices_;
  std::unique_ptr<transfer::SegmentCodec> codec_;
  std::vector<DeviceTask*> tasks_;
  int polls_ = 0;
};

}  // namespace

FakeDevices::FakeDevices(uint64_t bytes_of_each) : bytes_of_each_(bytes_of_each) {
  const int file = ::memfd_create("fake-devices", MFD_CLOEXEC);
  const size_t bytes = 2 * bytes_of_each_;
  EXPECT_EQ(::ftruncate(file, static_cast<off_t>(bytes)), 0);
  device_view_ = static_cast<uint8_t*>(::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0));
  host_view_ =
      static_cast<uint8_t*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  EXPECT_TRUE(device_view_ != MAP_FAILED && host_view_ != MAP_FAILED);
  ::close(file);
  constexpr transfer::CodecSpeed kPlausible{100e9, 100e9};
  SetSpeeds(transfer::DeviceSpeeds{kPlausible, kPlausible});
}

void FakeDevices::SetSpeeds(const std::optional<transfer::DeviceSpeeds>& speeds) {
  speeds_ = std::make_unique<transfer::DeviceSpeedTable>();
  if (!speeds) return;
  for (const int device : {0, 1}) speeds_->Set(device, 0, *speeds);
}

void FakeDevices::Touch(int device) {
  EXPECT_TRUE(device == 0 || device == 1);
  touched_devices |= 1u << device;
}

FakeDevices::~FakeDevices() {
  ::munmap(device_view_, 2 * bytes_of_each_);
  ::munmap(host_view_, 2 * bytes_of_each_);
}

uint8_t* FakeDevices::Allocate(int device, uint64_t bytes) {
  constexpr uint64_t kAlignment = 256;
  const std::lock_guard lock(mutex_);
  uint64_t& used = used_[device];
  if (bytes > bytes_of_each_ - used) return nullptr;
  uint8_t* memory = device_view_ + static_cast<uint64_t>(device) * bytes_of_each_ + used;
  used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return memory;
}

int FakeDevices::DeviceOf(const void* address) const {
  const auto* at = static_cast<const uint8_t*>(address);
  if (at < device_view_ || at >= device_view_ + 2 * bytes_of_each_) return -1;
  return static_cast<int>(static_cast<uint64_t>(at - device_view_) / bytes_of_each_);
}

uint8_t* FakeDevices::View(const void* address) const {
  auto* at = static_cast<uint8_t*>(const_cast<void*>(address));
  return DeviceOf(address) < 0 ? at : host_view_ + (at - device_view_);
}

Status FakeDevices::Locate(transfer::PieceList& pieces) const {
  bool first = true;
  transfer::MemoryPlace place;
  const bool together = pieces.AllExtents([&](const uint8_t* address, uint64_t /*bytes*/) {
    const transfer::MemoryPlace its{DeviceOf(address)};
    if (!first && its != place) return false;
    place = its;
    first = false;
    return true;
  });
  if (!together) return CINCH_ERROR_INVALID_ARGUMENT;
  pieces.set_place(place);
  return CINCH_OK;
}

Status FakeDevices::Mark(transfer::MemoryPlace place, void* stream,
                         std::shared_ptr<transfer::StreamPoint>& point) {
  Touch(place.device);
  auto marked = std::make_shared<FakePoint>();
  marked->stream = static_cast<FakeStream*>(stream);
  point = std::move(marked);
  return CINCH_OK;
}

Status FakeDevices::OpenLane(int device, const transfer::LaneOptions& /*options*/,
                             std::unique_ptr<transfer::DeviceLane>& lane) {
  Touch(device);
  if (faults.no_lanes) return CINCH_ERROR_OUT_OF_MEMORY;
  lane = std::make_unique<FakeLane>(*this);
  return CINCH_OK;
}

Status FakeDevices::AllocateDevice(int device, uint64_t bytes,
                                   std::unique_ptr<DeviceBuffer>& buffer) {
  Touch(device);
  uint8_t* memory = faults.no_memory ? nullptr : Allocate(device, bytes);
  if (memory == nullptr) return CINCH_ERROR_OUT_OF_MEMORY;
  buffer = std::make_unique<BorrowedBuffer>(memory, bytes);
  return CINCH_OK;
}

Status FakeDevices::AllocatePinned(int device, uint64_t bytes,
                                   std::unique_ptr<DeviceBuffer>& buffer) {
  Touch(device);
  if (faults.no_pinned) return CINCH_ERROR_OUT_OF_MEMORY;
  buffer = std::make_unique<HostBuffer>(bytes);
  return CINCH_OK;
}

Status FakeDevices::AllocateShared(int device, uint64_t bytes,
                                   std::unique_ptr<DeviceBuffer>& buffer,
                                   transfer::DeviceExport& name) {
  Touch(device);
  uint8_t* memory = Allocate(device, bytes);
  if (memory == nullptr) return CINCH_ERROR_OUT_OF_MEMORY;
  std::memcpy(name.handle.data(), &memory, sizeof(memory));
  name.bytes = bytes;
  buffer = std::make_unique<BorrowedBuffer>(memory, bytes);
  return CINCH_OK;
}

Status FakeDevices::Import(int device, const transfer::DeviceExport& name,
                           std::unique_ptr<DeviceBuffer>& buffer) {
  Touch(device);
  if (faults.no_sharing) return CINCH_ERROR_UNSUPPORTED;
  uint8_t* memory = nullptr;
  std::memcpy(&memory, name.handle.data(), sizeof(memory));
  if (DeviceOf(memory) < 0) return CINCH_ERROR_UNSUPPORTED;
  // As the real one does, it looks how much there is.
  const uint64_t left = device_view_ + 2 * bytes_of_each_ - memory;
  if (name.bytes > left) return CINCH_ERROR_UNSUPPORTED;
  buffer = std::make_unique<BorrowedBuffer>(memory, name.bytes);
  return CINCH_OK;
}

}  // namespace cinch::transfer_test
