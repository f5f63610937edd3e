// SPDX-License-Identifier: Apache-2.0
// Many threads: each with engines of its own, and all with one.
#include <thread>

#include "transfer/engine_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

cinch_engine_options SmallOptions() {
  cinch_engine_options options = DefaultOptions();
  options.codec_threads = 1;
  options.policy = CINCH_POLICY_COMPRESSED;
  return options;
}

void Exchange(const EndpointHandle& left, const EndpointHandle& right, uint64_t seed,
              uint64_t tag) {
  cinch_transfer_options options = TransferOptions();
  options.tag = tag;
  options.tag_mask = ~uint64_t{0};
  for (const size_t bytes : {size_t{8}, size_t{5000}, size_t{400001}}) {
    const std::vector<uint8_t> sent = Pattern(seed, bytes);
    std::vector<uint8_t> received(bytes);
    const OperationHandle receive = Receive(right, received.data(), bytes, &options);
    EXPECT_EQ(Wait(Send(left, sent.data(), bytes, &options)), CINCH_OK);
    EXPECT_EQ(Wait(receive), CINCH_OK);
    EXPECT_TRUE(received == sent);
  }
}

TEST(Threads, EachWithEnginesOfItsOwn) {
  constexpr uint64_t kThreads = 16;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([i] {
      const EnginePair pair(SmallOptions(), SmallOptions());
      if (!pair.left || !pair.right) return;
      Exchange(pair.left, pair.right, i, 0);
      Exchange(pair.right, pair.left, i + 100, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, AllOnOneConnection) {
  const EnginePair pair(SmallOptions(), SmallOptions());
  std::vector<std::thread> threads;
  constexpr uint64_t kThreads = 8;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&pair, i] {
      Exchange(pair.left, pair.right, i, 2 * i);
      Exchange(pair.right, pair.left, i, 2 * i + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, ReleaseAndCancelWhileOthersWork) {
  for (int round = 0; round < 5; ++round) {
    EnginePair pair(SmallOptions(), SmallOptions());
    const std::vector<uint8_t> data = Pattern(1, 8000000);
    std::vector<uint8_t> received(data.size());
    const OperationHandle receive = Receive(pair.right, received.data(), received.size());
    const OperationHandle send = Send(pair.left, data.data(), data.size());
    std::thread canceller([&] { EXPECT_EQ(cinch_cancel(send.get()), CINCH_OK); });
    std::thread watcher([&] {
      for (int i = 0; i < 100; ++i) {
        static_cast<void>(StatsOf(send));
        static_cast<void>(InfoOf(receive));
        static_cast<void>(cinch_test(receive.get()));
      }
    });
    std::thread closer([&] { pair.right.reset(); });
    static_cast<void>(Wait(send));
    static_cast<void>(Wait(receive));
    canceller.join();
    watcher.join();
    closer.join();
    EXPECT_NE(cinch_test(send.get()), CINCH_IN_PROGRESS);
    EXPECT_NE(cinch_test(receive.get()), CINCH_IN_PROGRESS);
  }
}

}  // namespace
}  // namespace cinch::transfer_test
