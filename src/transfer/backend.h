// SPDX-License-Identifier: Apache-2.0
// What the engine needs of a transport. ucx/ implements it; tests have one that loses, delays and
// damages what it carries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace cinch::transfer {

/// A connection to one peer inside a backend.
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  /// The path that the transport chose, for people.
  [[nodiscard]] virtual std::string Describe() const = 0;
};

/// Where one peer, or all, reach a backend. Belongs to the backend that opened it, and must be gone
/// before it.
class Port {
 public:
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  virtual ~Port() = default;

  /// Opaque bytes for the peer's Open().
  [[nodiscard]] virtual std::span<const uint8_t> address() const = 0;
};

/// The payload of a message that has arrived.
struct Payload {
  const uint8_t* data = nullptr;  ///< Not null: the bytes are here, until the call returns.
  uint64_t bytes = 0;
  /// Not null: the bytes are still at the sender. Whoever is given the payload must pass it to
  /// Backend::Fetch() or Backend::Drop() exactly once.
  void* pending = nullptr;
  uint64_t holder = 0;  ///< The backend's own.
};

/// Who hears of arrivals and failures. Called from Backend::Progress() only.
class BackendEvents {
 public:
  virtual ~BackendEvents() = default;
  /// The header is as the peer sent it, of any size; nothing in it has been checked.
  virtual void OnArrival(std::span<const uint8_t> header, Payload payload) = 0;
  /// The link failed; nothing can be sent over it any more. It must still be closed.
  virtual void OnLinkFailed(Link* link, Status reason) = 0;
};

/// Called once, from Progress(), when a call that returned IN_PROGRESS is complete.
using Completion = std::function<void(Status)>;

/// A transport. The owner serialises all calls: none needs to be thread-safe, and all callbacks run
/// inside Progress() on the caller's thread. Messages over one link arrive in the order of Send().
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Where any peer reaches this backend: opaque bytes for their Open().
  [[nodiscard]] virtual std::span<const uint8_t> address() const = 0;

  /// Opens a port for one peer on this host, with which it can harm no connection but its own.
  /// `port` stays null where address() does as well. OK, TRANSPORT, OUT_OF_MEMORY.
  [[nodiscard]] virtual Status OpenPort(std::unique_ptr<Port>& port) {
    port = nullptr;
    return CINCH_OK;
  }

  /// Opens a link to the peer whose address is given, and who reaches this side at `port` (null: at
  /// address()), which the link takes. Returns before the peer has answered.
  /// OK, PEER_LOST, TRANSPORT, OUT_OF_MEMORY.
  [[nodiscard]] virtual Status Open(std::unique_ptr<Port> port,
                                    std::span<const uint8_t> peer_address,
                                    std::unique_ptr<Link>& link) = 0;

  /// Sends a header (copied) and a payload, which must stay until completion. A `large` payload
  /// stays here until the peer fetches it, and completes when it has; others travel at once.
  /// OK (complete: the payload may be reused), IN_PROGRESS (`done` will be called) or an error.
  [[nodiscard]] virtual Status Send(Link* link, std::span<const uint8_t> header,
                                    const void* payload, uint64_t payload_bytes, bool large,
                                    Completion done) = 0;

  /// Brings a pending payload to `destination`, which has room for payload.bytes.
  /// OK (complete), IN_PROGRESS (`done` will be called) or an error.
  [[nodiscard]] virtual Status Fetch(const Payload& payload, void* destination,
                                     Completion done) = 0;

  /// Gives a pending payload up; the sender's call completes as if it had been fetched.
  virtual void Drop(const Payload& payload) = 0;

  /// Ends a link at once. Calls in flight over it complete with an error, from Progress(); then
  /// `closed` is called and the link is gone.
  virtual void Close(std::unique_ptr<Link> link, std::function<void()> closed) = 0;

  /// Moves everything that can move. Returns whether anything did.
  virtual bool Progress() = 0;

  /// Whether something is in flight whose next step nothing will announce (space in a
  /// shared-memory queue, say): Progress() must be called again soon.
  [[nodiscard]] virtual bool needs_polling() const = 0;

  /// A descriptor that becomes readable when Progress() has something to do, once armed.
  [[nodiscard]] virtual int event_fd() const = 0;
  /// Prepares event_fd() for waiting. False: there is something to do already.
  [[nodiscard]] virtual bool Arm() = 0;
};

/// What a backend is made from.
struct BackendOptions {
  std::string transports;       ///< Empty: all.
  std::string network_devices;  ///< Empty: all.
};

using BackendFactory = std::function<Status(const BackendOptions& options, BackendEvents& events,
                                            std::unique_ptr<Backend>& backend)>;

}  // namespace cinch::transfer
