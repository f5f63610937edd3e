// SPDX-License-Identifier: Apache-2.0
#include "collectives/key_history.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "collectives/slot_check.h"

namespace cinch::collectives {
namespace {

// At first little is known and soon wanted; later hosts may run far ahead of their GPUs, and nobody
// should have to wait for what counts.
struct Lag {
  uint64_t end;  // of the indices it is for
  uint64_t operations;
};
constexpr Lag kLags[] = {{4, 4}, {24, 8}};
constexpr uint64_t kSteadyLag = 32;
// Plain operations that are sampled.
constexpr uint64_t kFirstSamples = 4;
constexpr uint64_t kSampleDistance = 64;
// How often what was slower is tried again.
constexpr uint64_t kRetryDistance = 256;
// More than this is not worth coding (15/16).
constexpr uint64_t kMaxUsefulRatio = kRatioOne / 16 * 15;
// What keeps more has little to gain, and may lose by what coding costs: it is tried on a few
// operations before it is done (3/4).
constexpr uint64_t kMaxSafeRatio = kRatioOne / 4 * 3;
// How much less time compressed operations have to take (1/32): what takes turns with others is
// never measured exactly, and a tie is not worth the memory.
constexpr uint64_t kLeastGain = 32;
// Operations after a trial that tell how it went: hosts which are ahead time it late.
constexpr uint64_t kVerdictDistance = 4;
constexpr uint64_t kVerdicts = 3;
// What is remembered: so many operations back.
constexpr uint64_t kWindow = 32;
// A frame that does not fit costs about as much as sending the message again, and more risk.
constexpr uint64_t kOverflowPenalty = kRatioOne;
// Timings that it takes to be believed, and that are looked at. The median, not the fastest: what
// takes turns with others is slow more often than it can be.
constexpr size_t kPaceSamples = 3;
constexpr size_t kPaceMemory = 7;
// From fewer samples, slots are made a little larger (1/32).
constexpr size_t kFewSamples = 8;

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

bool KeyHistory::IsCarrier(uint64_t index) const {
  if (decision(index).compressed || index < kFirstSamples || index % kSampleDistance == 0) {
    return true;
  }
  if (!on_trial_ || index < trial_begin_ + kTrial) return false;
  const uint64_t since = index - trial_begin_ - kTrial;
  return since % kVerdictDistance == 0 && since / kVerdictDistance < kVerdicts;
}

uint64_t KeyHistory::CountsFrom(uint64_t index) {
  for (const Lag& lag : kLags) {
    if (index < lag.end) return index + lag.operations;
  }
  return index + kSteadyLag;
}

bool KeyHistory::IsTimed(uint64_t index) const {
  return index < 16 || index % 16 < 2 || (on_trial_ && IsTried(index));
}

Ticket KeyHistory::Take() { return {count_++}; }

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

Decision KeyHistory::decision(uint64_t index) const {
  // Pinned before anything is known: slots that hold every frame.
  if (mode_ == PolicyMode::kCompressed && !decision_.compressed) return {true, kMaxRatio};
  Decision decision = decision_;
  if (on_trial_ && !IsTried(index)) decision.compressed = false;
  return decision;
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
  ratio = std::min(ratio, kMaxRatio);  // Peers say what they like: sums must not wrap around.
  while (!window_.empty() && window_.front().index + kWindow < pending.index) window_.pop_front();
  window_.push_back({pending.index, ratio});
  uint64_t cost = 0;
  decision_.ratio = BestRatio(&cost);
  if (window_.size() < kFewSamples) decision_.ratio += decision_.ratio / 32;
  decision_.compressed = mode_ == PolicyMode::kCompressed || cost <= kMaxUsefulRatio;
  if (mode_ != PolicyMode::kCompressed) Judge(pending.index, cost, raw, compressed);
}

// Decides whether compression, where it is possible, is only on trial. Called for each carrier.
void KeyHistory::Judge(uint64_t index, uint64_t cost, uint64_t raw, uint64_t compressed) {
  const bool known = raw != 0 && compressed != 0;
  const bool gains = known && compressed < raw - raw / kLeastGain;
  on_trial_ = !gains && (known || cost > kMaxSafeRatio);
  // What turned out not to gain is tried again from time to time.
  const bool retry = index % kRetryDistance == 0;
  if (on_trial_ && (retry || (!known && trial_begin_ == kNever))) trial_begin_ = CountsFrom(index);
}

// Of the kept fractions that occurred, the one for which slots would have cost least: its own size
// for every operation, plus the rest and the penalty for those that would not have fitted.
uint64_t KeyHistory::BestRatio(uint64_t* average_cost) const {
  std::vector<uint64_t> ratios;
  for (const Sample& sample : window_) ratios.push_back(sample.ratio);
  std::ranges::sort(ratios, std::greater<>());
  uint64_t best = ratios.front();
  uint64_t best_cost = best * ratios.size();
  uint64_t above = 0;  // sum of the ratios before i
  for (size_t i = 0; i < ratios.size(); ++i) {
    const uint64_t rest = above - i * ratios[i];
    const uint64_t cost = ratios[i] * ratios.size() + rest + i * kOverflowPenalty;
    if (cost < best_cost) {
      best = ratios[i];
      best_cost = cost;
    }
    above += ratios[i];
  }
  *average_cost = best_cost / ratios.size();
  return best;
}

KeyRecord* KeyHistory::TakeUsedRecord() {
  if (used_.empty()) return nullptr;
  KeyRecord* record = used_.front();
  used_.pop_front();
  return record;
}

void KeyHistory::AddTiming(bool compressed, double seconds, uint64_t bytes) {
  (compressed ? compressed_ : raw_).Add(PerMebibyte(seconds, bytes));
}

uint64_t KeyHistory::Pace::Nanoseconds() const {
  if (last.size() < kPaceSamples) return 0;
  std::vector<uint64_t> sorted(last.begin(), last.end());
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

void KeyHistory::Pace::Add(uint64_t sample) {
  // The very first one pays for connections and memory.
  if (!started) {
    started = true;
    return;
  }
  last.push_back(sample);
  if (last.size() > kPaceMemory) last.pop_front();
}

}  // namespace cinch::collectives
