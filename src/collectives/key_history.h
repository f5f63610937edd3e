// SPDX-License-Identifier: Apache-2.0
/// @file key_history.h
/// What is known of a kind of operation, and what follows for the next one. Hosts enqueue ahead of
/// their GPUs by different amounts, yet all participants must decide alike: so what operation i
/// tells counts from operation i + lag on, for everybody.
#pragma once

#include <cstdint>
#include <deque>

#include "base/config.h"
#include "collectives/slot.h"

namespace cinch::collectives {

/// How an operation travels.
struct Decision {
  bool compressed = false;
  uint64_t ratio = kRatioOne;  ///< Slots are made for this kept fraction.
};

/// An operation's place in its key's history.
struct Ticket {
  uint64_t index = 0;
};

class KeyHistory {
 public:
  explicit KeyHistory(PolicyMode mode) : mode_(mode) {}

  /// Takes the next place.
  Ticket Take();

  /// True when everything that counts for operation `index` is here; then decision(index) is known.
  /// Ascending indices only.
  [[nodiscard]] bool Ready(uint64_t index);
  [[nodiscard]] Decision decision(uint64_t index) const;

  /// Whether operation `index`, which is decided, is a carrier: its headers are combined and count
  /// later. All compressed ones are; of the others, which need a sample for it, only some.
  [[nodiscard]] bool IsCarrier(uint64_t index) const;

  /// The records that operation `ticket.index`, a carrier, is going to fill; called in order of the
  /// indices, before anything asks for an index at which they count. `second` may be null.
  void Attach(const Ticket& ticket, KeyRecord* first, KeyRecord* second);

  /// True for the first compressed operations: whether they fit is not known well yet.
  [[nodiscard]] bool TakeNovelty() { return novelty_ != 0 && novelty_-- != 0; }

  /// A carrier's records whose content was taken over and that can be used again; null for none.
  [[nodiscard]] KeyRecord* TakeUsedRecord();

  /// What this rank measured; goes into its next headers.
  void AddTiming(bool compressed, double seconds, uint64_t bytes);
  /// The median of the last few, for a MiB; 0 until there are enough of them.
  [[nodiscard]] uint64_t raw_nanoseconds() const { return raw_.Nanoseconds(); }
  [[nodiscard]] uint64_t compressed_nanoseconds() const { return compressed_.Nanoseconds(); }

  /// Whether operation `index` also prepares the way of repairs.
  [[nodiscard]] static bool IsFirst(uint64_t index) { return index == 0; }

  /// From which operation on the carrier `index` counts.
  [[nodiscard]] static uint64_t CountsFrom(uint64_t index);
  /// Whether operation `index`, which is decided, should be timed: not all, since events cost.
  [[nodiscard]] bool IsTimed(uint64_t index) const;

 private:
  static constexpr uint64_t kNever = uint64_t{1} << 62;
  /// Operations of a trial: enough to be timed, and few enough not to matter.
  static constexpr uint64_t kTrial = 5;

  struct Pending {
    uint64_t index;
    KeyRecord* records[2];
  };

  /// The first operations of a kind pay for connections and memory, so that one alone says nothing.
  struct Pace {
    std::deque<uint64_t> last;
    bool started = false;
    [[nodiscard]] uint64_t Nanoseconds() const;
    void Add(uint64_t sample);
  };
  struct Sample {
    uint64_t index;
    uint64_t ratio;
  };

  void Apply(const Pending& pending);
  void Judge(uint64_t index, uint64_t cost, uint64_t raw, uint64_t compressed);
  [[nodiscard]] bool IsTried(uint64_t index) const { return index - trial_begin_ < kTrial; }
  [[nodiscard]] uint64_t BestRatio(uint64_t* average_cost) const;

  PolicyMode mode_;
  uint64_t count_ = 0;
  uint32_t novelty_ = 16;
  Decision decision_;
  /// decision_ counts for the operations of a trial only: whether it gains is not known, and it
  /// cannot gain much.
  bool on_trial_ = false;
  uint64_t trial_begin_ = kNever;
  std::deque<Sample> window_;
  std::deque<Pending> pending_;
  std::deque<KeyRecord*> used_;
  Pace raw_;
  Pace compressed_;
};

}  // namespace cinch::collectives
