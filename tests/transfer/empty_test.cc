// SPDX-License-Identifier: Apache-2.0
// A null pointer to no bytes is as good as any other, for every call that moves data: that is what
// an empty vector gives. Under the sanitizers this also shows that none of them is handed to
// memcpy.
#include "cinch/blocks.h"
#include "cinch/versions.h"
#include "transfer/engine_pair.h"

namespace cinch::transfer_test {
namespace {

class Empty : public testing::TestWithParam<cinch_policy> {
 protected:
  /// Starts an operation and waits for its end.
  template <typename Start>
  [[nodiscard]] cinch_status Ends(Start&& start) const {
    cinch_operation* operation = nullptr;
    const cinch_status started = start(&operation);
    const OperationHandle owner(operation);
    return started == CINCH_OK ? Wait(owner) : started;
  }

  EnginePair pair_;
  cinch_transfer_options options_ = TransferOptions(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, Empty, testing::Values(CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED));

TEST_P(Empty, MessagesArrive) {
  for (const int confirm : {0, 1}) {
    options_.confirm = confirm;
    const OperationHandle receive = Receive(pair_.right, nullptr, 0, &options_);
    const OperationHandle send = Send(pair_.left, nullptr, 0, &options_);
    EXPECT_EQ(Wait(receive), CINCH_OK);
    EXPECT_EQ(Wait(send), CINCH_OK);
    cinch_operation* received = nullptr;
    ASSERT_EQ(cinch_recvv(pair_.right.get(), nullptr, 0, &options_, &received), CINCH_OK);
    const OperationHandle listed(received);
    EXPECT_EQ(
        Ends([&](auto made) { return cinch_sendv(pair_.left.get(), nullptr, 0, &options_, made); }),
        CINCH_OK);
    EXPECT_EQ(Wait(listed), CINCH_OK);
    EXPECT_EQ(InfoOf(listed).message_bytes, 0U);
  }
}

TEST_P(Empty, OneSidedAccessesAndRegions) {
  std::vector<uint8_t> memory(100, 1);
  for (const bool real : {false, true}) {
    cinch_region* region = nullptr;
    ASSERT_EQ(cinch_region_register(pair_.right_engine.get(), real ? memory.data() : nullptr,
                                    real ? memory.size() : 0,
                                    CINCH_REGION_READ | CINCH_REGION_WRITE, &region),
              CINCH_OK);
    cinch_remote_region remote{};
    ASSERT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
    cinch_endpoint* left = pair_.left.get();
    EXPECT_EQ(
        Ends([&](auto made) { return cinch_write(left, nullptr, 0, &remote, 0, &options_, made); }),
        CINCH_OK);
    EXPECT_EQ(
        Ends([&](auto made) { return cinch_read(left, nullptr, 0, &remote, 0, &options_, made); }),
        CINCH_OK);
    EXPECT_EQ(Ends([&](auto made) {
                return cinch_writev(left, nullptr, 0, nullptr, 0, &options_, made);
              }),
              CINCH_OK);
    EXPECT_EQ(
        Ends([&](auto made) { return cinch_readv(left, nullptr, 0, nullptr, 0, &options_, made); }),
        CINCH_OK);
    EXPECT_EQ(cinch_region_release(region, kLongSeconds), CINCH_OK);
  }
  EXPECT_EQ(memory, std::vector<uint8_t>(100, 1));
}

TEST_P(Empty, BlockTables) {
  std::vector<uint8_t> memory(64, 1);
  cinch_region* region = nullptr;
  ASSERT_EQ(cinch_region_register(pair_.right_engine.get(), memory.data(), memory.size(),
                                  CINCH_REGION_READ | CINCH_REGION_WRITE, &region),
            CINCH_OK);
  cinch_remote_region remote{};
  ASSERT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
  std::vector<uint8_t> local(64, 2);
  const cinch_block_pool pool{local.data(), &remote, 0};
  for (const bool pools : {false, true}) {
    cinch_block_transfer transfer{};
    transfer.struct_size = sizeof(transfer);
    transfer.pools = pools ? &pool : nullptr;
    transfer.pool_count = pools ? 1 : 0;
    transfer.block_bytes = 16;
    EXPECT_EQ(Ends([&](auto made) {
                return cinch_write_blocks(pair_.left.get(), &transfer, &options_, made);
              }),
              CINCH_OK);
    EXPECT_EQ(Ends([&](auto made) {
                return cinch_read_blocks(pair_.left.get(), &transfer, &options_, made);
              }),
              CINCH_OK);
  }
  EXPECT_EQ(cinch_region_release(region, kLongSeconds), CINCH_OK);
  EXPECT_EQ(memory, std::vector<uint8_t>(64, 1));
  EXPECT_EQ(local, std::vector<uint8_t>(64, 2));
}

TEST_P(Empty, VersionsOfATensorWithoutBytes) {
  cinch_publisher* publisher = nullptr;
  cinch_subscriber* subscriber = nullptr;
  ASSERT_EQ(cinch_publisher_create(&publisher), CINCH_OK);
  ASSERT_EQ(cinch_publisher_serve(publisher, pair_.right.get()), CINCH_OK);
  ASSERT_EQ(cinch_subscriber_create(pair_.left.get(), &subscriber), CINCH_OK);
  ASSERT_EQ(cinch_subscribe(subscriber, "empty", nullptr, nullptr, 0, CINCH_DTYPE_BF16), CINCH_OK);
  for (uint64_t version = 1; version < 4; ++version) {
    ASSERT_EQ(cinch_publish(publisher, "empty", nullptr, 0, CINCH_DTYPE_BF16, version, nullptr),
              CINCH_OK);
    cinch_version got{};
    got.struct_size = sizeof(got);
    ASSERT_EQ(cinch_fetch(subscriber, "empty", version, nullptr, kLongSeconds, &got), CINCH_OK);
    EXPECT_EQ(got.version, version);
    EXPECT_EQ(got.bytes, 0U);
  }
  cinch_publisher_forget(publisher, pair_.right.get());
  cinch_subscriber_destroy(subscriber);
  cinch_publisher_destroy(publisher);
}

TEST(EmptyKey, IsNone) {
  cinch_engine_options options = DefaultOptions();
  options.key = nullptr;
  options.key_bytes = 0;
  EXPECT_NE(MakeEngine(options), nullptr);
}

}  // namespace
}  // namespace cinch::transfer_test
