// SPDX-License-Identifier: Apache-2.0
#include "collectives/guard.h"

#include "base/log.h"
#include "collectives/communicator.h"

namespace cinch::collectives {
namespace {

constexpr auto kCheckInterval = std::chrono::milliseconds(100);

}  // namespace

Guard::~Guard() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Guard::Enter(Communicator* comm, uint32_t* flag, uint32_t value) {
  const auto patience = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(comm->timeout_seconds()));
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back({comm, flag, value, std::chrono::steady_clock::now() + patience});
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  }
  wake_.notify_all();
}

void Guard::Leave() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

void Guard::LetGo() {
  for (const Entry& entry : entries_) {
    Log(LogLevel::kError, "rank {} of {}: the driver does not let a transfer go on; giving up",
        entry.comm->rank(), entry.comm->ranks());
    entry.comm->error.store(kNcclSystemError);
    if (entry.flag != nullptr) __atomic_store_n(entry.flag, entry.value, __ATOMIC_RELEASE);
  }
  entries_.clear();
}

void Guard::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait(lock, [&] { return stop_ || !entries_.empty(); });
    wake_.wait_for(lock, kCheckInterval, [&] { return stop_; });
    if (entries_.empty()) continue;
    if (std::chrono::steady_clock::now() >= entries_.front().deadline) LetGo();
  }
}

}  // namespace cinch::collectives
