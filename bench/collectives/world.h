// SPDX-License-Identifier: Apache-2.0
/// @file world.h
/// Ranks as threads of this process, each with a device, a stream, buffers and a fused
/// communicator. Errors end the program: this is for benches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/fused/communicator.h"

namespace cinch::bench {

void Check(bool good, const char* what);
void Check(cudaError_t error, const char* what);
/// A launch that must have been enqueued.
void Enqueued(Status status);

struct Rank {
  int device = 0;
  cudaStream_t stream = nullptr;
  uint8_t* send = nullptr;
  uint8_t* receive = nullptr;
  std::unique_ptr<fused::Communicator> fused;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
};

struct WorldOptions {
  uint32_t ranks = 2;
  bool many_devices = false;  ///< A device a rank; else all are on device 0.
  uint32_t max_ctas = 64;
  size_t bytes = 0;  ///< Of each buffer.
};

class World {
 public:
  /// What ranks send is `sample(rank)`, again and again.
  World(const WorldOptions& options,
        const std::function<std::span<const std::byte>(uint32_t rank)>& sample);

  Rank& at(uint32_t rank) { return ranks_[rank]; }
  uint32_t count() const { return static_cast<uint32_t>(ranks_.size()); }

  /// Runs `call` for every rank at once, each in a thread of its own with its device set.
  void Together(const std::function<void(Rank&, uint32_t)>& call);

  struct Times {
    double median = 0;
    double fastest = 0;
  };
  /// Seconds of one call by all ranks: the slowest rank's, of `repeats` calls back to back, over a
  /// few rounds.
  Times Time(int repeats, const std::function<void(Rank&, uint32_t)>& call);

  void ForEach(const std::function<void(fused::Communicator&)>& change) {
    for (Rank& rank : ranks_) change(*rank.fused);
  }

 private:
  double Round(int repeats, const std::function<void(Rank&, uint32_t)>& call);

  std::vector<Rank> ranks_;
};

/// bf16 of the kind that trained weights are: 8 MiB that differ from rank to rank.
std::span<const std::byte> UsualWeights(uint32_t rank);

}  // namespace cinch::bench
