// SPDX-License-Identifier: Apache-2.0
/// @file peer_path.h
/// The way between ranks that reach each other's memory (cinch/fused.h), beside plain NCCL and
/// frames over NCCL. An operation takes it on all ranks or on none: who takes it depends on the
/// call's arguments alone, and whether it is open was agreed upon when it was opened.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cinch/fused.h"
#include "cinch/status.h"
#include "collectives/operation.h"

namespace cinch::collectives {

class PeerPath {
 public:
  virtual ~PeerPath() = default;
  /// Whether `operation` takes this way. Depends on nothing but what all ranks know.
  [[nodiscard]] virtual bool Takes(const Operation& operation) const = 0;
  /// Enqueues an operation that takes it, on the operation's stream.
  virtual Status Enqueue(const Operation& operation) = 0;
  /// OK, or why the kernels gave up; never waits.
  virtual Status Check() = 0;
  /// Makes the kernels of all ranks leave. From any thread.
  virtual void Abort() = 0;
};

/// What a path is opened with. `all_gather` is there while it is.
struct PeerMeeting {
  int rank;
  int ranks;
  double timeout_seconds;
  cinch_fused_all_gather_fn all_gather;
  void* context;
};

/// Opens a path; collective. Null when there is none.
using PeerPathMaker = std::function<std::unique_ptr<PeerPath>(const PeerMeeting& meeting)>;

/// The real one.
[[nodiscard]] std::unique_ptr<PeerPath> MakeFusedPath(const PeerMeeting& meeting);

/// Whether fused kernels were measured to be the faster way for an operation among `ranks` ranks.
[[nodiscard]] bool FusedPays(const Operation& operation, int ranks);

/// A few bytes of this rank for the others of a communicator.
struct Gathering {
  Communicator* comm;
  const void* send;
  void* receive;  ///< `bytes_each` bytes for each rank.
};

/// Gathers over the shadow communicators, all in one NCCL group, and waits, for `timeout_seconds`
/// at most. Collective for each of them. OK, UNSUPPORTED (too many bytes), OUT_OF_MEMORY, TIMEOUT,
/// TRANSPORT, DEVICE.
[[nodiscard]] Status GatherOverShadows(std::span<const Gathering> gatherings, size_t bytes_each);

/// Keeps a path for good. A peer's kernel may still write into this rank's window when this rank is
/// done with it, and nothing says when all are.
void KeepPeerPath(std::unique_ptr<PeerPath> path);

/// Opens paths for communicators that this thread has just made. Collective for each: all ranks
/// call it, for all that they have made at once. A path is opened where every rank's thread has
/// made that communicator alone - else opening one would wait for another - and succeeded.
void OpenPeerPaths(std::span<Communicator* const> comms, const PeerPathMaker& maker);

}  // namespace cinch::collectives
