// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine_handles.h"
#include "exchange.h"
#include "progress.h"
#include "segments.h"
#include "tensors/tensor_file.h"
#include "transfer_report.h"

namespace cinch::cli {

/// A file that is ready to be sent.
struct OutgoingFile {
  std::string name;
  tensors::TensorFile file;
  std::vector<Segment> segments;
  std::vector<Chunk> chunks;
};

/// Sends files over a connection to a FileReceiver. Memory: the engine's staging; files are mapped.
class FileSender {
 public:
  /// All must outlive the sender. `timeout_seconds` bounds the waits for the receiver's words.
  FileSender(cinch_endpoint* endpoint, Progress* progress, double timeout_seconds)
      : endpoint_(endpoint), progress_(progress), timeout_seconds_(timeout_seconds) {}

  /// Announces, sends and waits until the receiver has committed every file.
  Outcome Send(const std::vector<OutgoingFile>& files, TransferReport* report);

 private:
  struct Pending {
    OperationHandle operation;
    uint64_t payload_bytes = 0;
    /// Keeps a short message's bytes alive.
    std::string text;
  };

  Outcome Announce(const std::vector<OutgoingFile>& files);
  Outcome SendFile(const OutgoingFile& outgoing, FileDigest* digest);
  Outcome Post(const void* data, uint64_t bytes, const cinch_transfer_options& options,
               uint64_t payload_bytes, std::string text);
  Outcome AwaitOldest();
  Outcome AwaitAll();
  Outcome OnSlice();
  /// The receiver's own words, when it said why it stopped; else `outcome`.
  Outcome Explain(const Outcome& outcome);

  cinch_endpoint* endpoint_;
  Progress* progress_;
  double timeout_seconds_;
  std::deque<Pending> pending_;
  uint64_t done_bytes_ = 0;
};

}  // namespace cinch::cli
