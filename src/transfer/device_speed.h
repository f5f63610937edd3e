// SPDX-License-Identifier: Apache-2.0
// How fast the codecs of a process's devices are.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace cinch::transfer {

/// Original bytes a second, each way.
struct CodecSpeed {
  double encode_bytes_per_second = 0;
  double decode_bytes_per_second = 0;
};

/// By where the frames are: pinned host memory is behind a bus.
struct DeviceSpeeds {
  CodecSpeed pinned;
  CodecSpeed shared;
};

/// What has been measured in this process, by device and by the thread blocks that a launch may
/// have (0: all). Thread-safe.
class DeviceSpeedTable {
 public:
  /// True for who asks first, and for nobody after: it shall measure.
  [[nodiscard]] bool Claim(int device, uint32_t max_ctas) {
    const std::lock_guard lock(mutex_);
    return speeds_.try_emplace({device, max_ctas}).second;
  }
  void Set(int device, uint32_t max_ctas, const DeviceSpeeds& speeds) {
    const std::lock_guard lock(mutex_);
    speeds_[{device, max_ctas}] = speeds;
  }
  /// Nothing while they are not known.
  [[nodiscard]] std::optional<DeviceSpeeds> Find(int device, uint32_t max_ctas) const {
    const std::lock_guard lock(mutex_);
    const auto found = speeds_.find({device, max_ctas});
    return found == speeds_.end() ? std::nullopt : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<int, uint32_t>, std::optional<DeviceSpeeds>> speeds_;
};

}  // namespace cinch::transfer
