// SPDX-License-Identifier: Apache-2.0
// The messages of the handshake and their parsers: pure functions over untrusted bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transfer/secret.h"

namespace cinch::transfer {

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

inline constexpr uint32_t kHandshakeMagic = 0x53484E43;  // "CNHS"
inline constexpr size_t kHandshakePrefixBytes = 12;

enum class HandshakeType : uint8_t {
  kHello = 1,    ///< Versions, capabilities, settings and a nonce.
  kProof = 2,    ///< A MAC over both hellos.
  kAddress = 3,  ///< The transport's address and the session's names, with a MAC.
  kRefuse = 4,   ///< Why the connection ends here.
};

/// The largest body of each type: what an unauthenticated peer can make us hold.
inline constexpr uint32_t kMaxHelloBytes = 1024;
inline constexpr uint32_t kMaxAddressBytes = uint32_t{64} << 10;

/// What precedes every body: u32 magic, u8 type, 3 zero bytes, u32 body bytes.
struct HandshakePrefix {
  HandshakeType type{};
  uint32_t body_bytes = 0;
};

/// OK, PROTOCOL.
[[nodiscard]] Status ParsePrefix(ByteView bytes, HandshakePrefix& prefix);

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kDtypeTableEntries = 32;
inline constexpr uint32_t kHelloHasKey = 1;

/// A hello's body, little-endian, in this order. Later versions may append fields; readers ignore
/// what they do not know, so that versions can be compared before anything else.
struct Hello {
  uint16_t protocol_min = 0;
  uint16_t protocol_max = 0;
  uint16_t format_min = 0;
  uint16_t format_max = 0;
  uint64_t capabilities = 0;  ///< What the sender can do.
  uint64_t required = 0;      ///< What the sender cannot do without.
  uint64_t segment_bytes = 0;
  uint32_t flags = 0;  ///< kHelloHasKey.
  uint32_t dtype = 0;  ///< What the engine is for.
  uint32_t peer_timeout_milliseconds = 0;
  uint32_t codec_threads = 0;                             ///< How many decode at once.
  std::array<uint8_t, kDtypeTableEntries> dtype_sizes{};  ///< Element bytes by value; 0: unknown.
  std::array<uint8_t, kNonceBytes> nonce{};
  uint64_t host = 0;  ///< Equal for processes under one kernel. Peers before it was added: 0.
};

/// The part that all hellos have.
inline constexpr size_t kHelloBytes = 4 * 2 + 3 * 8 + 4 * 4 + kDtypeTableEntries + kNonceBytes;

/// The address body: u64 session, u64 token, u32 address bytes, the address, the MAC.
struct AddressMessage {
  uint64_t session = 0;
  uint64_t token = 0;
  Bytes address;
  Mac mac{};
};

[[nodiscard]] Bytes BuildHello(const Hello& hello);
[[nodiscard]] Bytes BuildProof(const Mac& mac);
[[nodiscard]] Bytes BuildAddress(const AddressMessage& message);
[[nodiscard]] Bytes BuildRefuse(Status reason);

/// All parse a body. OK, PROTOCOL.
[[nodiscard]] Status ParseHello(ByteView body, Hello& hello);
[[nodiscard]] Status ParseProof(ByteView body, Mac& mac);
[[nodiscard]] Status ParseAddress(ByteView body, AddressMessage& message);
/// `reason` is one of the statuses that a peer may refuse with.
[[nodiscard]] Status ParseRefuse(ByteView body, Status& reason);

}  // namespace cinch::transfer
