// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to everything that parses what a stranger or a peer may send. The first
// byte chooses: the handshake of either role (in chunks), the parsers of its bodies, or the
// headers and the lists of pieces and blocks of the connection itself.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "transfer/handshake.h"
#include "transfer/region_table.h"
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

// Ids of regions are random; in an input, 1 is this one.
void NameRegion(const RegionEntry& entry, uint64_t& id, uint64_t& key) {
  if (id != 1) return;
  id = entry.id;
  key = entry.key;
}

// A list that a peer sends must not reach outside the region that it names.
void RequireInside(const PieceList& list, const RegionEntry& entry, uint64_t total) {
  Require(list.total_bytes() == total);
  uint64_t visited = 0;
  list.ForRange(0, std::min<uint64_t>(total, 1 << 16), [&](uint8_t* at, uint64_t, uint64_t bytes) {
    Require(at >= entry.address && bytes <= entry.bytes &&
            static_cast<uint64_t>(at - entry.address) <= entry.bytes - bytes);
    visited += bytes;
  });
  Require(visited == std::min<uint64_t>(total, 1 << 16));
}

void FuzzLists(ByteView bytes, const WireHeader& header) {
  RegionTable table;
  std::vector<uint8_t> memory(5000);
  std::shared_ptr<RegionEntry> entry;
  Require(table.Register(memory.data(), memory.size(), CINCH_REGION_WRITE, {}, entry) == CINCH_OK);
  PieceList list;
  std::vector<RegionUse> uses;
  std::vector<WirePiece> pieces;
  if (ParseWirePieces(bytes, header.bytes, pieces) == CINCH_OK) {
    uint64_t sum = 0;
    for (const WirePiece& piece : pieces) sum += piece.bytes;
    Require(sum == header.bytes && pieces.size() * sizeof(WirePiece) == bytes.size());
    for (WirePiece& piece : pieces) NameRegion(*entry, piece.region_id, piece.region_key);
    if (table.Resolve(pieces, CINCH_REGION_WRITE, list, uses) == CINCH_OK) {
      RequireInside(list, *entry, header.bytes);
    }
  }
  std::vector<ParsedBlocks> runs;
  if (ParseWireBlocks(bytes, header.count, header.bytes, runs) == CINCH_OK) {
    uint64_t count = 0;
    for (ParsedBlocks& run : runs) {
      Require(run.ids->size() == run.head.id_count && run.head.id_count > 0);
      count += run.head.id_count;
      NameRegion(*entry, run.head.region_id, run.head.region_key);
    }
    Require(count == header.count && sizeof(uint32_t) * count <= bytes.size());
    if (table.ResolveBlocks(runs, CINCH_REGION_WRITE, list, uses) == CINCH_OK) {
      Require(list.piece_count() == count);
      RequireInside(list, *entry, header.bytes);
    }
  }
}

void FuzzWire(ByteView input) {
  const size_t header_bytes = std::min(input.size(), sizeof(WireHeader));
  const ByteView rest = input.subspan(header_bytes);
  WireHeader header;
  if (ParseWireHeader(input.first(header_bytes), rest.size(), header) == CINCH_OK) {
    Require(header.bytes <= kMaxMessageBytes && IsKnownStatus(header.status));
  }
  FuzzLists(rest, header);
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
