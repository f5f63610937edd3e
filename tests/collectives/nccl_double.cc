// SPDX-License-Identifier: Apache-2.0
// A test double of NCCL: a library with its names whose ranks are threads of one process and whose
// device memory is host memory. Operations run on HostStreams, in the order of the calls of a
// communicator, and move their data through a mailbox for each pair of ranks.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/float_math.h"
#include "collectives/host_stream.h"
#include "collectives/nccl_api.h"

namespace {

using cinch::testing::HostStream;
using namespace cinch::collectives;  // NOLINT(google-build-using-namespace)

struct UniqueId {
  char internal[128];
};

using Message = std::vector<uint8_t>;

/// What the ranks of a communicator share.
struct World {
  explicit World(int rank_count) : ranks(rank_count) {}
  int ranks;
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<Message>> boxes;
  std::map<uint64_t, std::pair<int, std::shared_ptr<World>>> children;

  void Put(int from, int to, Message message) {
    {
      const std::lock_guard lock(mutex);
      boxes[{from, to}].push_back(std::move(message));
    }
    changed.notify_all();
  }
  Message Get(int from, int to) {
    std::unique_lock lock(mutex);
    std::deque<Message>& box = boxes[{from, to}];
    changed.wait(lock, [&] { return aborted.load() || !box.empty(); });
    if (box.empty()) return {};
    Message message = std::move(box.front());
    box.pop_front();
    return message;
  }
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  uint64_t splits = 0;
  // Operations run one after the other, as NCCL's do.
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t issued = 0;
  uint64_t finished = 0;
};

struct Call {
  Comm* comm;
  HostStream* stream;
  std::function<void()> put;
  std::function<void()> get;
};

struct Group {
  int depth = 0;
  NcclResult error = kNcclSuccess;
  std::vector<Call> calls;
};
thread_local Group group;

std::atomic<uint64_t> wire_bytes{0};
std::atomic<uint64_t> calls_made{0};

size_t Size(int dtype) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return dtype >= 0 && dtype < kNcclDtypeCount ? kSizes[dtype] : 0;
}

void RunCalls(const std::vector<Call>& calls) {
  for (const Call& call : calls) call.put();
  for (const Call& call : calls) call.get();
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
  if (group.depth > 0) group.error = error;
  return error;
}

NcclResult Issue(Call call) {
  calls_made.fetch_add(1);
  if (group.depth > 0) {
    group.calls.push_back(std::move(call));
    return kNcclSuccess;
  }
  std::vector<Call> calls;
  calls.push_back(std::move(call));
  Launch(std::move(calls));
  return kNcclSuccess;
}

NcclResult CheckArguments(NcclComm comm, int dtype, int peer) {
  auto* c = static_cast<Comm*>(comm);
  if (c == nullptr || Size(dtype) == 0) return Fail(kNcclInvalidArgument);
  if (peer < 0 || peer >= c->world->ranks) return Fail(kNcclInvalidArgument);
  return kNcclSuccess;
}

void PutBytes(Comm* comm, int to, const void* data, uint64_t bytes) {
  if (to != comm->rank) wire_bytes.fetch_add(bytes);
  const auto* start = static_cast<const uint8_t*>(data);
  comm->world->Put(comm->rank, to, Message(start, start + bytes));
}

void GetBytes(Comm* comm, int from, void* data, uint64_t bytes) {
  const Message message = comm->world->Get(from, comm->rank);
  if (message.empty()) return;  // Nothing was sent, or nothing comes from an aborted world.
  std::memcpy(data, message.data(), std::min<uint64_t>(bytes, message.size()));
}

/// The parts of a call that sends `send(peer)` to each peer of `to` and receives from those of
/// `from`.
struct Parts {
  std::function<const void*(int)> send;
  std::function<void*(int)> receive;
};

NcclResult Exchange(NcclComm opaque, void* stream, uint64_t bytes, const Parts& parts) {
  auto* comm = static_cast<Comm*>(opaque);
  const int ranks = comm->world->ranks;
  const auto put = [=] {
    for (int peer = 0; peer < ranks; ++peer) {
      if (const void* data = parts.send(peer)) PutBytes(comm, peer, data, bytes);
    }
  };
  const auto get = [=] {
    for (int peer = 0; peer < ranks; ++peer) {
      if (void* data = parts.receive(peer)) GetBytes(comm, peer, data, bytes);
    }
  };
  return Issue({comm, static_cast<HostStream*>(stream), put, get});
}

