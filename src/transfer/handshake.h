// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "transfer/handshake_message.h"
#include "transfer/settings.h"

namespace cinch::transfer {

inline constexpr uint16_t kProtocolVersion = 2;
inline constexpr uint16_t kFormatVersion = 1;

/// Capabilities. A peer that lacks what the other requires is refused.
inline constexpr uint64_t kCapabilityFrames = 1;    ///< Decodes compressed segments.
inline constexpr uint64_t kCapabilityOneSided = 2;  ///< Serves writes and reads.
inline constexpr uint64_t kCapabilityShared = 4;    ///< May map the peer's device memory.

/// This side of the handshake.
struct HandshakeLocal {
  Hello hello;
  std::string key;
  uint64_t session = 0;  ///< What the peer calls this connection in its messages,
  uint64_t token = 0;    ///< and the proof that it may.
  Bytes address;         ///< Where the transport reaches this engine.
  /// If set, is asked for `address` once the peer has proved that it may know.
  std::function<Status(const Hello& peer, Bytes& address)> find_address;
};

/// The other side, once the handshake is complete.
struct HandshakePeer {
  Hello hello;
  uint64_t session = 0;
  uint64_t token = 0;
  Bytes address;
};

/// Fills in the hello from the settings, with a fresh nonce, session and token. OK, INTERNAL.
[[nodiscard]] Status PrepareHandshake(const Settings& settings, Bytes address,
                                      HandshakeLocal& local);

/// Whether two hellos may come from one host. Those of peers that do not name theirs may.
[[nodiscard]] bool MayShareHost(const Hello& ours, const Hello& theirs);

/// Whether two hellos can work together.
/// OK, VERSION_MISMATCH, CAPABILITY_MISMATCH, DTYPE_MISMATCH, AUTHENTICATION (only one has a key).
[[nodiscard]] Status CheckCompatible(const Hello& ours, const Hello& theirs);

/// One side's handshake as a state machine without sockets or clocks:
///
///   client                        server
///   hello            ->
///                    <-           hello
///   proof            ->                       the server knows the client now
///                    <-           proof, address    and the client the server
///   address          ->
///
/// Either side may send `refuse` instead and end. The transport's address is told only to a peer
/// that has proved the key, and is covered by a MAC itself. Without a key MACs are zero.
class Handshake {
 public:
  enum class Role { kClient, kServer };

  Handshake(Role role, HandshakeLocal local);

  /// Takes bytes from the peer. IN_PROGRESS until the handshake is complete (OK) or failed.
  /// After an error or completion nothing more may be fed.
  [[nodiscard]] Status Feed(ByteView bytes);

  /// What must be sent to the peer now, also after an error (the refusal).
  [[nodiscard]] Bytes TakeOutput();

  /// Valid after Feed() returned OK.
  [[nodiscard]] const HandshakePeer& peer() const { return peer_; }
  [[nodiscard]] const HandshakeLocal& local() const { return local_; }

 private:
  enum class State { kWantHello, kWantProof, kWantAddress, kDone, kFailed };

  [[nodiscard]] bool Expects(HandshakeType type) const;
  [[nodiscard]] Status OnMessage(HandshakeType type, ByteView body);
  [[nodiscard]] Status OnHello(ByteView body);
  [[nodiscard]] Status OnProof(ByteView body);
  [[nodiscard]] Status OnAddress(ByteView body);
  [[nodiscard]] Status MakeProof(Role author, Mac& mac) const;
  [[nodiscard]] Status MakeAddressMac(Role author, const AddressMessage& message, Mac& mac) const;
  [[nodiscard]] Status SendAddress();
  void Send(const Bytes& message);

  Role role_;
  Role peer_role_;
  HandshakeLocal local_;
  HandshakePeer peer_;
  State state_ = State::kWantHello;
  Bytes client_hello_;  // Whole messages as sent: what the proofs are about.
  Bytes server_hello_;
  Bytes input_;
  Bytes output_;
};

}  // namespace cinch::transfer
