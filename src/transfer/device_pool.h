// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "transfer/clock.h"
#include "transfer/device_runtime.h"

namespace cinch::transfer {

/// Work for a device. Begin() and Finish() run on the pool's thread and take whatever locks they
/// need themselves.
class DeviceJob {
 public:
  DeviceJob() = default;
  DeviceJob(const DeviceJob&) = delete;
  DeviceJob& operator=(const DeviceJob&) = delete;
  virtual ~DeviceJob() = default;

  [[nodiscard]] virtual int device() const = 0;
  [[nodiscard]] virtual DeviceTask& task() = 0;
  /// Called before the task is enqueued. False: it is not wanted any more.
  [[nodiscard]] virtual bool Begin() = 0;
  /// Called once, last. `done`: the task ran; its status and output are filled in. `seconds` is
  /// what it kept the device from later work.
  virtual void Finish(bool done, double seconds) = 0;
};

class DeviceProbe;

/// Runs segments on devices: one thread, a few lanes a device, so that one batch is prepared and
/// one is settled while others are under way. Nothing is started before the first job.
class DevicePool {
 public:
  /// Lanes of each device. Two keep a device busy; more let a small batch pass a large one.
  static constexpr size_t kLanes = 4;
  /// What one launch takes at most, so that finished ranges leave while later ones are coded.
  static constexpr uint64_t kBatchBytes = uint64_t{2} << 20;

  DevicePool() = default;
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;
  ~DevicePool() { Stop(); }

  /// `runtime` may be null: then there must be no jobs. `measure`: how fast a device's codec is, is
  /// found out when it is first used, unless this process knows it.
  void Configure(std::shared_ptr<DeviceRuntime> runtime, uint64_t segment_bytes, uint32_t max_ctas,
                 bool measure);
  [[nodiscard]] DeviceRuntime* runtime() const { return runtime_.get(); }
  /// What is known of a device's codec, as this pool uses it. Thread-safe.
  [[nodiscard]] std::optional<DeviceSpeeds> SpeedsOf(int device) const {
    return runtime_->speeds().Find(device, lane_options_.max_ctas);
  }

  void Submit(std::unique_ptr<DeviceJob> job);
  /// Finishes what was asked for and ends the thread.
  void Stop();

 private:
  struct Lane {
    std::unique_ptr<DeviceLane> lane;
    std::vector<std::unique_ptr<DeviceJob>> jobs;  // Not empty: under way.
    TimePoint submitted;
  };
  struct Device {
    Status status = CINCH_OK;  // Why it has no lanes.
    std::vector<Lane> lanes;
    std::deque<std::unique_ptr<DeviceJob>> queue;
    TimePoint last_done;
    double start_seconds = 1;  // The shortest batch when the device was idle.
    std::shared_ptr<DeviceProbe> probe;
  };

  void Work();
  void TakeSubmitted();
  [[nodiscard]] static double ServiceSeconds(Device& device, const Lane& lane, TimePoint now);
  [[nodiscard]] bool Settle(Device& device);
  [[nodiscard]] bool Feed(Device& device);
  void FillLane(Device& device, Lane& lane);
  [[nodiscard]] Device& Open(int number);
  void Measure(int number, Device& device);
  static void Refuse(Device& device);

  std::shared_ptr<DeviceRuntime> runtime_;
  LaneOptions lane_options_;
  bool measure_ = false;

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::vector<std::unique_ptr<DeviceJob>> jobs_;
  bool stopping_ = false;
  std::thread thread_;

  // Of the pool's thread.
  std::map<int, Device> devices_;
  size_t under_way_ = 0;
};

}  // namespace cinch::transfer
