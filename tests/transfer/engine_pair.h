// SPDX-License-Identifier: Apache-2.0
// Owners for the handles of cinch/transfer.h, and two engines that are connected.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cinch/transfer.h"

namespace cinch::transfer_test {

template <typename Handle, void (*kRelease)(Handle*)>
struct Releaser {
  void operator()(Handle* handle) const { kRelease(handle); }
};
using EngineHandle = std::unique_ptr<cinch_engine, Releaser<cinch_engine, cinch_engine_destroy>>;
using ListenerHandle =
    std::unique_ptr<cinch_listener, Releaser<cinch_listener, cinch_listener_release>>;
using EndpointHandle =
    std::unique_ptr<cinch_endpoint, Releaser<cinch_endpoint, cinch_endpoint_release>>;
using OperationHandle =
    std::unique_ptr<cinch_operation, Releaser<cinch_operation, cinch_operation_release>>;

inline constexpr double kLongSeconds = 30;

inline cinch_engine_options DefaultOptions() {
  cinch_engine_options options;
  cinch_engine_options_init(&options);
  options.transports = "tcp";
  options.codec_threads = 2;
  return options;
}

inline EngineHandle MakeEngine(const cinch_engine_options& options) {
  cinch_engine* engine = nullptr;
  EXPECT_EQ(cinch_engine_create(&options, &engine), CINCH_OK);
  return EngineHandle(engine);
}

inline ListenerHandle Listen(cinch_engine* engine, const char* address = "127.0.0.1:0") {
  cinch_listener* listener = nullptr;
  EXPECT_EQ(cinch_listen(engine, address, &listener), CINCH_OK);
  return ListenerHandle(listener);
}

inline std::string AddressOf(const ListenerHandle& listener) {
  char address[64] = {};
  EXPECT_EQ(cinch_listener_address(listener.get(), address, sizeof(address)), CINCH_OK);
  return address;
}

inline EndpointHandle Connect(cinch_engine* engine, const std::string& address) {
  cinch_endpoint* endpoint = nullptr;
  EXPECT_EQ(cinch_connect(engine, address.c_str(), kLongSeconds, &endpoint), CINCH_OK);
  return EndpointHandle(endpoint);
}

inline EndpointHandle Accept(const ListenerHandle& listener) {
  cinch_endpoint* endpoint = nullptr;
  EXPECT_EQ(cinch_accept(listener.get(), kLongSeconds, &endpoint), CINCH_OK);
  return EndpointHandle(endpoint);
}

/// Two engines of this process, connected.
struct EnginePair {
  explicit EnginePair(const cinch_engine_options& left_options = DefaultOptions(),
                      const cinch_engine_options& right_options = DefaultOptions())
      : left_engine(MakeEngine(left_options)), right_engine(MakeEngine(right_options)) {
    listener = Listen(right_engine.get());
    left = Connect(left_engine.get(), AddressOf(listener));
    right = Accept(listener);
  }

  EngineHandle left_engine;
  EngineHandle right_engine;
  ListenerHandle listener;
  EndpointHandle left;
  EndpointHandle right;
};

inline OperationHandle Send(const EndpointHandle& endpoint, const void* data, uint64_t bytes,
                            const cinch_transfer_options* options = nullptr) {
  cinch_operation* operation = nullptr;
  EXPECT_EQ(cinch_send(endpoint.get(), data, bytes, options, &operation), CINCH_OK);
  return OperationHandle(operation);
}

inline OperationHandle Receive(const EndpointHandle& endpoint, void* data, uint64_t bytes,
                               const cinch_transfer_options* options = nullptr) {
  cinch_operation* operation = nullptr;
  EXPECT_EQ(cinch_recv(endpoint.get(), data, bytes, options, &operation), CINCH_OK);
  return OperationHandle(operation);
}

inline cinch_status Wait(const OperationHandle& operation, double seconds = kLongSeconds) {
  return cinch_wait(operation.get(), seconds);
}

inline cinch_transfer_options TransferOptions(cinch_policy policy = CINCH_POLICY_DEFAULT,
                                              cinch_dtype dtype = CINCH_DTYPE_BF16) {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.policy = policy;
  options.dtype = dtype;
  return options;
}

inline cinch_transfer_stats StatsOf(const OperationHandle& operation) {
  cinch_transfer_stats stats{};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(cinch_operation_get_stats(operation.get(), &stats), CINCH_OK);
  return stats;
}

inline cinch_operation_info InfoOf(const OperationHandle& operation) {
  cinch_operation_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(cinch_operation_get_info(operation.get(), &info), CINCH_OK);
  return info;
}

}  // namespace cinch::transfer_test
