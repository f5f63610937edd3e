// SPDX-License-Identifier: Apache-2.0
// Devices made of host memory, for tests of the engine on machines without any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transfer/device_runtime.h"

namespace cinch::transfer_test {

/// What a stream of a fake device is: `reached` says that its work so far is done.
struct FakeStream {
  std::atomic<bool> reached{true};
};

/// What may go wrong.
struct FakeDeviceFaults {
  std::atomic<bool> no_lanes{false};    ///< OpenLane() fails,
  std::atomic<bool> no_pinned{false};   ///< AllocatePinned() fails,
  std::atomic<bool> no_sharing{false};  ///< Import() fails,
  std::atomic<bool> no_memory{false};   ///< AllocateDevice() fails,
  std::atomic<bool> broken{false};      ///< Submit() fails.
};

/// "Device memory" is a range of addresses that nothing can access: who reads or writes it other
/// than through the runtime dies. The runtime knows a second address of the same memory.
class FakeDevices final : public transfer::DeviceRuntime {
 public:
  /// Memory of each of two devices.
  explicit FakeDevices(uint64_t bytes_of_each = uint64_t{256} << 20);
  ~FakeDevices() override;

  FakeDeviceFaults faults;
  std::atomic<uint64_t> submitted_batches{0};
  std::atomic<uint64_t> submitted_tasks{0};
  /// Bit by bit: the devices that anything was asked of, besides where a pointer points.
  std::atomic<uint32_t> touched_devices{0};

  /// What is "measured" of every device; until it is called, something plausible. Nothing: engines
  /// measure.
  void SetSpeeds(const std::optional<transfer::DeviceSpeeds>& speeds);

  /// Device memory; never freed, and zero at first. Null when the device is full.
  [[nodiscard]] uint8_t* Allocate(int device, uint64_t bytes);
  /// Where a test, or a fake kernel, gets at device memory; other addresses stay as they are.
  [[nodiscard]] uint8_t* View(const void* address) const;

  [[nodiscard]] transfer::DeviceSpeedTable& speeds() override { return *speeds_; }
  [[nodiscard]] Status Locate(transfer::PieceList& pieces) const override;
  [[nodiscard]] Status Mark(transfer::MemoryPlace place, void* stream,
                            std::shared_ptr<transfer::StreamPoint>& point) override;
  [[nodiscard]] Status OpenLane(int device, const transfer::LaneOptions& options,
                                std::unique_ptr<transfer::DeviceLane>& lane) override;
  [[nodiscard]] Status AllocatePinned(int device, uint64_t bytes,
                                      std::unique_ptr<transfer::DeviceBuffer>& buffer) override;
  [[nodiscard]] Status AllocateDevice(int device, uint64_t bytes,
                                      std::unique_ptr<transfer::DeviceBuffer>& buffer) override;
  [[nodiscard]] Status AllocateShared(int device, uint64_t bytes,
                                      std::unique_ptr<transfer::DeviceBuffer>& buffer,
                                      transfer::DeviceExport& name) override;
  [[nodiscard]] Status Import(int device, const transfer::DeviceExport& name,
                              std::unique_ptr<transfer::DeviceBuffer>& buffer) override;

 private:
  void Touch(int device);
  [[nodiscard]] int DeviceOf(const void* address) const;

  const uint64_t bytes_of_each_;
  uint8_t* device_view_ = nullptr;  // Both devices, one after the other.
  uint8_t* host_view_ = nullptr;
  std::mutex mutex_;
  uint64_t used_[2] = {};
  std::unique_ptr<transfer::DeviceSpeedTable> speeds_;
};

}  // namespace cinch::transfer_test
