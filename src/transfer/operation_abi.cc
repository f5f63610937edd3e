// SPDX-License-Identifier: Apache-2.0
// Messages, one-sided accesses and operations of cinch/transfer.h.
#include <cstddef>

#include "base/guarded.h"
#include "transfer/grown_struct.h"
#include "transfer/handles.h"
#include "transfer/launch.h"

namespace {

using namespace cinch::transfer;
using cinch::Deadline;
using cinch::Guarded;
using cinch::Status;
using cinch::policy::Mode;

Status ResolveMode(cinch_policy policy, Mode otherwise, Mode& mode) {
  switch (policy) {
    case CINCH_POLICY_DEFAULT:
      mode = otherwise;
      return CINCH_OK;
    case CINCH_POLICY_AUTO:
      mode = Mode::kAuto;
      return CINCH_OK;
    case CINCH_POLICY_RAW:
      mode = Mode::kRaw;
      return CINCH_OK;
    case CINCH_POLICY_COMPRESSED:
      mode = Mode::kCompressed;
      return CINCH_OK;
    case CINCH_POLICY_ANY_INT:
      break;
  }
  return CINCH_ERROR_INVALID_ARGUMENT;
}

Status ResolveOptions(const cinch_transfer_options* given, const Settings& settings,
                      OperationOptions& resolved) {
  resolved.mode = settings.policy;
  resolved.dtype = settings.dtype;
  resolved.timeout_seconds = settings.operation_timeout_seconds;
  if (given == nullptr) return CINCH_OK;
  cinch_transfer_options grown;
  cinch_transfer_options_init(&grown);
  if (!TakeGrown(*given, offsetof(cinch_transfer_options, stream), grown) ||
      cinch_dtype_size(grown.dtype) == 0) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  const cinch_transfer_options* options = &grown;
  CINCH_RETURN_IF_ERROR(ResolveMode(options->policy, settings.policy, resolved.mode));
  resolved.tag = options->tag;
  resolved.tag_mask = options->tag_mask;
  if (options->dtype != CINCH_DTYPE_AUTO) resolved.dtype = options->dtype;
  if (options->name != nullptr) resolved.name = options->name;
  resolved.confirm = options->confirm != 0;
  if (options->timeout_seconds != 0) resolved.timeout_seconds = options->timeout_seconds;
  resolved.callback = options->callback;
  resolved.callback_data = options->callback_data;
  resolved.stream = options->stream;
  return CINCH_OK;
}

void Disown(cinch_operation* handle) {
  if (handle->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete handle;
}

// Finds out whose memory the pieces are, and of a device's which point of the stream they follow.
Status Place(Engine& engine, void* stream, PieceList& pieces) {
  if (engine.devices() == nullptr) return CINCH_OK;
  CINCH_RETURN_IF_ERROR(engine.devices()->Locate(pieces));
  if (!pieces.on_device() || stream == CINCH_NO_STREAM) return CINCH_OK;
  std::shared_ptr<StreamPoint> point;
  CINCH_RETURN_IF_ERROR(engine.devices()->Mark(pieces.place(), stream, point));
  pieces.set_after(std::move(point));
  return CINCH_OK;
}

// Makes an operation and lets `start` put it on its way, with the engine's lock held.
template <typename Start>
Status Launch(cinch_endpoint* endpoint, OperationKind kind, PieceList& pieces,
              const cinch_transfer_options* options, cinch_operation** operation, Start&& start) {
  CINCH_RETURN_IF_ERROR(endpoint->engine->InThisProcess());
  OperationOptions resolved;
  CINCH_RETURN_IF_ERROR(ResolveOptions(options, endpoint->engine->settings(), resolved));
  CINCH_RETURN_IF_ERROR(Place(*endpoint->engine, resolved.stream, pieces));
  auto handle = std::make_unique<cinch_operation>();
  handle->operation =
      std::make_shared<Operation>(kind, endpoint->engine, endpoint->endpoint, std::move(resolved));
  Operation& created = *handle->operation;
  if (created.options.callback != nullptr) {
    handle->owners = 2;
    created.handle = handle.get();
    created.release_after_callback = &Disown;
  }
  const Engine::Guard guard(*endpoint->engine);
  CINCH_RETURN_IF_ERROR(start(handle->operation));
  *operation = handle.release();
  return CINCH_OK;
}

std::shared_ptr<Outgoing> MakeOutgoing(Outgoing::Kind kind,
                                       const std::shared_ptr<Operation>& operation,
                                       PieceList pieces) {
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->kind = kind;
  outgoing->operation = operation;
  outgoing->pieces = std::move(pieces);
  outgoing->total_bytes = outgoing->pieces.total_bytes();
  outgoing->dtype = operation->options.dtype;
  outgoing->mode = operation->options.mode;
  outgoing->name = operation->options.name;
  outgoing->timeout_seconds = operation->options.timeout_seconds;
  operation->message_bytes = outgoing->total_bytes;
  operation->message_tag = operation->options.tag;
  operation->message_dtype = operation->options.dtype;
  return outgoing;
}

Status Submit(Endpoint& endpoint, std::shared_ptr<Outgoing> outgoing) {
  if (!endpoint.open()) return endpoint.state();
  return endpoint.sender().Start(std::move(outgoing));
}

Status OnePiece(const void* address, uint64_t bytes, PieceList& pieces) {
  const cinch_piece piece{const_cast<void*>(address), bytes};
  return PieceList::Make(&piece, 1, pieces);
}

Status LaunchSend(cinch_endpoint* endpoint, PieceList pieces, const cinch_transfer_options* options,
                  cinch_operation** operation) {
  return Launch(endpoint, OperationKind::kSend, pieces, options, operation,
                [&](const auto& created) {
                  return Submit(*endpoint->endpoint,
                                MakeOutgoing(Outgoing::Kind::kMessage, created, std::move(pieces)));
                });
}

Status LaunchReceive(cinch_endpoint* endpoint, PieceList pieces,
                     const cinch_transfer_options* options, cinch_operation** operation) {
  return Launch(endpoint, OperationKind::kReceive, pieces, options, operation,
                [&](const auto& created) {
                  return endpoint->endpoint->receiver().Post(created, std::move(pieces));
                });
}

bool Valid(const cinch_endpoint* endpoint, cinch_operation** operation) {
  if (operation != nullptr) *operation = nullptr;
  return endpoint != nullptr && operation != nullptr;
}

// What the two vectored calls have in common.
Status StartPieces(cinch_endpoint* endpoint, bool write, const cinch_piece* pieces,
                   uint64_t piece_count, const cinch_remote_piece* remote_pieces,
                   uint64_t remote_piece_count, const cinch_transfer_options* options,
                   cinch_operation** operation) {
  if (!Valid(endpoint, operation)) return CINCH_ERROR_INVALID_ARGUMENT;
  return Guarded([&]() -> Status {
    OneSided access;
    access.write = write;
    CINCH_RETURN_IF_ERROR(PieceList::Make(pieces, piece_count, access.pieces));
    std::vector<WirePiece> remote;
    uint64_t remote_bytes = 0;
    CINCH_RETURN_IF_ERROR(MakeWirePieces(remote_pieces, remote_piece_count, remote, remote_bytes));
    if (remote_bytes != access.pieces.total_bytes()) return CINCH_ERROR_INVALID_ARGUMENT;
    const auto* first = reinterpret_cast<const uint8_t*>(remote.data());
    access.remote.bytes.assign(first, first + remote.size() * sizeof(WirePiece));
    access.remote.pieces = remote.size();
    return LaunchOneSided(endpoint, std::move(access), options, operation);
  });
}

}  // namespace

Status cinch::transfer::LaunchOneSided(cinch_endpoint* endpoint, OneSided access,
                                       const cinch_transfer_options* options,
                                       cinch_operation** operation) {
  const OperationKind kind = access.write ? OperationKind::kWrite : OperationKind::kRead;
  return Launch(endpoint, kind, access.pieces, options, operation, [&](const auto& created) {
    auto outgoing =
        MakeOutgoing(access.write ? Outgoing::Kind::kWrite : Outgoing::Kind::kReadRequest, created,
                     std::move(access.pieces));
    outgoing->remote = std::move(access.remote);
    outgoing->notify = access.notify;
    return Submit(*endpoint->endpoint, std::move(outgoing));
  });
}

void cinch_transfer_options_init(cinch_transfer_options* options) {
  if (options == nullptr) return;
  *options = cinch_transfer_options{};
  options->struct_size = sizeof(*options);
  options->dtype = CINCH_DTYPE_AUTO;
}

cinch_status cinch_send(cinch_endpoint* endpoint, const void* data, uint64_t bytes,
                        const cinch_transfer_options* options, cinch_operation** operation) {
  if (!Valid(endpoint, operation)) return CINCH_ERROR_INVALID_ARGUMENT;
  return Guarded([&]() -> Status {
    PieceList pieces;
    CINCH_RETURN_IF_ERROR(OnePiece(data, bytes, pieces));
    return LaunchSend(endpoint, std::move(pieces), options, operation);
  });
}

cinch_status cinch_recv(cinch_endpoint* endpoint, void* buffer, uint64_t capacity_bytes,
                        const cinch_transfer_options* options, cinch_operation** operation) {
  if (!Valid(endpoint, operation)) return CINCH_ERROR_INVALID_ARGUMENT;
  return Guarded([&]() -> Status {
    PieceList pieces;
    CINCH_RETURN_IF_ERROR(OnePiece(buffer, capacity_bytes, pieces));
    return LaunchReceive(endpoint, std::move(pieces), options, operation);
  });
}

cinch_status cinch_sendv(cinch_endpoint* endpoint, const cinch_piece* pieces, uint64_t piece_count,
                         const cinch_transfer_options* options, cinch_operation** operation) {
  if (!Valid(endpoint, operation)) return CINCH_ERROR_INVALID_ARGUMENT;
  return Guarded([&]() -> Status {
    PieceList list;
    CINCH_RETURN_IF_ERROR(PieceList::Make(pieces, piece_count, list));
    return LaunchSend(endpoint, std::move(list), options, operation);
  });
}

cinch_status cinch_recvv(cinch_endpoint* endpoint, const cinch_piece* pieces, uint64_t piece_count,
                         const cinch_transfer_options* options, cinch_operation** operation) {
  if (!Valid(endpoint, operation)) return CINCH_ERROR_INVALID_ARGUMENT;
  return Guarded([&]() -> Status {
    PieceList list;
    CINCH_RETURN_IF_ERROR(PieceList::Make(pieces, piece_count, list));
    return LaunchReceive(endpoint, std::move(list), options, operation);
  });
}

cinch_status cinch_probe(cinch_endpoint* endpoint, uint64_t tag, uint64_t tag_mask,
                         double timeout_seconds, cinch_message_info* info) {
  return Guarded([&]() -> Status {
    if (endpoint == nullptr || info == nullptr || info->struct_size != sizeof(cinch_message_info)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    CINCH_RETURN_IF_ERROR(endpoint->engine->InThisProcess());
    Endpoint& target = *endpoint->endpoint;
    if (endpoint->engine->on_progress_thread()) timeout_seconds = 0;
    bool found = false;
    const bool settled = endpoint->engine->WaitFor(
        [&] {
          found = target.receiver().Peek(tag, tag_mask, *info);
          return found || !target.open();
        },
        Deadline::After(timeout_seconds));
    if (!settled) return CINCH_ERROR_TIMEOUT;
    return found ? CINCH_OK : target.state();
  });
}

cinch_status cinch_writev(cinch_endpoint* endpoint, const cinch_piece* pieces, uint64_t piece_count,
                          const cinch_remote_piece* remote_pieces, uint64_t remote_piece_count,
                          const cinch_transfer_options* options, cinch_operation** operation) {
  return Guarded([&] {
    return StartPieces(endpoint, true, pieces, piece_count, remote_pieces, remote_piece_count,
                       options, operation);
  });
}

cinch_status cinch_readv(cinch_endpoint* endpoint, const cinch_piece* pieces, uint64_t piece_count,
                         const cinch_remote_piece* remote_pieces, uint64_t remote_piece_count,
                         const cinch_transfer_options* options, cinch_operation** operation) {
  return Guarded([&] {
    return StartPieces(endpoint, false, pieces, piece_count, remote_pieces, remote_piece_count,
                       options, operation);
  });
}

cinch_status cinch_write(cinch_endpoint* endpoint, const void* data, uint64_t bytes,
                         const cinch_remote_region* region, uint64_t offset_bytes,
                         const cinch_transfer_options* options, cinch_operation** operation) {
  const cinch_piece piece{const_cast<void*>(data), bytes};
  const cinch_remote_piece remote{region, offset_bytes, bytes};
  return cinch_writev(endpoint, &piece, 1, &remote, 1, options, operation);
}

cinch_status cinch_read(cinch_endpoint* endpoint, void* buffer, uint64_t bytes,
                        const cinch_remote_region* region, uint64_t offset_bytes,
                        const cinch_transfer_options* options, cinch_operation** operation) {
  const cinch_piece piece{buffer, bytes};
  const cinch_remote_piece remote{region, offset_bytes, bytes};
  return cinch_readv(endpoint, &piece, 1, &remote, 1, options, operation);
}

cinch_status cinch_test(cinch_operation* operation) {
  return Guarded([&]() -> Status {
    if (operation == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    Operation& target = *operation->operation;
    CINCH_RETURN_IF_ERROR(target.engine()->InThisProcess());
    if (!target.complete()) target.engine()->Poll();
    return target.status();
  });
}

cinch_status cinch_wait(cinch_operation* operation, double timeout_seconds) {
  return Guarded([&]() -> Status {
    if (operation == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    Operation& target = *operation->operation;
    CINCH_RETURN_IF_ERROR(target.engine()->InThisProcess());
    if (target.complete()) return target.status();
    if (target.engine()->on_progress_thread()) return CINCH_ERROR_INVALID_ARGUMENT;
    static_cast<void>(target.engine()->WaitFor([&] { return target.complete(); },
                                               Deadline::After(timeout_seconds)));
    return target.status();
  });
}

cinch_status cinch_cancel(cinch_operation* operation) {
  return Guarded([&]() -> Status {
    if (operation == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    Operation& target = *operation->operation;
    CINCH_RETURN_IF_ERROR(target.engine()->InThisProcess());
    const Engine::Guard guard(*target.engine());
    if (target.complete()) return CINCH_OK;
    Endpoint& endpoint = *target.endpoint();
    if (!endpoint.sender().Cancel(target, CINCH_ERROR_CANCELLED)) {
      static_cast<void>(endpoint.receiver().Cancel(target, CINCH_ERROR_CANCELLED));
    }
    return CINCH_OK;
  });
}

void cinch_operation_release(cinch_operation* operation) {
  Guarded([&] {
    if (operation == nullptr) return;
    // The parent's: the last share of an engine must not end here.
    if (operation->operation->engine()->InThisProcess() == CINCH_OK) Disown(operation);
  });
}

cinch_status cinch_operation_get_info(const cinch_operation* operation,
                                      cinch_operation_info* info) {
  return Guarded([&]() -> Status {
    if (operation == nullptr || info == nullptr ||
        info->struct_size != sizeof(cinch_operation_info)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const Operation& target = *operation->operation;
    CINCH_RETURN_IF_ERROR(target.engine()->InThisProcess());
    const Engine::Guard guard(*target.engine());
    info->status = target.status();
    info->policy = target.chose_compression ? CINCH_POLICY_COMPRESSED : CINCH_POLICY_RAW;
    info->dtype = target.message_dtype;
    info->message_bytes = target.message_bytes;
    info->tag = target.message_tag;
    info->bytes_done = target.metrics.payload_bytes;
    return CINCH_OK;
  });
}

cinch_status cinch_operation_get_stats(const cinch_operation* operation,
                                       cinch_transfer_stats* stats) {
  return Guarded([&]() -> Status {
    if (operation == nullptr || stats == nullptr || !HasKnownSize(*stats)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const Operation& target = *operation->operation;
    CINCH_RETURN_IF_ERROR(target.engine()->InThisProcess());
    const Engine::Guard guard(*target.engine());
    ExportStats(target.metrics, target.engine()->settings().link_gbps, *stats);
    return CINCH_OK;
  });
}
