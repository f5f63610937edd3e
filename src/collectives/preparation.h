// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "collectives/errand.h"
#include "collectives/step.h"

namespace cinch::collectives {

/// A little traffic over those connections of shadow communicators that repairs of a job's
/// operations would use: NCCL makes connections when they are first used, and a repair is no time
/// for that. All communicators of a job at once, as one thread may have several ranks.
class Preparation {
 public:
  void Add(std::shared_ptr<Communicator> comm, std::vector<Wire> wires) {
    parts_.push_back({std::move(comm), std::move(wires)});
  }
  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] size_t parts() const { return parts_.size(); }
  [[nodiscard]] const std::shared_ptr<Communicator>& comm(size_t part) const {
    return parts_[part].comm;
  }
  /// Whether nothing of these communicators is watched, so that it is this one's turn at once.
  [[nodiscard]] bool IsNext() const;

  /// Once. On the communicators' repair streams: behind the application's it would wait for the
  /// repairs of earlier steps, and they for the turn of the shadow communicator.
  [[nodiscard]] NcclResult Post();

  /// A part's turn has come; the last one posts. True when that was done.
  bool Arrive(bool* has_arrived);
  /// A part's communicator was aborted: the others are prepared without it.
  void GiveUp(size_t part, bool* has_arrived);

 private:
  struct Part {
    std::shared_ptr<Communicator> comm;
    std::vector<Wire> wires;
    void* memory = nullptr;
    bool given_up = false;
  };

  /// Gives up the parts whose communicators are aborted; the others are not, while the locks live.
  [[nodiscard]] std::vector<std::unique_lock<std::mutex>> LockShadows();
  [[nodiscard]] Status AllocateAll();
  [[nodiscard]] NcclResult PostPart(const Part& part) const;

  std::vector<Part> parts_;
  size_t arrived_ = 0;
  bool posted_ = false;
};

/// A part of a preparation that waits for its turn.
class PreparationErrand : public Errand {
 public:
  PreparationErrand(std::shared_ptr<Preparation> preparation, size_t part)
      : preparation_(std::move(preparation)), part_(part) {}

  [[nodiscard]] const std::shared_ptr<Communicator>& comm() const override {
    return preparation_->comm(part_);
  }
  [[nodiscard]] bool NeedsDevice() const override { return true; }
  bool Advance() override { return preparation_->Arrive(&has_arrived_); }
  void GiveUp() override { preparation_->GiveUp(part_, &has_arrived_); }
  [[nodiscard]] uint32_t* flag() const override { return nullptr; }
  [[nodiscard]] uint32_t target() const override { return 0; }

 private:
  std::shared_ptr<Preparation> preparation_;
  size_t part_;
  bool has_arrived_ = false;
};

}  // namespace cinch::collectives
