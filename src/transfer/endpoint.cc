// SPDX-License-Identifier: Apache-2.0
#include "transfer/endpoint.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/log.h"

namespace cinch::transfer {
namespace {

// A peer that closes in good order says goodbye over the transport; its socket may tell sooner.
constexpr auto kGoodbyeGrace = std::chrono::milliseconds(200);

// Four chances to be heard before the peer gives up.
constexpr int kHeartbeatsPerTimeout = 4;

Clock::duration HeartbeatInterval(const HandshakeLocal& local, const HandshakePeer& peer) {
  const uint32_t shorter =
      std::min(local.hello.peer_timeout_milliseconds, peer.hello.peer_timeout_milliseconds);
  return std::chrono::milliseconds(std::max<uint32_t>(shorter / kHeartbeatsPerTimeout, 1));
}

}  // namespace

Endpoint::Endpoint(Engine& engine, uint64_t session, const HandshakeLocal& local,
                   const HandshakePeer& peer, UniqueFd liveness,
                   std::function<void(Endpoint&)> greeted)
    : engine_(engine),
      session_(session),
      token_(local.token),
      peer_session_(peer.session),
      peer_token_(peer.token),
      peer_timeout_(FromSeconds(engine.settings().peer_timeout_seconds)),
      heartbeat_interval_(HeartbeatInterval(local, peer)),
      created_at_(Clock::now()),
      liveness_(std::move(liveness)),
      on_greeted_(std::move(greeted)),
      last_sent_(created_at_),
      last_heard_(created_at_),
      last_tick_(created_at_),
      sender_(*this, engine.settings(), peer.hello),
      receiver_(*this, peer.hello.segment_bytes) {}

void Endpoint::Start(std::unique_ptr<Link> link) {
  link_ = std::move(link);
  PostControl(WireType::kGreeting, 0);
}

Status Endpoint::Post(WireHeader header, const void* payload, uint64_t payload_bytes, bool large,
                      Completion done) {
  if (link_ == nullptr) return state() == CINCH_OK ? CINCH_ERROR_PEER_LOST : state();
  header.session = peer_session_;
  header.token = peer_token_;
  last_sent_ = engine_.coarse_now();
  const Status status = engine_.backend().Send(
      link_.get(), {reinterpret_cast<const uint8_t*>(&header), sizeof(header)}, payload,
      payload_bytes, large, std::move(done));
  if (status == CINCH_IN_PROGRESS) engine_.WakeProgress();
  if (status < 0) Fail(status);
  return status;
}

void Endpoint::PostControl(const WireHeader& header) {
  // A failure has failed the endpoint, which is all that can be done about it.
  static_cast<void>(Post(header, nullptr, 0, false, nullptr));
}

void Endpoint::PostControl(WireType type, uint64_t id, Status status) {
  WireHeader header;
  header.type = type;
  header.id = id;
  header.status = status;
  PostControl(header);
}

void Endpoint::Fail(Status reason) {
  if (!open()) return;
  Log(LogLevel::kDebug, "connection {:016x} ends: {}", session_, cinch_status_text(reason));
  state_.store(reason, std::memory_order_release);
  engine_.MarkDirty(shared_from_this());
  engine_.NotifyWaiters();
}

void Endpoint::SayGoodbye() {
  if (!open() || said_goodbye_) return;
  said_goodbye_ = true;
  PostControl(WireType::kGoodbye, 0);
}

void Endpoint::OnGoodbye() {
  if (said_goodbye_) return Fail(CINCH_ERROR_CANCELLED);
  SayGoodbye();
  Fail(CINCH_ERROR_PEER_LOST);
}

void Endpoint::OnArrival(std::span<const uint8_t> bytes, Payload payload) {
  WireHeader header;
  const Status status = ParseWireHeader(bytes, payload.bytes, header);
  // Without the token it may be anybody's: dropped, so that nobody else can end a connection.
  const bool from_peer = bytes.size() == sizeof(WireHeader) && header.token == token_;
  if (!from_peer || status != CINCH_OK || !open()) {
    if (payload.pending != nullptr) engine_.backend().Drop(payload);
    if (!from_peer) Log(LogLevel::kWarn, "a message of unknown origin was dropped");
    if (from_peer && status != CINCH_OK) Fail(status);
    return;
  }
  HeardPeer();
  if (payload.pending != nullptr && payload.bytes == 0) {
    engine_.backend().Drop(payload);  // Nobody below expects anything to fetch.
    payload.pending = nullptr;
  }
  Dispatch(header, payload);
  engine_.MarkDirty(shared_from_this());
}

void Endpoint::Dispatch(const WireHeader& header, const Payload& payload) {
  switch (header.type) {
    case WireType::kGreeting:
      return OnGreeting();
    case WireType::kMessage:
    case WireType::kReply:
    case WireType::kWrite:
      return receiver_.OnBegin(header, payload);
    case WireType::kRead:
      return receiver_.OnReadRequest(header, payload);
    case WireType::kSegment:
      return receiver_.OnSegment(header, payload);
    case WireType::kAbort:
      return receiver_.OnAbort(header);
    case WireType::kShare:
      return receiver_.OnShare(header, payload);
    case WireType::kTaken:
      return sender_.OnTaken(header);
    case WireType::kReady:
      return sender_.OnReady(header);
    case WireType::kDone:
      return sender_.OnDone(header);
    case WireType::kReadFailed:
      return receiver_.OnReadFailed(header);
    case WireType::kCredit:
      return sender_.OnCredit(header.bytes);
    case WireType::kHeartbeat:
      return;
    case WireType::kGoodbye:
      return OnGoodbye();
  }
}

void Endpoint::OnGreeting() {
  if (greeted_) return;
  greeted_ = true;
  path_ = link_->Describe();
  PostControl(WireType::kGreeting, 0);
  const auto greeted = std::move(on_greeted_);
  on_greeted_ = nullptr;
  if (greeted) greeted(*this);
  engine_.NotifyWaiters();
}

void Endpoint::OnLiveness() {
  if (!open() || peer_gone_at_ != TimePoint::max()) return;
  uint8_t byte = 0;
  const ssize_t got = ::recv(liveness_.get(), &byte, sizeof(byte), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got > 0) return Fail(CINCH_ERROR_PROTOCOL);
  peer_gone_at_ = Clock::now();
}

void Endpoint::Tick(TimePoint now) {
  const TimePoint before = last_tick_;
  last_tick_ = now;
  if (!open()) return FinishIfIdle();
  if (!greeted_) {
    if (now - created_at_ > FromSeconds(engine_.settings().handshake_timeout_seconds)) {
      return Fail(CINCH_ERROR_TIMEOUT);
    }
    return PostControl(WireType::kGreeting, 0);  // The first one may have come too early.
  }
  if (peer_gone_at_ != TimePoint::max() && now - peer_gone_at_ > kGoodbyeGrace) {
    return Fail(CINCH_ERROR_PEER_LOST);
  }
  // A process that was stopped itself must listen before it judges others.
  if (now - before > heartbeat_interval_ * 2)
    last_heard_ = std::max(last_heard_, now - peer_timeout_ / 2);
  if (now - last_heard_ > peer_timeout_) return Fail(CINCH_ERROR_PEER_LOST);
  if (now - last_sent_ > heartbeat_interval_) PostControl(WireType::kHeartbeat, 0);
  sender_.CheckTimeouts(now);
  receiver_.CheckTimeouts(now);
}

void Endpoint::Pump() {
  if (open()) {
    sender_.Pump();
    receiver_.Pump();
  }
  if (!open()) {
    sender_.FailAll(state());
    receiver_.FailAll(state());
    CloseLink();
    FinishIfIdle();
  }
}

void Endpoint::CloseLink() {
  if (closing_) return;
  closing_ = true;
  liveness_.reset();
  if (link_ == nullptr) {
    link_closed_ = true;
    return;
  }
  engine_.backend().Close(std::move(link_), [self = shared_from_this()] {
    self->link_closed_ = true;
    self->engine_.MarkDirty(self);
  });
  engine_.WakeProgress();
}

void Endpoint::FinishIfIdle() {
  if (gone_ || !link_closed_) return;
  // The transport has let go of all memory, whatever completions it still owes.
  sender_.Abandon();
  receiver_.Abandon();
  if (!sender_.idle() || !receiver_.idle()) return;  // Codec threads are still at it.
  gone_ = true;
  engine_.NotifyWaiters();
  engine_.RemoveEndpoint(session_);
}

}  // namespace cinch::transfer
