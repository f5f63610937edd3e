// SPDX-License-Identifier: Apache-2.0
/// @file job.h
/// A job is what the application enqueues at once: a single call, or all calls of a group.
#pragma once

#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/preparation.h"
#include "collectives/step.h"

namespace cinch::collectives {

struct Job {
  std::vector<Operation> operations;
  /// Those that go over peer memory: nothing has to be known to enqueue them.
  std::vector<Operation> peer_operations;

  /// A rank's own part of an operation that was taken apart into pairs.
  struct OwnCopy {
    Communicator* comm;
    Stream stream;
    LocalCopy copy;
  };
  std::vector<OwnCopy> copies;
};

/// A step that was enqueued, until its outcome is known.
struct WatchedStep {
  std::shared_ptr<Communicator> comm;
  Step step;
  uint8_t* staging = nullptr;
  Workspace workspace;
  StepRecord* record = nullptr;
};

/// Who looks after steps: releases their streams after repairing what did not fit its slots.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void Watch(WatchedStep step) = 0;
  /// Does it when its turn has come.
  virtual void Prepare(std::shared_ptr<Preparation> preparation) = 0;
};

/// Appends `operation` to the job, with its place in the history of its key when it is eligible.
/// Under its communicator's mutex; so are all below.
void Admit(const Operation& operation, Job* job);

/// True when all that the operations' forms depend on is known here.
[[nodiscard]] bool IsDecided(const Job& job);

/// The communicators of a job, in the order of their addresses.
[[nodiscard]] std::vector<Communicator*> CommunicatorsOf(const Job& job);

/// Enqueues and removes what goes over peer memory. Without any mutex.
[[nodiscard]] NcclResult RunPeerOperations(Job* job);

/// Enqueues a decided job. `group_is_open`: the caller has opened an NCCL group, which this ends.
/// `on_helper_streams`: each communicator's helper stream takes the place of the job's streams.
[[nodiscard]] NcclResult RunJob(const Job& job, bool group_is_open, bool on_helper_streams,
                                Watcher* watcher);

}  // namespace cinch::collectives
