// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "collectives/job.h"

namespace cinch::collectives {

/// One communicator's part of a job, while it is enqueued. Calls select the device themselves.
class JobPart {
 public:
  JobPart(Communicator* comm, Stream stream) : comm_(comm), stream_(stream) {}

  [[nodiscard]] Communicator* comm() const { return comm_; }
  [[nodiscard]] size_t steps() const { return plan_.steps.size(); }

  /// The part runs on its first stream; the others wait for it and it for them, as with NCCL.
  void AddStream(Stream stream);
  void AddOwnCopy(const LocalCopy& copy) {
    own_copies_.push_back(copy);
    // So that a part of copies alone is enqueued at all.
    plan_.At(0);
  }
  /// `lone`: the only operation of its job, which can be timed.
  Status Lower(const Operation& operation, bool lone);

  /// A step is these, in order; a part that has no such step does nothing. Each is done for all
  /// parts of a job before the next one is.
  Status BeforeWires(size_t index);
  [[nodiscard]] NcclResult PostWires(size_t index) const;
  /// What the step has for the shadow communicator, if anything.
  void AddPreparation(size_t index, Preparation* preparation) const;
  /// Looks at what arrived, and tells the watcher.
  Status AfterWires(size_t index, Watcher* watcher);
  /// The stream goes on when the step is settled, repaired if need be. Not before all parts have
  /// looked: parts can share a stream, and a peer's repair of one part may need that another was
  /// looked at here.
  Status Complete(size_t index);

  /// After a failure: nothing will fill the records of this part's carriers, and later operations
  /// must not wait for them.
  void Abandon();

 private:
  void LowerCompressed(const struct Lowering& lowering);
  Status Begin();
  Status End();
  Status JoinStreams(bool entering) const;
  Status CopyOwn(const std::vector<LocalCopy>& copies) const;
  Status EncodeStep(const Step& step);
  Status DecodeStep(const Step& step, Watcher* watcher);
  [[nodiscard]] NcclResult PostWire(const Wire& wire) const;
  Status Reduce(const Step& step) const;
  void Count(const Step& step) const;

  Communicator* comm_;
  Stream stream_;
  Plan plan_;
  std::vector<Stream> other_streams_;
  std::vector<LocalCopy> own_copies_;
  std::vector<KeyRecord*> records_;
  uint8_t* staging_ = nullptr;
  bool staged_ = false;
  /// What Complete() is to wait for; null for nothing.
  uint32_t* settled_flag_ = nullptr;
  uint32_t settled_target_ = 0;

  KeyHistory* timed_key_ = nullptr;
  uint64_t timed_bytes_ = 0;
  bool timed_compressed_ = false;
  Event timing_ = nullptr;
};

}  // namespace cinch::collectives
