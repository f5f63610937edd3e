// SPDX-License-Identifier: Apache-2.0
/// @file peer_windows.h
/// A window of device memory for each rank, mapped by all of them: ranks of one process share
/// addresses (with peer access between its devices), those of several processes CUDA IPC handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cinch/status.h"

namespace cinch::fused {

/// How ranks meet: gathers `bytes_each` bytes of every rank at `receive`, in rank order, on all of
/// them. 0 for success; anything else fails the call that asked. A communicator, MPI or pipes
/// serve.
struct Bootstrap {
  int (*all_gather)(void* context, const void* send, void* receive, size_t bytes_each);
  void* context;
};

class PeerWindows {
 public:
  /// Collective. Each rank's window is `bytes` bytes of its current device, zeroed. When one rank
  /// fails, all do.
  /// OK, INVALID_ARGUMENT (ranks disagree about `bytes`), UNSUPPORTED (a peer's memory is out of
  /// reach), OUT_OF_MEMORY, DEVICE, NO_DEVICE, PEER_LOST (the bootstrap failed).
  static Status Create(uint32_t rank, uint32_t ranks, uint64_t bytes, const Bootstrap& bootstrap,
                       std::unique_ptr<PeerWindows>* windows);

  PeerWindows(const PeerWindows&) = delete;
  PeerWindows& operator=(const PeerWindows&) = delete;
  /// Local: no peer uses this rank's window any longer, says the caller.
  ~PeerWindows();

  /// A rank's window, as this rank's device addresses it.
  uint8_t* window(uint32_t rank) const { return windows_[rank]; }
  int device() const { return device_; }

 private:
  PeerWindows(uint32_t rank, uint32_t ranks) : rank_(rank), windows_(ranks), mapped_(ranks) {}
  Status Allocate(uint64_t bytes);

  uint32_t rank_;
  int device_ = 0;
  std::vector<uint8_t*> windows_;
  std::vector<bool> mapped_;  ///< By an IPC handle.

  friend class Introduction;
};

}  // namespace cinch::fused
