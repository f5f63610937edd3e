// SPDX-License-Identifier: Apache-2.0
// Communicators come and go while operations are under way: random splits, shrinks, revocations,
// aborts, destructions, groups over several of them, streams that are held up. What was gathered on
// communicators that were not cut off must be right, and nothing may stand still or be left over.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "collectives/bf16_data.h"
#include "collectives/ranks.h"

namespace cinch::testing {
namespace {

using collectives::kNcclBfloat16;
using collectives::kNcclSuccess;

constexpr uint64_t kMinBytes = 2048;
constexpr size_t kElements = 3000;
constexpr size_t kMostComms = 6;

struct World {
  const char* name;
  int ranks;
  PolicyMode policy;
  int steps;
  double patience_seconds;
};

/// A communicator as all ranks know of it; those that are no members have no handle.
struct Known {
  uint64_t number;
  void* comm;
  std::vector<int> members;  ///< The first communicator's ranks, in the order of this one's.
  /// Shrunk: not all its ranks took part in that, so they no longer count its children alike.
  bool has_shrunk = false;
};

struct Gathering {
  uint64_t comm_number;
  Bf16 mine;
  Bf16 all;
  Bf16 expected;
};

/// Lets a stream go on after a while.
class Gate {
 public:
  explicit Gate(HostStream* stream) {
    stream->Enqueue([open = open_] {
      while (!open->load()) std::this_thread::yield();
    });
    opener_ = std::thread([open = open_] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      open->store(true);
    });
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { opener_.join(); }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
  std::thread opener_;
};

/// One rank's side. All draw the same numbers, so all do the same.
class Life {
 public:
  Life(uint64_t seed, Rank& self, std::barrier<>* meeting)
      : self_(self), random_(seed), meeting_(meeting) {
    std::vector<int> everybody(static_cast<size_t>(self.ranks));
    std::iota(everybody.begin(), everybody.end(), 0);
    comms_.push_back({0, self.comm, everybody});
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;
  ~Life() {
    Look();
    while (comms_.size() > 1) Destroy(comms_.size() - 1, false);
  }

  void Step() {
    constexpr size_t kActions = 16;
    const size_t action = Pick(kActions);
    const size_t any = Pick(comms_.size());
    if (action < 6) return Gather(any, 1 + Pick(5));
    if (action < 9) return GatherInGroup();
    if (action == 9) return Look();
    if (action == 10) {
      gates_.push_back(std::make_unique<Gate>(&StreamOf(Pick(2))));
      return;
    }
    const bool may_have_children = comms_.size() < kMostComms && !comms_[any].has_shrunk;
    if (action < 13 && may_have_children) return Split(any);
    if (any == 0) return Look();
    if (action == 13 && may_have_children) return Shrink(any);
    if (action == 14) return Destroy(any, Pick(2) != 0);
    if (action == 15) return CutOff(any);
    Destroy(any, true);
  }

 private:
  size_t Pick(size_t count) { return random_() % count; }
  HostStream& StreamOf(size_t index) { return index == 0 ? self_.stream : second_stream_; }
  bool IsMember(const Known& known) const { return known.comm != nullptr; }

  void Enqueue(const Known& known, size_t stream) {
    const int round = ++round_;
    const bool noise = Pick(8) == 0;
    if (!IsMember(known)) return;
    Gathering& made = gatherings_.emplace_back();
    made.comm_number = known.number;
    made.mine = MakeData(self_.rank, round, kElements, noise);
    made.all.resize(known.members.size() * kElements);
    for (const int member : known.members) {
      made.expected = Concatenate(made.expected, MakeData(member, round, kElements, noise));
    }
    EXPECT_EQ(ncclAllGather(made.mine.data(), made.all.data(), kElements, kNcclBfloat16, known.comm,
                            &StreamOf(stream)),
              kNcclSuccess);
  }

  void Gather(size_t index, size_t times) {
    for (size_t i = 0; i < times; ++i) Enqueue(comms_[index], Pick(2));
  }

  void GatherInGroup() {
    EXPECT_EQ(ncclGroupStart(), kNcclSuccess);
    const size_t calls = 2 + Pick(4);
    const size_t stream = Pick(2);
    for (size_t i = 0; i < calls; ++i) Enqueue(comms_[Pick(comms_.size())], stream);
    EXPECT_EQ(ncclGroupEnd(), kNcclSuccess);
  }

  void Add(void* comm, std::vector<int> members) {
    comms_.push_back({++number_, comm, std::move(members)});
  }

  void Split(size_t index) {
    const Known parent = comms_[index];
    const size_t size = parent.members.size();
    std::vector<int> order(parent.members);
    std::ranges::shuffle(order, random_);
    // One colour for all or two, and now and then somebody without any.
    const size_t first = Pick(2) == 0 ? size : 1 + Pick(size);
    const bool leaves_out = Pick(3) == 0;
    const std::vector<int> left(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first));
    const std::vector<int> right(order.begin() + static_cast<std::ptrdiff_t>(first), order.end());
    void* child = nullptr;
    int color = -1;
    if (IsMember(parent)) {
      const auto place = std::ranges::find(order, self_.rank) - order.begin();
      color = place < static_cast<std::ptrdiff_t>(first) ? 0 : leaves_out ? -1 : 1;
      EXPECT_EQ(ncclCommSplit(parent.comm, color, static_cast<int>(place), &child, nullptr),
                kNcclSuccess);
    }
    Add(color == 0 ? child : nullptr, left);
    if (!leaves_out && !right.empty()) Add(color == 1 ? child : nullptr, right);
  }

