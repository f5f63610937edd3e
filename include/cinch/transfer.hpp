// SPDX-License-Identifier: Apache-2.0
/// @file transfer.hpp
/// A thin C++ wrapper of cinch/transfer.h: ownership and spans, nothing else. Statuses and rules
/// are those of the C ABI. Empty objects give CINCH_ERROR_INVALID_ARGUMENT. Release order does not
/// matter; objects may move, and those that were released by moving are empty.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "cinch/transfer.h"

namespace cinch {

namespace internal {

template <typename Handle, void (*kRelease)(Handle*)>
struct TransferReleaser {
  void operator()(Handle* handle) const { kRelease(handle); }
};

template <typename Handle, void (*kRelease)(Handle*)>
using TransferHandle = std::unique_ptr<Handle, TransferReleaser<Handle, kRelease>>;

}  // namespace internal

/// Owns an operation. Destroying it does not cancel it: the buffer stays in use until completion.
class Operation {
 public:
  Operation() = default;
  explicit Operation(cinch_operation* handle) : handle_(handle) {}

  /// CINCH_IN_PROGRESS when `timeout_seconds` are over first.
  [[nodiscard]] Status Wait(double timeout_seconds) {
    return cinch_wait(handle_.get(), timeout_seconds);
  }
  [[nodiscard]] Status Test() { return cinch_test(handle_.get()); }
  [[nodiscard]] Status Cancel() { return cinch_cancel(handle_.get()); }
  [[nodiscard]] Status Info(cinch_operation_info* info) const {
    *info = {};
    info->struct_size = sizeof(*info);
    return cinch_operation_get_info(handle_.get(), info);
  }
  [[nodiscard]] Status Stats(cinch_transfer_stats* stats) const {
    *stats = {};
    stats->struct_size = sizeof(*stats);
    return cinch_operation_get_stats(handle_.get(), stats);
  }
  [[nodiscard]] cinch_operation* get() const { return handle_.get(); }

 private:
  internal::TransferHandle<cinch_operation, cinch_operation_release> handle_;
};

/// Owns a connection to one peer. `options` may be null everywhere.
class Endpoint {
 public:
  Endpoint() = default;
  explicit Endpoint(cinch_endpoint* handle) : handle_(handle) {}

  [[nodiscard]] Status Send(std::span<const std::byte> data, const cinch_transfer_options* options,
                            Operation* operation) {
    cinch_operation* started = nullptr;
    const Status status = cinch_send(handle_.get(), data.data(), data.size(), options, &started);
    *operation = Operation(started);
    return status;
  }
  [[nodiscard]] Status Receive(std::span<std::byte> buffer, const cinch_transfer_options* options,
                               Operation* operation) {
    cinch_operation* started = nullptr;
    const Status status =
        cinch_recv(handle_.get(), buffer.data(), buffer.size(), options, &started);
    *operation = Operation(started);
    return status;
  }
  [[nodiscard]] Status Write(std::span<const std::byte> data, const cinch_remote_region& region,
                             uint64_t offset_bytes, const cinch_transfer_options* options,
                             Operation* operation) {
    cinch_operation* started = nullptr;
    const Status status = cinch_write(handle_.get(), data.data(), data.size(), &region,
                                      offset_bytes, options, &started);
    *operation = Operation(started);
    return status;
  }
  [[nodiscard]] Status Read(std::span<std::byte> buffer, const cinch_remote_region& region,
                            uint64_t offset_bytes, const cinch_transfer_options* options,
                            Operation* operation) {
    cinch_operation* started = nullptr;
    const Status status = cinch_read(handle_.get(), buffer.data(), buffer.size(), &region,
                                     offset_bytes, options, &started);
    *operation = Operation(started);
    return status;
  }
  [[nodiscard]] Status State() const { return cinch_endpoint_state(handle_.get()); }
  [[nodiscard]] cinch_endpoint* get() const { return handle_.get(); }

 private:
  internal::TransferHandle<cinch_endpoint, cinch_endpoint_release> handle_;
};

/// Owns a listener.
class Listener {
 public:
  Listener() = default;
  explicit Listener(cinch_listener* handle) : handle_(handle) {}

  [[nodiscard]] Status Accept(double timeout_seconds, Endpoint* endpoint) {
    cinch_endpoint* accepted = nullptr;
    const Status status = cinch_accept(handle_.get(), timeout_seconds, &accepted);
    *endpoint = Endpoint(accepted);
    return status;
  }
  /// "127.0.0.1:43211"; empty for an empty listener.
  [[nodiscard]] std::string Address() const {
    char address[64] = {};
    const Status status = cinch_listener_address(handle_.get(), address, sizeof(address));
    return status == CINCH_OK ? address : std::string();
  }
  [[nodiscard]] cinch_listener* get() const { return handle_.get(); }

 private:
  internal::TransferHandle<cinch_listener, cinch_listener_release> handle_;
};

/// Owns an engine; destroying it ends its connections.
class Engine {
 public:
  Engine() = default;

  /// `options` may be null.
  [[nodiscard]] static Status Create(const cinch_engine_options* options, Engine* engine) {
    cinch_engine* created = nullptr;
    const Status status = cinch_engine_create(options, &created);
    engine->handle_.reset(created);
    return status;
  }
  [[nodiscard]] Status Listen(const std::string& address, Listener* listener) {
    cinch_listener* opened = nullptr;
    const Status status = cinch_listen(handle_.get(), address.c_str(), &opened);
    *listener = Listener(opened);
    return status;
  }
  [[nodiscard]] Status Connect(const std::string& address, double timeout_seconds,
                               Endpoint* endpoint) {
    cinch_endpoint* opened = nullptr;
    const Status status = cinch_connect(handle_.get(), address.c_str(), timeout_seconds, &opened);
    *endpoint = Endpoint(opened);
    return status;
  }
  [[nodiscard]] cinch_engine* get() const { return handle_.get(); }

 private:
  internal::TransferHandle<cinch_engine, cinch_engine_destroy> handle_;
};

}  // namespace cinch
