// SPDX-License-Identifier: Apache-2.0
// The engine against peers that know the secrets of the handshake and then break the rules.
#include <atomic>
#include <thread>

#include "transfer/hostile_peer.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

using transfer::WireHeader;
using transfer::WireType;

constexpr size_t kMegabyte = size_t{1} << 20;

WireHeader BigMessage(const Hostile& peer, uint64_t id, uint64_t sequence, uint64_t bytes) {
  WireHeader header = peer.Make(WireType::kMessage);
  header.id = id;
  header.offset = sequence;
  header.bytes = bytes;
  return header;
}

WireHeader Segment(const Hostile& peer, uint64_t id, uint64_t offset, uint64_t bytes) {
  WireHeader header = peer.Make(WireType::kSegment);
  header.id = id;
  header.offset = offset;
  header.bytes = bytes;
  header.count = static_cast<uint32_t>(bytes);
  return header;
}

TEST(HostilePeer, SegmentsMustFollowTheirMessage) {
  struct Case {
    const char* what;
    uint64_t id, offset, bytes;
  };
  for (const Case& each :
       {Case{"unknown message", 2, 0, 1000}, Case{"not at the start", 1, 8, 1000},
        Case{"beyond the end", 1, 0, 100001},
        Case{"far beyond the end", 1, ~uint64_t{0} - 5, 10}}) {
    Hostile peer;
    std::vector<uint8_t> buffer(200000, 0xEE);
    const OperationHandle receive = Receive(peer.endpoint, buffer.data(), buffer.size());
    peer.Send(BigMessage(peer, 1, 0, 100000));
    peer.Send(Segment(peer, each.id, each.offset, each.bytes), std::vector<uint8_t>(each.bytes, 1),
              true);
    EXPECT_EQ(peer.End(), CINCH_ERROR_PROTOCOL) << each.what;
    EXPECT_EQ(Wait(receive), CINCH_ERROR_PROTOCOL) << each.what;
    EXPECT_EQ(buffer, std::vector<uint8_t>(200000, 0xEE)) << each.what;
  }
}

TEST(HostilePeer, ClaimsOfSizeAllocateNothing) {
  Hostile peer;
  peer.Send(BigMessage(peer, 1, 0, uint64_t{1} << 60));
  uint8_t byte = 0;
  const OperationHandle receive = Receive(peer.endpoint, &byte, 1);
  EXPECT_EQ(Wait(receive), CINCH_ERROR_MESSAGE_TOO_LARGE);
  EXPECT_EQ(InfoOf(receive).message_bytes, uint64_t{1} << 60);
  EXPECT_EQ(cinch_endpoint_state(peer.endpoint.get()), CINCH_OK);
  peer.Send(BigMessage(peer, 2, 1, (uint64_t{1} << 60) + 1));
  EXPECT_EQ(peer.End(), CINCH_ERROR_PROTOCOL);
}

TEST(HostilePeer, UnmatchedMessagesAreBounded) {
  Hostile peer;
  for (uint64_t i = 0; i <= transfer::kMaxUnmatchedMessages; ++i) {
    WireHeader header = BigMessage(peer, i + 1, i, 8);
    header.flags = transfer::kFlagInline;
    peer.Send(header, std::vector<uint8_t>(8));
  }
  EXPECT_EQ(peer.End(), CINCH_ERROR_PROTOCOL);
}

TEST(HostilePeer, WritesAreBoundedAndChecked) {
  Hostile peer;
  for (uint64_t i = 0; i <= transfer::kMaxOneSided; ++i) {
    WireHeader header = peer.Make(WireType::kWrite);
    header.id = i + 1;
    header.bytes = 1000;
    header.count = 300;
    peer.Send(header, std::vector<uint8_t>(300 * sizeof(transfer::WirePiece)), true);
  }
  EXPECT_EQ(peer.End(), CINCH_ERROR_PROTOCOL);
}

