// SPDX-License-Identifier: Apache-2.0
// Sockets for the handshake. No tensor travels over them.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "transfer/address.h"
#include "transfer/handshake.h"

namespace cinch::transfer {

/// Whether an address may be used with these settings: one that is not loopback needs a key.
/// OK, KEY_REQUIRED (the log says how to set one).
[[nodiscard]] Status CheckAccess(const SocketAddress& address, const Settings& settings);

/// Opens a listening socket. `bound` is where, with the port that was chosen.
/// OK, ADDRESS (the log has the reason).
[[nodiscard]] Status OpenListener(const SocketAddress& address, UniqueFd& socket,
                                  SocketAddress& bound);

/// Connects, trying again while nobody listens. `local` is this side's address.
/// OK, TIMEOUT, ADDRESS.
[[nodiscard]] Status OpenConnection(const std::vector<SocketAddress>& addresses, Deadline deadline,
                                    UniqueFd& socket, SocketAddress& local);

/// Moves bytes between a non-blocking socket and a handshake until neither can go on.
/// OK (complete), IN_PROGRESS, PEER_LOST, or how the handshake failed.
class HandshakeSocket {
 public:
  HandshakeSocket(UniqueFd socket, Handshake handshake)
      : socket_(std::move(socket)), handshake_(std::move(handshake)) {}

  [[nodiscard]] Status Advance();
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool wants_to_write() const { return written_ < output_.size(); }
  [[nodiscard]] Handshake& handshake() { return handshake_; }
  [[nodiscard]] UniqueFd TakeSocket() { return std::move(socket_); }
  /// Tells the peer why it is turned away, if that can be done without waiting.
  void Refuse(Status reason);

 private:
  [[nodiscard]] Status Write();

  UniqueFd socket_;
  Handshake handshake_;
  Bytes output_;
  size_t written_ = 0;
};

/// Drives a handshake to its end. OK, TIMEOUT, PEER_LOST, or how it failed.
[[nodiscard]] Status RunHandshake(HandshakeSocket& session, Deadline deadline);

}  // namespace cinch::transfer
