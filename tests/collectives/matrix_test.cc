// SPDX-License-Identifier: Apache-2.0
// Random sequences of everything that NCCL does, through the interposer and beside it: every byte
// of every buffer must be the same. The rows of the table in docs/collectives.md are counted.
#include <gtest/gtest.h>

#include <deque>

#include "collectives/sequence.h"

namespace cinch::testing {
namespace {

constexpr uint64_t kMinBytes = 2048;
// Steps between looks at the memory.
constexpr size_t kBatch = 40;

struct World {
  const char* name;
  PolicyMode policy;
  SequenceOptions options;
  size_t steps;
  double patience_seconds;
};

class Matrix : public ::testing::TestWithParam<World> {};

/// One rank's side of a sequence.
class Player {
 public:
  Player(const World& world, uint64_t seed, Rank& self)
      : options_(world.options), self_(self), maker_(seed, world.options) {
    void* child = nullptr;
    EXPECT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr), 0);
    interposed_ = {self.comm, child};
    for (uint64_t i = 0; i < interposed_.size(); ++i) {
      plain_.push_back(MakePlainComm(self.ranks, self.rank, world.steps * 2 + i));
    }
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    EXPECT_EQ(ncclCommDestroy(interposed_[1]), 0);
    for (void* comm : plain_) EXPECT_EQ(PlainNccl().comm_destroy(comm), 0);
  }

  /// A batch of steps, some in groups; false when something differs.
  bool PlayBatch() {
    std::deque<Played> batch;
    while (batch.size() < kBatch) {
      const size_t group = maker_.Pick(2) == 0 ? 1 + maker_.Pick(5) : 0;
      const bool nested = group > 0 && maker_.Pick(1) != 0;
      const size_t begin = batch.size();
      for (size_t i = 0; i < std::max<size_t>(group, 1); ++i) {
        const Step step = maker_.Next();
        batch.emplace_back(
            Played{step, {step, self_.rank, self_.ranks}, {step, self_.rank, self_.ranks}});
      }
      Run(&batch, begin, group > 0, nested, InterposedNccl(), &Played::through, interposed_);
      Run(&batch, begin, group > 0, nested, PlainNccl(), &Played::beside, plain_);
    }
    for (HostStream* stream : {&self_.stream, &second_stream_, &third_stream_, &fourth_stream_}) {
      stream->Synchronize();
    }
    for (const Played& played : batch) {
      const bool same = played.through == played.beside;
      EXPECT_TRUE(same) << "kind " << static_cast<int>(played.step.kind) << " dtype "
                        << played.step.dtype << " count " << played.step.count << " reduction "
                        << played.step.reduction << " in place " << played.step.in_place << " step "
                        << played.step.serial << " rank " << self_.rank;
      if (!same) return false;
    }
    return true;
  }

 private:
  struct Played {
    Step step;
    StepBuffers through;
    StepBuffers beside;
  };

  void Run(std::deque<Played>* batch, size_t begin, bool grouped, bool nested,
           const collectives::NcclApi& api, StepBuffers Played::*buffers,
           const std::vector<void*>& comms) {
    const bool through = &api == &InterposedNccl();
    HostStream* streams[] = {through ? &self_.stream : &third_stream_,
                             through ? &second_stream_ : &fourth_stream_};
    if (grouped) {
      EXPECT_EQ(api.group_start(), 0);
    }
    if (nested) {
      EXPECT_EQ(api.group_start(), 0);
    }
    for (size_t i = begin; i < batch->size(); ++i) {
      Played& played = (*batch)[i];
      EXPECT_EQ((played.*buffers).Run(api, comms[played.step.comm], streams[played.step.stream]),
                0);
    }
    if (nested) {
      EXPECT_EQ(api.group_end(), 0);
    }
    if (grouped) {
      EXPECT_EQ(api.group_end(), 0);
    }
  }

  SequenceOptions options_;
  Rank& self_;
  SequenceMaker maker_;
  std::vector<void*> interposed_;
  std::vector<void*> plain_;
  HostStream second_stream_;
  HostStream third_stream_;
  HostStream fourth_stream_;
};

/// The sum of what the report's lines say before `what`.
uint64_t Reported(const std::string& report, const std::string& what) {
  uint64_t sum = 0;
  for (size_t at = report.find(what); at != std::string::npos; at = report.find(what, at + 1)) {
    const size_t digits = report.find_last_not_of("0123456789", at - 2);
    sum += std::stoull(report.substr(digits + 1, at - 1 - digits));
  }
  return sum;
}

TEST_P(Matrix, IsBitForBitWhatNcclDoes) {
  const World& world = GetParam();
  const uint64_t before = Rig(world.policy, kMinBytes).violations();
  Rig rig(world.policy, kMinBytes, world.patience_seconds);
  RunRanks(world.options.ranks, [&](Rank& self) {
    // Another sequence with --gtest_shuffle --gtest_random_seed=N.
    const auto seed = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed());
    Player player(world, seed, self);
    for (size_t steps = 0; steps < world.steps; steps += kBatch) {
      if (!player.PlayBatch()) return;
    }
    int error = -1;
    EXPECT_EQ(ncclCommGetAsyncError(self.comm, &error), 0);
    EXPECT_EQ(error, collectives::kNcclSuccess);
  });
  const std::string report = rig.shim().Report();
  EXPECT_EQ(rig.violations(), before);
  EXPECT_EQ(rig.device().live_allocations, 0);
  EXPECT_GT(Reported(report, "operations could be compressed"), world.steps / 4) << report;
  EXPECT_GT(Reported(report, "frames did not fit"), 0U) << report;
  for (const char* row : {"small", "integers", "other reductions", "to themselves"}) {
    EXPECT_GT(Reported(report, row), world.steps / 200) << row << "\n" << report;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, Matrix,
    ::testing::Values(World{"TwoAuto", PolicyMode::kAuto, {2, 2, 2, 20000}, 6000, 0},
                      World{"TwoCompressed", PolicyMode::kCompressed, {2, 1, 1, 12000}, 3000, 0},
                      World{"ThreePatient", PolicyMode::kAuto, {3, 2, 2, 12000}, 2000, 1},
                      World{"FourCompressed", PolicyMode::kCompressed, {4, 2, 2, 8000}, 1500, 0}),
    [](const auto& world) { return world.param.name; });

}  // namespace
}  // namespace cinch::testing
