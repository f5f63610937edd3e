// SPDX-License-Identifier: Apache-2.0
#include "transfer/operation.h"

#include "transfer/endpoint.h"
#include "transfer/engine.h"

namespace cinch::transfer {

void Metrics::Export(cinch_transfer_stats& stats) const {
  stats.payload_bytes = payload_bytes;
  stats.wire_bytes = wire_bytes;
  stats.operations = operations;
  stats.failed_operations = failed_operations;
  stats.raw_segments = raw_segments;
  stats.compressed_segments = compressed_segments;
  stats.encode_seconds = encode_seconds;
  stats.decode_seconds = decode_seconds;
  stats.codec_busy_seconds = meter.codec_seconds();
  stats.wire_busy_seconds = meter.wire_seconds();
  stats.hidden_codec_seconds = meter.hidden_seconds();
  stats.elapsed_seconds = meter.elapsed_seconds();
  stats.pinned_segments = pinned_segments;
  stats.shared_segments = shared_segments;
}

Operation::Operation(OperationKind operation_kind, std::shared_ptr<Engine> engine,
                     std::shared_ptr<Endpoint> endpoint, OperationOptions operation_options)
    : kind(operation_kind),
      options(std::move(operation_options)),
      engine_(std::move(engine)),
      endpoint_(std::move(endpoint)) {}

void Operation::Complete(Status status) {
  if (complete()) return;
  endpoint_->Measure(this, [status](Metrics& each) {
    ++(status == CINCH_OK ? each.operations : each.failed_operations);
  });
  status_.store(status, std::memory_order_release);
  if (options.callback != nullptr) engine_->QueueCallback(shared_from_this());
  engine_->NotifyWaiters();
}

}  // namespace cinch::transfer
