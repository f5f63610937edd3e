// SPDX-License-Identifier: Apache-2.0
// Only what UCX 1.13 and 1.22 have in common is used.
#include "transfer/ucx/ucx_backend.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <unordered_set>

#include "base/deadline.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "transfer/ucx/ucx_support.h"
#include "transfer/ucx/ucx_worker.h"

namespace cinch::transfer {
namespace {

using ucx::LogFailure;
using ucx::StatusOf;

constexpr size_t kMaxHeaderBytes = 64;

// How long a link that is closed waits for what was sent.
constexpr double kFlushSeconds = 0.5;
// How many turns UCX then gets to find out that there is room but nothing to send.
constexpr int kRestTurns = 32;

// How often Progress() asks UCX for more before it lets others have the lock.
constexpr int kProgressRounds = 16;

class UcxBackend;

// What UCX holds on to while a call is in flight. UCX 1.13 needs the header until then.
struct Request {
  UcxBackend* backend = nullptr;
  UcxWorker* worker = nullptr;
  Completion done;
  std::array<uint8_t, kMaxHeaderBytes> header{};
};

class UcxLink final : public Link {
 public:
  /// `own_worker` may be null.
  UcxLink(UcxBackend* backend, std::unique_ptr<Port> own_worker, UcxWorker* worker)
      : backend_(backend), own_worker_(std::move(own_worker)), worker_(worker) {}

  [[nodiscard]] std::string Describe() const override {
    if (endpoint_ == nullptr) return {};
    return ucx::PathFromPrint(
        ucx::PrintedText([this](FILE* stream) { ucp_ep_print_info(endpoint_, stream); }));
  }

  UcxBackend* backend_;
  std::unique_ptr<Port> own_worker_;
  UcxWorker* worker_;
  ucp_ep_h endpoint_ = nullptr;
  bool failed_ = false;
};

class UcxBackend final : public Backend {
 public:
  explicit UcxBackend(BackendEvents& events) : events_(events) {}
  ~UcxBackend() override;

  [[nodiscard]] Status Start(const BackendOptions& options);

