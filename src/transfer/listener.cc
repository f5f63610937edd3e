// SPDX-License-Identifier: Apache-2.0
#include "transfer/listener.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <system_error>

#include "base/log.h"
#include "transfer/endpoint.h"

namespace cinch::transfer {
namespace {

// Handshakes under way at once. When more come, the one that is at it for longest makes room: a
// flood of silent connections delays others, but cannot keep them out.
constexpr size_t kMaxPending = 32;

// Peers that are connected and that nobody has accepted yet.
constexpr size_t kMaxGreeted = 64;

constexpr double kPollSeconds = 1;

}  // namespace

HandshakePort::HandshakePort(std::shared_ptr<Engine> engine, HandshakeLocal& local)
    : engine_(std::move(engine)), session_(local.session) {
  local.find_address = [raw = engine_.get(), session = session_, ours = local.hello](
                           const Hello& theirs, Bytes& address) {
    return raw->OpenPort(session, MayShareHost(ours, theirs), address);
  };
}

Status Listener::Create(const std::shared_ptr<Engine>& engine, const HostPort& address,
                        std::shared_ptr<Listener>& listener) {
  auto created = std::make_shared<Listener>(engine);
  CINCH_RETURN_IF_ERROR(created->Open(address));
  try {
    created->thread_ = std::thread([raw = created.get()] { raw->Run(); });
  } catch (const std::system_error&) {
    return CINCH_ERROR_OUT_OF_MEMORY;
  }
  ::pthread_setname_np(created->thread_.native_handle(), "cinch-listener");
  listener = std::move(created);
  return CINCH_OK;
}

Status Listener::Open(const HostPort& address) {
  std::vector<SocketAddress> resolved;
  CINCH_RETURN_IF_ERROR(Resolve(address, resolved));
  CINCH_RETURN_IF_ERROR(CheckAccess(resolved.front(), engine_->settings()));
  SocketAddress bound;
  CINCH_RETURN_IF_ERROR(OpenListener(resolved.front(), socket_, bound));
  address_ = FormatAddress(bound);
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return CINCH_ERROR_OUT_OF_MEMORY;
  return engine_->EnsureBackend(DevicesOf(bound));
}

void Listener::Stop() {
  if (stopping_.exchange(true)) return;
  static_cast<void>(::eventfd_write(wake_.get(), 1));
  if (thread_.joinable()) thread_.join();
  socket_.reset();
  const Engine::Guard guard(*engine_);
  stopped_ = true;
  for (const auto& endpoint : greeted_) endpoint->Fail(CINCH_ERROR_CANCELLED);
  greeted_.clear();
  engine_->NotifyWaiters();
}

void Listener::Run() {
  std::vector<pollfd> items;
  std::vector<int> ready;
  while (!stopping_.load(std::memory_order_relaxed)) {
    items.assign({{wake_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}});
    Deadline wake_at = Deadline::After(kPollSeconds);
    for (const Pending& each : pending_) {
      const auto events =
          static_cast<short>(POLLIN | (each.session.wants_to_write() ? POLLOUT : 0));
      items.push_back({each.session.fd(), events, 0});
      wake_at = Deadline::Earlier(wake_at, each.deadline);
    }
    ::poll(items.data(), items.size(), wake_at.remaining_milliseconds());
    ready.clear();
    for (size_t i = 2; i < items.size(); ++i) {
      if (items[i].revents != 0) ready.push_back(items[i].fd);
    }
    AdvancePending(ready);
    if (items[1].revents != 0) AcceptSockets();
  }
  pending_.clear();
}

void Listener::AcceptSockets() {
  while (true) {
    UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return;
    HandshakeLocal local;
    const Status status = PrepareHandshake(engine_->settings(), {}, local);
    if (status != CINCH_OK) return CountRefusal(status);
    auto port = std::make_unique<HandshakePort>(engine_, local);
    if (pending_.size() >= kMaxPending) {
      pending_.front().session.Refuse(CINCH_ERROR_BUSY);
      pending_.erase(pending_.begin());
      CountRefusal(CINCH_ERROR_BUSY);
    }
    pending_.push_back(
        {std::move(port),
         HandshakeSocket(std::move(socket), Handshake(Handshake::Role::kServer, std::move(local))),
         Deadline::After(engine_->settings().handshake_timeout_seconds)});
  }
}

void Listener::AdvancePending(const std::vector<int>& ready) {
  std::erase_if(pending_, [&](Pending& each) {
    Status status = CINCH_IN_PROGRESS;
    if (std::ranges::find(ready, each.session.fd()) != ready.end()) {
      status = each.session.Advance();
    }
    if (status == CINCH_IN_PROGRESS && each.deadline.expired()) {
      status = CINCH_ERROR_TIMEOUT;
      each.session.Refuse(status);
    }
    if (status == CINCH_IN_PROGRESS) return false;
    if (status == CINCH_OK) {
      Greet(each);
    } else {
      CountRefusal(status);
    }
    return true;
  });
}

void Listener::Greet(Pending& pending) {
  const Handshake& handshake = pending.session.handshake();
  std::shared_ptr<Endpoint> endpoint;
  const Status status = engine_->AddEndpoint(
      handshake.local(), handshake.peer(), pending.session.TakeSocket(),
      [weak = weak_from_this()](Endpoint& greeted) {
        if (const auto self = weak.lock()) return self->OnGreeted(greeted);
        greeted.Fail(CINCH_ERROR_CANCELLED);
      },
      endpoint);
  if (status != CINCH_OK) CountRefusal(status);
}

// With the engine's lock held.
void Listener::OnGreeted(Endpoint& endpoint) {
  if (stopped_ || greeted_.size() >= kMaxGreeted) return endpoint.Fail(CINCH_ERROR_BUSY);
  greeted_.push_back(endpoint.shared_from_this());
}

void Listener::CountRefusal(Status reason) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  last_reason_.store(reason, std::memory_order_relaxed);
  Log(LogLevel::kInfo, "{}: a connection was refused: {}", address_, cinch_status_text(reason));
}

