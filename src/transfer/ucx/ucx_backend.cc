// SPDX-License-Identifier: Apache-2.0
// Only what UCX 1.13 and 1.22 have in common is used.
#include "transfer/ucx/ucx_backend.h"

#include <sys/epoll.h>

#include <array>
#include <cstring>
#include <new>
#include <unordered_set>

#include "base/log.h"
#include "transfer/ucx/ucx_support.h"

namespace cinch::transfer {
namespace {

using ucx::StatusOf;

// The one active message that carries everything; its header says what it is.
constexpr unsigned kActiveMessageId = 0;
constexpr size_t kMaxHeaderBytes = 64;

// How often Progress() asks UCX for more before it lets others have the lock.
constexpr int kProgressRounds = 16;

class UcxBackend;

// What UCX holds on to while a call is in flight. UCX 1.13 needs the header until then.
struct Request {
  UcxBackend* backend = nullptr;
  Completion done;
  std::array<uint8_t, kMaxHeaderBytes> header{};
};

class UcxLink final : public Link {
 public:
  explicit UcxLink(UcxBackend* backend) : backend_(backend) {}

  [[nodiscard]] std::string Describe() const override {
    if (endpoint_ == nullptr) return {};
    return ucx::PathFromPrint(
        ucx::PrintedText([this](FILE* stream) { ucp_ep_print_info(endpoint_, stream); }));
  }

  UcxBackend* backend_;
  ucp_ep_h endpoint_ = nullptr;
  bool failed_ = false;
};

class UcxBackend final : public Backend {
 public:
  explicit UcxBackend(BackendEvents& events) : events_(events) {}
  ~UcxBackend() override;

  [[nodiscard]] Status Start(const BackendOptions& options);

  [[nodiscard]] std::span<const uint8_t> address() const override { return address_; }
  [[nodiscard]] Status Open(std::span<const uint8_t> peer_address,
                            std::unique_ptr<Link>& link) override;
  [[nodiscard]] Status Send(Link* link, std::span<const uint8_t> header, const void* payload,
                            uint64_t payload_bytes, bool large, Completion done) override;
  [[nodiscard]] Status Fetch(const Payload& payload, void* destination, Completion done) override;
  void Drop(const Payload& payload) override;
  void Close(std::unique_ptr<Link> link, std::function<void()> closed) override;
  bool Progress() override;
  [[nodiscard]] bool needs_polling() const override {
    return shared_memory_ && !in_flight_.empty();
  }
  [[nodiscard]] int event_fd() const override { return event_fd_; }
  [[nodiscard]] bool Arm() override { return ucp_worker_arm(worker_) == UCS_OK; }

 private:
  struct Closing {
    std::unique_ptr<Link> link;
    void* request = nullptr;
    std::function<void()> closed;
  };

  static ucs_status_t OnActiveMessage(void* self, const void* header, size_t header_bytes,
                                      void* data, size_t data_bytes,
                                      const ucp_am_recv_param_t* param);
  static void OnEndpointError(void* link, ucp_ep_h endpoint, ucs_status_t status);
  static void OnSent(void* request, ucs_status_t status, void* user);
  static void OnFetched(void* request, ucs_status_t status, size_t bytes, void* user);

  [[nodiscard]] Status CreateContext(const BackendOptions& options);
  [[nodiscard]] Status CreateWorker();
  [[nodiscard]] Status Settle(ucs_status_ptr_t result, Request* request);
  void Complete(Request* request, ucs_status_t status);
  bool FinishClosing();

