// SPDX-License-Identifier: Apache-2.0
/// @file nccl_double.h
/// The parts of the test double of NCCL: what ranks share, communicators, groups. It is as strict
/// as NCCL's documentation: it counts calls on communicators that are gone, calls of two threads at
/// once, and calls on a non-blocking communicator that is still busy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/host_stream.h"
#include "collectives/nccl_api.h"
#include "collectives/nccl_double_reduce.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace cinch::testing {

using namespace collectives;  // NOLINT(google-build-using-namespace)

using Message = std::vector<uint8_t>;

struct World;

/// Where the ranks of a communicator meet to make others of it.
struct Meeting {
  struct Wish {
    int color;
    int key;
  };
  int expected;
  std::map<int, Wish> wishes;
  std::map<int, std::shared_ptr<World>> worlds;
};

/// What the ranks of a communicator share.
struct World {
  explicit World(int rank_count) : ranks(rank_count) {}
  int ranks;
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<Message>> boxes;
  std::map<uint64_t, Meeting> meetings;

  void Put(int from, int to, Message message);
  /// Empty when the world was aborted.
  Message Get(int from, int to);
  /// A place in the world that the ranks of one colour make together; null without a colour, or
  /// when this one was aborted. `arrive` does not wait, `second` does.
  void Arrive(uint64_t number, int expected, int rank, Meeting::Wish wish);
  std::shared_ptr<World> Leave(uint64_t number, int rank, int* new_rank);
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  bool blocking = true;
  bool revoked = false;
  uint64_t meetings = 0;
  /// How often a non-blocking one still says that it is busy.
  std::atomic<int> busy{0};
  std::map<int, Operator> operators;
  int next_operator = kNcclReductionCount;
  // Operations run one after the other, as NCCL's do.
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t issued = 0;
  uint64_t finished = 0;
  std::atomic<int> users{0};
};

struct Call {
  Comm* comm;
  HostStream* stream;
  std::function<void()> put;
  std::function<void()> get;
};

/// A group of this thread.
struct Group {
  int depth = 0;
  NcclResult error = kNcclSuccess;
  bool non_blocking = false;
  std::vector<Call> calls;
  /// The second halves of what makes communicators: they wait for the other ranks.
  std::vector<std::function<NcclResult()>> jobs;
};
Group& TheGroup();

std::atomic<uint64_t>& WireBytes();
std::atomic<uint64_t>& CallsMade();
/// Uses of communicators that NCCL forbids.
std::atomic<uint64_t>& Violations();

NcclResult Fail(NcclResult error);
NcclResult Issue(Call call);
void Launch(std::vector<Call> calls);

/// A call's use of a communicator, from its begin to its end.
class Use {
 public:
  explicit Use(NcclComm comm);
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use();
  [[nodiscard]] Comm* comm() const { return comm_; }
  /// What NCCL says to the call before it looks at its other parameters.
  [[nodiscard]] NcclResult result() const;

 private:
  Comm* comm_ = nullptr;
};

NcclComm NewComm(std::shared_ptr<World> world, int rank, bool blocking);
/// Waits until its operations have run.
void DeleteComm(Comm* comm);
[[nodiscard]] bool IsLive(NcclComm comm);

}  // namespace cinch::testing