  [[nodiscard]] std::span<const uint8_t> address() const override { return common_->address(); }
  [[nodiscard]] Status OpenPort(std::unique_ptr<Port>& port) override;
  [[nodiscard]] Status Open(std::unique_ptr<Port> port, std::span<const uint8_t> peer_address,
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
  [[nodiscard]] int event_fd() const override { return event_fd_.get(); }
  [[nodiscard]] bool Arm() override;

 private:
  struct Closing {
    enum class Stage { kFlush, kRest, kClose };

    std::unique_ptr<Link> link;
    Stage stage;
    Deadline flush_until;
    void* request;  // Of UCX, for what the stage waits for; null: for nothing.
    std::function<void()> closed;
    int rests = 0;
  };

  static ucs_status_t OnActiveMessage(void* worker, const void* header, size_t header_bytes,
                                      void* data, size_t data_bytes,
                                      const ucp_am_recv_param_t* param);
  static void OnEndpointError(void* link, ucp_ep_h endpoint, ucs_status_t status);
  static void OnSent(void* request, ucs_status_t status, void* user);
  static void OnFetched(void* request, ucs_status_t status, size_t bytes, void* user);

  [[nodiscard]] Status CreateContext(const BackendOptions& options);
  [[nodiscard]] Status CreateWorker(std::unique_ptr<UcxWorker>& worker);
  [[nodiscard]] UcxWorker* HolderOf(const Payload& payload) const;
  [[nodiscard]] Status Settle(ucs_status_ptr_t result, Request* request);
  void Complete(Request* request, ucs_status_t status);
  void EndWorker(UcxLink& link);
  static bool GoOnClosing(Closing& closing);
  bool FinishClosing();

  BackendEvents& events_;
  ucp_context_h context_ = nullptr;
  UniqueFd event_fd_;                // An epoll descriptor that all workers use.
  std::vector<UcxWorker*> workers_;  // All.
  std::unique_ptr<UcxWorker> common_;
  std::vector<Closing> closing_;
  std::vector<std::unique_ptr<Request>> free_requests_;
  std::unordered_set<Request*> in_flight_;  // Owned here while UCX holds them.
  bool may_share_memory_ = false;
  bool shared_memory_ = false;     // Some link uses it.
  void* arriving_ = nullptr;       // The pending payload whose arrival is being announced,
  bool arriving_dropped_ = false;  // and whether it was given up meanwhile.
};

// UCX warns of settings that none of its transports knows.
bool MayUseSharedMemory(const std::string& transports) {
  if (transports.empty() || transports.front() == '^') return true;  // ^: all but these.
  for (const char* name : {"all", "shm", "sm", "shared_memory", "mm", "posix", "sysv", "xpmem"}) {
    if (("," + transports + ",").find("," + std::string(name) + ",") != std::string::npos) {
      return true;
    }
  }
  return false;
}

UcxBackend::~UcxBackend() {
  for (Closing& closing : closing_) {
    if (closing.request != nullptr) ucp_request_free(closing.request);
    static_cast<UcxLink&>(*closing.link).own_worker_.reset();
  }
  common_.reset();
  // UCX forgets some calls to peers that died: nobody else would free what they hold.
  for (Request* request : in_flight_) delete request;
  if (context_ != nullptr) ucp_cleanup(context_);
}

Status UcxBackend::Start(const BackendOptions& options) {
  event_fd_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!event_fd_.valid()) return CINCH_ERROR_OUT_OF_MEMORY;
  may_share_memory_ = MayUseSharedMemory(options.transports);
  CINCH_RETURN_IF_ERROR(CreateContext(options));
  return CreateWorker(common_);
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
  if (status == UCS_OK && may_share_memory_) {
    // It finds out that its peer has died, but does not promise to unless told so.
    status = ucp_config_modify(config, "MM_ERROR_HANDLING", "y");
    // A worker's buffers are for one peer, not for hundreds: 0.6 MB of shared memory, not 4.2.
    if (status == UCS_OK) status = ucp_config_modify(config, "MM_RX_BUFS_GROW", "64");
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

// A peer writes into a queue in shared memory that belongs to the worker. UCX (1.13 and master as
// of 2026) has it reserve the next place first, and fill it then: a process that is killed or
// stopped in between leaves a place that the worker waits for ever after, so that no other process
// can get anything through. Peers that may share memory with us therefore get a worker each, which
// goes when they do.
Status UcxBackend::OpenPort(std::unique_ptr<Port>& port) {
  port = nullptr;
  if (!may_share_memory_) return CINCH_OK;
  std::unique_ptr<UcxWorker> worker;
  CINCH_RETURN_IF_ERROR(CreateWorker(worker));
  port = std::move(worker);
  return CINCH_OK;
}

Status UcxBackend::CreateWorker(std::unique_ptr<UcxWorker>& worker) {
  return UcxWorker::Create(context_, event_fd_.get(), &UcxBackend::OnActiveMessage, this, workers_,
                           worker);
}

Status UcxBackend::Open(std::unique_ptr<Port> port, std::span<const uint8_t> peer_address,
                        std::unique_ptr<Link>& link) {
  UcxWorker* worker = port == nullptr ? common_.get() : static_cast<UcxWorker*>(port.get());
  auto opened = std::make_unique<UcxLink>(this, std::move(port), worker);
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(peer_address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = &UcxBackend::OnEndpointError;
  parameters.err_handler.arg = opened.get();
  const ucs_status_t status = ucp_ep_create(worker->handle(), &parameters, &opened->endpoint_);
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
  request->worker = ucx_link->worker_;
  request->done = std::move(done);
  std::memcpy(request->header.data(), header.data(), header.size());

  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = large ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  parameters.cb.send = &UcxBackend::OnSent;
  parameters.user_data = request.get();
  const ucs_status_ptr_t result =
      ucp_am_send_nbx(ucx_link->endpoint_, ucx::kActiveMessageId, request->header.data(),
                      header.size(), payload, payload_bytes, &parameters);
  return Settle(result, request.release());
}

// Null: it is gone, and the payload with it.
UcxWorker* UcxBackend::HolderOf(const Payload& payload) const {
  const auto found = std::ranges::find(workers_, payload.holder, &UcxWorker::id);
  return found == workers_.end() ? nullptr : *found;
}

Status UcxBackend::Fetch(const Payload& payload, void* destination, Completion done) {
  UcxWorker* worker = HolderOf(payload);
  if (worker == nullptr) return CINCH_ERROR_PEER_LOST;
  auto request = std::make_unique<Request>();
  request->backend = this;
  request->worker = worker;
  request->done = std::move(done);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.recv_am = &UcxBackend::OnFetched;
  parameters.user_data = request.get();
  const ucs_status_ptr_t result = ucp_am_recv_data_nbx(worker->handle(), payload.pending,
                                                       destination, payload.bytes, &parameters);
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
  if (UcxWorker* worker = HolderOf(payload)) ucp_am_data_release(worker->handle(), payload.pending);
}

ucs_status_t UcxBackend::OnActiveMessage(void* worker, const void* header, size_t header_bytes,
                                         void* data, size_t data_bytes,
                                         const ucp_am_recv_param_t* param) {
  auto* backend = static_cast<UcxBackend*>(static_cast<UcxWorker*>(worker)->owner());
  Payload payload;
  payload.holder = static_cast<UcxWorker*>(worker)->id();
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

// UCX (1.13 and master as of 2026) uses a TCP connection after it has freed it when the peer's
// farewell and room for data left over from a closed link are found at once. So that nothing is
// left over, what was sent is flushed first, and UCX gets some turns to see that; a peer that
// takes nothing any more is waited for shortly.
void UcxBackend::Close(std::unique_ptr<Link> link, std::function<void()> closed) {
  auto* ucx_link = static_cast<UcxLink*>(link.get());
  Closing closing{std::move(link), Closing::Stage::kRest, Deadline::After(kFlushSeconds), nullptr,
                  std::move(closed)};
  if (!ucx_link->failed_) {
    ucp_request_param_t parameters{};
    const ucs_status_ptr_t result = ucp_ep_flush_nbx(ucx_link->endpoint_, &parameters);
    closing.stage = Closing::Stage::kFlush;
    closing.request = UCS_PTR_IS_PTR(result) ? result : nullptr;
  }
  ucx_link->failed_ = true;
  closing_.push_back(std::move(closing));
}

// True: it is closed.
bool UcxBackend::GoOnClosing(Closing& closing) {
  const bool waits =
      closing.request != nullptr && ucp_request_check_status(closing.request) == UCS_INPROGRESS;
  if (waits && !(closing.stage == Closing::Stage::kFlush && closing.flush_until.expired())) {
    return false;
  }
  if (closing.request != nullptr) ucp_request_free(closing.request);
  closing.request = nullptr;
  if (closing.stage == Closing::Stage::kClose) return true;
  if (closing.stage == Closing::Stage::kFlush) {
    closing.stage = Closing::Stage::kRest;
    closing.rests = kRestTurns;
  }
  if (closing.rests > 0) {
    --closing.rests;
    return false;
  }
  closing.stage = Closing::Stage::kClose;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t result =
      ucp_ep_close_nbx(static_cast<UcxLink&>(*closing.link).endpoint_, &parameters);
  closing.request = UCS_PTR_IS_PTR(result) ? result : nullptr;
  return closing.request == nullptr;
}

// UCX lets go of everything that the link was still to do, and forgets some of it.
void UcxBackend::EndWorker(UcxLink& link) {
  if (link.own_worker_ == nullptr) return;
  link.own_worker_.reset();
  std::vector<Request*> forgotten;
  for (Request* each : in_flight_) {
    if (each->worker == link.worker_) forgotten.push_back(each);
  }
  for (Request* each : forgotten) Complete(each, UCS_ERR_CANCELED);
}

bool UcxBackend::FinishClosing() {
  std::vector<Closing> finished;
  bool moved = false;
  std::erase_if(closing_, [&](Closing& each) {
    const bool done = GoOnClosing(each);
    moved |= done || each.rests > 0;
    if (done) finished.push_back(std::move(each));
    return done;
  });
  for (Closing& each : finished) {
    EndWorker(static_cast<UcxLink&>(*each.link));
    if (each.closed) each.closed();
  }
  return moved;
}

bool UcxBackend::Arm() {
  return std::ranges::all_of(
      workers_, [](const UcxWorker* each) { return ucp_worker_arm(each->handle()) == UCS_OK; });
}

bool UcxBackend::Progress() {
  bool moved = false;
  for (const UcxWorker* each : workers_) {  // No callback opens or ends one.
    for (int round = 0; round < kProgressRounds; ++round) {
      if (ucp_worker_progress(each->handle()) == 0) break;
      moved = true;
    }
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
