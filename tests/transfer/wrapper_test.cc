// SPDX-License-Identifier: Apache-2.0
#include "cinch/transfer.hpp"

#include <gtest/gtest.h>

#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

constexpr double kSeconds = 30;

TEST(TransferWrapper, MovesDataAndReleasesInAnyOrder) {
  cinch_engine_options options;
  cinch_engine_options_init(&options);
  options.transports = "tcp";
  options.codec_threads = 1;
  Engine left_engine;
  Engine right_engine;
  ASSERT_EQ(Engine::Create(&options, &left_engine), CINCH_OK);
  ASSERT_EQ(Engine::Create(&options, &right_engine), CINCH_OK);
  Listener listener;
  ASSERT_EQ(right_engine.Listen("127.0.0.1:0", &listener), CINCH_OK);
  Endpoint left;
  Endpoint right;
  ASSERT_EQ(left_engine.Connect(listener.Address(), kSeconds, &left), CINCH_OK);
  ASSERT_EQ(listener.Accept(kSeconds, &right), CINCH_OK);

  std::vector<uint8_t> sent = Pattern(1, 3'000'000);
  std::vector<uint8_t> received(sent.size());
  Operation send;
  Operation receive;
  ASSERT_EQ(right.Receive(std::as_writable_bytes(std::span(received)), nullptr, &receive),
            CINCH_OK);
  ASSERT_EQ(left.Send(std::as_bytes(std::span(sent)), nullptr, &send), CINCH_OK);
  EXPECT_EQ(send.Wait(kSeconds), CINCH_OK);
  EXPECT_EQ(receive.Wait(kSeconds), CINCH_OK);
  EXPECT_EQ(receive.Test(), CINCH_OK);
  EXPECT_EQ(received, sent);
  cinch_transfer_stats stats;
  ASSERT_EQ(send.Stats(&stats), CINCH_OK);
  EXPECT_EQ(stats.payload_bytes, sent.size());
  cinch_operation_info info;
  ASSERT_EQ(receive.Info(&info), CINCH_OK);
  EXPECT_EQ(info.message_bytes, sent.size());

  cinch_region* region = nullptr;
  cinch_remote_region remote;
  ASSERT_EQ(cinch_region_register(right_engine.get(), received.data(), received.size(),
                                  CINCH_REGION_READ | CINCH_REGION_WRITE, &region),
            CINCH_OK);
  ASSERT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
  Operation access;
  sent = Pattern(2, sent.size());
  ASSERT_EQ(left.Write(std::as_bytes(std::span(sent)), remote, 0, nullptr, &access), CINCH_OK);
  EXPECT_EQ(access.Wait(kSeconds), CINCH_OK);
  std::vector<uint8_t> back(sent.size());
  ASSERT_EQ(left.Read(std::as_writable_bytes(std::span(back)), remote, 0, nullptr, &access),
            CINCH_OK);
  EXPECT_EQ(access.Wait(kSeconds), CINCH_OK);
  EXPECT_EQ(back, sent);
  EXPECT_EQ(cinch_region_release(region, kSeconds), CINCH_OK);

  // Engines go first here; their connections end, and the rest stays valid.
  left_engine = Engine();
  right_engine = Engine();
  EXPECT_NE(left.State(), CINCH_OK);
  EXPECT_EQ(send.Test(), CINCH_OK);
}

TEST(TransferWrapper, EmptyObjectsAreArgumentErrors) {
  Operation operation;
  Endpoint endpoint;
  Listener listener;
  Engine engine;
  EXPECT_EQ(operation.Wait(1), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(operation.Test(), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(operation.Cancel(), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(endpoint.State(), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(endpoint.Send({}, nullptr, &operation), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(listener.Accept(0, &endpoint), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(listener.Address(), "");
  EXPECT_EQ(engine.Listen("127.0.0.1:0", &listener), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(engine.Connect("127.0.0.1:1", 0, &endpoint), CINCH_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace cinch::transfer_test
