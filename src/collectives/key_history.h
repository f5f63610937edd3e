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
  bool carrier = false;  ///< Its headers are combined and count later.
};

class KeyHistory {
 public:
  explicit KeyHistory(PolicyMode mode) : mode_(mode) {}

  /// Takes the next place.
  Ticket Take();

  /// True when everything that counts for operation `index` is here; then decision() is the one for
  /// it. Ascending indices only.
  [[nodiscard]] bool Ready(uint64_t index);
  [[nodiscard]] Decision decision() const;

  /// The records that operation `ticket.index`, a carrier, is going to fill; called in order of the
  /// indices, before anything asks for an index at which they count. `second` may be null.
  void Attach(const Ticket& ticket, KeyRecord* first, KeyRecord* second);

  /// A carrier's records whose content was taken over and that can be used again; null for none.
  [[nodiscard]] KeyRecord* TakeUsedRecord();

  /// What this rank measured; goes into its next headers.
  void AddTiming(bool compressed, double seconds, uint64_t bytes);
  [[nodiscard]] uint64_t raw_nanoseconds() const { return raw_nanoseconds_; }
  [[nodiscard]] uint64_t compressed_nanoseconds() const { return compressed_nanoseconds_; }

  /// From which operation on the carrier `index` counts.
  [[nodiscard]] static uint64_t CountsFrom(uint64_t index);
  [[nodiscard]] static bool IsCarrier(uint64_t index);
  /// Whether operation `index` should be timed: not all, since events cost.
  [[nodiscard]] static bool IsTimed(uint64_t index);

 private:
  struct Pending {
    uint64_t index;
    KeyRecord* records[2];
  };

  void Apply(const Pending& pending);

  PolicyMode mode_;
  uint64_t count_ = 0;
  Decision decision_;
  std::deque<Pending> pending_;
  std::deque<KeyRecord*> used_;
  uint64_t raw_nanoseconds_ = 0;
  uint64_t compressed_nanoseconds_ = 0;
};

}  // namespace cinch::collectives
