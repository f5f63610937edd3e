// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "collectives/nccl_double.h"

namespace cinch::testing {
namespace {

struct Registry {
  std::mutex mutex;
  std::set<const void*> live;
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

void RunCalls(const std::vector<Call>& calls) {
  for (const Call& call : calls) call.put();
  for (const Call& call : calls) call.get();
}

}  // namespace

Group& TheGroup() {
  thread_local Group group;
  return group;
}

std::atomic<uint64_t>& WireBytes() {
  static std::atomic<uint64_t> bytes{0};
  return bytes;
}
std::atomic<uint64_t>& CallsMade() {
  static std::atomic<uint64_t> calls{0};
  return calls;
}
std::atomic<uint64_t>& Violations() {
  static std::atomic<uint64_t> violations{0};
  return violations;
}

void World::Put(int from, int to, Message message) {
  {
    const std::lock_guard lock(mutex);
    boxes[{from, to}].push_back(std::move(message));
  }
  changed.notify_all();
}

Message World::Get(int from, int to) {
  std::unique_lock lock(mutex);
  std::deque<Message>& box = boxes[{from, to}];
  changed.wait(lock, [&] { return aborted.load() || !box.empty(); });
  if (box.empty()) return {};
  Message message = std::move(box.front());
  box.pop_front();
  return message;
}

void World::Arrive(uint64_t number, int expected, int rank, Meeting::Wish wish) {
  {
    const std::lock_guard lock(mutex);
    meetings[number].expected = expected;
    meetings[number].wishes[rank] = wish;
  }
  changed.notify_all();
}

std::shared_ptr<World> World::Leave(uint64_t number, int rank, int* new_rank) {
  std::unique_lock lock(mutex);
  Meeting& meeting = meetings[number];
  changed.wait(lock, [&] { return static_cast<int>(meeting.wishes.size()) == meeting.expected; });
  const Meeting::Wish own = meeting.wishes.at(rank);
  if (own.color < 0) return nullptr;
  int before = 0;
  int members = 0;
  for (const auto& [other, wish] : meeting.wishes) {
    if (wish.color != own.color) continue;
    ++members;
    if (std::pair(wish.key, other) < std::pair(own.key, rank)) ++before;
  }
  *new_rank = before;
  std::shared_ptr<World>& world = meeting.worlds[own.color];
  if (world == nullptr) world = std::make_shared<World>(members);
  return world;
}

/// All calls of a group run at once, when all their streams have come so far.
void Launch(std::vector<Call> calls) {
  struct Shared {
    std::atomic<size_t> waiting{0};
    std::atomic<bool> done{false};
  };
  auto shared = std::make_shared<Shared>();
  std::vector<HostStream*> streams;
  std::map<Comm*, uint64_t> turns;
  for (const Call& call : calls) {
    if (std::ranges::find(streams, call.stream) == streams.end()) streams.push_back(call.stream);
    if (!turns.contains(call.comm)) turns[call.comm] = call.comm->issued++;
  }
  HostStream* main = streams.front();
  const size_t others = streams.size() - 1;
  for (size_t i = 1; i < streams.size(); ++i) {
    streams[i]->Enqueue([shared] {
      shared->waiting.fetch_add(1);
      while (!shared->done.load()) std::this_thread::yield();
    });
  }
  main->Enqueue([shared, others, calls = std::move(calls), turns] {
    while (shared->waiting.load() != others) std::this_thread::yield();
    for (const auto& [comm, turn] : turns) {
      std::unique_lock lock(comm->mutex);
      comm->changed.wait(lock, [&, c = comm, t = turn] { return c->finished == t; });
    }
    RunCalls(calls);
    shared->done.store(true);
    for (const auto& [comm, turn] : turns) {
      // Under the lock, as the communicator may be gone right after it.
      const std::lock_guard lock(comm->mutex);
      ++comm->finished;
      comm->changed.notify_all();
    }
  });
}

NcclResult Fail(NcclResult error) {
  Group& group = TheGroup();
  if (group.depth > 0 && error != kNcclInProgress) group.error = error;
  return error;
}

NcclResult Issue(Call call) {
  constexpr int kPollsUntilDone = 3;
  CallsMade().fetch_add(1);
  Group& group = TheGroup();
  const bool blocking = call.comm->blocking;
  if (!blocking) call.comm->busy.store(kPollsUntilDone);
  if (group.depth > 0) {
    group.non_blocking = group.non_blocking || !blocking;
    group.calls.push_back(std::move(call));
    return kNcclSuccess;
  }
  std::vector<Call> calls;
  calls.push_back(std::move(call));
  Launch(std::move(calls));
  return blocking ? kNcclSuccess : kNcclInProgress;
}

Use::Use(NcclComm comm) {
  if (comm == nullptr) return;
  if (!IsLive(comm)) {
    Violations().fetch_add(1);
    return;
  }
  comm_ = static_cast<Comm*>(comm);
  if (comm_->users.fetch_add(1) != 0) Violations().fetch_add(1);
}

Use::~Use() {
  if (comm_ != nullptr) comm_->users.fetch_sub(1);
}

NcclResult Use::result() const {
  if (comm_ == nullptr) return kNcclInvalidArgument;
  if (comm_->revoked) return kNcclInvalidUsage;
  // Calls of one group follow each other without asking in between.
  if (comm_->busy.load() > 0 && TheGroup().depth == 0) return kNcclInvalidArgument;
  return kNcclSuccess;
}

NcclComm NewComm(std::shared_ptr<World> world, int rank, bool blocking) {
  auto* comm = new Comm;
  comm->world = std::move(world);
  comm->rank = rank;
  comm->blocking = blocking;
  if (!blocking) comm->busy.store(2);
  const std::lock_guard lock(TheRegistry().mutex);
  TheRegistry().live.insert(comm);
  return comm;
}

void DeleteComm(Comm* comm) {
  {
    std::unique_lock lock(comm->mutex);
    comm->changed.wait(lock, [&] { return comm->issued == comm->finished; });
  }
  {
    const std::lock_guard lock(TheRegistry().mutex);
    TheRegistry().live.erase(comm);
  }
  delete comm;
}

bool IsLive(NcclComm comm) {
  const std::lock_guard lock(TheRegistry().mutex);
  return TheRegistry().live.contains(comm);
}

}  // namespace cinch::testing
