// SPDX-License-Identifier: Apache-2.0
// What the handles of cinch/transfer.h are.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "cinch/transfer.h"
#include "transfer/endpoint.h"
#include "transfer/engine.h"
#include "transfer/listener.h"
#include "transfer/operation.h"

struct cinch_engine {
  std::shared_ptr<cinch::transfer::Engine> engine;
};

struct cinch_listener {
  std::shared_ptr<cinch::transfer::Listener> listener;
};

struct cinch_endpoint {
  std::shared_ptr<cinch::transfer::Engine> engine;
  std::shared_ptr<cinch::transfer::Endpoint> endpoint;
};

struct cinch_region {
  std::shared_ptr<cinch::transfer::Engine> engine;
  std::shared_ptr<cinch::transfer::RegionEntry> entry;
  /// Of earlier generations: what may still be in use. The engine's lock guards both.
  std::vector<std::shared_ptr<cinch::transfer::RegionEntry>> earlier;
};

struct cinch_operation {
  std::shared_ptr<cinch::transfer::Operation> operation;
  std::atomic<int> owners{1};  // The caller, and the callback while it is to come.
};