Status Listener::Accept(double timeout_seconds, std::shared_ptr<Endpoint>& endpoint) {
  bool over = false;
  const bool found = engine_->WaitFor(
      [&] {
        over = stopped_ || engine_->shut_down();
        if (over) return true;
        if (greeted_.empty()) return false;
        endpoint = greeted_.front();
        greeted_.pop_front();
        return true;
      },
      Deadline::After(timeout_seconds));
  if (!found) return CINCH_ERROR_TIMEOUT;
  return over ? CINCH_ERROR_CANCELLED : CINCH_OK;
}

Status Connect(const std::shared_ptr<Engine>& engine, const HostPort& address,
               double timeout_seconds, std::shared_ptr<Endpoint>& endpoint) {
  const Deadline deadline = Deadline::After(timeout_seconds);
  const Settings& settings = engine->settings();
  std::vector<SocketAddress> resolved;
  CINCH_RETURN_IF_ERROR(Resolve(address, resolved));
  for (const SocketAddress& each : resolved) CINCH_RETURN_IF_ERROR(CheckAccess(each, settings));
  UniqueFd socket;
  SocketAddress local_address;
  CINCH_RETURN_IF_ERROR(OpenConnection(resolved, deadline, socket, local_address));
  CINCH_RETURN_IF_ERROR(engine->EnsureBackend(DevicesOf(local_address)));
  HandshakeLocal local;
  CINCH_RETURN_IF_ERROR(PrepareHandshake(settings, {}, local));
  const HandshakePort port(engine, local);
  HandshakeSocket session(std::move(socket), Handshake(Handshake::Role::kClient, std::move(local)));
  CINCH_RETURN_IF_ERROR(RunHandshake(
      session, Deadline::Earlier(deadline, Deadline::After(settings.handshake_timeout_seconds))));
  std::shared_ptr<Endpoint> opened;
  CINCH_RETURN_IF_ERROR(engine->AddEndpoint(session.handshake().local(), session.handshake().peer(),
                                            session.TakeSocket(), nullptr, opened));
  const bool settled =
      engine->WaitFor([&] { return opened->greeted() || !opened->open(); }, deadline);
  if (settled && opened->open()) {
    endpoint = std::move(opened);
    return CINCH_OK;
  }
  const Engine::Guard guard(*engine);
  const Status reason = opened->open() ? CINCH_ERROR_TIMEOUT : opened->state();
  opened->Fail(reason);
  return reason;
}

}  // namespace cinch::transfer
