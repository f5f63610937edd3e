// SPDX-License-Identifier: Apache-2.0
#include "transfer/progress_loop.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace cinch::transfer {
namespace {

// Names of what is not a session. A session that happens to have one of these values is only
// noticed late, by its missing heartbeats.
constexpr uint64_t kBackendName = 0;
constexpr uint64_t kWakeName = 1;
constexpr uint64_t kTimerName = 2;

constexpr auto kLongestSleep = std::chrono::seconds(1);

timespec UntilThen(TimePoint until) {
  const auto now = Clock::now();
  const auto left =
      std::clamp<Clock::duration>(until - now, std::chrono::nanoseconds(1), kLongestSleep);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  constexpr int64_t kSecond = 1'000'000'000;
  return {nanoseconds / kSecond, nanoseconds % kSecond};
}

}  // namespace

Status ProgressLoop::Open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid() || !timer_.valid()) return CINCH_ERROR_OUT_OF_MEMORY;
  CINCH_RETURN_IF_ERROR(Watch(wake_.get(), kWakeName));
  return Watch(timer_.get(), kTimerName);
}

Status ProgressLoop::Watch(int fd, uint64_t name) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = name;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? CINCH_OK
                                                                   : CINCH_ERROR_OUT_OF_MEMORY;
}

Status ProgressLoop::WatchBackend(int fd) { return Watch(fd, kBackendName); }

Status ProgressLoop::WatchLiveness(int fd, uint64_t session) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;  // Once is enough, and a closed one stays ready.
  event.data.u64 = session;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? CINCH_OK
                                                                   : CINCH_ERROR_OUT_OF_MEMORY;
}

void ProgressLoop::Wake() {
  // The only failure is a full counter, which wakes as well.
  static_cast<void>(::eventfd_write(wake_.get(), 1));
}

void ProgressLoop::DrainWake() {
  eventfd_t count = 0;
  static_cast<void>(::eventfd_read(wake_.get(), &count));
}

void ProgressLoop::Sleep(TimePoint until, std::vector<uint64_t>& sessions) {
  sessions.clear();
  itimerspec timer{};
  timer.it_value = UntilThen(until);
  ::timerfd_settime(timer_.get(), 0, &timer, nullptr);
  std::array<epoll_event, 32> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
  for (int i = 0; i < count; ++i) {
    const uint64_t name = events[static_cast<size_t>(i)].data.u64;
    if (name == kWakeName) DrainWake();
    if (name > kTimerName) sessions.push_back(name);
  }
}

void ProgressLoop::Look(std::vector<uint64_t>& sessions) {
  sessions.clear();
  std::array<epoll_event, 32> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t name = events[static_cast<size_t>(i)].data.u64;
    if (name > kTimerName) sessions.push_back(name);
  }
}

void ProgressLoop::SleepUnlessWoken(TimePoint until) {
  pollfd wake{wake_.get(), POLLIN, 0};
  const timespec timeout = UntilThen(until);
  if (::ppoll(&wake, 1, &timeout, nullptr) > 0) DrainWake();
}

}  // namespace cinch::transfer
