// SPDX-License-Identifier: Apache-2.0
/// @file emulated_gpu.h
/// Runs the source of a CUDA kernel on the host. Every thread is a fiber; at every collective call,
/// wait or poll the threads go on in another random order. What hangs or comes out wrong because of
/// a barrier that is missing or because of who comes first does so here, too, without a GPU. (What
/// is only memory order does not.)
///
/// The folder stands before src/ in the include path, so that the files in it take the place of
/// those that are made of PTX. Include this header first.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace cinch::emulated {

inline constexpr uint32_t kSharedBytes = 128 << 10;

/// Where some threads meet and see each other's values.
class Meeting {
 public:
  explicit Meeting(uint32_t most) : values_{std::vector<uint64_t>(most), {}} {
    values_[1] = values_[0];
  }
  const std::vector<uint64_t>& Exchange(uint32_t size, uint32_t index, uint64_t value);

 private:
  uint32_t arrived_ = 0;
  uint64_t turn_ = 0;
  std::vector<uint64_t> values_[2];
};

struct ThreadBlock {
  explicit ThreadBlock(uint32_t threads)
      : shared(new uint8_t[kSharedBytes + 128]), warps(threads / 32, Meeting(32)) {
    for (int i = 0; i < 16; ++i) barriers.emplace_back(threads);
    std::fill_n(shared.get(), kSharedBytes + 128, uint8_t{0xA5});
  }
  uint8_t* shared_base() {
    const auto address = reinterpret_cast<uintptr_t>(shared.get());
    return shared.get() + (128 - address % 128) % 128;
  }
  std::unique_ptr<uint8_t[]> shared;
  std::vector<Meeting> warps;
  std::vector<Meeting> barriers;
};

/// The grid that is running.
class Grid {
 public:
  static Grid& Current() { return *current_grid_; }

  Grid(uint32_t blocks, uint32_t threads, uint64_t seed) : threads_(threads), random_(seed) {
    for (uint32_t i = 0; i < blocks; ++i) blocks_.emplace_back(threads);
    fibers_.resize(size_t{blocks} * threads);
  }

  void Run(const std::function<void()>& body) {
    current_grid_ = this;
    body_ = &body;
    for (uint32_t i = 0; i < fibers_.size(); ++i) Prepare(i);
    std::vector<uint32_t> warps(fibers_.size() / 32);
    for (uint32_t i = 0; i < warps.size(); ++i) warps[i] = i;
    size_t alive = fibers_.size();
    for (uint64_t round = 0; alive != 0; ++round) {
      if (round > 3'000'000) throw std::logic_error("the emulated grid does not come to an end");
      std::shuffle(warps.begin(), warps.end(), random_);
      bool progressed = false;
      for (const uint32_t warp : warps) {
        const uint32_t turn = static_cast<uint32_t>(random_() % 32);
        for (uint32_t lane = 0; lane < 32; ++lane) {
          const uint32_t i = 32 * warp + (lane + turn) % 32;
          Fiber& fiber = fibers_[i];
          if (fiber.ended || (fiber.ready && !fiber.ready())) continue;
          fiber.ready = nullptr;
          current_ = i;
          progressed = true;
          swapcontext(&main_, &fiber.context);
          if (fiber.ended) --alive;
        }
      }
      if (alive != 0 && !progressed) throw std::logic_error("not all threads reach a collective");
    }
    current_grid_ = nullptr;
  }

  void WaitUntil(std::function<bool()> ready) {
    Fiber& fiber = fibers_[current_];
    fiber.ready = std::move(ready);
    swapcontext(&fiber.context, &main_);
  }
  void Yield() {
    WaitUntil([] { return true; });
  }

  uint32_t thread() const { return current_ % threads_; }
  uint32_t block() const { return current_ / threads_; }
  uint32_t threads() const { return threads_; }
  uint32_t blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  ThreadBlock& own_block() { return blocks_[block()]; }

  const std::vector<uint64_t>& Warp(uint64_t value) {
    return own_block().warps[thread() / 32].Exchange(32, thread() % 32, value);
  }
  const std::vector<uint64_t>& Barrier(uint32_t id, uint32_t threads, uint64_t value) {
    return own_block().barriers[id].Exchange(threads, thread(), value);
  }

