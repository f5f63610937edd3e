// SPDX-License-Identifier: Apache-2.0
// The double's communicators and groups.
#include <cstdlib>
#include <cstring>

#include "collectives/nccl_double.h"

using namespace cinch::testing;  // NOLINT(google-build-using-namespace)

namespace {

struct UniqueId {
  char internal[128];
};

/// The start of ncclConfig_t.
struct Config {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
};

bool WantsBlocking(const void* config, bool otherwise) {
  const auto* start = static_cast<const Config*>(config);
  return start == nullptr ? otherwise : start->blocking != 0;
}

std::shared_ptr<World> FindWorld(const UniqueId& id, int ranks) {
  static std::mutex mutex;
  static std::map<std::vector<char>, std::shared_ptr<World>> worlds;
  const std::lock_guard lock(mutex);
  auto& world = worlds[std::vector<char>(id.internal, id.internal + sizeof(id.internal))];
  if (world == nullptr) world = std::make_shared<World>(ranks);
  return world;
}

/// A job that waits for other ranks: now, or at the end of the group.
NcclResult Finish(bool blocking, std::function<NcclResult()> job) {
  Group& group = TheGroup();
  if (group.depth > 0) {
    group.non_blocking = group.non_blocking || !blocking;
    group.jobs.push_back(std::move(job));
    return cinch::collectives::kNcclSuccess;
  }
  const NcclResult result = job();
  return result != cinch::collectives::kNcclSuccess || blocking
             ? result
             : cinch::collectives::kNcclInProgress;
}

NcclResult MakeChild(Comm* parent, int expected, Meeting::Wish wish, NcclComm* child,
                     bool blocking) {
  const uint64_t number = parent->meetings++;
  const std::shared_ptr<World> world = parent->world;
  const int rank = parent->rank;
  world->Arrive(number, expected, rank, wish);
  return Finish(blocking, [=] {
    int new_rank = 0;
    auto made = world->Leave(number, rank, &new_rank);
    *child = made == nullptr ? nullptr : NewComm(std::move(made), new_rank, blocking);
    return kNcclSuccess;
  });
}

}  // namespace

/// For tests: bytes that left a rank so far, data calls made, uses that NCCL forbids.
EXPORT uint64_t double_wire_bytes() { return WireBytes().load(); }
EXPORT uint64_t double_calls() { return CallsMade().load(); }
EXPORT uint64_t double_violations() { return Violations().load(); }

