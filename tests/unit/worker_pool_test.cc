// SPDX-License-Identifier: Apache-2.0
#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>

namespace cinch {
namespace {

TEST(WorkerPool, CallsEveryIndexOnce) {
  for (const uint32_t threads : {1U, 2U, 3U, 8U}) {
    WorkerPool pool(threads);
    EXPECT_EQ(pool.thread_count(), threads);
    for (const size_t count : {0UL, 1UL, 2UL, 7UL, 1000UL}) {
      // Plain counters: the pool's own ordering must make them visible here.
      std::vector<int> calls(count);
      pool.ParallelFor(count, [&](size_t index) noexcept { ++calls[index]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1)) << threads << " threads, " << count;
    }
  }
}

TEST(WorkerPool, WorkerNumbersAreBelowTheThreadCountAndNeverShared) {
  constexpr uint32_t kThreads = 4;
  WorkerPool pool(kThreads);
  std::vector<std::atomic<int>> running(kThreads);
  std::atomic<int> clashes{0};
  pool.ParallelFor(2000, [&](size_t, uint32_t worker) noexcept {
    if (worker >= kThreads || running[worker].fetch_add(1) != 0) ++clashes;
    std::this_thread::yield();
    running[worker].fetch_sub(1);
  });
  EXPECT_EQ(clashes, 0);
}

TEST(WorkerPool, UsesItsThreads) {
  constexpr uint32_t kThreads = 3;
  WorkerPool pool(kThreads);
  // Each function waits for the others, so the call only ends when three run at once.
  std::atomic<uint32_t> arrived{0};
  pool.ParallelFor(kThreads, [&](size_t) noexcept {
    ++arrived;
    while (arrived < kThreads) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, kThreads);
}

TEST(WorkerPool, NestedCallsRunInPlace) {
  WorkerPool pool(4);
  std::atomic<size_t> inner_calls{0};
  std::atomic<int> strayed{0};
  pool.ParallelFor(8, [&](size_t, uint32_t outer_worker) noexcept {
    const std::thread::id self = std::this_thread::get_id();
    pool.ParallelFor(5, [&](size_t, uint32_t inner_worker) noexcept {
      ++inner_calls;
      if (std::this_thread::get_id() != self || inner_worker != outer_worker) ++strayed;
    });
  });
  EXPECT_EQ(inner_calls, 40U);
  EXPECT_EQ(strayed, 0);
}

TEST(WorkerPool, CallersOnSeveralThreadsTakeTurns) {
  WorkerPool pool(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&pool, &wrong, caller] {
      for (size_t round = 0; round < 200; ++round) {
        std::vector<size_t> squares(caller + round % 9);
        pool.ParallelFor(squares.size(),
                         [&](size_t index) noexcept { squares[index] = index * index; });
        for (size_t i = 0; i < squares.size(); ++i) {
          if (squares[i] != i * i) ++wrong;
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(WorkerPool, ManyShortJobsInARow) {
  WorkerPool pool(4);
  std::atomic<size_t> sum{0};
  for (size_t job = 0; job < 5000; ++job) {
    pool.ParallelFor(2, [&](size_t index) noexcept { sum += index + 1; });
  }
  EXPECT_EQ(sum, 15000U);
}

TEST(WorkerPool, ZeroTakesTheUsableCores) {
  EXPECT_GE(UsableCores(), 1U);
  EXPECT_EQ(WorkerPool(0).thread_count(), UsableCores());
}

TEST(WorkerPool, TwoPoolsMayNest) {
  WorkerPool outer(2);
  std::atomic<size_t> calls{0};
  outer.ParallelFor(4, [&](size_t) noexcept {
    WorkerPool inner(2);
    inner.ParallelFor(6, [&](size_t) noexcept { ++calls; });
  });
  EXPECT_EQ(calls, 24U);
}

}  // namespace
}  // namespace cinch
