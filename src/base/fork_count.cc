// SPDX-License-Identifier: Apache-2.0
#include "base/fork_count.h"

#include <pthread.h>

#include <atomic>

namespace cinch {
namespace {

std::atomic<uint32_t> forks{0};

void CountFork() { forks.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint32_t ForkCount() {
  // Without memory for the handler, children are not noticed.
  static const int registered = ::pthread_atfork(nullptr, nullptr, &CountFork);
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace cinch
