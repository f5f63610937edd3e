// SPDX-License-Identifier: Apache-2.0
/// @file fiber_team.h
/// A thread block on the host: every thread of it is a fiber, and at every collective call the
/// threads go on in another random order. What depends on the order in which threads run, or on a
/// barrier that is missing, comes out wrong here; a collective that not all threads reach throws.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace cinch::test {

/// Runs fibers in a random order until all have ended.
class FiberScheduler {
 public:
  FiberScheduler(uint32_t fibers, uint64_t seed, std::function<void(uint32_t)> body)
      : body_(std::move(body)), random_(seed), fibers_(fibers) {}

  void Run() {
    for (uint32_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      Initialize(&fiber.context);
      fiber.context.uc_stack.ss_sp = StackOf(i);
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = &main_;
      const auto self = reinterpret_cast<uintptr_t>(this);
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(&FiberScheduler::Enter), 3,
                  static_cast<uint32_t>(self), static_cast<uint32_t>(self >> 32), i);
    }
    std::vector<uint32_t> order(fibers_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    for (bool alive = true; alive;) {
      std::shuffle(order.begin(), order.end(), random_);
      alive = false;
      progressed_ = false;
      for (const uint32_t i : order) {
        if (fibers_[i].ended || (fibers_[i].waiting && !fibers_[i].waiting())) continue;
        fibers_[i].waiting = nullptr;
        current_ = i;
        progressed_ = true;
        swapcontext(&main_, &fibers_[i].context);
      }
      for (const Fiber& fiber : fibers_) alive |= !fiber.ended;
      if (alive && !progressed_) throw std::logic_error("not all threads reach a collective call");
    }
  }

  /// Called by a fiber: goes on when `ready` says so.
  void WaitUntil(std::function<bool()> ready) {
    const uint32_t self = current_;
    fibers_[self].waiting = std::move(ready);
    swapcontext(&fibers_[self].context, &main_);
  }

 private:
  static constexpr size_t kStackBytes = 128 << 10;
  struct Fiber {
    ucontext_t context;
    std::function<bool()> waiting;
    bool ended = false;
  };

  /// Alone, because a function that calls getcontext may not count on its variables.
  [[gnu::noinline]] static void Initialize(ucontext_t* context) { getcontext(context); }

  /// Stacks are kept from team to team: making them costs more than running a small block.
  static uint8_t* StackOf(uint32_t fiber) {
    static std::vector<std::unique_ptr<uint8_t[]>> stacks;
    while (stacks.size() <= fiber) stacks.emplace_back(new uint8_t[kStackBytes]);
    return stacks[fiber].get();
  }

  static void Enter(uint32_t low, uint32_t high, uint32_t index) {
    auto* self = reinterpret_cast<FiberScheduler*>((uint64_t{high} << 32) | low);
    self->body_(index);
    self->fibers_[index].ended = true;
  }

  std::function<void(uint32_t)> body_;
  std::mt19937_64 random_;
  std::vector<Fiber> fibers_;
  ucontext_t main_ = {};
  uint32_t current_ = 0;
  bool progressed_ = false;
};

/// Where `size` threads meet and see each other's values.
class Meeting {
 public:
  explicit Meeting(uint32_t size) : size_(size), values_{std::vector<uint64_t>(size), {}} {
    values_[1] = values_[0];
  }

  /// All values, once all have come. Valid until the caller's next call.
  const std::vector<uint64_t>& Exchange(FiberScheduler* scheduler, uint32_t index, uint64_t value) {
    const uint64_t turn = turn_;
    values_[turn % 2][index] = value;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++turn_;
    }
    scheduler->WaitUntil([this, turn] { return turn_ != turn; });
    return values_[turn % 2];
  }

 private:
  uint32_t size_;
  uint32_t arrived_ = 0;
  uint64_t turn_ = 0;
  std::vector<uint64_t> values_[2];
};

/// What the threads of a team share.
template <uint32_t kWarps>
struct FiberTeamState {
  static constexpr uint32_t kThreads = 32 * kWarps;
  FiberScheduler* scheduler = nullptr;
  Meeting team{kThreads};
  std::vector<Meeting> warps{kWarps, Meeting(32)};
};

/// A thread of a team; the interface of codec/gpu/warp/team.cuh.
template <uint32_t kWarps>
class FiberTeam {
 public:
  static constexpr uint32_t kLanes = 32;
  FiberTeam(FiberTeamState<kWarps>* state, uint32_t thread) : state_(state), thread_(thread) {}

  uint32_t lane() const { return thread_ % kLanes; }
  uint32_t warp() const { return thread_ / kLanes; }
  uint32_t warps() const { return kWarps; }
  uint32_t thread() const { return thread_; }
  uint32_t threads() const { return kLanes * kWarps; }
  void Sync() const { state_->team.Exchange(state_->scheduler, thread_, 0); }
  void WarpSync() const { Warp(0); }
  bool SyncAny(bool value) const {
    const auto& all = state_->team.Exchange(state_->scheduler, thread_, value ? 1 : 0);
    return std::any_of(all.begin(), all.end(), [](uint64_t one) { return one != 0; });
  }
  uint32_t WarpSum(uint32_t value) const {
    uint32_t sum = 0;
    for (const uint64_t one : Warp(value)) sum += static_cast<uint32_t>(one);
    return sum;
  }
  uint64_t WarpSum64(uint64_t value) const {
    uint64_t sum = 0;
    for (const uint64_t one : Warp(value)) sum += one;
    return sum;
  }
  uint32_t WarpMax(uint32_t value) const {
    const auto& all = Warp(value);
    return static_cast<uint32_t>(*std::max_element(all.begin(), all.end()));
  }
  uint32_t WarpOr(uint32_t value) const {
    uint32_t bits = 0;
    for (const uint64_t one : Warp(value)) bits |= static_cast<uint32_t>(one);
    return bits;
  }
  uint32_t WarpExclusive(uint32_t value, uint32_t* total) const {
    const auto& all = Warp(value);
    uint32_t before = 0;
    *total = 0;
    for (uint32_t i = 0; i < kLanes; ++i) {
      if (i < lane()) before += static_cast<uint32_t>(all[i]);
      *total += static_cast<uint32_t>(all[i]);
    }
    return before;
  }
  void Add(uint32_t* sum, uint32_t value) const { *sum += value; }
  void Add64(uint64_t* sum, uint64_t value) const { *sum += value; }
  void Or(uint32_t* bits, uint32_t value) const { *bits |= value; }

 private:
  const std::vector<uint64_t>& Warp(uint64_t value) const {
    return state_->warps[warp()].Exchange(state_->scheduler, lane(), value);
  }

  FiberTeamState<kWarps>* state_;
  uint32_t thread_;
};

/// Runs `body(team)` in every thread of a team of kWarps warps.
template <uint32_t kWarps, typename Body>
void RunTeam(uint64_t seed, Body body) {
  FiberTeamState<kWarps> state;
  FiberScheduler scheduler(32 * kWarps, seed,
                           [&](uint32_t thread) { body(FiberTeam<kWarps>(&state, thread)); });
  state.scheduler = &scheduler;
  scheduler.Run();
}

}  // namespace cinch::test
