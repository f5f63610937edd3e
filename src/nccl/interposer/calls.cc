// SPDX-License-Identifier: Apache-2.0
// The functions that carry NCCL's own names. Signatures are those of nccl.h; the opaque types and
// enumerations are passed as what they are on the wire of the ABI.
// NOLINTBEGIN(readability-identifier-naming)
#include "base/guarded.h"
#include "nccl/interposer/real_library.h"
#include "nccl/interposer/shim.h"

namespace {

using cinch::collectives::Kind;
using cinch::collectives::kNcclInternalError;
using cinch::collectives::kNcclInvalidUsage;
using cinch::collectives::kNcclSuccess;
using cinch::collectives::kNcclSystemError;
using cinch::collectives::NcclComm;
using cinch::collectives::NcclResult;
using cinch::collectives::Operation;
using cinch::nccl::FindRealFunction;
using cinch::nccl::Shim;
using cinch::nccl::TheRealLibrary;

struct UniqueId {
  char internal[128];
};

/// cinch::Guarded in NCCL's terms.
template <typename Call>
NcclResult GuardedNccl(Call&& call) {
  NcclResult result = kNcclSuccess;
  const cinch::Status status = cinch::Guarded([&] {
    result = call();
    return CINCH_OK;
  });
  if (status == CINCH_OK) return result;
  return status == CINCH_ERROR_OUT_OF_MEMORY ? kNcclSystemError : kNcclInternalError;
}

/// Calls the real function of that name.
template <typename... Arguments>
NcclResult CallReal(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<NcclResult (*)(Arguments...)>(FindRealFunction(name));
  return function == nullptr ? kNcclInvalidUsage : function(arguments...);
}

NcclResult GuardedData(NcclComm comm, const Operation& operation) {
  return GuardedNccl([&] {
    if (TheRealLibrary().handle == nullptr) return kNcclInvalidUsage;
    return Shim::Get().Call(comm, operation);
  });
}

NcclResult NoLibrary() { return kNcclInvalidUsage; }

}  // namespace

#define CINCH_NCCL_API extern "C" __attribute__((visibility("default")))

/// Called by the trampolines: the address that `name` is to jump to from now on.
extern "C" void* cinch_interposer_find(void** slot, const char* name) {
  void* function =
      cinch::GuardedOr(static_cast<void*>(nullptr), [=] { return FindRealFunction(name); });
  // Not kept: every function returns a status or something that a caller of nothing ignores.
  if (function == nullptr) return reinterpret_cast<void*>(&NoLibrary);
  __atomic_store_n(slot, function, __ATOMIC_RELEASE);
  return function;
}

/// As cinch_interposer_find, for functions whose first parameter is a communicator that our thread
/// may be using.
extern "C" void* cinch_interposer_settle(void** slot, const char* name, NcclComm comm) {
  void* function = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  cinch::Guarded([=] { Shim::Get().Settle(comm); });
  return function != nullptr ? function : cinch_interposer_find(slot, name);
}

/// As cinch_interposer_settle, for functions that take a communicator at another place.
extern "C" void* cinch_interposer_settle_all(void** slot, const char* name) {
  void* function = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  cinch::Guarded([] { Shim::Get().SettleAll(); });
  return function != nullptr ? function : cinch_interposer_find(slot, name);
}

/// For `cinch nccl-check`: what this library is and which NCCL it uses, as text.
CINCH_NCCL_API const char* cinch_interposer_library() {
  return cinch::GuardedOr("", [] {
    const auto& library = TheRealLibrary();
    return library.handle != nullptr ? library.path.c_str() : "";
  });
}
CINCH_NCCL_API const char* cinch_interposer_error() {
  return cinch::GuardedOr("out of memory", [] { return TheRealLibrary().error.c_str(); });
}
CINCH_NCCL_API const char* cinch_interposer_obstacle() {
  return cinch::GuardedOr("out of memory", [] { return TheRealLibrary().obstacle.c_str(); });
}
CINCH_NCCL_API const char* cinch_interposer_note() {
  return cinch::GuardedOr("", [] { return TheRealLibrary().note.c_str(); });
}

CINCH_NCCL_API NcclResult ncclAllGather(const void* send, void* receive, size_t count, int dtype,
                                        NcclComm comm, void* stream) {
  return GuardedData(comm, {Kind::kAllGather, nullptr, send, receive, count, dtype, 0, 0, stream});
}

