// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "engine_handles.h"
#include "exchange.h"
#include "progress.h"
#include "tensors/atomic_file.h"
#include "transfer_report.h"

namespace cinch::cli {

/// How files are stored.
struct ReceiveOptions {
  std::string directory;
  /// Replace files that exist.
  bool force = false;
  /// For the sender's next words.
  double timeout_seconds = 0;
};

/// Receives what a FileSender sends. Memory: a few chunks, whatever the files' sizes. A file
/// appears under its name when its checksum matches, and not before.
class FileReceiver {
 public:
  /// Both must outlive the receiver.
  FileReceiver(cinch_endpoint* endpoint, const ReceiveOptions& options)
      : endpoint_(endpoint), options_(options) {}
  ~FileReceiver();
  FileReceiver(const FileReceiver&) = delete;
  FileReceiver& operator=(const FileReceiver&) = delete;

  /// Takes the announcement and prepares the first file; the sender is told when it is refused.
  Outcome TakeManifest();
  const exchange::Manifest& manifest() const { return manifest_; }

  /// Receives and commits every file and tells the sender how it went.
  Outcome Receive(Progress* progress, TransferReport* report);

 private:
  struct Slot {
    std::unique_ptr<std::byte[]> buffer;
    OperationHandle operation;
  };

  Outcome CheckManifest() const;
  /// Creates the file that the entry's bytes go to and reserves its space.
  Outcome Prepare(const exchange::FileEntry& entry);
  Outcome ReceiveFiles(TransferReport* report);
  Outcome ReceiveFile(const exchange::FileEntry& entry, FileDigest* digest);
  Outcome PostReceives();
  /// Waits for the oldest receive and writes what it brought.
  Outcome TakeChunk(uint64_t offset_bytes, uint64_t left_bytes, FileHash* hash,
                    uint64_t* chunk_bytes);
  Outcome TakeDigest(const FileDigest& actual);
  void EndReceives();

  cinch_endpoint* endpoint_;
  const ReceiveOptions& options_;
  Progress* progress_ = nullptr;
  exchange::Manifest manifest_;
  /// What is being received, under a temporary name.
  tensors::AtomicFile file_;
  std::deque<Slot> posted_;
  std::deque<Slot> idle_;
  uint64_t chunks_to_post_ = 0;
  uint64_t done_bytes_ = 0;
};

}  // namespace cinch::cli
