// SPDX-License-Identifier: Apache-2.0
// A process that forks while its engine works: the child can use nothing of it, and does no harm.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "cinch/blocks.h"
#include "cinch/versions.h"
#include "transfer/engine_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

/// Runs `child` in a child, which ends with what it returns: 0, or which of its checks failed. One
/// that hangs is ended by a signal.
int InChild(const std::function<int()>& child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(120);
    ::_exit(child());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Number of the first status that is not UNSUPPORTED, from 1 on.
int FirstSupported(std::initializer_list<cinch_status> statuses) {
  int number = 0;
  for (const cinch_status each : statuses) {
    ++number;
    if (each != CINCH_ERROR_UNSUPPORTED) return number;
  }
  return 0;
}

class Fork : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cinch_region_register(pair_.left_engine.get(), memory_.data(), memory_.size(),
                                    CINCH_REGION_READ | CINCH_REGION_WRITE, &region_),
              CINCH_OK);
    ASSERT_EQ(cinch_region_describe(region_, &remote_), CINCH_OK);
    const cinch_transfer_options options = Options();
    pending_ = Receive(pair_.left, memory_.data(), memory_.size(), &options);
  }
  void TearDown() override {
    // The parent goes on: the receive takes what is sent now.
    const std::vector<uint8_t> data = Pattern(3, memory_.size());
    const cinch_transfer_options options = Options();
    EXPECT_EQ(Wait(Send(pair_.right, data.data(), data.size(), &options)), CINCH_OK);
    EXPECT_EQ(Wait(pending_), CINCH_OK);
    EXPECT_TRUE(memory_ == data);
    EXPECT_EQ(cinch_region_release(region_, 60), CINCH_OK);
  }

  /// The pending receive takes nothing but what is meant for it.
  static cinch_transfer_options Options() {
    cinch_transfer_options options = TransferOptions();
    options.tag = 7;
    options.tag_mask = ~uint64_t{0};
    return options;
  }

  int TryEverything() {
    cinch_endpoint* endpoint = pair_.left.get();
    cinch_engine* engine = pair_.left_engine.get();
    cinch_operation* operation = nullptr;
    cinch_operation* pending = pending_.get();
    cinch_listener* listener = nullptr;
    cinch_endpoint* other = nullptr;
    cinch_region* region = nullptr;
    uint8_t bytes[4096] = {};
    char text[256];
    cinch_transfer_stats stats{};
    stats.struct_size = sizeof(stats);
    cinch_policy_stats policy{};
    policy.struct_size = sizeof(policy);
    cinch_operation_info info{};
    info.struct_size = sizeof(info);
    cinch_message_info message{};
    message.struct_size = sizeof(message);
    const uint32_t id = 0;
    const cinch_block_pool pool{bytes, &remote_, 0};
    cinch_block_transfer blocks{};
    blocks.struct_size = sizeof(blocks);
    blocks.pools = &pool;
    blocks.pool_count = 1;
    blocks.block_bytes = sizeof(bytes);
    blocks.local = blocks.remote = {&id, 1, 1};
    const int first =
        FirstSupported({cinch_listen(engine, "127.0.0.1:0", &listener),
                        cinch_connect(engine, "127.0.0.1:1", 1, &other),
                        cinch_endpoint_state(endpoint),
                        cinch_endpoint_get_stats(endpoint, &stats),
                        cinch_engine_get_stats(engine, &stats),
                        cinch_endpoint_get_policy_stats(endpoint, &policy),
                        cinch_endpoint_path(endpoint, text, sizeof(text)),
                        cinch_region_register(engine, bytes, 10, CINCH_REGION_READ, &region),
                        cinch_region_describe(region_, &remote_),
                        cinch_region_renew(region_, 1),
                        cinch_region_release(region_, 1),
                        cinch_send(endpoint, bytes, 10, nullptr, &operation),
                        cinch_recv(endpoint, bytes, 10, nullptr, &operation),
                        cinch_write(endpoint, bytes, 10, &remote_, 0, nullptr, &operation),
                        cinch_read(endpoint, bytes, 10, &remote_, 0, nullptr, &operation),
                        cinch_write_blocks(endpoint, &blocks, nullptr, &operation),
                        cinch_read_blocks(endpoint, &blocks, nullptr, &operation),
                        cinch_probe(endpoint, 0, 0, 1, &message),
                        cinch_test(pending),
                        cinch_wait(pending, 1),
                        cinch_cancel(pending),
                        cinch_operation_get_info(pending, &info),
                        cinch_operation_get_stats(pending, &stats)});
    cinch_operation_release(pending);
    cinch_endpoint_release(endpoint);
    cinch_engine_destroy(engine);
    return first;
  }

  const EnginePair pair_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(3000000);
  cinch_region* region_ = nullptr;
  cinch_remote_region remote_{};
  OperationHandle pending_;
};