 private:
  static constexpr size_t kStackBytes = 64 << 10;
  struct Fiber {
    ucontext_t context;
    std::function<bool()> ready;
    bool ended = false;
  };

  void Prepare(uint32_t i) {
    static std::vector<std::unique_ptr<uint8_t[]>> stacks;
    while (stacks.size() <= i) stacks.emplace_back(new uint8_t[kStackBytes]);
    Fiber& fiber = fibers_[i];
    Initialize(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks[i].get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &main_;
    makecontext(&fiber.context, &Grid::Enter, 0);
  }
  [[gnu::noinline]] static void Initialize(ucontext_t* context) { getcontext(context); }
  static void Enter() {
    Grid& grid = Current();
    const uint32_t self = grid.current_;
    (*grid.body_)();
    grid.fibers_[self].ended = true;
  }

  inline static Grid* current_grid_ = nullptr;
  uint32_t threads_;
  std::mt19937_64 random_;
  std::vector<ThreadBlock> blocks_;
  std::vector<Fiber> fibers_;
  ucontext_t main_ = {};
  uint32_t current_ = 0;
  const std::function<void()>* body_ = nullptr;
};

inline const std::vector<uint64_t>& Meeting::Exchange(uint32_t size, uint32_t index,
                                                      uint64_t value) {
  const uint64_t turn = turn_;
  values_[turn % 2][index] = value;
  if (++arrived_ == size) {
    arrived_ = 0;
    ++turn_;
  }
  Grid::Current().WaitUntil([this, turn] { return turn_ != turn; });
  return values_[turn % 2];
}

/// A built-in variable's member.
template <typename Read>
struct BuiltIn {
  operator uint32_t() const { return Read()(); }  // NOLINT(google-explicit-constructor)
};
struct ReadThread {
  uint32_t operator()() const { return Grid::Current().thread(); }
};
struct ReadBlock {
  uint32_t operator()() const { return Grid::Current().block(); }
};
struct ReadThreads {
  uint32_t operator()() const { return Grid::Current().threads(); }
};
struct ReadBlocks {
  uint32_t operator()() const { return Grid::Current().blocks(); }
};
template <typename Read>
struct BuiltInVector {
  BuiltIn<Read> x;
};

/// A pair of 16-bit numbers a word, each to be mapped.
template <typename Map>
uint32_t Halves(uint32_t a, uint32_t b, uint32_t c, Map map) {
  const auto half = [&](uint32_t shift) {
    return uint32_t{static_cast<uint16_t>(map(static_cast<uint16_t>(a >> shift),
                                              static_cast<uint16_t>(b >> shift),
                                              static_cast<uint16_t>(c >> shift)))};
  };
  return half(0) | (half(16) << 16);
}

}  // namespace cinch::emulated

// The names are CUDA's.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
inline constexpr cinch::emulated::BuiltInVector<cinch::emulated::ReadThread> threadIdx;
inline constexpr cinch::emulated::BuiltInVector<cinch::emulated::ReadBlock> blockIdx;
inline constexpr cinch::emulated::BuiltInVector<cinch::emulated::ReadThreads> blockDim;
inline constexpr cinch::emulated::BuiltInVector<cinch::emulated::ReadBlocks> gridDim;

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

