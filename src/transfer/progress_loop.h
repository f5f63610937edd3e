// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "transfer/clock.h"

namespace cinch::transfer {

/// What the progress thread sleeps on: the transport's descriptor, a timer, the peers' liveness
/// sockets, and a descriptor by which other threads wake it.
class ProgressLoop {
 public:
  /// OK, OUT_OF_MEMORY (no descriptors).
  [[nodiscard]] Status Open();

  /// The transport's descriptor; once.
  [[nodiscard]] Status WatchBackend(int fd);
  /// A liveness socket, reported by its session until it is closed.
  [[nodiscard]] Status WatchLiveness(int fd, uint64_t session);

  /// Ends the current or the next Sleep(). Any thread.
  void Wake();

  /// Sleeps until something happens or `until`; fills in the sessions whose sockets are readable.
  void Sleep(TimePoint until, std::vector<uint64_t>& sessions);
  /// Only looks at those sockets; a Wake() is kept for the next Sleep().
  void Look(std::vector<uint64_t>& sessions);
  /// Sleeps until Wake() or `until`, whatever else happens.
  void SleepUnlessWoken(TimePoint until);

 private:
  [[nodiscard]] Status Watch(int fd, uint64_t name);
  void DrainWake();

  UniqueFd epoll_;
  UniqueFd wake_;
  UniqueFd timer_;
};

}  // namespace cinch::transfer
