// SPDX-License-Identifier: Apache-2.0
// What the engine needs of devices whose memory it moves. cuda/ implements it; tests have one whose
// devices are made of host memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "cinch/codec.h"
#include "transfer/device_speed.h"
#include "transfer/memory_place.h"
#include "transfer/piece_list.h"

namespace cinch::transfer {

/// Memory that a runtime allocated, or another process's that it mapped.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  virtual ~DeviceBuffer() = default;

  [[nodiscard]] virtual uint8_t* data() const = 0;
  [[nodiscard]] virtual uint64_t bytes() const = 0;
};

/// Names a buffer of device memory to another process of the same host. Plain bytes.
struct DeviceExport {
  std::array<uint8_t, 64> handle{};   ///< The runtime's own name of it.
  std::array<uint8_t, 32> machine{};  ///< Which machine, since it was started, that is valid on.
  uint64_t bytes = 0;
};
static_assert(sizeof(DeviceExport) == 104);

/// One segment's way between the caller's memory on a device and its bytes on the wire.
struct DeviceTask {
  enum class Kind : uint8_t {
    kEncode,   ///< The caller's memory becomes a frame.
    kGather,   ///< The caller's memory is copied as it is.
    kDecode,   ///< A frame becomes the caller's memory. The frame is untrusted.
    kScatter,  ///< Bytes are copied to the caller's memory.
  };
  Kind kind = Kind::kEncode;
  const PieceList* pieces = nullptr;  ///< The caller's memory; outlives the task.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint8_t* wire = nullptr;     ///< Of a DeviceBuffer, aligned to 16 bytes; or plain host memory.
  uint64_t wire_bytes = 0;     ///< Room for a frame, or the size of the frame.
  bool wire_is_plain = false;  ///< kScatter only: `wire` is host memory that no device sees.
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  bool checksum = true;

  // Filled in.
  Status status = CINCH_OK;
  uint64_t output_bytes = 0;  ///< Of the frame, or of the original.
};

/// A queue of one device in which one batch of tasks at a time is worked on. One thread.
class DeviceLane {
 public:
  static constexpr size_t kMaxTasks = 16;

  DeviceLane() = default;
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;
  /// Waits for what is under way.
  virtual ~DeviceLane() = default;

  /// Enqueues up to kMaxTasks tasks of one kind. They must stay until Poll() says that they are
  /// done. After an error nothing of them is in use. OK, DEVICE, OUT_OF_MEMORY.
  [[nodiscard]] virtual Status Submit(std::span<DeviceTask* const> tasks) = 0;
  /// Whether the batch is done and its results are filled in. Does not block.
  [[nodiscard]] virtual bool Poll() = 0;
};

/// What a lane is made for.
struct LaneOptions {
  uint64_t max_batch_bytes = 0;  ///< Original bytes of a batch, at most.
  uint32_t max_ctas = 0;         ///< Thread blocks of a launch, at most; 0: as many as fit.
};

/// Thread-safe. None of the calls leaves another device current than it found.
class DeviceRuntime {
 public:
  DeviceRuntime() = default;
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;
  virtual ~DeviceRuntime() = default;

  /// Of this process's devices.
  [[nodiscard]] virtual DeviceSpeedTable& speeds() = 0;

  /// Finds out where the pieces are and stores it in them. Creates no context anywhere.
  /// OK, INVALID_ARGUMENT (not all in one place).
  [[nodiscard]] virtual Status Locate(PieceList& pieces) const = 0;
  /// The point of `stream` that has been reached now. OK, INVALID_ARGUMENT, DEVICE.
  [[nodiscard]] virtual Status Mark(MemoryPlace place, void* stream,
                                    std::shared_ptr<StreamPoint>& point) = 0;
  /// OK, NO_DEVICE, DEVICE, OUT_OF_MEMORY.
  [[nodiscard]] virtual Status OpenLane(int device, const LaneOptions& options,
                                        std::unique_ptr<DeviceLane>& lane) = 0;
  /// Host memory that every device reaches and any transport can carry. OK, OUT_OF_MEMORY, DEVICE.
  [[nodiscard]] virtual Status AllocatePinned(int device, uint64_t bytes,
                                              std::unique_ptr<DeviceBuffer>& buffer) = 0;
  /// Memory of the device for lanes to work in. OK, OUT_OF_MEMORY, DEVICE.
  [[nodiscard]] virtual Status AllocateDevice(int device, uint64_t bytes,
                                              std::unique_ptr<DeviceBuffer>& buffer) = 0;
  /// Device memory that other processes of this machine can map. OK, OUT_OF_MEMORY, DEVICE,
  /// UNSUPPORTED.
  [[nodiscard]] virtual Status AllocateShared(int device, uint64_t bytes,
                                              std::unique_ptr<DeviceBuffer>& buffer,
                                              DeviceExport& name) = 0;
  /// Maps another process's memory for `device`. The name is untrusted.
  /// OK, UNSUPPORTED (another machine, or not possible), DEVICE.
  [[nodiscard]] virtual Status Import(int device, const DeviceExport& name,
                                      std::unique_ptr<DeviceBuffer>& buffer) = 0;
};

/// The devices of CUDA; null in a build without CUDA.
[[nodiscard]] std::shared_ptr<DeviceRuntime> CudaDeviceRuntime();

}  // namespace cinch::transfer
