// SPDX-License-Identifier: Apache-2.0
/// @file sequence.h
/// Random sequences of NCCL calls, which all ranks make up alike and run on two communicators: one
/// that the interposer knows, and one that only the double does.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "collectives/ranks.h"

namespace cinch::testing {

/// A reduction operator that is made for the call and destroyed right after it.
inline constexpr int kOwnOperator = -1;

/// What every rank does at once.
struct Step {
  enum class Data { kWeights, kNoise, kZeros };
  collectives::Kind kind = collectives::Kind::kAllGather;  ///< kSend: a ring, or to itself.
  int dtype = 0;
  size_t count = 0;
  int reduction = 0;
  int root = 0;
  bool in_place = false;
  bool to_itself = false;
  Data data = Data::kWeights;
  size_t stream = 0;
  size_t comm = 0;
  uint64_t serial = 0;
};

/// The limits of what a sequence is made of.
struct SequenceOptions {
  int ranks = 2;
  size_t streams = 1;
  size_t comms = 1;
  size_t max_elements = 3000;
};

class SequenceMaker {
 public:
  SequenceMaker(uint64_t seed, const SequenceOptions& options) : random_(seed), options_(options) {}
  [[nodiscard]] Step Next();
  /// At most `limit`.
  [[nodiscard]] size_t Pick(size_t limit) { return random_() % (limit + 1); }

 private:
  std::mt19937_64 random_;
  SequenceOptions options_;
  uint64_t serial_ = 0;
};

/// A step's memory on one rank, for one of the two communicators.
class StepBuffers {
 public:
  StepBuffers(const Step& step, int rank, int ranks);

  /// Makes the step's calls; zero or the first error.
  [[nodiscard]] int Run(const collectives::NcclApi& api, void* comm, HostStream* stream);

  [[nodiscard]] bool operator==(const StepBuffers& other) const {
    return send_ == other.send_ && receive_ == other.receive_;
  }

 private:
  [[nodiscard]] int RunReduction(const collectives::NcclApi& api, void* comm, HostStream* stream,
                                 const void* send, void* receive);
  [[nodiscard]] int RunRing(const collectives::NcclApi& api, void* comm, HostStream* stream);

  Step step_;
  int rank_;
  int ranks_;
  size_t bytes_;  ///< Of `count` elements.
  std::vector<uint8_t> send_;
  std::vector<uint8_t> receive_;
};

/// The interposer's functions, by the same type as the double's.
[[nodiscard]] const collectives::NcclApi& InterposedNccl();

}  // namespace cinch::testing
