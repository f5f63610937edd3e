// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "bench_data.h"
#include "cinch/transfer.h"
#include "engine_handles.h"
#include "outcome.h"

namespace cinch::cli {

/// What one message of the benchmark did, both ends together.
struct MessageSample {
  double seconds = 0;
  cinch_transfer_stats sender{};
  /// What the receiver's codec did; it knows only its own side.
  double receiver_codec_busy_seconds = 0;
  double receiver_hidden_codec_seconds = 0;
  double decode_seconds = 0;
  cinch_policy policy = CINCH_POLICY_RAW;
};

/// The sending end of `cinch bench p2p`: messages go to a ServeBench() at the other end.
class BenchSender {
 public:
  explicit BenchSender(cinch_endpoint* endpoint) : endpoint_(endpoint) {}

  /// Sends `data` once and waits until it has arrived and was found to be right.
  Outcome Measure(const BenchData& data, cinch_policy policy, MessageSample* sample);
  /// Lets the other end finish.
  Outcome End();

 private:
  Outcome Ask(const std::string& request, std::string* answer);

  cinch_endpoint* endpoint_;
};

/// The receiving end: serves one sender until it ends. Messages above 8 GiB are refused.
Outcome ServeBench(cinch_endpoint* endpoint);

}  // namespace cinch::cli
