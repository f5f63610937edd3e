// SPDX-License-Identifier: Apache-2.0
// The C ABI of include/cinch/collectives.h.
#include <dlfcn.h>

#include <memory>

#include "base/config.h"
#include "base/guarded.h"
#include "cinch/collectives.h"
#include "collectives/dispatcher.h"

using cinch::Guarded;
using cinch::Status;
using namespace cinch::collectives;  // NOLINT(google-build-using-namespace)

struct cinch_collectives {
  std::shared_ptr<Communicator> comm;
};

namespace {

/// A group of this thread.
struct Group {
  int depth = 0;
  Job job;
};
thread_local Group group;

Dispatcher& TheDispatcher() {
  static auto* const dispatcher = new Dispatcher;
  return *dispatcher;
}

template <typename Function>
void Find(const char* name, Function* function, bool* complete) {
  // The profiling names: the others may be the interposer's, which would compress a second time.
  *function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  *complete = *complete && *function != nullptr;
}

/// Null when the process has no NCCL.
const NcclApi* FindNccl() {
  static NcclApi api{};
  static const bool complete = [] {
    bool all = true;
    Find("pncclAllGather", &api.all_gather, &all);
    Find("pncclAlltoAll", &api.all_to_all, &all);
    Find("pncclBroadcast", &api.broadcast, &all);
    Find("pncclGather", &api.gather, &all);
    Find("pncclScatter", &api.scatter, &all);
    Find("pncclAllReduce", &api.all_reduce, &all);
    Find("pncclReduceScatter", &api.reduce_scatter, &all);
    Find("pncclReduce", &api.reduce, &all);
    Find("pncclSend", &api.send, &all);
    Find("pncclRecv", &api.receive, &all);
    Find("pncclGroupStart", &api.group_start, &all);
    Find("pncclGroupEnd", &api.group_end, &all);
    Find("pncclCommSplit", &api.comm_split, &all);
    Find("pncclCommCount", &api.comm_count, &all);
    Find("pncclCommUserRank", &api.comm_rank, &all);
    Find("pncclCommCuDevice", &api.comm_device, &all);
    Find("pncclCommDestroy", &api.comm_destroy, &all);
    Find("pncclCommAbort", &api.comm_abort, &all);
    return all;
  }();
  return complete ? &api : nullptr;
}

Status StatusOf(NcclResult result) {
  switch (result) {
    case kNcclSuccess:
      return CINCH_OK;
    case kNcclUnhandledCudaError:
      return CINCH_ERROR_DEVICE;
    case kNcclInternalError:
      return CINCH_ERROR_INTERNAL;
    case kNcclInvalidArgument:
      return CINCH_ERROR_INVALID_ARGUMENT;
    default:
      return CINCH_ERROR_TRANSPORT;
  }
}

bool IsValid(const Communicator& comm, const Operation& operation, bool sends, bool receives) {
  const bool buffers =
      (!sends || operation.send != nullptr) && (!receives || operation.receive != nullptr);
  return NcclDtypeBytes(operation.dtype) != 0 && operation.peer >= 0 &&
         operation.peer < comm.ranks() && (operation.count == 0 || buffers);
}

Status Enqueue(cinch_collectives* handle, Operation operation, bool sends = true,
               bool receives = true) {
  if (handle == nullptr || !IsValid(*handle->comm, operation, sends, receives)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  Communicator& comm = *handle->comm;
  operation.comm = &comm;
  const bool captured = comm.device().IsCapturing(operation.stream);
  // A graph takes NCCL as it is. What was enqueued before must not come after it.
  while (captured && comm.queued.load() != 0) std::this_thread::yield();
  Job alone;
  Job* job = group.depth > 0 ? &group.job : &alone;
  {
    const std::lock_guard lock(comm.mutex());
    if (captured) {
      job->operations.push_back(operation);
    } else {
      Admit(operation, job);
    }
  }
  if (group.depth > 0) return CINCH_OK;
  return StatusOf(TheDispatcher().Submit(std::move(alone), false));
}

}  // namespace

extern "C" void cinch_collectives_options_init(cinch_collectives_options* options) {
  Guarded([&] {
    if (options == nullptr) return;
    const cinch::Config& config = cinch::ProcessConfig();
    *options = {sizeof(*options), config.collectives_min_bytes,
                config.policy == cinch::PolicyMode::kCompressed ? 1 : 0, 0};
  });
}

extern "C" cinch_status cinch_collectives_create(void* nccl_comm,
                                                 const cinch_collectives_options* options,
                                                 cinch_collectives** handle) {
  return Guarded([&]() -> Status {
    cinch_collectives_options defaults;
    cinch_collectives_options_init(&defaults);
    if (options == nullptr) options = &defaults;
    if (nccl_comm == nullptr || handle == nullptr ||
        options->struct_size != sizeof(cinch_collectives_options) || options->reserved != 0) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    if (const Status status = cinch::ProcessConfigStatus(); status != CINCH_OK) return status;
    const NcclApi* api = FindNccl();
    if (CudaDevice() == nullptr || api == nullptr) return CINCH_ERROR_UNSUPPORTED;
    CommunicatorOptions settings;
    const cinch::PolicyMode configured = cinch::ProcessConfig().policy;
    settings.policy = options->always_compress != 0 ? cinch::PolicyMode::kCompressed : configured;
    settings.min_bytes = options->min_bytes;
    settings.timeout_seconds = cinch::ProcessConfig().timeout_seconds;
    auto comm = Communicator::Create(*api, CudaDevice(), nccl_comm, settings);
    if (comm == nullptr) return CINCH_ERROR_TRANSPORT;
    *handle = new cinch_collectives{std::move(comm)};
    return CINCH_OK;
  });
}

extern "C" void cinch_collectives_destroy(cinch_collectives* handle) {
  Guarded([&] {
    if (handle == nullptr) return;
    TheDispatcher().Drain(*handle->comm);
    (void)handle->comm->api().comm_destroy(handle->comm->shadow());
    delete handle;
  });
}

extern "C" cinch_status cinch_all_gather(cinch_collectives* handle, const void* send, void* receive,
                                         size_t send_count, int dtype, void* stream) {
  return Guarded([&] {
    return Enqueue(handle,
                   {Kind::kAllGather, nullptr, send, receive, send_count, dtype, 0, 0, stream});
  });
}

extern "C" cinch_status cinch_all_reduce(cinch_collectives* handle, const void* send, void* receive,
                                         size_t count, int dtype, int reduction, void* stream) {
  return Guarded([&] {
    return Enqueue(handle,
                   {Kind::kAllReduce, nullptr, send, receive, count, dtype, reduction, 0, stream});
  });
}

extern "C" cinch_status cinch_reduce_scatter(cinch_collectives* handle, const void* send,
                                             void* receive, size_t receive_count, int dtype,
                                             int reduction, void* stream) {
  return Guarded([&] {
    return Enqueue(handle, {Kind::kReduceScatter, nullptr, send, receive, receive_count, dtype,
                            reduction, 0, stream});
  });
}

extern "C" cinch_status cinch_broadcast(cinch_collectives* handle, const void* send, void* receive,
                                        size_t count, int dtype, int root, void* stream) {
  return Guarded([&]() -> Status {
    const bool is_root = handle != nullptr && handle->comm->rank() == root;
    return Enqueue(
        handle, {Kind::kBroadcast, nullptr, send, receive, count, dtype, 0, root, stream}, is_root);
  });
}

extern "C" cinch_status cinch_all_to_all(cinch_collectives* handle, const void* send, void* receive,
                                         size_t count, int dtype, void* stream) {
  return Guarded([&] {
    return Enqueue(handle, {Kind::kAllToAll, nullptr, send, receive, count, dtype, 0, 0, stream});
  });
}

extern "C" cinch_status cinch_collectives_send(cinch_collectives* handle, const void* buffer,
                                               size_t count, int dtype, int peer, void* stream) {
  return Guarded([&] {
    return Enqueue(handle, {Kind::kSend, nullptr, buffer, nullptr, count, dtype, 0, peer, stream},
                   true, false);
  });
}

extern "C" cinch_status cinch_collectives_recv(cinch_collectives* handle, void* buffer,
                                               size_t count, int dtype, int peer, void* stream) {
  return Guarded([&] {
    return Enqueue(handle,
                   {Kind::kReceive, nullptr, nullptr, buffer, count, dtype, 0, peer, stream}, false,
                   true);
  });
}

extern "C" cinch_status cinch_collectives_group_start(void) {
  ++group.depth;
  return CINCH_OK;
}

extern "C" cinch_status cinch_collectives_group_end(void) {
  return Guarded([&]() -> Status {
    if (group.depth == 0) return CINCH_ERROR_INVALID_ARGUMENT;
    if (--group.depth > 0) return CINCH_OK;
    Job job = std::move(group.job);
    group = {};
    return StatusOf(TheDispatcher().Submit(std::move(job), false));
  });
}

extern "C" cinch_status cinch_collectives_error(const cinch_collectives* handle) {
  return Guarded([&] {
    return handle == nullptr ? CINCH_ERROR_INVALID_ARGUMENT : StatusOf(handle->comm->error.load());
  });
}

extern "C" cinch_status cinch_collectives_counters_get(const cinch_collectives* handle,
                                                       cinch_collectives_counters* counters) {
  return Guarded([&]() -> Status {
    if (handle == nullptr || counters == nullptr ||
        counters->struct_size != sizeof(cinch_collectives_counters)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const Counters& from = handle->comm->counters();
    *counters = {sizeof(*counters),          from.operations.load(), from.compressed_operations,
                 from.original_bytes.load(), from.wire_bytes.load(), from.overflows.load()};
    return CINCH_OK;
  });
}
