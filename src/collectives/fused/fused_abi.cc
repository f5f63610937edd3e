// SPDX-License-Identifier: Apache-2.0
/// The C ABI of cinch/fused.h.
#include "cinch/fused.h"

#include <memory>

#include "base/guarded.h"
#include "base/status.h"
#include "collectives/fused/communicator.h"

namespace {

using cinch::Guarded;
using cinch::Status;

using cinch::fused::Communicator;
using cinch::fused::CommunicatorOptions;
using cinch::fused::kMaxRanks;
using cinch::fused::Report;
using cinch::fused::Route;

static_assert(CINCH_FUSED_MAX_RANKS == kMaxRanks);

Communicator* From(cinch_fused* fused) { return reinterpret_cast<Communicator*>(fused); }
cudaStream_t From(void* stream) { return static_cast<cudaStream_t>(stream); }

Status Create(const cinch_fused_options& options, cinch_fused** fused) {
  CommunicatorOptions own;
  own.rank = options.rank;
  own.ranks = options.ranks;
  own.max_ctas = options.max_ctas;
  own.timeout_seconds = options.timeout_seconds;
  own.min_coded_bytes = options.min_coded_bytes;
  own.compress = options.compress != 0;
  own.bootstrap = {options.all_gather, options.context};
  std::unique_ptr<Communicator> made;
  CINCH_RETURN_IF_ERROR(Communicator::Create(own, &made));
  *fused = reinterpret_cast<cinch_fused*>(made.release());
  return CINCH_OK;
}

void FillReport(const Report& report, Status status, cinch_fused_report* out) {
  out->status = status;
  out->rank = report.rank;
  out->peer = report.peer;
  out->waits_for_data = static_cast<int>(report.waits_for_data);
  out->channel = report.channel;
  out->step = report.step;
  out->expected = report.expected;
  out->seen = report.seen;
}

Status Exchange(Communicator* fused, const cinch_fused_part* parts, cinch_dtype dtype,
                cudaStream_t stream) {
  Route routes[kMaxRanks] = {};
  for (uint32_t rank = 0; rank < fused->ranks(); ++rank) {
    routes[rank] = {static_cast<const uint8_t*>(parts[rank].send), parts[rank].send_bytes,
                    static_cast<uint8_t*>(parts[rank].receive), parts[rank].receive_bytes};
  }
  return fused->Exchange(routes, dtype, stream);
}

Status AllToAll(Communicator* fused, const void* send, void* receive, uint64_t bytes,
                cinch_dtype dtype, cudaStream_t stream) {
  if (bytes != 0 && (send == nullptr || receive == nullptr)) return CINCH_ERROR_INVALID_ARGUMENT;
  Route routes[kMaxRanks] = {};
  for (uint32_t rank = 0; rank < fused->ranks() && bytes != 0; ++rank) {
    routes[rank] = {static_cast<const uint8_t*>(send) + rank * bytes, bytes,
                    static_cast<uint8_t*>(receive) + rank * bytes, bytes};
  }
  return fused->Exchange(routes, dtype, stream);
}

}  // namespace

#define CINCH_FUSED_CALL(fused, call) \
  ((fused) == nullptr ? CINCH_ERROR_INVALID_ARGUMENT : From(fused)->call)

extern "C" {

void cinch_fused_options_init(cinch_fused_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->struct_size = sizeof *options;
  options->max_ctas = 64;
  options->timeout_seconds = 30;
  options->min_coded_bytes = uint64_t{1} << 20;
  options->compress = 1;
}

cinch_status cinch_fused_create(const cinch_fused_options* options, cinch_fused** fused) {
  return Guarded([&]() -> Status {
    if (options == nullptr || fused == nullptr || options->struct_size != sizeof *options) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    *fused = nullptr;
    return Create(*options, fused);
  });
}

void cinch_fused_destroy(cinch_fused* fused) {
  Guarded([&] { delete From(fused); });
}

void cinch_fused_abort(cinch_fused* fused) {
  Guarded([&] {
    if (fused != nullptr) From(fused)->Abort();
  });
}

cinch_status cinch_fused_check(cinch_fused* fused, cinch_fused_report* report) {
  return Guarded([&]() -> Status {
    if (report != nullptr && report->struct_size != sizeof *report) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    if (fused == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    Report own{};
    const Status status = From(fused)->Check(&own);
    if (report != nullptr) FillReport(own, status, report);
    return status;
  });
}

cinch_status cinch_fused_all_gather(cinch_fused* fused, const void* send, void* receive,
                                    uint64_t bytes, cinch_dtype dtype, void* stream) {
  return Guarded([&] {
    return CINCH_FUSED_CALL(fused, AllGather(send, receive, bytes, dtype, From(stream)));
  });
}

cinch_status cinch_fused_broadcast(cinch_fused* fused, void* buffer, uint64_t bytes, uint32_t root,
                                   cinch_dtype dtype, void* stream) {
  return Guarded(
      [&] { return CINCH_FUSED_CALL(fused, Broadcast(buffer, bytes, root, dtype, From(stream))); });
}

cinch_status cinch_fused_all_to_all(cinch_fused* fused, const void* send, void* receive,
                                    uint64_t bytes, cinch_dtype dtype, void* stream) {
  return Guarded([&]() -> Status {
    if (fused == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    return AllToAll(From(fused), send, receive, bytes, dtype, From(stream));
  });
}

cinch_status cinch_fused_exchange(cinch_fused* fused, const cinch_fused_part* parts,
                                  cinch_dtype dtype, void* stream) {
  return Guarded([&]() -> Status {
    if (fused == nullptr || parts == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    return Exchange(From(fused), parts, dtype, From(stream));
  });
}

cinch_status cinch_fused_send(cinch_fused* fused, const void* send, uint64_t bytes, uint32_t peer,
                              cinch_dtype dtype, void* stream) {
  return Guarded(
      [&] { return CINCH_FUSED_CALL(fused, Send(send, bytes, peer, dtype, From(stream))); });
}

cinch_status cinch_fused_receive(cinch_fused* fused, void* receive, uint64_t bytes, uint32_t peer,
                                 cinch_dtype dtype, void* stream) {
  return Guarded(
      [&] { return CINCH_FUSED_CALL(fused, Receive(receive, bytes, peer, dtype, From(stream))); });
}

cinch_status cinch_fused_reduce_scatter(cinch_fused* fused, const void* send, void* receive,
                                        uint64_t elements, cinch_dtype dtype, void* stream) {
  return Guarded([&] {
    return CINCH_FUSED_CALL(fused, ReduceScatter(send, receive, elements, dtype, From(stream)));
  });
}

cinch_status cinch_fused_all_reduce(cinch_fused* fused, const void* send, void* receive,
                                    uint64_t elements, cinch_dtype dtype, void* stream) {
  return Guarded([&] {
    return CINCH_FUSED_CALL(fused, AllReduce(send, receive, elements, dtype, From(stream)));
  });
}

}  // extern "C"
