// SPDX-License-Identifier: Apache-2.0
// What the two processes of the soak test do, as both know from seeds.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cinch/transfer.h"

namespace cinch::transfer_test {

inline constexpr double kWaitSeconds = 120;
inline constexpr uint64_t kControlTag = 1;
inline constexpr uint64_t kFirstTag = 1000;
inline constexpr uint64_t kTagsOfRound = 1000;
inline constexpr uint64_t kNotifyTag = kTagsOfRound - 1;
inline constexpr uint64_t kSlotBytes = uint64_t{512} << 10;
inline constexpr uint64_t kSlots = 16;
inline constexpr uint64_t kQueued = 10000;
inline constexpr size_t kBatchMessages = 48;
inline constexpr uint64_t kSmallBytes = uint64_t{8} << 20;
inline constexpr uint64_t kLargeBytes = uint64_t{64} << 20;

[[noreturn]] inline void Die(const char* who, const std::string& what) {
  std::fprintf(stderr, "transfer_soak (%s): %s\n", who, what.c_str());
  std::_Exit(1);
}

struct Figures {
  uint64_t batches = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  uint64_t cancelled = 0;
  uint64_t lost_peers = 0;
  uint64_t refused_when_full = 0;
  uint64_t blocks = 0;
  uint64_t versions = 0;
  uint64_t stale = 0;
};

/// What comes next, told by the process that decides.
struct Control {
  enum class Kind : uint64_t { kBatch, kQueue, kRenew, kEnd };
  Kind kind = Kind::kEnd;
  uint64_t seed = 0;
};

/// One message of a batch. Both processes make the same list from the batch's seed.
struct Planned {
  bool from_first = true;
  uint64_t bytes = 0;
  uint64_t seed = 0;
  cinch_dtype dtype = CINCH_DTYPE_BF16;
  cinch_policy policy = CINCH_POLICY_AUTO;
  bool source_on_device = false;
  bool target_on_device = false;
  bool cancel = false;
  uint64_t pieces = 1;
};

inline std::vector<Planned> PlanBatch(uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool large = random() % 16 == 0;
  std::vector<Planned> plan(large ? 2 : kBatchMessages);
  for (Planned& each : plan) {
    each.from_first = random() % 2 == 0;
    // As many of each magnitude.
    const uint64_t limit = (large ? kLargeBytes : kSmallBytes) >> random() % 24;
    each.bytes = random() % (limit + 1);
    each.seed = random();
    constexpr cinch_dtype kDtypes[] = {CINCH_DTYPE_BF16, CINCH_DTYPE_FP32, CINCH_DTYPE_BYTES,
                                       CINCH_DTYPE_AUTO};
    constexpr cinch_policy kPolicies[] = {CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED,
                                          CINCH_POLICY_AUTO};
    each.dtype = kDtypes[random() % std::size(kDtypes)];
    each.policy = kPolicies[random() % std::size(kPolicies)];
    each.source_on_device = random() % 2 == 0;
    each.target_on_device = random() % 2 == 0;
    // A small message that nobody takes any more would stay.
    each.cancel = random() % 8 == 0 && each.bytes > CINCH_INLINE_BYTES;
    each.pieces = random() % 4 == 0 ? 1 + random() % 50 : 1;
  }
  return plan;
}

[[nodiscard]] inline cinch_transfer_options OptionsOf(uint64_t tag) {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = tag;
  options.tag_mask = ~uint64_t{0};
  return options;
}

inline void Check(const char* who, const char* what, cinch_status status) {
  if (status != CINCH_OK) Die(who, std::string(what) + ": " + cinch_status_name(status));
}

/// Waits for an operation and lets go of it.
[[nodiscard]] inline cinch_status End(cinch_operation* operation) {
  const cinch_status status = cinch_wait(operation, kWaitSeconds);
  cinch_operation_release(operation);
  return status;
}

}  // namespace cinch::transfer_test