const uint8_t* At(const void* base, uint64_t bytes, int index) {
  return static_cast<const uint8_t*>(base) + bytes * static_cast<uint64_t>(index);
}
uint8_t* At(void* base, uint64_t bytes, int index) {
  return static_cast<uint8_t*>(base) + bytes * static_cast<uint64_t>(index);
}

/// Everybody sends part i of `elements` to rank i, which reduces; `whole`: everybody gets
/// everything.
NcclResult ReduceParts(const void* send, void* receive, uint64_t elements, int dtype, int reduction,
                       NcclComm opaque, void* stream, bool whole) {
  if (reduction != kNcclSum && reduction != kNcclAverage) return Fail(kNcclInvalidArgument);
  if (dtype != kNcclFloat32 && dtype != kNcclBfloat16) return Fail(kNcclInvalidArgument);
  auto* comm = static_cast<Comm*>(opaque);
  const int ranks = comm->world->ranks;
  const uint64_t bytes = elements * Size(dtype);
  const auto put = [=] {
    for (int peer = 0; peer < ranks; ++peer) {
      PutBytes(comm, peer, whole ? send : At(send, bytes, peer), bytes);
    }
  };
  const auto get = [=] {
    std::vector<Message> messages;
    std::vector<const void*> sources;
    sources.reserve(static_cast<size_t>(ranks));
    for (int peer = 0; peer < ranks; ++peer) {
      messages.push_back(comm->world->Get(peer, comm->rank));
      messages.back().resize(bytes);
    }
    for (const Message& message : messages) sources.push_back(message.data());
    const float scale = reduction == kNcclAverage ? 1.0F / static_cast<float>(ranks) : 1.0F;
    cinch::testing::ReduceInOrder(sources.data(), sources.size(), receive, elements, dtype, scale);
  };
  return Issue({comm, static_cast<HostStream*>(stream), put, get});
}