  BackendEvents& events_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::vector<uint8_t> address_;
  std::vector<Closing> closing_;
  std::vector<std::unique_ptr<Request>> free_requests_;
  std::unordered_set<Request*> in_flight_;  // Owned here while UCX holds them.
  bool shared_memory_ = false;              // Some link uses it.
  void* arriving_ = nullptr;                // The pending payload whose arrival is being announced,
  bool arriving_dropped_ = false;           // and whether it was given up meanwhile.
};

Status LogFailure(const char* what, ucs_status_t status) {
  Log(LogLevel::kError, "UCX: {}: {}", what, ucs_status_string(status));
  return status == UCS_ERR_NO_MEMORY ? CINCH_ERROR_OUT_OF_MEMORY : CINCH_ERROR_TRANSPORT;
}

UcxBackend::~UcxBackend() {
  for (Closing& closing : closing_) {
    if (closing.request != nullptr) ucp_request_free(closing.request);
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  // UCX forgets some calls to peers that died: nobody else would free what they hold.
  for (Request* request : in_flight_) delete request;
  if (context_ != nullptr) ucp_cleanup(context_);
}

Status UcxBackend::Start(const BackendOptions& options) {
  CINCH_RETURN_IF_ERROR(CreateContext(options));
  return CreateWorker();
}

// UCX warns of settings that none of its transports knows.
bool MayUseSharedMemory(const std::string& transports) {
  if (transports.empty()) return true;
  for (const char* name : {"all", "shm", "sm", "shared_memory", "mm", "posix", "sysv"}) {
    if (("," + transports + ",").find("," + std::string(name) + ",") != std::string::npos) {
      return true;
    }
  }
  return false;
}

Status UcxBackend::CreateContext(const BackendOptions& options) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return LogFailure("reading its configuration", status);
  if (!options.transports.empty()) {
    status = ucp_config_modify(config, "TLS", options.transports.c_str());
  }
  if (status == UCS_OK && !options.network_devices.empty()) {
    status = ucp_config_modify(config, "NET_DEVICES", options.network_devices.c_str());
  }
  if (status == UCS_OK && MayUseSharedMemory(options.transports)) {
    // It finds out that its peer has died, but does not promise to unless told so.
    status = ucp_config_modify(config, "MM_ERROR_HANDLING", "y");
  }
  if (status == UCS_OK) {
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = ucp_init(&parameters, config, &context_);
  }
  ucp_config_release(config);
  return status == UCS_OK ? CINCH_OK : LogFailure("starting", status);
}

Status UcxBackend::CreateWorker() {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucp_worker_create(context_, &parameters, &worker_);
  if (status != UCS_OK) return LogFailure("creating a worker", status);

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kActiveMessageId;
  handler.cb = &UcxBackend::OnActiveMessage;
  handler.arg = this;
  status = ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) return LogFailure("setting its message handler", status);

