// SPDX-License-Identifier: Apache-2.0
// A test double of NCCL: a library with its names whose ranks are threads of one process and whose
// device memory is host memory. Operations run on HostStreams, in the order of the calls of a
// communicator, and move their data through a mailbox for each pair of ranks.
#include "collectives/nccl_double.h"

#include <cstring>

using namespace cinch::testing;  // NOLINT(google-build-using-namespace)

namespace {

size_t Size(int dtype) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return dtype >= 0 && dtype < kNcclDtypeCount ? kSizes[dtype] : 0;
}

NcclResult CheckArguments(const Use& use, int dtype, int peer) {
  if (const NcclResult refused = use.result()) return Fail(refused);
  if (Size(dtype) == 0) return Fail(kNcclInvalidArgument);
  if (peer < 0 || peer >= use.comm()->world->ranks) return Fail(kNcclInvalidArgument);
  return kNcclSuccess;
}

void PutBytes(Comm* comm, int to, const void* data, uint64_t bytes) {
  if (to != comm->rank) WireBytes().fetch_add(bytes);
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

NcclResult Exchange(Comm* comm, void* stream, uint64_t bytes, const Parts& parts) {
  // Nothing moves, so pointers may be null on some ranks and not on others.
  const int ranks = bytes == 0 ? 0 : comm->world->ranks;
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

/// What rank `to` gets of everybody's `send`; null for nothing.
using PartFor = std::function<const void*(int to)>;

/// Everybody sends its parts; who gets any reduces them into `receive`.
NcclResult Reduce(Comm* comm, const PartFor& part_for, void* receive, uint64_t elements, int dtype,
                  int reduction, void* stream) {
  Operator op;
  op.reduction = reduction;
  if (reduction >= kNcclReductionCount) {
    const auto found = comm->operators.find(reduction);
    if (found == comm->operators.end()) return Fail(kNcclInvalidArgument);
    op = found->second;
  }
  const int ranks = elements == 0 ? 0 : comm->world->ranks;
  const uint64_t bytes = elements * Size(dtype);
  const auto put = [=] {
    for (int peer = 0; peer < ranks; ++peer) {
      if (const void* data = part_for(peer)) PutBytes(comm, peer, data, bytes);
    }
  };
  const auto get = [=] {
    if (elements == 0 || part_for(comm->rank) == nullptr) return;
    std::vector<Message> messages;
    Sources sources;
    for (int peer = 0; peer < ranks; ++peer) {
      messages.push_back(comm->world->Get(peer, comm->rank));
      messages.back().resize(bytes);
    }
    for (const Message& message : messages) sources.push_back(message.data());
    ReduceAny(sources, receive, elements, dtype, op);
  };
  return Issue({comm, static_cast<HostStream*>(stream), put, get});
}

}  // namespace

EXPORT NcclResult ncclAllGather(const void* send, void* receive, size_t count, int dtype,
                                NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, 0)) return bad;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(use.comm(), stream, bytes,
                  {[=](int) { return send; }, [=](int peer) { return At(receive, bytes, peer); }});
}
EXPORT NcclResult ncclAlltoAll(const void* send, void* receive, size_t count, int dtype,
                               NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, 0)) return bad;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(use.comm(), stream, bytes,
                  {[=](int peer) { return At(send, bytes, peer); },
                   [=](int peer) { return At(receive, bytes, peer); }});
}
EXPORT NcclResult ncclBroadcast(const void* send, void* receive, size_t count, int dtype, int root,
                                NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, root)) return bad;
  const bool is_root = use.comm()->rank == root;
  return Exchange(use.comm(), stream, count * Size(dtype),
                  {[=](int) { return is_root ? send : nullptr; },
                   [=](int peer) { return peer == root ? receive : nullptr; }});
}
EXPORT NcclResult ncclGather(const void* send, void* receive, size_t count, int dtype, int root,
                             NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, root)) return bad;
  const bool is_root = use.comm()->rank == root;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(use.comm(), stream, bytes,
                  {[=](int peer) { return peer == root ? send : nullptr; },
                   [=](int peer) { return is_root ? At(receive, bytes, peer) : nullptr; }});
}
EXPORT NcclResult ncclScatter(const void* send, void* receive, size_t count, int dtype, int root,
                              NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, root)) return bad;
  const bool is_root = use.comm()->rank == root;
  const uint64_t bytes = count * Size(dtype);
  return Exchange(use.comm(), stream, bytes,
                  {[=](int peer) { return is_root ? At(send, bytes, peer) : nullptr; },
                   [=](int peer) { return peer == root ? receive : nullptr; }});
}
EXPORT NcclResult ncclSend(const void* buffer, size_t count, int dtype, int peer, NcclComm comm,
                           void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, peer)) return bad;
  return Exchange(use.comm(), stream, count * Size(dtype),
                  {[=](int to) { return to == peer ? buffer : nullptr; },
                   [](int) -> void* { return nullptr; }});
}
EXPORT NcclResult ncclRecv(void* buffer, size_t count, int dtype, int peer, NcclComm comm,
                           void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, peer)) return bad;
  return Exchange(use.comm(), stream, count * Size(dtype),
                  {[](int) -> const void* { return nullptr; },
                   [=](int from) { return from == peer ? buffer : nullptr; }});
}
EXPORT NcclResult ncclAllReduce(const void* send, void* receive, size_t count, int dtype,
                                int reduction, NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, 0)) return bad;
  return Reduce(
      use.comm(), [=](int) { return send; }, receive, count, dtype, reduction, stream);
}
EXPORT NcclResult ncclReduceScatter(const void* send, void* receive, size_t count, int dtype,
                                    int reduction, NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, 0)) return bad;
  const uint64_t bytes = count * Size(dtype);
  return Reduce(
      use.comm(), [=](int to) { return At(send, bytes, to); }, receive, count, dtype, reduction,
      stream);
}
EXPORT NcclResult ncclReduce(const void* send, void* receive, size_t count, int dtype,
                             int reduction, int root, NcclComm comm, void* stream) {
  const Use use(comm);
  if (const NcclResult bad = CheckArguments(use, dtype, root)) return bad;
  return Reduce(
      use.comm(), [=](int to) { return to == root ? send : nullptr; }, receive, count, dtype,
      reduction, stream);
}
