// SPDX-License-Identifier: Apache-2.0
#include "transfer/device_pool.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "transfer/device_probe.h"

namespace cinch::transfer {

void DevicePool::Configure(std::shared_ptr<DeviceRuntime> runtime, uint64_t segment_bytes,
                           uint32_t max_ctas, bool measure) {
  runtime_ = std::move(runtime);
  lane_options_.max_batch_bytes = std::max(segment_bytes, kBatchBytes);
  lane_options_.max_ctas = max_ctas;
  measure_ = measure;
}

void DevicePool::Submit(std::unique_ptr<DeviceJob> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable() && !stopping_) {
      thread_ = std::thread([this] { Work(); });
      ::pthread_setname_np(thread_.native_handle(), "cinch-device");
    }
  }
  submitted_.notify_one();
}

void DevicePool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DevicePool::Work() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (under_way_ == 0) submitted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (under_way_ == 0 && jobs_.empty()) break;
    }
    TakeSubmitted();
    bool moved = false;
    for (auto& [number, device] : devices_) {
      moved |= Settle(device);
      moved |= Feed(device);
    }
    if (!moved) std::this_thread::yield();
  }
  devices_.clear();  // Lanes end on the thread that used them.
}

void DevicePool::TakeSubmitted() {
  std::vector<std::unique_ptr<DeviceJob>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  under_way_ += jobs.size();
  for (auto& job : jobs) {
    Device& device = Open(job->device());
    device.queue.push_back(std::move(job));
  }
}

DevicePool::Device& DevicePool::Open(int number) {
  const auto found = devices_.find(number);
  if (found != devices_.end() && found->second.status == CINCH_OK) return found->second;
  Device& device = devices_[number];
  device.lanes.clear();
  for (size_t i = 0; i < kLanes; ++i) {
    Lane lane;
    device.status = runtime_->OpenLane(number, lane_options_, lane.lane);
    if (device.status != CINCH_OK) break;
    device.lanes.push_back(std::move(lane));
  }
  if (!device.lanes.empty()) device.status = CINCH_OK;  // Fewer lanes still do the work.
  if (measure_ && device.status == CINCH_OK) Measure(number, device);
  return device;
}

void DevicePool::Measure(int number, Device& device) {
  if (!runtime_->speeds().Claim(number, lane_options_.max_ctas)) return;
  device.probe = std::make_shared<DeviceProbe>(
      *runtime_, number, lane_options_.max_ctas,
      [this](std::unique_ptr<DeviceJob> job) { Submit(std::move(job)); });
  device.probe->Start();
}

// What a batch kept the device from later ones: not what it takes to start one when the device was
// idle, which the cost model adds to every message itself.
double DevicePool::ServiceSeconds(Device& device, const Lane& lane, TimePoint now) {
  const double seconds = Seconds(now - std::max(lane.submitted, device.last_done));
  if (lane.submitted < device.last_done) return seconds;
  device.start_seconds = std::min(device.start_seconds, seconds);
  constexpr double kLeastShare = 0.1;
  return std::max(seconds - device.start_seconds, kLeastShare * seconds);
}

// Hands back what lanes have done; true when that was anything.
bool DevicePool::Settle(Device& device) {
  bool moved = false;
  for (Lane& lane : device.lanes) {
    if (lane.jobs.empty() || !lane.lane->Poll()) continue;
    moved = true;
    const TimePoint now = Clock::now();
    const double seconds = ServiceSeconds(device, lane, now);
    device.last_done = now;
    const std::vector<std::unique_ptr<DeviceJob>> jobs = std::move(lane.jobs);
    lane.jobs.clear();
    for (const auto& job : jobs) {
      job->Finish(true, seconds / static_cast<double>(jobs.size()));
      --under_way_;
    }
  }
  return moved;
}

bool DevicePool::Feed(Device& device) {
  bool moved = false;
  while (!device.queue.empty()) {
    const auto idle =
        std::ranges::find_if(device.lanes, [](const Lane& l) { return l.jobs.empty(); });
    if (idle == device.lanes.end() && !device.lanes.empty()) break;
    const size_t before = under_way_;
    if (device.lanes.empty()) {
      auto job = std::move(device.queue.front());
      device.queue.pop_front();
      job->task().status = device.status;
      job->Finish(true, 0);
      --under_way_;
    } else {
      FillLane(device, *idle);
    }
    moved |= under_way_ != before || (idle != device.lanes.end() && !idle->jobs.empty());
  }
  return moved;
}

// Gives an idle lane the next jobs that fit into one launch.
void DevicePool::FillLane(Device& device, Lane& lane) {
  uint64_t bytes = 0;
  std::vector<DeviceTask*> tasks;
  while (!device.queue.empty() && tasks.size() < DeviceLane::kMaxTasks) {
    DeviceTask& task = device.queue.front()->task();
    const bool alike = tasks.empty() || (task.kind == tasks.front()->kind &&
                                         task.checksum == tasks.front()->checksum &&
                                         bytes + task.bytes <= lane_options_.max_batch_bytes);
    if (!alike) break;
    auto job = std::move(device.queue.front());
    device.queue.pop_front();
    if (!job->Begin()) {
      job->Finish(false, 0);
      --under_way_;
      continue;
    }
    bytes += task.bytes;
    tasks.push_back(&task);
    lane.jobs.push_back(std::move(job));
  }
  if (tasks.empty()) return;
  lane.submitted = Clock::now();
  const Status status = lane.lane->Submit(tasks);
  if (status == CINCH_OK) return;
  for (const auto& job : lane.jobs) {
    job->task().status = status;
    job->Finish(true, 0);
    --under_way_;
  }
  lane.jobs.clear();
}

}  // namespace cinch::transfer
