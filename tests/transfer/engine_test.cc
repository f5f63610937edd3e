// SPDX-License-Identifier: Apache-2.0
// The engine over a transport that misbehaves.
#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "transfer/mock_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

using transfer::WireHeader;
using transfer::WireType;

constexpr size_t kMegabyte = size_t{1} << 20;

void ExpectRoundTrip(const MockPair& pair, size_t bytes) {
  const std::vector<uint8_t> sent = Pattern(bytes, bytes);
  std::vector<uint8_t> received(bytes);
  const OperationHandle receive = Receive(pair.right(), received.data(), bytes);
  const OperationHandle send = Send(pair.left(), sent.data(), bytes);
  ASSERT_EQ(Wait(receive), CINCH_OK);
  ASSERT_EQ(Wait(send), CINCH_OK);
  ASSERT_TRUE(received == sent);
}

TEST(Engine, SurvivesArbitraryDelays) {
  MockFaults faults;
  faults.max_delay = 5;
  const MockPair pair(std::move(faults));
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{5000}, kMegabyte, 10 * kMegabyte + 3}) {
    ExpectRoundTrip(pair, bytes);
  }
}

TEST(Engine, DamagedFramesAreNamedOnBothSidesAndForgotten) {
  std::atomic<bool> damage{true};
  MockFaults faults;
  faults.on_fetch = [&](uint8_t* data, uint64_t bytes) {
    if (damage && bytes > 1000) data[bytes / 2] ^= 0x10;
  };
  const MockPair pair(std::move(faults));
  const std::vector<uint8_t> sent = Pattern(1, 4 * kMegabyte);
  std::vector<uint8_t> received(sent.size());
  const OperationHandle receive = Receive(pair.right(), received.data(), received.size());
  const OperationHandle send = Send(pair.left(), sent.data(), sent.size());
  const cinch_status status = Wait(receive);
  EXPECT_LE(status, CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_GE(status, CINCH_ERROR_FRAME_BASE_MISSING);
  EXPECT_EQ(Wait(send), status);
  damage = false;
  ExpectRoundTrip(pair, 4 * kMegabyte);
}

/// A codec whose decoder fails, or whose encoder does.
class FailingCodec final : public transfer::SegmentCodec {
 public:
  FailingCodec(Status encode, Status decode) : encode_(encode), decode_(decode) {}
  [[nodiscard]] Status Encode(cinch_dtype, bool, const void*, uint64_t, void*, uint64_t,
                              uint64_t& output_bytes) override {
    output_bytes = 100;
    return encode_;
  }
  [[nodiscard]] Status Decode(const void*, uint64_t, void*, uint64_t,
                              uint64_t& output_bytes) override {
    output_bytes = 100;  // Never what was announced.
    return decode_;
  }

 private:
  Status encode_;
  Status decode_;
};

transfer::SegmentCodecFactory Failing(Status encode, Status decode) {
  return [=](std::unique_ptr<transfer::SegmentCodec>& codec) -> Status {
    codec = std::make_unique<FailingCodec>(encode, decode);
    return CINCH_OK;
  };
}

TEST(Engine, CodecFailuresEndTheMessageOnly) {
  struct Case {
    Status encode;
    Status decode;
    Status expected;
  };
  for (const Case& each : {Case{CINCH_ERROR_INTERNAL, CINCH_OK, CINCH_ERROR_INTERNAL},
                           Case{CINCH_OK, CINCH_ERROR_FRAME_BLOCK, CINCH_ERROR_FRAME_BLOCK},
                           Case{CINCH_OK, CINCH_OK, CINCH_ERROR_FRAME_HEADER}}) {
    const MockPair pair({}, TestSettings(), Failing(each.encode, each.decode));
    const std::vector<uint8_t> sent = Pattern(1, kMegabyte);
    std::vector<uint8_t> received(sent.size());
    const OperationHandle receive = Receive(pair.right(), received.data(), received.size());
    EXPECT_EQ(Wait(Send(pair.left(), sent.data(), sent.size())), each.expected);
    EXPECT_EQ(Wait(receive), each.expected);
    ExpectRoundTrip(pair, 1000);  // Small messages are not coded.
  }
}

/// A codec without memory to work in.
class StarvedCodec final : public transfer::SegmentCodec {
 public:
  explicit StarvedCodec(bool encodes) : encodes_(encodes) {}
  [[nodiscard]] Status Encode(cinch_dtype, bool, const void*, uint64_t, void*, uint64_t,
                              uint64_t& output_bytes) override {
    if (!encodes_) throw std::bad_alloc();
    output_bytes = 100;
    return CINCH_OK;
  }
  [[nodiscard]] Status Decode(const void*, uint64_t, void*, uint64_t, uint64_t&) override {
    throw std::bad_alloc();
  }

 private:
  bool encodes_;
};

// In one piece and in two: a codec thread that finds no memory ends the message, not the process.
TEST(Engine, CodecThreadsSurviveWithoutMemory) {
  for (const bool encodes : {false, true}) {
    const auto starved = [&](std::unique_ptr<transfer::SegmentCodec>& codec) -> Status {
      codec = std::make_unique<StarvedCodec>(encodes);
      return CINCH_OK;
    };
    const MockPair pair({}, TestSettings(), starved);
    const std::vector<uint8_t> sent = Pattern(1, kMegabyte);
    std::vector<uint8_t> received(sent.size());
    for (int i = 0; i < 3; ++i) {
      const OperationHandle receive = Receive(pair.right(), received.data(), received.size());
      EXPECT_EQ(Wait(Send(pair.left(), sent.data(), sent.size())), CINCH_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(Wait(receive), CINCH_ERROR_OUT_OF_MEMORY);
      ExpectRoundTrip(pair, 1000);  // Small messages are not coded.
    }
  }
}

// Whatever control message gets lost, both sides end in bounded time.
TEST(Engine, LostMessagesEndInTimeouts) {
  for (const WireType lost : {WireType::kMessage, WireType::kReady, WireType::kSegment,
                              WireType::kDone, WireType::kAbort}) {
    MockFaults faults;
    faults.on_send = [lost](uint64_t, WireHeader& header) {
      return header.type == lost ? Fate::kLose : Fate::kDeliver;
    };
    transfer::Settings settings = TestSettings();
    settings.operation_timeout_seconds = 0.3;
    settings.peer_timeout_seconds = 1;
    const MockPair pair(std::move(faults), settings);
    const std::vector<uint8_t> sent = Pattern(1, kMegabyte);
    std::vector<uint8_t> received(sent.size());
    const OperationHandle receive = Receive(pair.right(), received.data(), received.size());
    const OperationHandle send = Send(pair.left(), sent.data(), sent.size());
    const cinch_status sent_status = Wait(send);
    const cinch_status received_status = Wait(receive);
    EXPECT_NE(sent_status, CINCH_IN_PROGRESS) << static_cast<int>(lost);
    EXPECT_NE(received_status, CINCH_IN_PROGRESS) << static_cast<int>(lost);
    if (lost != WireType::kAbort) {
      EXPECT_NE(sent_status, CINCH_OK) << static_cast<int>(lost);
    }
    if (received_status == CINCH_OK) {
      EXPECT_TRUE(received == sent);
    }
  }
}

TEST(Engine, FailingLinksEndEverything) {
  for (int after = 1; after < 12; ++after) {
    std::atomic<int> count{0};
    MockFaults faults;
    faults.on_send = [&count, after](uint64_t sender, WireHeader& header) {
      if (sender != 1 || header.type == WireType::kGreeting) return Fate::kDeliver;
      return ++count == after ? Fate::kFailLink : Fate::kDeliver;
    };
    transfer::Settings settings = TestSettings();
    settings.peer_timeout_seconds = 0.5;
    const MockPair pair(std::move(faults), settings);
    const std::vector<uint8_t> sent = Pattern(1, 3 * kMegabyte);
    std::vector<uint8_t> received(sent.size());
    const OperationHandle receive = Receive(pair.right(), received.data(), received.size());
    const OperationHandle send = Send(pair.left(), sent.data(), sent.size());
    EXPECT_EQ(Wait(send), CINCH_ERROR_PEER_LOST);
    EXPECT_EQ(Wait(receive), CINCH_ERROR_PEER_LOST);
    cinch_operation* refused = nullptr;
    EXPECT_EQ(cinch_send(pair.left().get(), sent.data(), 1, nullptr, &refused),
              CINCH_ERROR_PEER_LOST);
  }
}

TEST(Engine, ATransportThatNeverRestsDoesNotHideADeadPeer) {
  // Like shared memory whose other side was killed.
  for (const bool never_rests : {false, true}) {
    MockFaults faults;
    faults.never_rests = never_rests;
    MockPair pair(faults);
    EXPECT_TRUE(pair.LosesPeerByItsSocket()) << never_rests;
    EXPECT_EQ(cinch_endpoint_state(pair.left().get()), CINCH_ERROR_PEER_LOST) << never_rests;
  }
}

TEST(Engine, SilenceIsNoticedByBoth) {
  std::atomic<bool> silent{false};
  MockFaults faults;
  faults.on_send = [&](uint64_t, WireHeader&) { return silent ? Fate::kLose : Fate::kDeliver; };
  transfer::Settings settings = TestSettings();
  settings.peer_timeout_seconds = 0.3;
  const MockPair pair(std::move(faults), settings);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(cinch_endpoint_state(pair.left().get()), CINCH_OK);  // Heartbeats keep it alive.
  silent = true;
  uint8_t byte = 0;
  const OperationHandle left = Receive(pair.left(), &byte, 1);
  const OperationHandle right = Receive(pair.right(), &byte, 1);
  EXPECT_EQ(Wait(left), CINCH_ERROR_PEER_LOST);
  EXPECT_EQ(Wait(right), CINCH_ERROR_PEER_LOST);
}

// On a slow link heartbeats wait behind data; data that move show as well that the peer lives.
TEST(Engine, MovingDataCountAsLife) {
  MockFaults faults;
  faults.on_send = [](uint64_t, WireHeader& header) {
    return header.type == WireType::kHeartbeat ? Fate::kLose : Fate::kDeliver;
  };
  transfer::Settings settings = TestSettings();
  settings.policy = policy::Mode::kRaw;
  settings.peer_timeout_seconds = 0.4;
  settings.link_gbps = 0.1;
  const MockPair pair(std::move(faults), settings);
  ExpectRoundTrip(pair, 16 * kMegabyte);  // Takes 1.3 s.
}

// Any change to a header either does no harm or ends the connection; nothing hangs or crashes, and
// what is reported as received is what was sent.
TEST(Engine, DamagedHeadersNeverHangOrLie) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    std::atomic<bool> done{false};
    MockFaults faults;
    faults.on_send = [&](uint64_t, WireHeader& header) {
      if (done || header.type == WireType::kGreeting || random() % 4 != 0) return Fate::kDeliver;
      done = true;
      // Behind the names, which nobody else knows.
      auto* bytes = reinterpret_cast<uint8_t*>(&header);
      size_t at = random() % (sizeof(header) - 16);
      if (at >= 8) at += 16;
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1u << (random() % 8)));
      return Fate::kDeliver;
    };
    transfer::Settings settings = TestSettings();
    settings.operation_timeout_seconds = 0.2;
    settings.peer_timeout_seconds = 0.3;
    const MockPair pair(std::move(faults), settings);
    const std::vector<uint8_t> sent = Pattern(seed, 400000);
    std::vector<uint8_t> received(sent.size());
    const OperationHandle receive = Receive(pair.right(), received.data(), received.size());
    cinch_operation* send = nullptr;
    const cinch_status started =
        cinch_send(pair.left().get(), sent.data(), sent.size(), nullptr, &send);
    const OperationHandle send_handle(send);
    if (started == CINCH_OK) {
      EXPECT_NE(Wait(send_handle), CINCH_IN_PROGRESS) << seed;
    }
    const cinch_status status = Wait(receive);
    EXPECT_NE(status, CINCH_IN_PROGRESS) << seed;
    if (status == CINCH_OK && InfoOf(receive).message_bytes == sent.size()) {
      EXPECT_TRUE(received == sent) << seed;
    }
  }
}

}  // namespace
}  // namespace cinch::transfer_test
