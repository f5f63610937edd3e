// SPDX-License-Identifier: Apache-2.0
#include "collectives/key_history.h"

#include <algorithm>
#include <iterator>

namespace cinch::collectives {
namespace {

// Carriers come densely at first, so that a short job gains too, then rarely, with a lag that hosts
// do not normally run ahead.
constexpr uint64_t kFirstCarriers[] = {0, 2, 6, 16};
constexpr uint64_t kFirstCountsFrom[] = {2, 6, 16, 48};
constexpr uint64_t kCarrierDistance = 64;
constexpr uint64_t kCarrierLag = 48;
// How often what was slower, or did not compress, is tried again.
constexpr uint64_t kRetryDistance = 512;
// More than this is not worth coding (15/16).
constexpr uint64_t kMaxUsefulRatio = kRatioOne / 16 * 15;

uint32_t LoadReady(const KeyRecord* record) {
  // The device writes it, with everything before it.
  return __atomic_load_n(&record->ready, __ATOMIC_ACQUIRE);
}

uint64_t PerMebibyte(double seconds, uint64_t bytes) {
  constexpr double kMebibyte = 1 << 20;
  return static_cast<uint64_t>(
      std::max(1.0, seconds * 1e9 * kMebibyte / static_cast<double>(bytes)));
}

}  // namespace

bool KeyHistory::IsCarrier(uint64_t index) {
  if (index >= kCarrierDistance) return index % kCarrierDistance == 0;
  return std::ranges::find(kFirstCarriers, index) != std::end(kFirstCarriers);
}

uint64_t KeyHistory::CountsFrom(uint64_t index) {
  if (index >= kCarrierDistance) return index + kCarrierLag;
  return kFirstCountsFrom[std::ranges::find(kFirstCarriers, index) - std::begin(kFirstCarriers)];
}

bool KeyHistory::IsTimed(uint64_t index) { return index < 16 || index % 16 < 2; }

Ticket KeyHistory::Take() {
  const uint64_t index = count_++;
  return {index, IsCarrier(index)};
}

void KeyHistory::Attach(const Ticket& ticket, KeyRecord* first, KeyRecord* second) {
  pending_.push_back({ticket.index, {first, second}});
}

bool KeyHistory::Ready(uint64_t index) {
  while (!pending_.empty() && CountsFrom(pending_.front().index) <= index) {
    for (const KeyRecord* record : pending_.front().records) {
      if (record != nullptr && LoadReady(record) == 0) return false;
    }
    Apply(pending_.front());
    pending_.pop_front();
  }
  return true;
}

Decision KeyHistory::decision() const {
  // Pinned before anything is known: slots that hold every frame.
  if (mode_ == PolicyMode::kCompressed && !decision_.compressed) return {true, 2 * kRatioOne};
  return decision_;
}

void KeyHistory::Apply(const Pending& pending) {
  uint64_t ratio = 0;
  uint64_t raw = 0;
  uint64_t compressed = 0;
  for (KeyRecord* record : pending.records) {
    if (record == nullptr) continue;
    ratio = std::max(ratio, record->ratio);
    raw = std::max(raw, record->raw_nanoseconds);
    compressed = std::max(compressed, record->compressed_nanoseconds);
    used_.push_back(record);
  }
  const bool retry = pending.index % kRetryDistance == 0;
  const bool known = raw != 0 && compressed != 0 && !retry;
  decision_.ratio = ratio;
  decision_.compressed = mode_ == PolicyMode::kCompressed ||
                         (ratio <= kMaxUsefulRatio && (!known || compressed < raw));
}

KeyRecord* KeyHistory::TakeUsedRecord() {
  if (used_.empty()) return nullptr;
  KeyRecord* record = used_.front();
  used_.pop_front();
  return record;
}

void KeyHistory::AddTiming(bool compressed, double seconds, uint64_t bytes) {
  const uint64_t sample = PerMebibyte(seconds, bytes);
  uint64_t& best = compressed ? compressed_nanoseconds_ : raw_nanoseconds_;
  // The fastest counts: what is above it is mostly waiting for other ranks. It fades, so that a
  // link that slows down is noticed.
  best = best == 0 ? sample : std::min(best + best / 64, sample);
}

}  // namespace cinch::collectives
