// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "collectives/errand.h"
#include "collectives/job.h"

namespace cinch::collectives {

/// Watches a step. When frames did not fit their slots, their ends follow over the shadow
/// communicator, and the step's stream waits for that. Every participant has seen the same headers,
/// so the two ends of each slot agree about what is missing.
class Repair : public Errand {
 public:
  explicit Repair(WatchedStep step) : step_(std::move(step)), target_(step_.record->target) {}
  ~Repair() override;

  [[nodiscard]] const std::shared_ptr<Communicator>& comm() const override { return step_.comm; }
  [[nodiscard]] bool NeedsDevice() const override;
  bool Advance() override;
  void GiveUp() override;
  [[nodiscard]] uint32_t* flag() const override { return &step_.record->flag; }
  [[nodiscard]] uint32_t target() const override { return target_; }

 private:
  enum class Phase { kWatching, kReadingHeaders, kReceivingEnds };

  bool Settle();
  void Fail(NcclResult error, const char* what);
  [[nodiscard]] Status ReadHeaders();
  [[nodiscard]] NcclResult ExchangeEnds();
  /// `frames` gets the memory that it takes, which is the caller's to free.
  [[nodiscard]] NcclResult DecodeEnds(std::vector<uint8_t*>* frames);
  [[nodiscard]] NcclResult PostEnds(const std::vector<uint8_t*>& frames);
  [[nodiscard]] NcclResult PostPairs(const std::vector<uint8_t*>& frames);
  [[nodiscard]] NcclResult PostBroadcasts(const std::vector<uint8_t*>& frames);
  [[nodiscard]] uint64_t MissingOut(size_t index) const;
  [[nodiscard]] uint64_t MissingIn(size_t index) const;
  [[nodiscard]] Status PlaceFrames(std::vector<uint8_t*>* frames, std::vector<WholeFrame>* whole);
  [[nodiscard]] SlotHeader* Header(size_t index) const;

  WatchedStep step_;
  uint32_t target_;
  Phase phase_ = Phase::kWatching;
  std::vector<void*> header_pages_;
  Event headers_read_ = nullptr;
};

}  // namespace cinch::collectives
