// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <vector>

#include "transfer/backend.h"
#include "transfer/ucx/ucx_support.h"

namespace cinch::transfer {

/// A worker of UCX: what peers that know its address can send to, and what its links send with.
class UcxWorker final : public Port {
 public:
  /// Where a worker's messages go; `argument` is the worker.
  using MessageHandler = ucp_am_recv_callback_t;

  /// `event_fd` is an epoll descriptor that shows the worker's events, too. `owner` is for the
  /// message handler. The worker is in `list` while it lives.
  /// OK, TRANSPORT (the log has UCX's words), OUT_OF_MEMORY.
  [[nodiscard]] static Status Create(ucp_context_h context, int event_fd, MessageHandler handler,
                                     void* owner, std::vector<UcxWorker*>& list,
                                     std::unique_ptr<UcxWorker>& worker);
  UcxWorker(uint64_t id, void* owner, std::vector<UcxWorker*>& list)
      : id_(id), owner_(owner), list_(list) {}
  ~UcxWorker() override;

  [[nodiscard]] std::span<const uint8_t> address() const override { return address_; }
  [[nodiscard]] ucp_worker_h handle() const { return handle_; }
  /// Like no other's of this process, before or after.
  [[nodiscard]] uint64_t id() const { return id_; }
  [[nodiscard]] void* owner() const { return owner_; }

 private:
  [[nodiscard]] Status Start(ucp_context_h context, int event_fd, MessageHandler handler);

  uint64_t id_;
  void* owner_;
  std::vector<UcxWorker*>& list_;
  ucp_worker_h handle_ = nullptr;
  std::vector<uint8_t> address_;
};

}  // namespace cinch::transfer
