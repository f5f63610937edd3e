// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "transfer/device_pool.h"
#include "transfer/device_runtime.h"

namespace cinch::transfer {

/// Measures a device's codec by jobs among those of messages, so that nobody waits for it. They
/// code a sample, a segment a job, as the pipeline of a large message does: into pinned host memory
/// and into device memory. Only the lanes' own streams are used. At the first error it ends, and
/// nothing is known.
///
/// Its memory is freed with it rather than when it has ended, since that waits for the device.
class DeviceProbe : public std::enable_shared_from_this<DeviceProbe> {
 public:
  using SubmitJob = std::function<void(std::unique_ptr<DeviceJob>)>;

  /// Jobs under way, and bytes of each.
  static constexpr size_t kSlots = 4;
  static constexpr uint64_t kJobBytes = uint64_t{1} << 20;
  /// Jobs of a stage. The first kSlots of them warm up.
  static constexpr size_t kJobs = 3 * kSlots;

  DeviceProbe(DeviceRuntime& runtime, int device, uint32_t max_ctas, SubmitJob submit);

  /// Submits the first jobs; each submits those that follow it. All of it is one thread's.
  void Start();

 private:
  enum class Stage { kFill, kEncodePinned, kDecodePinned, kEncodeShared, kDecodeShared, kEnd };
  class Job;

  /// What one job at a time uses.
  struct Slot {
    std::unique_ptr<DeviceBuffer> original;
    std::unique_ptr<DeviceBuffer> pinned_frame;
    std::unique_ptr<DeviceBuffer> shared_frame;
    PieceList pieces;
    uint64_t frame_bytes = 0;
  };

  [[nodiscard]] Status Allocate();
  void BeginStage(Stage stage);
  void SubmitNext(size_t slot);
  void OnFinished(size_t slot, const DeviceTask& task, double seconds);
  [[nodiscard]] DeviceTask MakeTask(const Slot& slot) const;

  DeviceRuntime& runtime_;
  const int device_;
  const uint32_t max_ctas_;
  const SubmitJob submit_;
  std::vector<uint8_t> sample_;
  std::array<Slot, kSlots> slots_;
  Stage stage_ = Stage::kFill;
  size_t started_ = 0;  // Jobs of this stage.
  size_t finished_ = 0;
  double counted_seconds_ = 0;
  DeviceSpeeds speeds_;
};

}  // namespace cinch::transfer
