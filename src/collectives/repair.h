// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "collectives/job.h"

namespace cinch::collectives {

/// Watches a step. When frames did not fit their slots, their ends follow over the shadow
/// communicator, and the step's stream waits for that. Every participant has seen the same headers,
/// so the two ends of each slot agree about what is missing.
class Repair {
 public:
  explicit Repair(WatchedStep step) : step_(std::move(step)), target_(step_.record->target) {}
  Repair(const Repair&) = delete;
  Repair& operator=(const Repair&) = delete;
  ~Repair();

  [[nodiscard]] const std::shared_ptr<Communicator>& comm() const { return step_.comm; }

  /// Goes on without waiting; true when the step is settled.
  bool Advance();
  /// Lets the stream go on, whatever it finds.
  void GiveUp();

 private:
  enum class Phase { kWatching, kReadingHeaders, kReceivingEnds };

  bool Settle();
  void Fail(NcclResult error, const char* what);
  [[nodiscard]] Status ReadHeaders();
  [[nodiscard]] NcclResult ExchangeEnds();
  [[nodiscard]] NcclResult PostEnds(const std::vector<uint8_t*>& frames);
  [[nodiscard]] Status PlaceFrames(std::vector<uint8_t*>* frames, std::vector<WholeFrame>* whole);
  [[nodiscard]] const SlotHeader& OutHeader(size_t index) const { return headers_[index]; }
  [[nodiscard]] const SlotHeader& InHeader(size_t index) const {
    return headers_[step_.step.out.size() + index];
  }

  WatchedStep step_;
  uint32_t target_;
  Phase phase_ = Phase::kWatching;
  SlotHeader* headers_ = nullptr;
  Event headers_read_ = nullptr;
};

}  // namespace cinch::collectives
