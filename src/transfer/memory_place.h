// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::transfer {

/// Whose memory something is.
struct MemoryPlace {
  int device = -1;  ///< The device's number; negative: host memory.

  [[nodiscard]] bool on_device() const { return device >= 0; }
  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};

/// A point of a stream that work of ours must come after. Freed with the last reference to it.
class StreamPoint {
 public:
  StreamPoint() = default;
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;
  virtual ~StreamPoint() = default;
};

}  // namespace cinch::transfer