  void Shrink(size_t index) {
    const Known parent = comms_[index];
    if (parent.members.size() < 2) return;
    int excluded = static_cast<int>(Pick(parent.members.size()));
    comms_[index].has_shrunk = true;
    std::vector<int> left = parent.members;
    left.erase(left.begin() + excluded);
    void* child = nullptr;
    if (IsMember(parent) && parent.members[static_cast<size_t>(excluded)] != self_.rank) {
      EXPECT_EQ(ncclCommShrink(parent.comm, &excluded, 1, &child, nullptr, 0), kNcclSuccess);
    }
    Add(child, left);
  }

  void Forget(size_t index) { comms_.erase(comms_.begin() + static_cast<std::ptrdiff_t>(index)); }

  void Destroy(size_t index, bool finalize) {
    const Known known = comms_[index];
    if (IsMember(known)) {
      if (finalize) {
        EXPECT_EQ(ncclCommFinalize(known.comm), kNcclSuccess);
      }
      EXPECT_EQ(ncclCommDestroy(known.comm), kNcclSuccess);
    }
    Forget(index);
  }

  /// Aborts it, or revokes it and goes on with a child; whatever of it is under way.
  void CutOff(size_t index) {
    const Known known = comms_[index];
    cut_off_.push_back(known.number);
    const bool revokes = Pick(2) == 0 && !known.has_shrunk;
    if (!revokes) {
      if (IsMember(known)) {
        EXPECT_EQ(ncclCommAbort(known.comm), kNcclSuccess);
      }
      return Forget(index);
    }
    if (IsMember(known)) {
      EXPECT_EQ(ncclCommRevoke(known.comm, 0), kNcclSuccess);
    }
    Split(index);
    if (IsMember(known)) {
      EXPECT_EQ(ncclCommDestroy(known.comm), kNcclSuccess);
    }
    Forget(index);
  }

  /// Waits for everything and compares it. Nobody goes on before all have: who is ahead may abort
  /// what others still wait for.
  void Look() {
    self_.stream.Synchronize();
    second_stream_.Synchronize();
    meeting_->arrive_and_wait();
    gates_.clear();
    for (const Gathering& gathering : gatherings_) {
      if (std::ranges::find(cut_off_, gathering.comm_number) != cut_off_.end()) continue;
      const auto [got, wanted] = std::ranges::mismatch(gathering.all, gathering.expected);
      EXPECT_TRUE(got == gathering.all.end())
          << "rank " << self_.rank << " communicator " << gathering.comm_number << " element "
          << got - gathering.all.begin() << " of " << gathering.all.size() << ": " << *got
          << " and not " << *wanted << "; gathering " << &gathering - gatherings_.data() << " of "
          << gatherings_.size();
    }
    gatherings_.clear();
    for (const Known& known : comms_) {
      int error = kNcclSuccess;
      if (!IsMember(known)) continue;
      EXPECT_EQ(ncclCommGetAsyncError(known.comm, &error), kNcclSuccess);
      EXPECT_EQ(error, kNcclSuccess) << "communicator " << known.number;
    }
  }

  Rank& self_;
  std::mt19937_64 random_;
  std::barrier<>* meeting_;
  HostStream second_stream_;
  std::vector<Known> comms_;
  uint64_t number_ = 0;
  int round_ = 0;
  std::vector<Gathering> gatherings_;
  std::vector<uint64_t> cut_off_;
  std::vector<std::unique_ptr<Gate>> gates_;
};

class Lifecycle : public ::testing::TestWithParam<World> {};

TEST_P(Lifecycle, OfManyCommunicatorsAtRandom) {
  const World& world = GetParam();
  Rig rig(world.policy, kMinBytes, world.patience_seconds);
  const uint64_t before = rig.violations();
  // Another life with --gtest_shuffle --gtest_random_seed=N.
  const auto seed = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed());
  std::barrier<> meeting(world.ranks);
  RunRanks(world.ranks, [&](Rank& self) {
    Life life(seed + 1, self, &meeting);
    for (int step = 0; step < world.steps; ++step) life.Step();
  });
  EXPECT_EQ(rig.violations(), before);
  EXPECT_EQ(rig.device().live_allocations, 0);
  const std::string report = rig.shim().Report();
  if (world.policy != PolicyMode::kRaw) {
    EXPECT_NE(report.find("of one rank"), std::string::npos) << report;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Lifecycle,
                         ::testing::Values(World{"ThreeRaw", 3, PolicyMode::kRaw, 400, 0},
                                           World{"TwoAuto", 2, PolicyMode::kAuto, 400, 0},
                                           World{"ThreeAuto", 3, PolicyMode::kAuto, 400, 0},
                                           World{"ThreeCompressed", 3, PolicyMode::kCompressed, 400,
                                                 0},
                                           World{"ThreePatient", 3, PolicyMode::kAuto, 200, 1}),
                         [](const auto& world) { return world.param.name; });

}  // namespace
}  // namespace cinch::testing