// Keys that were valid once open nothing, in lists of pieces or of blocks, alone or among valid
// ones.
TEST(HostilePeer, RetiredKeysOpenNothing) {
  Hostile peer;
  constexpr uint64_t kBytes = 4096;
  std::vector<uint8_t> memory(kBytes, 0xEE);
  cinch_region* region = nullptr;
  ASSERT_EQ(cinch_region_register(peer.engine(), memory.data(), memory.size(), CINCH_REGION_WRITE,
                                  &region),
            CINCH_OK);
  std::vector<transfer::WirePiece> pieces;
  for (int i = 0; i < 3; ++i) {
    cinch_remote_region remote;
    transfer::WirePiece piece;
    ASSERT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
    ASSERT_EQ(transfer::ReadRegion(remote, piece.region_id, piece.region_key, piece.bytes),
              CINCH_OK);
    piece.bytes = kBytes / 2;
    pieces.push_back(piece);
    ASSERT_EQ(cinch_region_renew(region, kLongSeconds), CINCH_OK);
  }
  uint64_t id = 0;
  const auto write = [&](const void* list, size_t bytes, uint32_t count, uint8_t flags) {
    WireHeader header = peer.Make(WireType::kWrite);
    header.id = ++id;
    header.bytes = count * (kBytes / 2);
    header.count = count;
    header.flags = flags;
    const auto* first = static_cast<const uint8_t*>(list);
    peer.Send(header, {first, first + bytes}, true);
    WireHeader segment = Segment(peer, id, 0, header.bytes);
    peer.Send(segment, std::vector<uint8_t>(header.bytes, 1), true);
    EXPECT_TRUE(peer.HasAllBack(Deadline::After(kLongSeconds)));
    WireHeader abort = peer.Make(WireType::kAbort);
    abort.id = id;
    abort.status = CINCH_ERROR_CANCELLED;
    peer.Send(abort);
  };
  for (const transfer::WirePiece& piece : pieces) {
    write(&piece, sizeof(piece), 1, 0);
    struct {
      transfer::WireBlocks head;
      uint32_t ids[2] = {1, 0};
    } blocks;
    blocks.head = {piece.region_id, piece.region_key, 0, kBytes / 2, 2, 2};
    write(&blocks, sizeof(blocks), 2, transfer::kFlagBlocks);
  }
  write(pieces.data(), pieces.size() * sizeof(pieces[0]), 3, 0);
  EXPECT_EQ(memory, std::vector<uint8_t>(kBytes, 0xEE));
  EXPECT_EQ(cinch_endpoint_state(peer.endpoint.get()), CINCH_OK);
  EXPECT_EQ(cinch_region_release(region, kLongSeconds), CINCH_OK);
}

TEST(HostilePeer, IllegalMessagesEndTheConnection) {
  const auto expect_end = [](const char* what, auto&& change) {
    Hostile peer;
    WireHeader header = peer.Make(WireType::kMessage);
    header.id = 1;
    header.bytes = 5000;
    change(peer, header);
    peer.Send(header);
    EXPECT_EQ(peer.End(), CINCH_ERROR_PROTOCOL) << what;
  };
  using Peer = const Hostile&;
  expect_end("id 0", [](Peer, WireHeader& h) { h.id = 0; });
  expect_end("order", [](Peer, WireHeader& h) { h.offset = 1; });
  expect_end("unknown type", [](Peer, WireHeader& h) { h.type = static_cast<WireType>(99); });
  expect_end("unknown flag", [](Peer, WireHeader& h) { h.flags = 0x80; });
  expect_end("unknown dtype", [](Peer, WireHeader& h) { h.dtype = 15; });
  expect_end("unused field", [](Peer, WireHeader& h) { h.count = 1; });
  expect_end("inline without payload",
             [](Peer, WireHeader& h) { h.flags = transfer::kFlagInline; });
  expect_end("status above zero", [](Peer p, WireHeader& h) {
    h = p.Make(WireType::kDone);
    h.status = 1;
  });
  expect_end("unknown status", [](Peer p, WireHeader& h) {
    h = p.Make(WireType::kAbort);
    h.status = -100000;
  });
  expect_end("credit from nowhere", [](Peer p, WireHeader& h) {
    h = p.Make(WireType::kCredit);
    h.bytes = 1;
  });
  expect_end("reply to nothing", [](Peer p, WireHeader& h) {
    h = p.Make(WireType::kReply);
    h.id = 1;
    h.offset = 77;
  });
  expect_end("failure of no read", [](Peer p, WireHeader& h) {
    h = p.Make(WireType::kReadFailed);
    h.id = 5;
    h.status = CINCH_ERROR_REGION;
  });
}