EXPORT NcclResult ncclGetVersion(int* version) {
  const char* pretended = std::getenv("DOUBLE_NCCL_VERSION");
  *version = pretended == nullptr ? 22809 : std::atoi(pretended);
  return kNcclSuccess;
}
EXPORT NcclResult ncclGetUniqueId(UniqueId* id) {
  static std::atomic<uint64_t> next{1};
  const uint64_t number = next.fetch_add(1);
  *id = {};
  std::memcpy(id->internal, &number, sizeof(number));
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommInitRankConfig(NcclComm* comm, int ranks, UniqueId id, int rank,
                                         void* config) {
  const bool blocking = WantsBlocking(config, true);
  auto world = FindWorld(id, ranks);
  return Finish(blocking, [=] {
    *comm = NewComm(world, rank, blocking);
    return kNcclSuccess;
  });
}
EXPORT NcclResult ncclCommInitRank(NcclComm* comm, int ranks, UniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}
EXPORT NcclResult ncclCommInitRankScalable(NcclComm* comm, int ranks, int rank, int /*id_count*/,
                                           void* ids, void* config) {
  return ncclCommInitRankConfig(comm, ranks, *static_cast<UniqueId*>(ids), rank, config);
}
EXPORT NcclResult ncclCommInitAll(NcclComm* comms, int count, const int* /*devices*/) {
  auto world = std::make_shared<World>(count);
  for (int i = 0; i < count; ++i) comms[i] = NewComm(world, i, true);
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommSplit(NcclComm parent, int color, int key, NcclComm* child,
                                void* config) {
  const Use use(parent);
  if (use.comm() == nullptr) return Fail(kNcclInvalidArgument);
  const bool blocking = WantsBlocking(config, use.comm()->blocking);
  return MakeChild(use.comm(), use.comm()->world->ranks, {color, key}, child, blocking);
}
EXPORT NcclResult ncclCommShrink(NcclComm parent, int* excluded, int excluded_count,
                                 NcclComm* child, void* config, int /*flags*/) {
  const Use use(parent);
  if (use.comm() == nullptr) return Fail(kNcclInvalidArgument);
  for (int i = 0; i < excluded_count; ++i) {
    if (excluded[i] == use.comm()->rank) return Fail(kNcclInvalidArgument);
  }
  const bool blocking = WantsBlocking(config, use.comm()->blocking);
  const int expected = use.comm()->world->ranks - excluded_count;
  return MakeChild(use.comm(), expected, {0, use.comm()->rank}, child, blocking);
}
EXPORT NcclResult ncclCommCount(NcclComm comm, int* count) {
  *count = static_cast<Comm*>(comm)->world->ranks;
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommUserRank(NcclComm comm, int* rank) {
  *rank = static_cast<Comm*>(comm)->rank;
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommCuDevice(NcclComm /*comm*/, int* device) {
  *device = 0;
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommFinalize(NcclComm comm) {
  const Use use(comm);
  if (use.comm() == nullptr) return kNcclInvalidArgument;
  return use.comm()->revoked ? kNcclInvalidUsage : kNcclSuccess;
}
EXPORT NcclResult ncclCommDestroy(NcclComm comm) {
  if (!IsLive(comm)) {
    Violations().fetch_add(1);
    return kNcclInvalidArgument;
  }
  return Finish(true, [=] {
    DeleteComm(static_cast<Comm*>(comm));
    return kNcclSuccess;
  });
}
EXPORT NcclResult ncclCommRevoke(NcclComm comm, int flags) {
  if (!IsLive(comm) || flags != 0) return kNcclInvalidArgument;
  auto* revoked = static_cast<Comm*>(comm);
  revoked->revoked = true;
  {
    const std::lock_guard lock(revoked->world->mutex);
    revoked->world->aborted.store(true);
  }
  revoked->world->changed.notify_all();
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommAbort(NcclComm comm) {
  if (!IsLive(comm)) {
    Violations().fetch_add(1);
    return kNcclInvalidArgument;
  }
  World& world = *static_cast<Comm*>(comm)->world;
  {
    const std::lock_guard lock(world.mutex);
    world.aborted.store(true);
  }
  world.changed.notify_all();
  return ncclCommDestroy(comm);
}
EXPORT NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* error) {
  if (!IsLive(comm)) return kNcclInvalidArgument;
  std::atomic<int>& busy = static_cast<Comm*>(comm)->busy;
  const bool done = busy.load() == 0 || busy.fetch_sub(1) == 1;
  *error = done ? kNcclSuccess : kNcclInProgress;
  return kNcclSuccess;
}

EXPORT NcclResult ncclCommRegister(NcclComm comm, void* buffer, size_t /*size*/, void** handle) {
  const Use use(comm);
  *handle = buffer;
  return use.result();
}
EXPORT NcclResult ncclCommDeregister(NcclComm comm, void* /*handle*/) { return Use(comm).result(); }
EXPORT NcclResult ncclCommWindowRegister(NcclComm comm, void* buffer, size_t size, void** window,
                                         int /*flags*/) {
  return ncclCommRegister(comm, buffer, size, window);
}
EXPORT NcclResult ncclCommWindowDeregister(NcclComm comm, void* /*window*/) {
  return Use(comm).result();
}

EXPORT NcclResult ncclRedOpCreatePreMulSum(int* reduction, void* scalar, int dtype,
                                           int /*residence*/, NcclComm comm) {
  const Use use(comm);
  if (use.comm() == nullptr) return kNcclInvalidArgument;
  Operator made;
  if (dtype == kNcclFloat64) {
    std::memcpy(&made.scalar, scalar, sizeof(double));
  } else if (dtype == kNcclFloat32 || dtype == kNcclFloat16 || dtype == kNcclBfloat16) {
    made.scalar = static_cast<double>(Load(scalar, 0, dtype));
  } else {
    int8_t value = 0;  // the low byte of any integer
    std::memcpy(&value, scalar, 1);
    made.scalar = value;
  }
  *reduction = use.comm()->next_operator++;
  use.comm()->operators[*reduction] = made;
  return kNcclSuccess;
}
EXPORT NcclResult ncclRedOpDestroy(int reduction, NcclComm comm) {
  const Use use(comm);
  if (use.comm() == nullptr || use.comm()->operators.erase(reduction) == 0) {
    return kNcclInvalidArgument;
  }
  return kNcclSuccess;
}

EXPORT NcclResult ncclGroupStart() {
  ++TheGroup().depth;
  return kNcclSuccess;
}
EXPORT NcclResult ncclGroupEnd() {
  Group& group = TheGroup();
  if (group.depth == 0) return kNcclInvalidUsage;
  if (--group.depth > 0) return kNcclSuccess;
  Group ended = std::move(group);
  group = {};
  if (ended.error != kNcclSuccess) return ended.error;
  NcclResult result = kNcclSuccess;
  for (const auto& job : ended.jobs) {
    if (result == kNcclSuccess) result = job();
  }
  if (result != kNcclSuccess) return result;
  if (!ended.calls.empty()) Launch(std::move(ended.calls));
  return ended.non_blocking ? kNcclInProgress : kNcclSuccess;
}
EXPORT NcclResult ncclGroupSimulateEnd(void* info) {
  Group& group = TheGroup();
  if (group.depth == 0) return kNcclInvalidUsage;
  if (--group.depth > 0) return kNcclSuccess;
  const Group simulated = std::move(group);
  group = {};
  // Tests are told how many calls there were.
  if (info != nullptr) *static_cast<size_t*>(info) = simulated.calls.size();
  return simulated.error;
}

EXPORT const char* ncclGetErrorString(NcclResult result) {
  return result == kNcclSuccess ? "no error" : "an error of the test double";
}
