// SPDX-License-Identifier: Apache-2.0
/// @file dispatcher.h
/// The one thread of the collectives. It enqueues jobs whose form was not decided when the
/// application enqueued them, and repairs steps of which a frame did not fit its slot.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/guard.h"
#include "collectives/job.h"
#include "collectives/repair.h"

namespace cinch::collectives {

class Dispatcher : public Watcher {
 public:
  Dispatcher() = default;
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  ~Dispatcher() override;

  /// Enqueues a job of admitted operations: at once if it is decided and nothing of its
  /// communicators waits, else later, while its streams wait for flags. Before it comes to that it
  /// waits a moment for what would decide it (CommunicatorOptions). `group_is_open` as RunJob has
  /// it; a delegated job leaves the caller's group to the caller's operations that are in it
  /// already, and ends it.
  [[nodiscard]] NcclResult Submit(Job job, bool group_is_open);

  void Watch(WatchedStep step) override;
  void Prepare(std::shared_ptr<Preparation> preparation) override;

  /// Returns when nothing of the communicator is left to do, or it was aborted.
  void Drain(const Communicator& comm);

  /// Gives up what is left of an aborted communicator.
  void Drop(const Communicator& comm);

 private:
  struct DelegatedJob {
    Job job;
    struct Part {
      std::shared_ptr<Communicator> comm;
      StepRecord* record;
      uint32_t target;
      /// Where the streams were when the application made the call.
      std::vector<Event> reached;
      /// Its communicator was aborted before the job was enqueued.
      bool dropped = false;
    };
    std::vector<Part> parts;
  };

  [[nodiscard]] NcclResult Delegate(Job job);
  /// Whether somebody should wait until the job that was just enqueued is settled.
  [[nodiscard]] static bool TakeCaution(const std::vector<Communicator*>& comms);
  static void WaitUntilSettled(const std::vector<Communicator*>& comms);
  void Loop();
  void EnsureThread();
  /// Both true when anything happened.
  bool RunDelegated();
  bool Poll();
  [[nodiscard]] bool IsBlocked(size_t index) const;
  bool TryRun(DelegatedJob* delegated);
  static void DropAborted(DelegatedJob* delegated);
  /// Lets the job's streams go on, and its communicators.
  static void Release(DelegatedJob* delegated, NcclResult result);
  [[nodiscard]] NcclResult Run(DelegatedJob* delegated);
  void Advance(Errand* errand, bool* settled);
  void Add(std::vector<std::unique_ptr<Errand>> errands);

  Guard guard_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<DelegatedJob>> jobs_;
  std::map<const Communicator*, std::deque<std::unique_ptr<Errand>>> watched_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cinch::collectives