TEST(HostilePeer, StrangersCannotEndAConnection) {
  Hostile peer;
  for (int i = 0; i < 3; ++i) {
    WireHeader header = peer.Make(WireType::kGoodbye);
    (i == 0 ? header.token : header.session) ^= 1;
    if (i == 2) header.magic = 0;
    peer.Send(header);
  }
  WireHeader header = BigMessage(peer, 1, 0, 3);
  header.flags = transfer::kFlagInline;
  peer.Send(header, {1, 2, 3});
  std::vector<uint8_t> buffer(3);
  EXPECT_EQ(Wait(Receive(peer.endpoint, buffer.data(), 3)), CINCH_OK);
  EXPECT_EQ(buffer, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(cinch_endpoint_state(peer.endpoint.get()), CINCH_OK);
}

TEST(HostilePeer, DoneBeforeEverythingWasSentIsRefused) {
  Hostile peer;
  const std::vector<uint8_t> data = Pattern(1, 8 * kMegabyte);
  const OperationHandle send = Send(peer.endpoint, data.data(), data.size());
  WireHeader header = peer.Make(WireType::kDone);
  header.id = 1;
  peer.Send(header);
  EXPECT_EQ(Wait(send), CINCH_ERROR_PROTOCOL);
}

/// A codec that finishes when it may.
class HeldCodec final : public transfer::SegmentCodec {
 public:
  explicit HeldCodec(const std::atomic<bool>& may_finish) : may_finish_(may_finish) {}
  [[nodiscard]] Status Encode(cinch_dtype, bool, const void*, uint64_t, void*, uint64_t,
                              uint64_t& output_bytes) override {
    while (!may_finish_) std::this_thread::yield();
    output_bytes = 100;
    return CINCH_OK;
  }
  [[nodiscard]] Status Decode(const void*, uint64_t, void*, uint64_t, uint64_t&) override {
    return CINCH_ERROR_INTERNAL;
  }

 private:
  const std::atomic<bool>& may_finish_;
};

TEST(HostilePeer, DoneWhileSegmentsAreCodedIsRefused) {
  std::atomic<bool> may_finish{false};
  const auto held = [&](std::unique_ptr<transfer::SegmentCodec>& codec) -> Status {
    codec = std::make_unique<HeldCodec>(may_finish);
    return CINCH_OK;
  };
  Hostile peer(TestSettings(), nullptr, held);
  // Short enough to be cut altogether before the peer has a place for it.
  const std::vector<uint8_t> data = Pattern(1, 100000);
  const OperationHandle send = Send(peer.endpoint, data.data(), data.size());
  WireHeader header = peer.Make(WireType::kDone);
  header.id = 1;
  peer.Send(header);
  EXPECT_EQ(peer.End(), CINCH_ERROR_PROTOCOL);
  may_finish = true;
  EXPECT_EQ(Wait(send), CINCH_ERROR_PROTOCOL);
}

TEST(HostilePeer, PayloadsWithoutBytesAreGivenBack) {
  Hostile peer;
  uint64_t id = 0;
  for (const WireType type : {WireType::kGreeting, WireType::kHeartbeat, WireType::kMessage,
                              WireType::kWrite, WireType::kRead}) {
    WireHeader header = peer.Make(type);
    if (type >= WireType::kMessage && type <= WireType::kRead) header.id = ++id;
    peer.Send(header, {}, true);
  }
  EXPECT_TRUE(peer.HasAllBack(Deadline::After(kLongSeconds)));
  EXPECT_EQ(cinch_endpoint_state(peer.endpoint.get()), CINCH_OK);
}

TEST(HostilePeer, ReadsArePinnedOneWayAtMost) {
  Hostile peer;
  WireHeader header = peer.Make(WireType::kRead);
  header.id = 1;
  header.flags = transfer::kFlagRaw | transfer::kFlagCompressed;
  peer.Send(header);
  EXPECT_EQ(peer.End(), CINCH_ERROR_PROTOCOL);
}

}  // namespace
}  // namespace cinch::transfer_test
