// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives/world.h"

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "tensors/generators.h"

namespace cinch::bench {
namespace {

/// What the ranks' bootstrap gathers by.
struct Meeting {
  explicit Meeting(uint32_t count) : ranks(count), barrier(count) {}
  uint32_t ranks;
  std::barrier<> barrier;
  std::mutex mutex;
  std::vector<uint8_t> bytes;
};
struct Member {
  Meeting* meeting;
  uint32_t rank;
};
int Gather(void* context, const void* send, void* receive, size_t bytes) {
  const auto* member = static_cast<const Member*>(context);
  Meeting* meeting = member->meeting;
  {
    const std::lock_guard lock(meeting->mutex);
    meeting->bytes.resize(meeting->ranks * bytes);
    std::memcpy(meeting->bytes.data() + member->rank * bytes, send, bytes);
  }
  meeting->barrier.arrive_and_wait();
  std::memcpy(receive, meeting->bytes.data(), meeting->bytes.size());
  meeting->barrier.arrive_and_wait();
  return 0;
}

uint8_t* Allocate(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "device memory");
  return static_cast<uint8_t*>(memory);
}

void Fill(uint8_t* to, size_t bytes, std::span<const std::byte> sample) {
  for (size_t at = 0; at < bytes; at += sample.size()) {
    Check(cudaMemcpy(to + at, sample.data(), std::min(sample.size(), bytes - at),
                     cudaMemcpyHostToDevice),
          "an upload");
  }
}

/// Ends the program when a kernel gave up.
void CheckReport(const Rank& rank) {
  fused::Report report;
  const Status status = rank.fused->Check(&report);
  if (status == CINCH_OK) return;
  std::fprintf(
      stderr, "rank %u gave up: %s, peer %u data %u channel %u step %llu expected %u seen %u\n",
      rank.fused->rank(), cinch_status_name(status), report.peer, report.waits_for_data,
      report.channel, static_cast<unsigned long long>(report.step), report.expected, report.seen);
  std::fflush(nullptr);
  std::_Exit(1);  // Other ranks' threads may be in the middle of something.
}

}  // namespace

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fused_bench: %s failed\n", what);
  std::fflush(nullptr);
  std::_Exit(1);  // Other ranks' threads may be in the middle of something.
}
void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "fused_bench: %s failed: %s\n", what, cudaGetErrorString(error));
  std::fflush(nullptr);
  std::_Exit(1);  // Other ranks' threads may be in the middle of something.
}
void Enqueued(Status status) { Check(status == CINCH_OK, cinch_status_name(status)); }

World::World(const WorldOptions& options,
             const std::function<std::span<const std::byte>(uint32_t rank)>& sample)
    : ranks_(options.ranks) {
  Meeting meeting(options.ranks);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    ranks_[rank].device = options.many_devices ? static_cast<int>(rank) : 0;
  }
  Together([&](Rank& own, uint32_t rank) {
    Check(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking), "a stream");
    own.send = Allocate(options.bytes);
    own.receive = Allocate(options.bytes);
    Check(cudaEventCreate(&own.start), "an event");
    Check(cudaEventCreate(&own.stop), "an event");
    Fill(own.send, options.bytes, sample(rank));
    Member member{&meeting, rank};
    fused::CommunicatorOptions wanted;
    wanted.rank = rank;
    wanted.ranks = options.ranks;
    wanted.max_ctas = options.max_ctas;
    wanted.timeout_seconds = 5;
    wanted.bootstrap = {&Gather, &member};
    const Status status = fused::Communicator::Create(wanted, &own.fused);
    if (status == CINCH_ERROR_UNSUPPORTED) {
      std::fprintf(stderr, "fused_bench: the GPUs do not reach each other's memory\n");
    }
    Check(status == CINCH_OK, "making a communicator");
  });
}

void World::Together(const std::function<void(Rank&, uint32_t)>& call) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count(); ++i) {
    threads.emplace_back([&, i] {
      Check(cudaSetDevice(ranks_[i].device), "choosing a device");
      call(ranks_[i], i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

double World::Round(int repeats, const std::function<void(Rank&, uint32_t)>& call) {
  Together([](Rank& rank, uint32_t) { Check(cudaStreamSynchronize(rank.stream), "a kernel"); });
  std::barrier<> together(static_cast<std::ptrdiff_t>(ranks_.size()));
  Together([&](Rank& rank, uint32_t i) {
    together.arrive_and_wait();
    call(rank, i);  // Brings the ranks together.
    Check(cudaEventRecord(rank.start, rank.stream), "an event");
    for (int repeat = 0; repeat < repeats; ++repeat) call(rank, i);
    Check(cudaEventRecord(rank.stop, rank.stream), "an event");
    Check(cudaStreamSynchronize(rank.stream), "a kernel");
  });
  float longest = 0;
  for (const Rank& rank : ranks_) {
    float milliseconds = 0;
    Check(cudaSetDevice(rank.device), "choosing a device");
    Check(cudaEventElapsedTime(&milliseconds, rank.start, rank.stop), "a time");
    longest = std::max(longest, milliseconds);
    CheckReport(rank);
  }
  return longest * 1e-3 / repeats;
}

World::Times World::Time(int repeats, const std::function<void(Rank&, uint32_t)>& call) {
  constexpr int kRounds = 3;
  Round(repeats, call);  // Warms up.
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) times.push_back(Round(repeats, call));
  std::ranges::sort(times);
  return {times[kRounds / 2], times.front()};
}

std::span<const std::byte> UsualWeights(uint32_t rank) {
  static std::mutex mutex;
  static std::map<uint32_t, std::vector<std::byte>> samples;
  const std::lock_guard lock(mutex);
  std::vector<std::byte>& sample = samples[rank];
  if (sample.empty()) {
    sample.resize(size_t{8} << 20);
    Check(tensors::GenerateData({}, CINCH_DTYPE_BF16, rank + 1, 0, sample) == CINCH_OK, "a sample");
  }
  return sample;
}

}  // namespace cinch::bench
