// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to everything that parses what a stranger or a peer may send. The first
// byte chooses: the handshake of either role (in chunks), the parsers of its bodies, or the
// headers and piece lists of the connection itself.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "transfer/handshake.h"
#include "transfer/wire.h"

namespace {

using namespace cinch::transfer;

// A fixed local side: a run must depend on its input alone.
HandshakeLocal Local(bool with_key) {
  HandshakeLocal local;
  local.hello.protocol_min = local.hello.protocol_max = kProtocolVersion;
  local.hello.format_min = local.hello.format_max = kFormatVersion;
  local.hello.capabilities = kCapabilityFrames | kCapabilityOneSided;
  local.hello.segment_bytes = kMinSegmentBytes;
  local.hello.peer_timeout_milliseconds = 1000;
  local.hello.dtype = CINCH_DTYPE_AUTO;
  if (with_key) {
    local.hello.flags = kHelloHasKey;
    local.key = "0123456789abcdef";
  }
  local.session = 1;
  local.token = 2;
  local.address = {1, 2, 3};
  return local;
}

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzSession(Handshake::Role role, bool with_key, ByteView input) {
  Handshake handshake(role, Local(with_key));
  Bytes sent = handshake.TakeOutput();
  while (!input.empty()) {
    // Every chunk is preceded by its size.
    const size_t chunk = std::min<size_t>(input[0] + size_t{1}, input.size() - 1);
    const cinch::Status status = handshake.Feed(input.subspan(1, chunk));
    input = input.subspan(1 + chunk);
    sent = handshake.TakeOutput();
    Require(sent.size() <= 4096);
    if (status == CINCH_IN_PROGRESS) continue;
    // Nobody guesses a MAC; without a key the handshake can be completed.
    Require(status != CINCH_OK || !with_key);
    if (status == CINCH_OK) Require(!handshake.peer().address.empty());
    return;
  }
}

void FuzzBodies(ByteView input) {
  Hello hello;
  if (ParseHello(input, hello) == CINCH_OK) {
    Require(input.size() >= kHelloBytes);
    const Bytes built = BuildHello(hello);
    Require(std::memcmp(built.data() + kHandshakePrefixBytes, input.data(), kHelloBytes) == 0);
    static_cast<void>(CheckCompatible(Local(false).hello, hello));
  }
  AddressMessage address;
  if (ParseAddress(input, address) == CINCH_OK) {
    const Bytes built = BuildAddress(address);
    Require(built.size() == kHandshakePrefixBytes + input.size());
    Require(std::equal(input.begin(), input.end(), built.begin() + kHandshakePrefixBytes));
  }
  Mac mac{};
  static_cast<void>(ParseProof(input, mac));
  cinch::Status reason = CINCH_OK;
  if (ParseRefuse(input, reason) == CINCH_OK) Require(reason < 0);
}

void FuzzWire(ByteView input) {
  const size_t header_bytes = std::min(input.size(), sizeof(WireHeader));
  const ByteView rest = input.subspan(header_bytes);
  WireHeader header;
  if (ParseWireHeader(input.first(header_bytes), rest.size(), header) == CINCH_OK) {
    Require(header.bytes <= kMaxMessageBytes && IsKnownStatus(header.status));
  }
  std::vector<WirePiece> pieces;
  const uint64_t total = header.bytes;
  if (ParseWirePieces(rest, total, pieces) == CINCH_OK) {
    uint64_t sum = 0;
    for (const WirePiece& piece : pieces) sum += piece.bytes;
    Require(sum == total && pieces.size() * sizeof(WirePiece) == rest.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteView input(data + 1, size - 1);
  const bool with_key = (data[0] & 8) != 0;
  switch (data[0] % 4) {
    case 0:
      FuzzSession(Handshake::Role::kServer, with_key, input);
      break;
    case 1:
      FuzzSession(Handshake::Role::kClient, with_key, input);
      break;
    case 2:
      FuzzBodies(input);
      break;
    default:
      FuzzWire(input);
      break;
  }
  return 0;
}
