// SPDX-License-Identifier: Apache-2.0
// A transport inside one process that loses, delays and damages what it is told to.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "transfer/backend.h"
#include "transfer/wire.h"

namespace cinch::transfer_test {

enum class Fate { kDeliver, kLose, kFailLink };

/// What happens to messages. All may be set before anything is sent.
struct MockFaults {
  /// Judges and may change every message, given by its sender's address.
  std::function<Fate(uint64_t sender, transfer::WireHeader& header)> on_send;
  /// May damage every large payload where it arrives.
  std::function<void(uint8_t* data, uint64_t bytes)> on_fetch;
  /// Completions and arrivals wait for up to so many calls of Progress().
  int max_delay = 0;
  /// There is always more to do, so that nobody may sleep.
  bool never_rests = false;
};

class MockBackend;

/// The wire between mock backends. Thread-safe.
class MockFabric {
 public:
  explicit MockFabric(MockFaults faults = {}) : faults_(std::move(faults)) {}

  /// A factory for engines; each backend it makes gets the next address, from 1.
  [[nodiscard]] transfer::BackendFactory Factory();
  /// A backend without an engine.
  [[nodiscard]] std::unique_ptr<transfer::Backend> Make(transfer::BackendEvents& events);

 private:
  friend class MockBackend;

  /// A large payload that waits at its sender.
  struct Held {
    uint64_t sender = 0;
    const void* data = nullptr;
    uint64_t bytes = 0;
    transfer::Completion done;
  };

  MockFaults faults_;
  std::mutex mutex_;
  std::mt19937_64 random_{1};
  uint64_t next_address_ = 1;
  uintptr_t next_token_ = 1;
  std::map<uint64_t, MockBackend*> backends_;
  std::map<uintptr_t, Held> held_;
};

}  // namespace cinch::transfer_test
