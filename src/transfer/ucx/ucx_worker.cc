// SPDX-License-Identifier: Apache-2.0
#include "transfer/ucx/ucx_worker.h"

#include <atomic>

namespace cinch::transfer {

Status UcxWorker::Create(ucp_context_h context, int event_fd, MessageHandler handler, void* owner,
                         std::vector<UcxWorker*>& list, std::unique_ptr<UcxWorker>& worker) {
  static std::atomic<uint64_t> next_id{0};
  auto created = std::make_unique<UcxWorker>(++next_id, owner, list);
  CINCH_RETURN_IF_ERROR(created->Start(context, event_fd, handler));
  list.push_back(created.get());
  worker = std::move(created);
  return CINCH_OK;
}

UcxWorker::~UcxWorker() {
  if (handle_ != nullptr) ucp_worker_destroy(handle_);  // May still complete calls.
  std::erase(list_, this);
}

Status UcxWorker::Start(ucp_context_h context, int event_fd, MessageHandler handler) {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENT_FD;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  parameters.event_fd = event_fd;
  ucs_status_t status = ucp_worker_create(context, &parameters, &handle_);
  if (status != UCS_OK) return ucx::LogFailure("creating a worker", status);

  ucp_am_handler_param_t message{};
  message.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  message.id = ucx::kActiveMessageId;
  message.cb = handler;
  message.arg = this;
  status = ucp_worker_set_am_recv_handler(handle_, &message);
  if (status != UCS_OK) return ucx::LogFailure("setting its message handler", status);

  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  status = ucp_worker_get_address(handle_, &address, &address_bytes);
  if (status != UCS_OK) return ucx::LogFailure("getting its address", status);
  const auto* first = reinterpret_cast<const uint8_t*>(address);
  address_.assign(first, first + address_bytes);
  ucp_worker_release_address(handle_, address);
  return CINCH_OK;
}

}  // namespace cinch::transfer