  status = ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return LogFailure("getting its event descriptor", status);

  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  status = ucp_worker_get_address(worker_, &address, &address_bytes);
  if (status != UCS_OK) return LogFailure("getting its address", status);
  const auto* first = reinterpret_cast<const uint8_t*>(address);
  address_.assign(first, first + address_bytes);
  ucp_worker_release_address(worker_, address);
  return CINCH_OK;
}

Status UcxBackend::Open(std::span<const uint8_t> peer_address, std::unique_ptr<Link>& link) {
  auto opened = std::make_unique<UcxLink>(this);
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(peer_address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = &UcxBackend::OnEndpointError;
  parameters.err_handler.arg = opened.get();
  const ucs_status_t status = ucp_ep_create(worker_, &parameters, &opened->endpoint_);
  if (status != UCS_OK) {
    Log(LogLevel::kError, "UCX: connecting: {}", ucs_status_string(status));
    return StatusOf(status);
  }
  // Its devices are all called "memory".
  shared_memory_ |= opened->Describe().find("/memory") != std::string::npos;
  link = std::move(opened);
  return CINCH_OK;
}

Status UcxBackend::Send(Link* link, std::span<const uint8_t> header, const void* payload,
                        uint64_t payload_bytes, bool large, Completion done) {
  auto* ucx_link = static_cast<UcxLink*>(link);
  if (ucx_link->failed_) return CINCH_ERROR_PEER_LOST;
  if (header.size() > kMaxHeaderBytes) return CINCH_ERROR_INTERNAL;
  std::unique_ptr<Request> request;
  if (free_requests_.empty()) {
    request = std::make_unique<Request>();
  } else {
    request = std::move(free_requests_.back());
    free_requests_.pop_back();
  }
  request->backend = this;
  request->done = std::move(done);
  std::memcpy(request->header.data(), header.data(), header.size());

  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = large ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  parameters.cb.send = &UcxBackend::OnSent;
  parameters.user_data = request.get();
  const ucs_status_ptr_t result =
      ucp_am_send_nbx(ucx_link->endpoint_, kActiveMessageId, request->header.data(), header.size(),
                      payload, payload_bytes, &parameters);
  return Settle(result, request.release());
}

Status UcxBackend::Fetch(const Payload& payload, void* destination, Completion done) {
  auto request = std::make_unique<Request>();
  request->backend = this;
  request->done = std::move(done);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.recv_am = &UcxBackend::OnFetched;
  parameters.user_data = request.get();
  const ucs_status_ptr_t result =
      ucp_am_recv_data_nbx(worker_, payload.pending, destination, payload.bytes, &parameters);
  return Settle(result, request.release());
}

// UCX has either finished the call at once, or will call back with `request`.
Status UcxBackend::Settle(ucs_status_ptr_t result, Request* request) {
  if (UCS_PTR_IS_PTR(result)) {
    in_flight_.insert(request);
    return CINCH_IN_PROGRESS;
  }
  request->done = nullptr;
  free_requests_.emplace_back(request);
  return StatusOf(UCS_PTR_RAW_STATUS(result));
}

void UcxBackend::Complete(Request* request, ucs_status_t status) {
  in_flight_.erase(request);
  const Completion done = std::move(request->done);
  request->done = nullptr;
  free_requests_.emplace_back(request);
  if (done) done(StatusOf(status));
}

void UcxBackend::OnSent(void* request, ucs_status_t status, void* user) {
  auto* ours = static_cast<Request*>(user);
  ours->backend->Complete(ours, status);
  ucp_request_free(request);
}

void UcxBackend::OnFetched(void* request, ucs_status_t status, size_t /*bytes*/, void* user) {
  auto* ours = static_cast<Request*>(user);
  ours->backend->Complete(ours, status);
  ucp_request_free(request);
}

void UcxBackend::Drop(const Payload& payload) {
  if (payload.pending == arriving_) {
    arriving_dropped_ = true;  // Its handler has not returned yet and will tell UCX.
    return;
  }
  ucp_am_data_release(worker_, payload.pending);
}

ucs_status_t UcxBackend::OnActiveMessage(void* self, const void* header, size_t header_bytes,
                                         void* data, size_t data_bytes,
                                         const ucp_am_recv_param_t* param) {
  auto* backend = static_cast<UcxBackend*>(self);
  Payload payload;
  payload.bytes = data_bytes;
  const bool pending = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (pending) {
    payload.pending = data;
  } else {
    payload.data = static_cast<const uint8_t*>(data);
  }
  backend->arriving_ = payload.pending;
  backend->arriving_dropped_ = false;
  backend->events_.OnArrival({static_cast<const uint8_t*>(header), header_bytes}, payload);
  backend->arriving_ = nullptr;
  const bool keep = pending && !backend->arriving_dropped_;
  return keep ? UCS_INPROGRESS : UCS_OK;
}

void UcxBackend::OnEndpointError(void* link, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto* failed = static_cast<UcxLink*>(link);
  if (failed->failed_) return;
  failed->failed_ = true;
  Log(LogLevel::kDebug, "UCX: a connection failed: {}", ucs_status_string(status));
  failed->backend_->events_.OnLinkFailed(failed, CINCH_ERROR_PEER_LOST);
}

void UcxBackend::Close(std::unique_ptr<Link> link, std::function<void()> closed) {
  auto* ucx_link = static_cast<UcxLink*>(link.get());
  ucx_link->failed_ = true;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t result = ucp_ep_close_nbx(ucx_link->endpoint_, &parameters);
  void* request = UCS_PTR_IS_PTR(result) ? result : nullptr;
  closing_.push_back({std::move(link), request, std::move(closed)});
}

bool UcxBackend::FinishClosing() {
  std::vector<Closing> finished;
  std::erase_if(closing_, [&](Closing& each) {
    if (each.request != nullptr && ucp_request_check_status(each.request) == UCS_INPROGRESS) {
      return false;
    }
    finished.push_back(std::move(each));
    return true;
  });
  for (Closing& each : finished) {
    if (each.request != nullptr) ucp_request_free(each.request);
    if (each.closed) each.closed();
  }
  return !finished.empty();
}

bool UcxBackend::Progress() {
  bool moved = false;
  for (int round = 0; round < kProgressRounds; ++round) {
    if (ucp_worker_progress(worker_) == 0) break;
    moved = true;
  }
  if (!closing_.empty()) moved |= FinishClosing();
  return moved;
}

}  // namespace

Status CreateUcxBackend(const BackendOptions& options, BackendEvents& events,
                        std::unique_ptr<Backend>& backend) {
  auto created = std::make_unique<UcxBackend>(events);
  CINCH_RETURN_IF_ERROR(created->Start(options));
  backend = std::move(created);
  return CINCH_OK;
}

const char* UcxVersion() {
  static const std::string text = [] {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_get_version(&major, &minor, &release);
    return fmt::format("UCX {}.{}.{}", major, minor, release);
  }();
  return text.c_str();
}

Status ListUcxTransports(std::string& text) {
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&parameters, nullptr, &context);
  if (status != UCS_OK) return LogFailure("starting", status);
  text = ucx::PrintedText([context](FILE* stream) { ucp_context_print_info(context, stream); });
  ucp_cleanup(context);
  return CINCH_OK;
}

}  // namespace cinch::transfer
