// SPDX-License-Identifier: Apache-2.0
// Messages between two engines of one process, over real transports.
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "transfer/engine_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

class MessageSizes : public testing::TestWithParam<std::tuple<cinch_policy, const char*>> {};

TEST_P(MessageSizes, EverySizeArrivesExactly) {
  const auto [policy, transports] = GetParam();
  cinch_engine_options options = DefaultOptions();
  options.transports = transports;
  const EnginePair pair(options, options);
  const cinch_transfer_options transfer = TransferOptions(policy);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{3}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{32767},
        size_t{32768}, size_t{32769}, size_t{65535}, size_t{65536}, size_t{65537},
        3 * size_t{65536}, kMegabyte - 1, kMegabyte, kMegabyte + 1, 9 * kMegabyte + 12345}) {
    SCOPED_TRACE(bytes);
    const std::vector<uint8_t> sent = Pattern(bytes, bytes);
    std::vector<uint8_t> received(bytes + 1, 0xA5);
    const OperationHandle receive = Receive(pair.right, received.data(), bytes);
    const OperationHandle send = Send(pair.left, sent.data(), bytes, &transfer);
    ASSERT_EQ(Wait(receive), CINCH_OK);
    ASSERT_EQ(Wait(send), CINCH_OK);
    EXPECT_EQ(received.back(), 0xA5);
    received.pop_back();
    ASSERT_EQ(received, sent);
    EXPECT_EQ(InfoOf(receive).message_bytes, bytes);
    EXPECT_EQ(StatsOf(send).payload_bytes, bytes);
    EXPECT_EQ(StatsOf(receive).payload_bytes, bytes);
    if (policy == CINCH_POLICY_RAW) {
      EXPECT_EQ(StatsOf(send).compressed_segments, 0u);
    }
    if (policy == CINCH_POLICY_COMPRESSED && bytes >= 3 * 65536) {
      EXPECT_LT(StatsOf(send).wire_bytes, bytes * 3 / 4);
      EXPECT_EQ(StatsOf(receive).wire_bytes, StatsOf(send).wire_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MessageSizes,
                         testing::Combine(testing::Values(CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED,
                                                          CINCH_POLICY_AUTO),
                                          testing::Values("tcp", "posix,self")));

TEST(Message, ManyInFlightArriveInOrder) {
  const EnginePair pair;
  constexpr size_t kCount = 600;  // More than may be unmatched at once.
  std::vector<std::vector<uint8_t>> sent;
  std::vector<OperationHandle> sends;
  for (size_t i = 0; i < kCount; ++i) {
    sent.push_back(Pattern(i, (i % 7) * 1500));
    sends.push_back(Send(pair.left, sent.back().data(), sent.back().size()));
  }
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<uint8_t> received(sent[i].size());
    const OperationHandle receive = Receive(pair.right, received.data(), received.size());
    ASSERT_EQ(Wait(receive), CINCH_OK) << i;
    ASSERT_EQ(received, sent[i]) << i;
  }
  for (const OperationHandle& send : sends) EXPECT_EQ(Wait(send), CINCH_OK);
}

// A large message that nobody receives must not keep a later one from being received.
TEST(Message, TagsSelectAndUnmatchedOnesDoNotBlock) {
  const EnginePair pair;
  cinch_transfer_options options = TransferOptions(CINCH_POLICY_COMPRESSED);
  std::vector<std::vector<uint8_t>> sent;
  std::vector<OperationHandle> sends;
  constexpr uint64_t kTags = 20;
  for (uint64_t tag = 0; tag < kTags; ++tag) {
    sent.push_back(Pattern(tag, 3 * kMegabyte));
    options.tag = tag;
    sends.push_back(Send(pair.left, sent.back().data(), sent.back().size(), &options));
  }
  for (uint64_t tag = kTags; tag-- > 0;) {
    std::vector<uint8_t> received(3 * kMegabyte);
    cinch_transfer_options want = TransferOptions();
    want.tag = tag;
    want.tag_mask = ~uint64_t{0};
    const OperationHandle receive = Receive(pair.right, received.data(), received.size(), &want);
    ASSERT_EQ(Wait(receive), CINCH_OK) << tag;
    ASSERT_EQ(received, sent[tag]) << tag;
    EXPECT_EQ(InfoOf(receive).tag, tag);
  }
  for (const OperationHandle& send : sends) EXPECT_EQ(Wait(send), CINCH_OK);
}

TEST(Message, BothDirectionsAtOnce) {
  const EnginePair pair;
  const std::vector<uint8_t> left = Pattern(1, 20 * kMegabyte);
  const std::vector<uint8_t> right = Pattern(2, 20 * kMegabyte);
  std::vector<uint8_t> at_left(right.size());
  std::vector<uint8_t> at_right(left.size());
  const OperationHandle operations[] = {
      Receive(pair.left, at_left.data(), at_left.size()),
      Receive(pair.right, at_right.data(), at_right.size()),
      Send(pair.left, left.data(), left.size()),
      Send(pair.right, right.data(), right.size()),
  };
  for (const OperationHandle& operation : operations) ASSERT_EQ(Wait(operation), CINCH_OK);
  EXPECT_EQ(at_left, right);
  EXPECT_EQ(at_right, left);
}

TEST(Message, TooSmallABufferKeepsTheMessage) {
  const EnginePair pair;
  for (const size_t bytes : {size_t{100}, 2 * kMegabyte}) {
    const std::vector<uint8_t> sent = Pattern(bytes, bytes);
    std::vector<uint8_t> received(bytes);
    const OperationHandle send = Send(pair.left, sent.data(), bytes);
    const OperationHandle small = Receive(pair.right, received.data(), bytes - 1);
    EXPECT_EQ(Wait(small), CINCH_ERROR_MESSAGE_TOO_LARGE);
    EXPECT_EQ(InfoOf(small).message_bytes, bytes);
    EXPECT_EQ(received, std::vector<uint8_t>(bytes, 0));
    cinch_message_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(cinch_probe(pair.right.get(), 0, 0, kLongSeconds, &info), CINCH_OK);
    EXPECT_EQ(info.bytes, bytes);
    ASSERT_EQ(Wait(Receive(pair.right, received.data(), bytes)), CINCH_OK);
    EXPECT_EQ(Wait(send), CINCH_OK);
    EXPECT_EQ(received, sent);
  }
}

TEST(Message, AnotherDtypeKeepsTheMessage) {
  const EnginePair pair;
  const std::vector<uint8_t> sent = Pattern(1, 1000);
  std::vector<uint8_t> received(1000);
  const cinch_transfer_options bf16 = TransferOptions(CINCH_POLICY_AUTO, CINCH_DTYPE_BF16);
  const cinch_transfer_options fp32 = TransferOptions(CINCH_POLICY_AUTO, CINCH_DTYPE_FP32);
  const OperationHandle send = Send(pair.left, sent.data(), 1000, &bf16);
  EXPECT_EQ(Wait(Receive(pair.right, received.data(), 1000, &fp32)), CINCH_ERROR_DTYPE_MISMATCH);
  const OperationHandle receive = Receive(pair.right, received.data(), 1000, &bf16);
  EXPECT_EQ(Wait(receive), CINCH_OK);
  EXPECT_EQ(InfoOf(receive).dtype, CINCH_DTYPE_BF16);
  EXPECT_EQ(received, sent);
}

TEST(Message, ProbeTimesOutAndFindsLater) {
  const EnginePair pair;
  cinch_message_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(cinch_probe(pair.right.get(), 0, 0, 0, &info), CINCH_ERROR_TIMEOUT);
  EXPECT_EQ(cinch_probe(pair.right.get(), 0, 0, 0.01, &info), CINCH_ERROR_TIMEOUT);
  const std::vector<uint8_t> sent = Pattern(1, 77);
  cinch_transfer_options options = TransferOptions();
  options.tag = 5;
  const OperationHandle send = Send(pair.left, sent.data(), sent.size(), &options);
  ASSERT_EQ(cinch_probe(pair.right.get(), 5, ~uint64_t{0}, kLongSeconds, &info), CINCH_OK);
  EXPECT_EQ(info.bytes, 77u);
  EXPECT_EQ(info.dtype, CINCH_DTYPE_BF16);
}

TEST(Message, PiecesNeedNotMatch) {
  const EnginePair pair;
  for (const cinch_policy policy : {CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED}) {
    std::vector<uint8_t> sent = Pattern(9, 5 * kMegabyte + 333);
    std::vector<uint8_t> received(sent.size());
    std::vector<cinch_piece> source;
    std::vector<cinch_piece> target;
    for (size_t at = 0, step = 1; at < sent.size(); at += step, step = step * 3 % 70001 + 1) {
      step = std::min(step, sent.size() - at);
      source.push_back({sent.data() + at, step});
      source.push_back({nullptr, 0});
    }
    for (size_t at = 0, step = 1; at < sent.size(); at += step, step = step * 5 % 100003 + 1) {
      step = std::min(step, sent.size() - at);
      target.push_back({received.data() + at, step});
    }
    const cinch_transfer_options options = TransferOptions(policy);
    cinch_operation* send = nullptr;
    cinch_operation* receive = nullptr;
    ASSERT_EQ(cinch_sendv(pair.left.get(), source.data(), source.size(), &options, &send),
              CINCH_OK);
    ASSERT_EQ(cinch_recvv(pair.right.get(), target.data(), target.size(), nullptr, &receive),
              CINCH_OK);
    EXPECT_EQ(Wait(OperationHandle(receive)), CINCH_OK);
    EXPECT_EQ(Wait(OperationHandle(send)), CINCH_OK);
    EXPECT_EQ(received, sent);
  }
}

struct CallbackResult {
  std::atomic<int> calls{0};
  std::atomic<cinch_status> status{CINCH_IN_PROGRESS};
};

void CountCall(cinch_operation* /*operation*/, cinch_status status, void* data) {
  auto* result = static_cast<CallbackResult*>(data);
  result->status.store(status);
  ++result->calls;
}

TEST(Message, CallbackComesOnceEvenAfterRelease) {
  const EnginePair pair;
  const std::vector<uint8_t> sent = Pattern(1, 3 * kMegabyte);
  std::vector<uint8_t> received(sent.size());
  CallbackResult result;
  cinch_transfer_options options = TransferOptions();
  options.callback = CountCall;
  options.callback_data = &result;
  Receive(pair.right, received.data(), received.size(), &options).reset();
  ASSERT_EQ(Wait(Send(pair.left, sent.data(), sent.size())), CINCH_OK);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (result.calls == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(result.calls, 1);
  EXPECT_EQ(result.status, CINCH_OK);
  EXPECT_EQ(received, sent);
}

TEST(Message, CancelEndsBothSides) {
  cinch_engine_options slow = DefaultOptions();
  slow.link_gbps = 0.5;  // So that there is a middle to cancel in.
  const EnginePair pair(slow, slow);
  // A receive that nothing fits.
  std::vector<uint8_t> received(64 * kMegabyte);
  const OperationHandle waiting = Receive(pair.right, received.data(), 10);
  EXPECT_EQ(cinch_cancel(waiting.get()), CINCH_OK);
  EXPECT_EQ(Wait(waiting), CINCH_ERROR_CANCELLED);
  // A send that nobody receives.
  const std::vector<uint8_t> sent = Pattern(1, 64 * kMegabyte);
  const OperationHandle unmatched = Send(pair.left, sent.data(), sent.size());
  EXPECT_EQ(cinch_cancel(unmatched.get()), CINCH_OK);
  EXPECT_EQ(Wait(unmatched), CINCH_ERROR_CANCELLED);
  // What is sent later arrives later: now the receiver knows as well, and no receive gets hold of
  // what was cancelled.
  cinch_transfer_options marked = TransferOptions();
  marked.tag = 1;
  marked.tag_mask = ~uint64_t{0};
  const OperationHandle mark = Receive(pair.right, received.data(), 8, &marked);
  EXPECT_EQ(Wait(Send(pair.left, sent.data(), 8, &marked)), CINCH_OK);
  EXPECT_EQ(Wait(mark), CINCH_OK);
  // Running ones, cancelled by the receiver and by the sender.
  for (const bool by_sender : {false, true}) {
    const OperationHandle receive = Receive(pair.right, received.data(), received.size());
    const OperationHandle send = Send(pair.left, sent.data(), sent.size());
    // A receive that is cancelled before its message came would leave the message to others.
    while (InfoOf(receive).bytes_done == 0 && cinch_test(receive.get()) == CINCH_IN_PROGRESS) {
      std::this_thread::yield();
    }
    EXPECT_EQ(cinch_test(send.get()), CINCH_IN_PROGRESS);
    EXPECT_EQ(cinch_cancel(by_sender ? send.get() : receive.get()), CINCH_OK);
    EXPECT_EQ(Wait(send), CINCH_ERROR_CANCELLED);
    EXPECT_EQ(Wait(receive), CINCH_ERROR_CANCELLED);
  }
  // And the connection is as good as new.
  ASSERT_EQ(cinch_endpoint_state(pair.left.get()), CINCH_OK);
  const OperationHandle receive = Receive(pair.right, received.data(), received.size());
  ASSERT_EQ(Wait(Send(pair.left, sent.data(), sent.size())), CINCH_OK);
  ASSERT_EQ(Wait(receive), CINCH_OK);
  EXPECT_EQ(received, sent);
}

TEST(Message, StalledOperationsTimeOut) {
  const EnginePair pair;
  cinch_transfer_options options = TransferOptions();
  options.timeout_seconds = 0.1;
  const std::vector<uint8_t> sent = Pattern(1, kMegabyte);
  std::vector<uint8_t> received(kMegabyte);
  EXPECT_EQ(Wait(Send(pair.left, sent.data(), sent.size(), &options)), CINCH_ERROR_TIMEOUT);
  EXPECT_EQ(Wait(Receive(pair.left, received.data(), 10, &options)), CINCH_ERROR_TIMEOUT);
  EXPECT_EQ(cinch_endpoint_state(pair.left.get()), CINCH_OK);
}

TEST(Message, ConfirmedSmallMessageWaitsForItsReceive) {
  const EnginePair pair;
  cinch_transfer_options options = TransferOptions();
  options.confirm = 1;
  uint64_t value = 42;
  uint64_t received = 0;
  const OperationHandle send = Send(pair.left, &value, sizeof(value), &options);
  EXPECT_EQ(Wait(send, 0.05), CINCH_IN_PROGRESS);
  EXPECT_EQ(Wait(Receive(pair.right, &received, sizeof(received))), CINCH_OK);
  EXPECT_EQ(Wait(send), CINCH_OK);
  EXPECT_EQ(received, value);
}

TEST(Message, WhatWasSentBeforeAGoodEndIsStillThere) {
  EnginePair pair;
  uint64_t value = 7;
  EXPECT_EQ(Wait(Send(pair.left, &value, sizeof(value))), CINCH_OK);
  pair.left.reset();
  while (cinch_endpoint_state(pair.right.get()) == CINCH_OK) std::this_thread::yield();
  EXPECT_EQ(cinch_endpoint_state(pair.right.get()), CINCH_ERROR_PEER_LOST);
  uint64_t received = 0;
  EXPECT_EQ(Wait(Receive(pair.right, &received, sizeof(received))), CINCH_OK);
  EXPECT_EQ(received, value);
  cinch_operation* operation = nullptr;
  EXPECT_EQ(cinch_recv(pair.right.get(), &received, 8, nullptr, &operation), CINCH_ERROR_PEER_LOST);
  EXPECT_EQ(cinch_send(pair.right.get(), &received, 8, nullptr, &operation), CINCH_ERROR_PEER_LOST);
}

TEST(Message, DestroyingAnEngineEndsItsOperations) {
  EnginePair pair;
  std::vector<uint8_t> received(kMegabyte);
  const OperationHandle receive = Receive(pair.left, received.data(), received.size());
  const OperationHandle peer = Receive(pair.right, received.data(), received.size());
  pair.left_engine.reset();
  EXPECT_EQ(cinch_test(receive.get()), CINCH_ERROR_CANCELLED);
  EXPECT_EQ(Wait(peer), CINCH_ERROR_PEER_LOST);
  EXPECT_EQ(cinch_endpoint_state(pair.left.get()), CINCH_ERROR_CANCELLED);
}

TEST(Message, DifferentSettingsWorkTogether) {
  cinch_engine_options left = DefaultOptions();
  left.segment_bytes = uint64_t{64} << 10;
  left.policy = CINCH_POLICY_COMPRESSED;
  left.codec_threads = 1;
  left.without_checksum = 1;
  cinch_engine_options right = DefaultOptions();
  right.segment_bytes = uint64_t{4} << 20;
  right.policy = CINCH_POLICY_RAW;
  right.peer_timeout_seconds = 2;
  const EnginePair pair(left, right);
  const std::vector<uint8_t> sent = Pattern(3, 11 * kMegabyte + 1);
  std::vector<uint8_t> received(sent.size());
  for (const bool from_left : {true, false}) {
    const OperationHandle receive =
        Receive(from_left ? pair.right : pair.left, received.data(), received.size());
    ASSERT_EQ(Wait(Send(from_left ? pair.left : pair.right, sent.data(), sent.size())), CINCH_OK);
    ASSERT_EQ(Wait(receive), CINCH_OK);
    EXPECT_EQ(received, sent);
    std::fill(received.begin(), received.end(), uint8_t{0});
  }
}

// Over a link so slow that compression would pay: what does not compress travels as it is, whatever
// the policy, and the counters say so.
TEST(Message, WhatDoesNotCompressTravelsRaw) {
  cinch_engine_options options = DefaultOptions();
  options.link_gbps = 1;
  const EnginePair pair(options, DefaultOptions());
  std::vector<uint8_t> sent(3 * kMegabyte + 5);
  std::mt19937_64 random(1);
  for (uint8_t& byte : sent) byte = static_cast<uint8_t>(random());
  std::vector<uint8_t> received(sent.size());
  for (const cinch_policy policy :
       {CINCH_POLICY_AUTO, CINCH_POLICY_COMPRESSED, CINCH_POLICY_AUTO}) {
    const cinch_transfer_options how = TransferOptions(policy);
    const OperationHandle receive = Receive(pair.right, received.data(), received.size());
    const OperationHandle send = Send(pair.left, sent.data(), sent.size(), &how);
    ASSERT_EQ(Wait(receive), CINCH_OK);
    ASSERT_EQ(Wait(send), CINCH_OK);
    EXPECT_TRUE(received == sent);
    const cinch_transfer_stats stats = StatsOf(send);
    EXPECT_EQ(stats.compressed_segments, 0u);
    EXPECT_GT(stats.raw_segments, 0u);
    EXPECT_LT(stats.wire_bytes, sent.size() + sent.size() / 1000);
    EXPECT_EQ(StatsOf(receive).compressed_segments, 0u);
  }
  // By now it is known without another sample.
  const cinch_transfer_options how = TransferOptions(CINCH_POLICY_AUTO);
  const OperationHandle receive = Receive(pair.right, received.data(), received.size());
  const OperationHandle send = Send(pair.left, sent.data(), sent.size(), &how);
  ASSERT_EQ(Wait(send), CINCH_OK);
  ASSERT_EQ(Wait(receive), CINCH_OK);
  EXPECT_EQ(InfoOf(send).policy, CINCH_POLICY_RAW);
  // The same link, other data: these are worth it.
  const std::vector<uint8_t> weights = Pattern(4, sent.size());
  const cinch_transfer_options compressed = TransferOptions(CINCH_POLICY_COMPRESSED);
  const OperationHandle last = Receive(pair.right, received.data(), received.size());
  const OperationHandle worth = Send(pair.left, weights.data(), weights.size(), &compressed);
  ASSERT_EQ(Wait(last), CINCH_OK);
  ASSERT_EQ(Wait(worth), CINCH_OK);
  EXPECT_GT(StatsOf(worth).compressed_segments, 0u);
}

TEST(Message, PacingSlowsDownAndSaysSo) {
  cinch_engine_options options = DefaultOptions();
  options.link_gbps = 1;
  const EnginePair pair(options, DefaultOptions());
  const std::vector<uint8_t> sent = Pattern(3, 4 * kMegabyte);
  std::vector<uint8_t> received(sent.size());
  const cinch_transfer_options raw = TransferOptions(CINCH_POLICY_RAW);
  const OperationHandle receive = Receive(pair.right, received.data(), received.size());
  const OperationHandle send = Send(pair.left, sent.data(), sent.size(), &raw);
  ASSERT_EQ(Wait(send), CINCH_OK);
  const cinch_transfer_stats stats = StatsOf(send);
  EXPECT_EQ(stats.link_gbps_limit, 1);
  // The link cannot have been faster than it is, however slow the machine.
  EXPECT_GE(stats.elapsed_seconds, 4 * double{kMegabyte} * 8 / 1e9);
  EXPECT_GE(stats.wire_busy_seconds, 0.9 * 4 * double{kMegabyte} * 8 / 1e9);
}

}  // namespace
}  // namespace cinch::transfer_test