CINCH_NCCL_API NcclResult ncclAllReduce(const void* send, void* receive, size_t count, int dtype,
                                        int reduction, NcclComm comm, void* stream) {
  return GuardedData(
      comm, {Kind::kAllReduce, nullptr, send, receive, count, dtype, reduction, 0, stream});
}

CINCH_NCCL_API NcclResult ncclAlltoAll(const void* send, void* receive, size_t count, int dtype,
                                       NcclComm comm, void* stream) {
  return GuardedData(comm, {Kind::kAllToAll, nullptr, send, receive, count, dtype, 0, 0, stream});
}

CINCH_NCCL_API NcclResult ncclBroadcast(const void* send, void* receive, size_t count, int dtype,
                                        int root, NcclComm comm, void* stream) {
  return GuardedData(comm,
                     {Kind::kBroadcast, nullptr, send, receive, count, dtype, 0, root, stream});
}

CINCH_NCCL_API NcclResult ncclBcast(void* buffer, size_t count, int dtype, int root, NcclComm comm,
                                    void* stream) {
  return ncclBroadcast(buffer, buffer, count, dtype, root, comm, stream);
}

CINCH_NCCL_API NcclResult ncclGather(const void* send, void* receive, size_t count, int dtype,
                                     int root, NcclComm comm, void* stream) {
  return GuardedData(comm, {Kind::kGather, nullptr, send, receive, count, dtype, 0, root, stream});
}

CINCH_NCCL_API NcclResult ncclScatter(const void* send, void* receive, size_t count, int dtype,
                                      int root, NcclComm comm, void* stream) {
  return GuardedData(comm, {Kind::kScatter, nullptr, send, receive, count, dtype, 0, root, stream});
}

CINCH_NCCL_API NcclResult ncclReduce(const void* send, void* receive, size_t count, int dtype,
                                     int reduction, int root, NcclComm comm, void* stream) {
  return GuardedData(
      comm, {Kind::kReduce, nullptr, send, receive, count, dtype, reduction, root, stream});
}

CINCH_NCCL_API NcclResult ncclReduceScatter(const void* send, void* receive, size_t count,
                                            int dtype, int reduction, NcclComm comm, void* stream) {
  return GuardedData(
      comm, {Kind::kReduceScatter, nullptr, send, receive, count, dtype, reduction, 0, stream});
}

CINCH_NCCL_API NcclResult ncclSend(const void* buffer, size_t count, int dtype, int peer,
                                   NcclComm comm, void* stream) {
  return GuardedData(comm, {Kind::kSend, nullptr, buffer, nullptr, count, dtype, 0, peer, stream});
}

CINCH_NCCL_API NcclResult ncclRecv(void* buffer, size_t count, int dtype, int peer, NcclComm comm,
                                   void* stream) {
  return GuardedData(comm,
                     {Kind::kReceive, nullptr, nullptr, buffer, count, dtype, 0, peer, stream});
}

CINCH_NCCL_API NcclResult ncclGroupStart() {
  return GuardedNccl([] {
    return TheRealLibrary().handle == nullptr ? kNcclInvalidUsage : Shim::Get().GroupStart();
  });
}

CINCH_NCCL_API NcclResult ncclGroupEnd() {
  return GuardedNccl([] {
    return TheRealLibrary().handle == nullptr ? kNcclInvalidUsage : Shim::Get().GroupEnd();
  });
}

CINCH_NCCL_API NcclResult ncclGroupSimulateEnd(void* info) {
  return GuardedNccl([=] {
    if (TheRealLibrary().handle == nullptr) return kNcclInvalidUsage;
    Shim::Get().BeforeSimulatedEnd();
    return CallReal("ncclGroupSimulateEnd", info);
  });
}

CINCH_NCCL_API NcclResult ncclCommInitRank(NcclComm* comm, int ranks, UniqueId id, int rank) {
  return GuardedNccl([=] {
    const NcclResult result = CallReal("ncclCommInitRank", comm, ranks, id, rank);
    Shim::Get().AfterInit(result, {comm}, nullptr);
    return result;
  });
}

