// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cinch/transfer.h"
#include "outcome.h"

namespace cinch::cli {

struct EngineDeleter {
  void operator()(cinch_engine* engine) const { cinch_engine_destroy(engine); }
};
struct ListenerDeleter {
  void operator()(cinch_listener* listener) const { cinch_listener_release(listener); }
};
struct EndpointDeleter {
  void operator()(cinch_endpoint* endpoint) const { cinch_endpoint_release(endpoint); }
};
struct OperationDeleter {
  void operator()(cinch_operation* operation) const { cinch_operation_release(operation); }
};
using EngineHandle = std::unique_ptr<cinch_engine, EngineDeleter>;
using ListenerHandle = std::unique_ptr<cinch_listener, ListenerDeleter>;
using EndpointHandle = std::unique_ptr<cinch_endpoint, EndpointDeleter>;
using OperationHandle = std::unique_ptr<cinch_operation, OperationDeleter>;

/// What every command that transfers lets its user choose.
struct LinkOptions {
  std::string policy;
  std::string key_file;
  /// Pacing of the engine; 0: what the environment says.
  double link_gbps = 0;
  /// For connecting and for stretches in which nothing moves; 0: what the environment says.
  double timeout_seconds = 0;
  /// 0: what the environment says.
  uint32_t threads = 0;
  std::string transports;
};

/// Adds --policy, --link-gbps, --key-file, --timeout, --threads and --transports.
void AddLinkOptions(CLI::App* command, LinkOptions* options);

/// Creates an engine with these options.
Outcome CreateEngine(const LinkOptions& options, EngineHandle* engine);

/// How long to try to connect.
double ConnectSeconds(const LinkOptions& options);

/// Listens and tells the address in use.
Outcome Listen(cinch_engine* engine, const std::string& address, ListenerHandle* listener,
               std::string* bound_address);

/// Connects; on failure the message says what to look at.
Outcome Connect(cinch_engine* engine, const LinkOptions& options, const std::string& address,
                EndpointHandle* endpoint);

/// Takes the next peer, waiting up to `wait_seconds` (0: for ever), unless interrupted.
Outcome Accept(cinch_listener* listener, double wait_seconds, EndpointHandle* endpoint);

/// Waits for an operation in short slices: `between` (optional) is called in each and can end the
/// wait by a failure, as an interruption does. The operation is then cancelled and over on return,
/// so that its buffer is free.
Outcome Await(cinch_operation* operation, const std::function<Outcome()>& between);

/// A failed transfer in words that say what to do.
Outcome DescribeTransferFailure(Status status);

/// "auto", "raw" or "compressed".
const char* PolicyName(cinch_policy policy);

/// The path that the transport chose; "" when it does not say.
std::string PathOf(const cinch_endpoint* endpoint);

}  // namespace cinch::cli
