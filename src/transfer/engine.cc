// SPDX-License-Identifier: Apache-2.0
#include "transfer/engine.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "base/log.h"
#include "transfer/endpoint.h"

namespace cinch::transfer {
namespace {

// How long a waiting thread makes progress itself before it sleeps: a little more than a round
// trip on a fast network.
constexpr auto kSpin = std::chrono::microseconds(50);

// For how long after that the progress thread keeps out of the way.
constexpr auto kPolledGrace = std::chrono::microseconds(500);

// What nothing announces is looked for all the time while things move, and then now and again.
constexpr auto kBusyPolling = std::chrono::milliseconds(2);
constexpr auto kIdlePolling = std::chrono::milliseconds(1);

// Going to sleep and waking up takes longer than this: what is due sooner is waited for.
constexpr auto kSpinBeforeDue = std::chrono::microseconds(200);

constexpr auto kTick = std::chrono::milliseconds(20);

// How long closing waits for the peer's goodbye at most, and Shutdown() then for the transport to
// let go.
constexpr double kGoodbyeSeconds = 1;
constexpr double kShutdownSeconds = 5;

thread_local const Engine* current_progress_engine = nullptr;

}  // namespace

Status Engine::Create(Settings settings, EngineParts parts, std::shared_ptr<Engine>& engine) {
  auto created = std::make_shared<Engine>(std::move(settings), std::move(parts));
  CINCH_RETURN_IF_ERROR(created->loop_.Open());
  CINCH_RETURN_IF_ERROR(
      created->codec_pool_.Start(created->settings_.codec_threads, created->parts_.codec));
  try {
    created->progress_thread_ = std::thread([raw = created.get()] { raw->RunProgressThread(); });
  } catch (const std::system_error&) {
    return CINCH_ERROR_OUT_OF_MEMORY;
  }
  ::pthread_setname_np(created->progress_thread_.native_handle(), "cinch-progress");
  engine = std::move(created);
  return CINCH_OK;
}

Engine::Engine(Settings settings, EngineParts parts)
    : settings_(std::move(settings)), parts_(std::move(parts)) {
  device_pool_.Configure(parts_.devices, kMaxSegmentBytes, settings_.device_max_ctas,
                         settings_.device_codec_gbps == 0);
}

Engine::~Engine() { Shutdown(); }

void Engine::Shutdown() {
  {
    const Guard guard(*this);
    if (shut_down_) return;
    shut_down_ = true;
    for (const auto& [session, endpoint] : endpoints_) endpoint->SayGoodbye();
    NotifyWaiters();
  }
  const auto all_closed = [this] {
    return std::ranges::none_of(endpoints_, [](const auto& each) { return each.second->open(); });
  };
  static_cast<void>(WaitFor(all_closed, Deadline::After(goodbye_seconds())));
  {
    const Guard guard(*this);
    for (const auto& [session, endpoint] : endpoints_) endpoint->Fail(CINCH_ERROR_CANCELLED);
  }
  if (!WaitFor([this] { return endpoints_.empty() && callbacks_.empty(); },
               Deadline::After(kShutdownSeconds))) {
    Log(LogLevel::kWarn, "the transport did not close its connections in time");
  }
  stopping_ = true;
  loop_.Wake();
  if (progress_thread_.joinable()) progress_thread_.join();
  codec_pool_.Stop();
  device_pool_.Stop();
  const Guard guard(*this);
  endpoints_.clear();
  dirty_.clear();
  ports_.clear();
  backend_.reset();
}

double Engine::goodbye_seconds() const {
  return std::min(kGoodbyeSeconds, settings_.peer_timeout_seconds);
}

bool Engine::on_progress_thread() const { return current_progress_engine == this; }

void Engine::Lock() {
  lock_waiters_.fetch_add(1, std::memory_order_relaxed);
  mutex_.lock();
  lock_waiters_.fetch_sub(1, std::memory_order_relaxed);
}

// A mutex may be taken again by who gave it back, for ever; whoever waits now gets its turn.
void Engine::LetOthersLock() {
  constexpr int kMaxYields = 100;
  for (int i = 0; i < kMaxYields; ++i) {
    if (lock_waiters_.load(std::memory_order_relaxed) == 0) return;
    std::this_thread::yield();
  }
}

void Engine::Leave() {
  RunDirty();
  const bool notify = notify_ && sleeping_waiters_ > 0;
  const bool wake = (wake_ || !callbacks_.empty()) && !on_progress_thread();
  notify_ = false;
  wake_ = false;
  mutex_.unlock();
  if (notify) completed_.notify_all();
  if (wake) loop_.Wake();
}

Engine::Guard::Guard(Engine& engine) : engine_(engine) { engine_.Lock(); }
Engine::Guard::~Guard() { engine_.Leave(); }

void Engine::MarkDirty(const std::shared_ptr<Endpoint>& endpoint) {
  if (std::ranges::find(dirty_, endpoint) == dirty_.end()) dirty_.push_back(endpoint);
}

void Engine::RunDirty() {
  while (!dirty_.empty()) {
    std::vector<std::shared_ptr<Endpoint>> dirty;
    dirty.swap(dirty_);
    for (const auto& endpoint : dirty) endpoint->Pump();
  }
}

void Engine::RemoveEndpoint(uint64_t session) { endpoints_.erase(session); }

void Engine::QueueCallback(std::shared_ptr<Operation> operation) {
  callbacks_.push_back(std::move(operation));
}

void Engine::WakeAt(TimePoint time) {
  if (time >= wake_at_) return;
  wake_at_ = time;
  wake_ = true;
}

bool Engine::ProgressLocked(TimePoint now) {
  coarse_now_ = now;
  bool moved = backend_ != nullptr && backend_->Progress();
  if (now >= wake_at_) {
    wake_at_ = TimePoint::max();
    for (const auto& [session, endpoint] : endpoints_) MarkDirty(endpoint);
    moved = true;
  }
  if (now >= next_tick_) {
    next_tick_ = now + kTick;
    std::vector<std::shared_ptr<Endpoint>> all;
    for (const auto& [session, endpoint] : endpoints_) all.push_back(endpoint);
    for (const auto& endpoint : all) endpoint->Tick(now);
  }
  return moved;
}

void Engine::Poll() {
  const Guard guard(*this);
  static_cast<void>(ProgressLocked(Clock::now()));
}

bool Engine::WaitFor(const std::function<bool()>& ready, Deadline deadline) {
  TimePoint now = Clock::now();
  const TimePoint spin_end = std::min(now + kSpin, deadline.time_point());
  do {
    const Guard guard(*this);
    static_cast<void>(ProgressLocked(now));
    if (ready()) return true;
    polled_until_.store((now + kPolledGrace).time_since_epoch().count(), std::memory_order_relaxed);
    now = Clock::now();  // Once a turn: on virtual machines the clock costs as much as the rest.
  } while (now < spin_end);

  polled_until_.store(0, std::memory_order_relaxed);
  loop_.Wake();  // From here on the progress is the progress thread's.
  Lock();
  RunDirty();
  std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  ++sleeping_waiters_;
  bool is_ready = ready();
  while (!is_ready && !deadline.expired()) {
    completed_.wait_until(lock, deadline.time_point());
    is_ready = ready();
  }
  --sleeping_waiters_;
  lock.release();
  Leave();
  return is_ready;
}

bool Engine::RunCallbacks() {
  std::vector<std::shared_ptr<Operation>> callbacks;
  Lock();
  callbacks.swap(callbacks_);
  Leave();
  for (const auto& operation : callbacks) {
    operation->options.callback(operation->handle, operation->status(),
                                operation->options.callback_data);
    if (operation->release_after_callback) operation->release_after_callback(operation->handle);
  }
  if (callbacks.empty()) return false;
  const Guard guard(*this);
  NotifyWaiters();
  return true;
}

void Engine::RunProgressThread() {
  current_progress_engine = this;
  std::vector<uint64_t> sessions;
  TimePoint last_moved{};
  TimePoint next_look{};
  while (!stopping_.load(std::memory_order_relaxed)) {
    // A transport that always has something to do lets this thread never sleep, and shared memory
    // whose other side was killed is one: the sockets tell what it does not.
    if (const TimePoint now = Clock::now(); now >= next_look) {
      next_look = now + kTick;
      loop_.Look(sessions);
      if (!sessions.empty()) OnLivenessEvents(sessions);
    }
    bool moved = false;
    TimePoint until;
    TimePoint due_at;
    bool polling = false;
    {
      const Guard guard(*this);
      moved = ProgressLocked(Clock::now());
      polling = backend_ != nullptr && backend_->needs_polling();
      due_at = wake_at_;
    }
    moved |= RunCallbacks();
    LetOthersLock();
    if (moved) last_moved = Clock::now();
    if (moved) continue;
    const TimePoint polled_until{Clock::duration(polled_until_.load(std::memory_order_relaxed))};
    if (polled_until > Clock::now()) {
      loop_.SleepUnlessWoken(polled_until);
      continue;
    }
    const TimePoint now = Clock::now();
    if (due_at - now < kSpinBeforeDue || (polling && now - last_moved < kBusyPolling)) {
      std::this_thread::yield();
      continue;
    }
    {
      const Guard guard(*this);
      until = endpoints_.empty() ? TimePoint::max() : std::min(wake_at_, next_tick_);
      if (polling) until = std::min(until, now + kIdlePolling);
      if (backend_ != nullptr && !backend_->Arm()) continue;
    }
    loop_.Sleep(until, sessions);
    if (!sessions.empty()) OnLivenessEvents(sessions);
  }
}

void Engine::OnLivenessEvents(const std::vector<uint64_t>& sessions) {
  const Guard guard(*this);
  for (const uint64_t session : sessions) {
    const auto found = endpoints_.find(session);
    if (found != endpoints_.end()) found->second->OnLiveness();
  }
}

Status Engine::EnsureBackend(const std::string& local_devices) {
  const Guard guard(*this);
  if (shut_down_) return CINCH_ERROR_CANCELLED;
  if (backend_ != nullptr) return CINCH_OK;
  BackendOptions options;
  options.transports = settings_.transports;
  options.network_devices =
      settings_.network_devices.empty() ? local_devices : settings_.network_devices;
  std::unique_ptr<Backend> backend;
  CINCH_RETURN_IF_ERROR(parts_.backend(options, *this, backend));
  CINCH_RETURN_IF_ERROR(loop_.WatchBackend(backend->event_fd()));
  backend_ = std::move(backend);
  WakeProgress();
  return CINCH_OK;
}

Bytes Engine::BackendAddress() {
  const Guard guard(*this);
  if (backend_ == nullptr) return {};
  const auto address = backend_->address();
  return {address.begin(), address.end()};
}

Status Engine::OpenPort(uint64_t session, bool same_host, Bytes& address) {
  const Guard guard(*this);
  if (shut_down_ || backend_ == nullptr) return CINCH_ERROR_CANCELLED;
  std::unique_ptr<Port> port;
  if (same_host) CINCH_RETURN_IF_ERROR(backend_->OpenPort(port));
  const auto bytes = port == nullptr ? backend_->address() : port->address();
  address.assign(bytes.begin(), bytes.end());
  if (port != nullptr) ports_[session] = std::move(port);
  return CINCH_OK;
}

void Engine::ClosePort(uint64_t session) {
  const Guard guard(*this);
  ports_.erase(session);
}

Status Engine::AddEndpoint(const HandshakeLocal& local, const HandshakePeer& peer,
                           UniqueFd liveness, std::function<void(Endpoint&)> greeted,
                           std::shared_ptr<Endpoint>& endpoint) {
  const Guard guard(*this);
  if (shut_down_ || backend_ == nullptr) return CINCH_ERROR_CANCELLED;
  if (endpoints_.contains(local.session)) return CINCH_ERROR_INTERNAL;
  std::unique_ptr<Port> port;
  if (const auto opened = ports_.find(local.session); opened != ports_.end()) {
    port = std::move(opened->second);
    ports_.erase(opened);
  }
  std::unique_ptr<Link> link;
  CINCH_RETURN_IF_ERROR(backend_->Open(std::move(port), peer.address, link));
  const int liveness_fd = liveness.get();
  endpoint = std::make_shared<Endpoint>(*this, local.session, local, peer, std::move(liveness),
                                        std::move(greeted));
  endpoints_[local.session] = endpoint;
  endpoint->Start(std::move(link));
  if (liveness_fd >= 0 && loop_.WatchLiveness(liveness_fd, local.session) != CINCH_OK) {
    endpoint->Fail(CINCH_ERROR_OUT_OF_MEMORY);
  }
  WakeProgress();
  return CINCH_OK;
}

void Engine::OnArrival(std::span<const uint8_t> header, Payload payload) {
  uint64_t session = 0;
  if (header.size() == sizeof(WireHeader)) {
    std::memcpy(&session, header.data() + offsetof(WireHeader, session), sizeof(session));
  }
  const auto found = endpoints_.find(session);
  if (found != endpoints_.end()) {
    const std::shared_ptr<Endpoint> endpoint = found->second;
    return endpoint->OnArrival(header, payload);
  }
  if (payload.pending != nullptr) backend_->Drop(payload);
}

void Engine::OnLinkFailed(Link* link, Status reason) {
  for (const auto& [session, endpoint] : endpoints_) {
    if (endpoint->link() != link) continue;
    const std::shared_ptr<Endpoint> failed = endpoint;
    return failed->Fail(reason);
  }
}

}  // namespace cinch::transfer