CINCH_NCCL_API NcclResult ncclCommInitRankConfig(NcclComm* comm, int ranks, UniqueId id, int rank,
                                                 void* config) {
  return GuardedNccl([=] {
    const NcclResult result = CallReal("ncclCommInitRankConfig", comm, ranks, id, rank, config);
    Shim::Get().AfterInit(result, {comm}, config);
    return result;
  });
}

CINCH_NCCL_API NcclResult ncclCommInitRankScalable(NcclComm* comm, int ranks, int rank,
                                                   int id_count, void* ids, void* config) {
  return GuardedNccl([=] {
    const NcclResult result =
        CallReal("ncclCommInitRankScalable", comm, ranks, rank, id_count, ids, config);
    Shim::Get().AfterInit(result, {comm}, config);
    return result;
  });
}

CINCH_NCCL_API NcclResult ncclCommInitAll(NcclComm* comms, int count, const int* devices) {
  return GuardedNccl([=] {
    const NcclResult result = CallReal("ncclCommInitAll", comms, count, devices);
    if (result != kNcclSuccess) return result;
    std::vector<NcclComm*> made(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) made[static_cast<size_t>(i)] = comms + i;
    Shim::Get().AfterInit(result, std::move(made), nullptr);
    return result;
  });
}

CINCH_NCCL_API NcclResult ncclCommSplit(NcclComm parent, int color, int key, NcclComm* child,
                                        void* config) {
  return GuardedNccl([=] {
    const bool known = Shim::Get().IsKnown(parent);
    Shim::Get().Settle(parent);
    const NcclResult result = CallReal("ncclCommSplit", parent, color, key, child, config);
    if (known) Shim::Get().AfterInit(result, {child}, config);
    return result;
  });
}

CINCH_NCCL_API NcclResult ncclCommShrink(NcclComm parent, int* excluded, int excluded_count,
                                         NcclComm* child, void* config, int flags) {
  return GuardedNccl([=] {
    const bool known = Shim::Get().IsKnown(parent);
    // Shrinking may be how an application gets rid of what hangs.
    if (flags == 0) Shim::Get().Settle(parent);
    const NcclResult result =
        CallReal("ncclCommShrink", parent, excluded, excluded_count, child, config, flags);
    if (known) Shim::Get().AfterInit(result, {child}, config);
    return result;
  });
}

CINCH_NCCL_API NcclResult ncclCommFinalize(NcclComm comm) {
  return GuardedNccl([=] {
    Shim::Get().BeforeFinalize(comm);
    return CallReal("ncclCommFinalize", comm);
  });
}

CINCH_NCCL_API NcclResult ncclCommDestroy(NcclComm comm) {
  return GuardedNccl([=] {
    Shim::Get().BeforeDestroy(comm);
    return CallReal("ncclCommDestroy", comm);
  });
}

CINCH_NCCL_API NcclResult ncclCommAbort(NcclComm comm) {
  return GuardedNccl([=] {
    Shim::Get().BeforeAbort(comm);
    return CallReal("ncclCommAbort", comm);
  });
}

CINCH_NCCL_API NcclResult ncclCommRevoke(NcclComm comm, int flags) {
  return GuardedNccl([=] {
    Shim::Get().BeforeRevoke(comm, flags);
    return CallReal("ncclCommRevoke", comm, flags);
  });
}

CINCH_NCCL_API NcclResult ncclRedOpCreatePreMulSum(int* reduction, void* scalar, int dtype,
                                                   int residence, NcclComm comm) {
  return GuardedNccl([=] {
    Shim::Get().Settle(comm);
    return CallReal("ncclRedOpCreatePreMulSum", reduction, scalar, dtype, residence, comm);
  });
}

CINCH_NCCL_API NcclResult ncclRedOpDestroy(int reduction, NcclComm comm) {
  return GuardedNccl([=] {
    Shim::Get().Settle(comm);
    return CallReal("ncclRedOpDestroy", reduction, comm);
  });
}

CINCH_NCCL_API NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* error) {
  return GuardedNccl([=] {
    const NcclResult result = CallReal("ncclCommGetAsyncError", comm, error);
    if (result != kNcclSuccess || error == nullptr || *error != kNcclSuccess) return result;
    *error = Shim::Get().AsyncError(comm);
    return result;
  });
}
// NOLINTEND(readability-identifier-naming)
