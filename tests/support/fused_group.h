// SPDX-License-Identifier: Apache-2.0
/// @file fused_group.h
/// Ranks of one process on one GPU, each with a stream, and messages for them.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/fused/communicator.h"
#include "gpu/gpu_codec.h"

namespace cinch::test {

/// Makes a rank's device current: the first one for all; each its own, in turn, when asked for.
inline void UseDeviceOf(uint32_t rank) {
  static const int devices = [] {
    int count = 1;
    const bool many = std::getenv("CINCH_FUSED_TEST_MANY_DEVICES") != nullptr;
    if (many && cudaGetDeviceCount(&count) != cudaSuccess) count = 1;
    return count;
  }();
  EXPECT_EQ(cudaSetDevice(static_cast<int>(rank) % devices), cudaSuccess);
}

/// Threads that gather bytes.
class ThreadBootstrap {
 public:
  explicit ThreadBootstrap(uint32_t ranks) : barrier_(ranks), ranks_(ranks) {}

  struct Member {
    ThreadBootstrap* group;
    uint32_t rank;
  };

  static int AllGather(void* context, const void* send, void* receive, size_t bytes_each) {
    const auto* member = static_cast<const Member*>(context);
    ThreadBootstrap* group = member->group;
    {
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      group->bytes_.resize(group->ranks_ * bytes_each);
      std::memcpy(group->bytes_.data() + member->rank * bytes_each, send, bytes_each);
    }
    group->barrier_.arrive_and_wait();
    std::memcpy(receive, group->bytes_.data(), group->bytes_.size());
    group->barrier_.arrive_and_wait();
    return 0;
  }

 private:
  std::barrier<> barrier_;
  uint32_t ranks_;
  std::vector<uint8_t> bytes_;
};

class FusedGroup {
 public:
  explicit FusedGroup(uint32_t ranks, uint32_t max_ctas, double timeout_seconds = 20)
      : communicators_(ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      UseDeviceOf(rank);
      streams_.push_back(std::make_unique<Stream>());
    }
    ThreadBootstrap bootstrap(ranks);
    std::vector<ThreadBootstrap::Member> members;
    for (uint32_t rank = 0; rank < ranks; ++rank) members.push_back({&bootstrap, rank});
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        UseDeviceOf(rank);
        fused::CommunicatorOptions options;
        options.rank = rank;
        options.ranks = ranks;
        options.max_ctas = max_ctas;
        options.timeout_seconds = timeout_seconds;
        options.bootstrap = {&ThreadBootstrap::AllGather, &members[rank]};
        EXPECT_EQ(fused::Communicator::Create(options, &communicators_[rank]), CINCH_OK);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  uint32_t ranks() const { return static_cast<uint32_t>(communicators_.size()); }
  fused::Communicator& at(uint32_t rank) { return *communicators_[rank]; }
  cudaStream_t stream(uint32_t rank) const { return *streams_[rank]; }

  /// Enqueues `call(rank, communicator, stream)` for all ranks and waits for all of them.
  template <typename Call>
  void Run(Call call) {
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      ASSERT_EQ(call(rank, at(rank), stream(rank)), CINCH_OK) << "rank " << rank;
    }
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      ASSERT_EQ(cudaStreamSynchronize(stream(rank)), cudaSuccess);
    }
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      fused::Report report;
      ASSERT_EQ(at(rank).Check(&report), CINCH_OK)
          << "rank " << rank << " waited for " << report.peer << " data " << report.waits_for_data
          << " channel " << report.channel << " step " << report.step << " expected "
          << report.expected << " seen " << report.seen;
    }
  }

 private:
  std::vector<std::unique_ptr<fused::Communicator>> communicators_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

/// A small generator whose numbers are the same everywhere.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545F4914F6CDD1DULL;
  }
  uint64_t Below(uint64_t end) { return Next() % end; }
  float Gaussian() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) {
      const uint64_t bits = Next();
      for (int k = 0; k < 3; ++k) sum += static_cast<float>((bits >> (16 * k)) & 0xFFFF) / 65536.0F;
    }
    return sum - 6.0F;
  }

 private:
  uint64_t state_;
};

inline uint16_t Bf16Of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  bits += 0x7FFF + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}
inline float FromBf16(uint16_t value) {
  const uint32_t bits = uint32_t{value} << 16;
  float number = 0;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

enum class Kind { kGaussian, kNoise, kZero, kMixed };

/// bf16 values, or what looks like none.
inline Bytes MakeMessage(size_t bytes, Kind kind, uint64_t seed) {
  static const std::vector<uint16_t> gaussian = [] {
    Numbers numbers(1);
    std::vector<uint16_t> values(65536);
    for (uint16_t& value : values) value = Bf16Of(0.02F * numbers.Gaussian());
    return values;
  }();
  Numbers numbers(seed);
  Bytes message(bytes);
  for (size_t at = 0; at < bytes; at += 8) {
    Kind now = kind;
    if (kind == Kind::kMixed) now = static_cast<Kind>((at / 6000) % 3);
    const uint64_t random = numbers.Next();
    uint16_t values[4] = {};
    for (int i = 0; i < 4 && now != Kind::kZero; ++i) {
      const auto value = static_cast<uint16_t>(random >> (16 * i));
      values[i] = now == Kind::kNoise ? value : gaussian[value];
    }
    std::memcpy(message.data() + at, values, std::min<size_t>(8, bytes - at));
  }
  return message;
}

}  // namespace cinch::test