std::shared_ptr<World> FindWorld(const UniqueId& id, int ranks) {
  static std::mutex mutex;
  static std::map<std::vector<char>, std::shared_ptr<World>> worlds;
  const std::lock_guard lock(mutex);
  auto& world = worlds[std::vector<char>(id.internal, id.internal + sizeof(id.internal))];
  if (world == nullptr) world = std::make_shared<World>(ranks);
  return world;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Bytes that left a rank so far, and data calls made.
EXPORT uint64_t double_wire_bytes() { return wire_bytes.load(); }
EXPORT uint64_t double_calls() { return calls_made.load(); }

EXPORT NcclResult ncclGetVersion(int* version) {
  *version = 22809;
  return kNcclSuccess;
}
EXPORT NcclResult ncclGetUniqueId(UniqueId* id) {
  static std::atomic<uint64_t> next{1};
  const uint64_t number = next.fetch_add(1);
  *id = {};
  std::memcpy(id->internal, &number, sizeof(number));
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommInitRank(NcclComm* comm, int ranks, UniqueId id, int rank) {
  auto* made = new Comm;
  made->world = FindWorld(id, ranks);
  made->rank = rank;
  *comm = made;
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommInitRankConfig(NcclComm* comm, int ranks, UniqueId id, int rank,
                                         void* /*config*/) {
  return ncclCommInitRank(comm, ranks, id, rank);
}
EXPORT NcclResult ncclCommSplit(NcclComm parent, int color, int /*key*/, NcclComm* child,
                                void* /*config*/) {
  auto* comm = static_cast<Comm*>(parent);
  // Colours divide the ranks as they are; tests split into the whole or into single ranks only.
  if (color < 0) {
    *child = nullptr;
    return kNcclSuccess;
  }
  auto* made = new Comm;
  const uint64_t number = comm->splits++;
  {
    const std::lock_guard lock(comm->world->mutex);
    auto& entry = comm->world->children[number];
    if (entry.second == nullptr) entry.second = std::make_shared<World>(comm->world->ranks);
    made->world = entry.second;
  }
  made->rank = comm->rank;
  *child = made;
  return kNcclSuccess;
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
EXPORT NcclResult ncclCommFinalize(NcclComm /*comm*/) { return kNcclSuccess; }
EXPORT NcclResult ncclCommDestroy(NcclComm comm) {
  auto* c = static_cast<Comm*>(comm);
  {
    std::unique_lock lock(c->mutex);
    c->changed.wait(lock, [&] { return c->issued == c->finished; });
  }
  delete c;
  return kNcclSuccess;
}
EXPORT NcclResult ncclCommAbort(NcclComm comm) {
  World& world = *static_cast<Comm*>(comm)->world;
  {
    const std::lock_guard lock(world.mutex);
    world.aborted.store(true);
  }
  world.changed.notify_all();
  return ncclCommDestroy(comm);
}
EXPORT NcclResult ncclCommGetAsyncError(NcclComm /*comm*/, NcclResult* error) {
  *error = kNcclSuccess;
  return kNcclSuccess;
}

EXPORT NcclResult ncclGroupStart() {
  ++group.depth;
  return kNcclSuccess;
}
EXPORT NcclResult ncclGroupEnd() {
  if (group.depth == 0) return kNcclInvalidUsage;
  if (--group.depth > 0) return kNcclSuccess;
  Group ended = std::move(group);
  group = {};
  if (ended.error != kNcclSuccess) return ended.error;
  if (!ended.calls.empty()) Launch(std::move(ended.calls));
  return kNcclSuccess;
}

EXPORT NcclResult ncclAllGather(const void* send, void* receive, size_t count, int dtype,
                                NcclComm comm, void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, 0)) return bad;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(comm, stream, bytes,
                  {[=](int) { return send; }, [=](int peer) { return At(receive, bytes, peer); }});
}
EXPORT NcclResult ncclAlltoAll(const void* send, void* receive, size_t count, int dtype,
                               NcclComm comm, void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, 0)) return bad;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(comm, stream, bytes,
                  {[=](int peer) { return At(send, bytes, peer); },
                   [=](int peer) { return At(receive, bytes, peer); }});
}
EXPORT NcclResult ncclBroadcast(const void* send, void* receive, size_t count, int dtype, int root,
                                NcclComm comm, void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, root)) return bad;
  const bool is_root = static_cast<Comm*>(comm)->rank == root;
  return Exchange(comm, stream, count * Size(dtype),
                  {[=](int) { return is_root ? send : nullptr; },
                   [=](int peer) { return peer == root ? receive : nullptr; }});
}
EXPORT NcclResult ncclGather(const void* send, void* receive, size_t count, int dtype, int root,
                             NcclComm comm, void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, root)) return bad;
  const bool is_root = static_cast<Comm*>(comm)->rank == root;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(comm, stream, bytes,
                  {[=](int peer) { return peer == root ? send : nullptr; },
                   [=](int peer) { return is_root ? At(receive, bytes, peer) : nullptr; }});
}
EXPORT NcclResult ncclScatter(const void* send, void* receive, size_t count, int dtype, int root,
                              NcclComm comm, void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, root)) return bad;
  const bool is_root = static_cast<Comm*>(comm)->rank == root;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(comm, stream, bytes,
                  {[=](int peer) { return is_root ? At(send, bytes, peer) : nullptr; },
                   [=](int peer) { return peer == root ? receive : nullptr; }});
}
EXPORT NcclResult ncclSend(const void* buffer, size_t count, int dtype, int peer, NcclComm comm,
                           void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, peer)) return bad;
  return Exchange(comm, stream, count * Size(dtype),
                  {[=](int to) { return to == peer ? buffer : nullptr; },
                   [](int) -> void* { return nullptr; }});
}
EXPORT NcclResult ncclRecv(void* buffer, size_t count, int dtype, int peer, NcclComm comm,
                           void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, peer)) return bad;
  return Exchange(comm, stream, count * Size(dtype),
                  {[](int) -> const void* { return nullptr; },
                   [=](int from) { return from == peer ? buffer : nullptr; }});
}
EXPORT NcclResult ncclAllReduce(const void* send, void* receive, size_t count, int dtype,
                                int reduction, NcclComm comm, void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, 0)) return bad;
  return ReduceParts(send, receive, count, dtype, reduction, comm, stream, true);
}
EXPORT NcclResult ncclReduceScatter(const void* send, void* receive, size_t count, int dtype,
                                    int reduction, NcclComm comm, void* stream) {
  if (const NcclResult bad = CheckArguments(comm, dtype, 0)) return bad;
  return ReduceParts(send, receive, count, dtype, reduction, comm, stream, false);
}
EXPORT NcclResult ncclReduce(const void* /*send*/, void* /*receive*/, size_t /*count*/, int dtype,
                             int /*reduction*/, int root, NcclComm comm, void* /*stream*/) {
  return CheckArguments(comm, dtype, root);
}
EXPORT const char* ncclGetErrorString(NcclResult result) {
  return result == kNcclSuccess ? "no error" : "an error of the test double";
}