TEST_F(Fork, TheChildIsRefusedEverything) {
  EXPECT_EQ(InChild([&] { return TryEverything(); }), 0);
}

// Whoever holds a lock when the process forks holds it for ever in the child.
TEST_F(Fork, TheChildNeverWaitsForLocksThatWereHeld) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    cinch_transfer_stats stats{};
    stats.struct_size = sizeof(stats);
    while (!stop) static_cast<void>(cinch_engine_get_stats(pair_.left_engine.get(), &stats));
  });
  for (int i = 0; i < 50; ++i) EXPECT_EQ(InChild([&] { return TryEverything(); }), 0);
  stop = true;
  busy.join();
}

TEST_F(Fork, ListenersPublishersAndSubscribersAreTheParentsToo) {
  const ListenerHandle listener = Listen(pair_.left_engine.get());
  const std::vector<uint8_t> tensor = Pattern(1, 100000);
  std::vector<uint8_t> first(tensor.size());
  std::vector<uint8_t> second(tensor.size());
  cinch_publisher* publisher = nullptr;
  cinch_subscriber* subscriber = nullptr;
  ASSERT_EQ(cinch_publisher_create(&publisher), CINCH_OK);
  ASSERT_EQ(cinch_publisher_serve(publisher, pair_.right.get()), CINCH_OK);
  ASSERT_EQ(cinch_subscriber_create(pair_.left.get(), &subscriber), CINCH_OK);
  ASSERT_EQ(cinch_subscribe(subscriber, "a", first.data(), second.data(), tensor.size(),
                            CINCH_DTYPE_BF16),
            CINCH_OK);
  cinch_version version{};
  version.struct_size = sizeof(version);
  EXPECT_EQ(InChild([&] {
              cinch_endpoint* endpoint = nullptr;
              const int supported =
                  FirstSupported({cinch_accept(listener.get(), 1, &endpoint),
                                  cinch_publish(publisher, "a", tensor.data(), tensor.size(),
                                                CINCH_DTYPE_BF16, 1, nullptr),
                                  cinch_publisher_serve(publisher, pair_.right.get()),
                                  cinch_subscribe(subscriber, "b", first.data(), second.data(),
                                                  tensor.size(), CINCH_DTYPE_BF16),
                                  cinch_fetch(subscriber, "a", 1, nullptr, 1, &version)});
              cinch_publisher_forget(publisher, pair_.right.get());
              cinch_subscriber_destroy(subscriber);
              cinch_publisher_destroy(publisher);
              cinch_listener_release(listener.get());
              return supported;
            }),
            0);
  ASSERT_EQ(
      cinch_publish(publisher, "a", tensor.data(), tensor.size(), CINCH_DTYPE_BF16, 1, nullptr),
      CINCH_OK);
  ASSERT_EQ(cinch_fetch(subscriber, "a", 1, nullptr, 60, &version), CINCH_OK);
  EXPECT_EQ(0, std::memcmp(version.data, tensor.data(), tensor.size()));
  cinch_subscriber_destroy(subscriber);
  cinch_publisher_destroy(publisher);
}

}  // namespace
}  // namespace cinch::transfer_test
