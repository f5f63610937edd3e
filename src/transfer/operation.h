// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cinch/transfer.h"
#include "policy/message_policy.h"
#include "transfer/clock.h"
#include "transfer/overlap_meter.h"

namespace cinch::transfer {

class Engine;
class Endpoint;

/// What was moved and what it cost: of an operation, an endpoint or an engine.
struct Metrics {
  uint64_t payload_bytes = 0;
  uint64_t wire_bytes = 0;
  uint64_t operations = 0;
  uint64_t failed_operations = 0;
  uint64_t raw_segments = 0;
  uint64_t compressed_segments = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
  uint64_t pinned_segments = 0;  ///< Of device memory, through pinned host memory,
  uint64_t shared_segments = 0;  ///< and through device memory that both processes reach.
  OverlapMeter meter;

  void CountDevice(bool on_device, bool shared) {
    if (on_device) ++(shared ? shared_segments : pinned_segments);
  }
  void Export(cinch_transfer_stats& stats) const;
};

enum class OperationKind { kSend, kReceive, kWrite, kRead };

/// The caller's options with the defaults filled in.
struct OperationOptions {
  uint64_t tag = 0;
  uint64_t tag_mask = 0;
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  policy::Mode mode = policy::Mode::kAuto;
  std::string name;
  bool confirm = false;
  double timeout_seconds = 0;  ///< Negative: none.
  cinch_callback callback = nullptr;
  void* callback_data = nullptr;
  void* stream = nullptr;
};

/// One operation as its owner sees it. The engine's lock guards everything that is not atomic.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(OperationKind operation_kind, std::shared_ptr<Engine> engine,
            std::shared_ptr<Endpoint> endpoint, OperationOptions operation_options);

  const OperationKind kind;
  const OperationOptions options;

  [[nodiscard]] Status status() const { return status_.load(std::memory_order_acquire); }
  [[nodiscard]] bool complete() const { return status() != CINCH_IN_PROGRESS; }
  /// Needs the engine's lock. A second call has no effect.
  void Complete(Status status);

  [[nodiscard]] const std::shared_ptr<Engine>& engine() const { return engine_; }
  [[nodiscard]] const std::shared_ptr<Endpoint>& endpoint() const { return endpoint_; }

  // Guarded by the engine's lock.
  Metrics metrics;
  bool chose_compression = false;
  cinch_dtype message_dtype = CINCH_DTYPE_AUTO;
  uint64_t message_bytes = 0;
  uint64_t message_tag = 0;

  /// The handle that the callback gets, and what gives up the callback's share of it afterwards.
  cinch_operation* handle = nullptr;
  void (*release_after_callback)(cinch_operation* handle) = nullptr;

 private:
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Endpoint> endpoint_;
  std::atomic<Status> status_{CINCH_IN_PROGRESS};
};

}  // namespace cinch::transfer