inline void __syncwarp() { cinch::emulated::Grid::Current().Warp(0); }
inline void __syncthreads() {
  cinch::emulated::Grid& grid = cinch::emulated::Grid::Current();
  grid.Barrier(0, grid.threads(), 0);
}
inline int __syncthreads_or(int value) {
  cinch::emulated::Grid& grid = cinch::emulated::Grid::Current();
  const auto& all = grid.Barrier(0, grid.threads(), value != 0 ? 1 : 0);
  return std::any_of(all.begin(), all.end(), [](uint64_t one) { return one != 0; }) ? 1 : 0;
}
template <typename T>
T __shfl_sync(uint32_t, T value, uint32_t lane) {
  return static_cast<T>(
      cinch::emulated::Grid::Current().Warp(static_cast<uint64_t>(value))[lane % 32]);
}
template <typename T>
T __shfl_down_sync(uint32_t, T value, uint32_t by) {
  const uint32_t lane = threadIdx.x % 32;
  const auto& all = cinch::emulated::Grid::Current().Warp(static_cast<uint64_t>(value));
  return static_cast<T>(all[lane + by < 32 ? lane + by : lane]);
}
template <typename T>
T __shfl_up_sync(uint32_t, T value, uint32_t by) {
  const uint32_t lane = threadIdx.x % 32;
  const auto& all = cinch::emulated::Grid::Current().Warp(static_cast<uint64_t>(value));
  return static_cast<T>(all[lane >= by ? lane - by : lane]);
}
inline uint32_t __ballot_sync(uint32_t, bool value) {
  const auto& all = cinch::emulated::Grid::Current().Warp(value ? 1 : 0);
  uint32_t bits = 0;
  for (uint32_t i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(all[i]) << i;
  return bits;
}
inline bool __any_sync(uint32_t mask, bool value) { return __ballot_sync(mask, value) != 0; }
inline bool __all_sync(uint32_t mask, bool value) { return __ballot_sync(mask, value) == ~0U; }
inline uint32_t __reduce_add_sync(uint32_t, uint32_t value) {
  uint32_t sum = 0;
  for (const uint64_t one : cinch::emulated::Grid::Current().Warp(value)) {
    sum += static_cast<uint32_t>(one);
  }
  return sum;
}
inline uint32_t __reduce_or_sync(uint32_t, uint32_t value) {
  uint32_t bits = 0;
  for (const uint64_t one : cinch::emulated::Grid::Current().Warp(value)) {
    bits |= static_cast<uint32_t>(one);
  }
  return bits;
}
inline uint32_t __reduce_max_sync(uint32_t, uint32_t value) {
  const auto& all = cinch::emulated::Grid::Current().Warp(value);
  return static_cast<uint32_t>(*std::max_element(all.begin(), all.end()));
}
inline float __fdividef(float a, float b) { return a / b; }
inline void __threadfence() {}
inline void __threadfence_system() {}
inline void __nanosleep(uint32_t) { cinch::emulated::Grid::Current().Yield(); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __clz(int value) {
  return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value));
}
template <typename T, typename U>
T atomicAdd(T* to, U value) {
  const T before = *to;
  *to = static_cast<T>(before + static_cast<T>(value));
  return before;
}
template <typename T, typename U>
T atomicOr(T* to, U value) {
  const T before = *to;
  *to |= value;
  return before;
}
template <typename T, typename U>
T atomicMax(T* to, U value) {
  const T before = *to;
  *to = std::max(before, static_cast<T>(value));
  return before;
}
template <typename T, typename U>
T atomicExch(T* to, U value) {
  const T before = *to;
  *to = static_cast<T>(value);
  return before;
}
inline uint32_t __vminu2(uint32_t a, uint32_t b) {
  return cinch::emulated::Halves(a, b, 0,
                                 [](uint16_t x, uint16_t y, uint16_t) { return std::min(x, y); });
}
inline uint32_t __viaddmin_u16x2(uint32_t a, uint32_t b, uint32_t c) {
  return cinch::emulated::Halves(a, b, c, [](uint16_t x, uint16_t y, uint16_t z) {
    return std::min(static_cast<uint16_t>(x + y), z);
  });
}
inline uint32_t __viaddmax_u16x2(uint32_t a, uint32_t b, uint32_t c) {
  return cinch::emulated::Halves(a, b, c, [](uint16_t x, uint16_t y, uint16_t z) {
    return std::max(static_cast<uint16_t>(x + y), z);
  });
}
inline uint32_t __viaddmax_s16x2(uint32_t a, uint32_t b, uint32_t c) {
  return cinch::emulated::Halves(a, b, c, [](uint16_t x, uint16_t y, uint16_t z) {
    return std::max(static_cast<int16_t>(static_cast<uint16_t>(x + y)), static_cast<int16_t>(z));
  });
}
using std::max;
using std::min;

// Names that the standard library uses, too: after its headers.
#define __CUDACC__ 1
#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
