// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "transfer/backend.h"
#include "transfer/engine.h"
#include "transfer/receiver.h"
#include "transfer/sender.h"
#include "transfer/wire.h"

namespace cinch::transfer {

/// A connection to one peer: its link, its life, and its two directions. Everything needs the
/// engine's lock unless it says otherwise.
class Endpoint final : public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(Engine& engine, uint64_t session, const HandshakeLocal& local, const HandshakePeer& peer,
           UniqueFd liveness, std::function<void(Endpoint&)> greeted);

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] Sender& sender() { return sender_; }
  [[nodiscard]] Receiver& receiver() { return receiver_; }
  [[nodiscard]] const Sender& sender() const { return sender_; }
  [[nodiscard]] Metrics& metrics() { return metrics_; }
  [[nodiscard]] uint64_t session() const { return session_; }
  [[nodiscard]] Link* link() const { return link_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int liveness_fd() const { return liveness_.get(); }

  /// OK while messages can be sent; any thread may ask.
  [[nodiscard]] Status state() const { return state_.load(std::memory_order_acquire); }
  [[nodiscard]] bool open() const { return state() == CINCH_OK; }
  /// The peer has answered over the transport.
  [[nodiscard]] bool greeted() const { return greeted_; }
  /// Nothing is in flight any more and the link is gone.
  [[nodiscard]] bool gone() const { return gone_; }

  /// Takes the link, sends the first greeting.
  void Start(std::unique_ptr<Link> link);
  /// Ends the connection: everything pending completes with `reason`.
  void Fail(Status reason);
  /// Tells the peer that this is a good end. The peer answers once it has everything that was sent
  /// before, which closes the endpoint; so does its silence.
  void SayGoodbye();

  void OnArrival(std::span<const uint8_t> header, Payload payload);
  /// The liveness socket became readable.
  void OnLiveness();
  /// Heartbeats and time-outs.
  void Tick(TimePoint now);
  /// Starts what has become possible.
  void Pump();

  /// Sends a header, to which the peer's names are added, with a payload. An error has also failed
  /// the endpoint.
  [[nodiscard]] Status Post(WireHeader header, const void* payload, uint64_t payload_bytes,
                            bool large, Completion done);
  void PostControl(WireType type, uint64_t id, Status status = CINCH_OK);
  /// The peer took or gave something: it lives. On a slow link its heartbeats may be stuck behind
  /// its data.
  void HeardPeer() { last_heard_ = engine_.coarse_now(); }
  void PostControl(const WireHeader& header);

  /// Applies `update` to the metrics of the engine, this endpoint and, if any, the operation.
  template <typename Update>
  void Measure(Operation* operation, Update&& update) {
    update(engine_.metrics());
    update(metrics_);
    if (operation != nullptr) update(operation->metrics);
  }

 private:
  void Dispatch(const WireHeader& header, const Payload& payload);
  void OnGreeting();
  void OnGoodbye();
  void CloseLink();
  void FinishIfIdle();

  Engine& engine_;
  const uint64_t session_;
  const uint64_t token_;
  const uint64_t peer_session_;
  const uint64_t peer_token_;
  const Clock::duration peer_timeout_;
  const Clock::duration heartbeat_interval_;
  const TimePoint created_at_;
  UniqueFd liveness_;
  std::function<void(Endpoint&)> on_greeted_;
  std::unique_ptr<Link> link_;
  std::string path_;
  std::atomic<Status> state_{CINCH_OK};
  bool greeted_ = false;
  bool said_goodbye_ = false;
  bool closing_ = false;
  bool link_closed_ = false;
  bool gone_ = false;
  TimePoint last_sent_;
  TimePoint last_heard_;
  TimePoint last_tick_;
  TimePoint peer_gone_at_ = TimePoint::max();  // When its liveness socket was closed.
  Metrics metrics_;
  Sender sender_;
  Receiver receiver_;
};

}  // namespace cinch::transfer
