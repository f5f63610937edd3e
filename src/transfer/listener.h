// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "transfer/bootstrap.h"
#include "transfer/engine.h"

namespace cinch::transfer {

/// Has the transport open a port for the peer of a handshake once it is known, and gives it up
/// again unless the handshake led to an endpoint.
class HandshakePort {
 public:
  /// Prepares `local`, which must not outlive `engine`.
  HandshakePort(std::shared_ptr<Engine> engine, HandshakeLocal& local);
  HandshakePort(const HandshakePort&) = delete;
  HandshakePort& operator=(const HandshakePort&) = delete;
  ~HandshakePort() { engine_->ClosePort(session_); }

 private:
  std::shared_ptr<Engine> engine_;
  uint64_t session_;
};

/// Accepts peers at one address. A thread of its own shakes hands, with many at once: no peer can
/// hold up another, and none holds a place for longer than the handshake's time.
class Listener final : public std::enable_shared_from_this<Listener> {
 public:
  /// OK, ADDRESS, KEY_REQUIRED, TRANSPORT, OUT_OF_MEMORY, CANCELLED.
  [[nodiscard]] static Status Create(const std::shared_ptr<Engine>& engine, const HostPort& address,
                                     std::shared_ptr<Listener>& listener);
  explicit Listener(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
  ~Listener() { Stop(); }

  [[nodiscard]] const std::string& address() const { return address_; }
  /// OK, TIMEOUT, CANCELLED (stopped or shut down).
  [[nodiscard]] Status Accept(double timeout_seconds, std::shared_ptr<Endpoint>& endpoint);
  [[nodiscard]] uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  [[nodiscard]] Status last_reason() const { return last_reason_.load(std::memory_order_relaxed); }
  [[nodiscard]] const std::shared_ptr<Engine>& engine() const { return engine_; }

  /// Stops listening and closes peers that nobody has accepted.
  void Stop();

 private:
  struct Pending {
    std::unique_ptr<HandshakePort> port;
    HandshakeSocket session;
    Deadline deadline;
  };

  [[nodiscard]] Status Open(const HostPort& address);
  void Run();
  void AcceptSockets();
  void AdvancePending(const std::vector<int>& ready);
  void Greet(Pending& pending);
  void CountRefusal(Status reason);
  void OnGreeted(Endpoint& endpoint);

  std::shared_ptr<Engine> engine_;
  std::string address_;
  UniqueFd socket_;
  UniqueFd wake_;
  std::vector<Pending> pending_;  // The thread's own.
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> refused_{0};
  std::atomic<Status> last_reason_{CINCH_OK};
  std::deque<std::shared_ptr<Endpoint>> greeted_;  // Guarded by the engine's lock.
  bool stopped_ = false;                           // Likewise.
};

/// Connects to a listener.
/// As cinch_connect().
[[nodiscard]] Status Connect(const std::shared_ptr<Engine>& engine, const HostPort& address,
                             double timeout_seconds, std::shared_ptr<Endpoint>& endpoint);

}  // namespace cinch::transfer
