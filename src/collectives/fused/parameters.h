// SPDX-License-Identifier: Apache-2.0
/// @file parameters.h
/// What a launch tells its kernel, and what the kernel tells the host when it gives up.
#pragma once

#include <cstdint>

#include "collectives/windows/layout.h"

namespace cinch::fused {

inline constexpr uint32_t kThreads = 512;
inline constexpr uint32_t kWarps = kThreads / 32;

/// In mapped host memory: written by the first warp that gives up, before `state`.
struct Report {
  uint32_t state;           ///< 0: nothing to report; 1: being written; 2: written.
  int32_t status;           ///< A cinch_status.
  uint32_t rank;            ///< Whose kernel this was.
  uint32_t peer;            ///< Whom it waited for.
  uint32_t waits_for_data;  ///< 1 for the peer's data, 0 for room in the peer's window.
  uint32_t channel;
  uint32_t expected;
  uint32_t seen;
  uint64_t step;  ///< The unit's number in its message.
};

/// How a launch waits.
struct WaitRules {
  Report* report;
  const uint32_t* host_stop;     ///< Mapped: not 0 once the host wants the kernel to leave.
  uint64_t timeout_nanoseconds;  ///< Without progress of the warp that waits.
};

/// What the benches leave out, to see one side alone.
enum MeasureBits : uint32_t {
  kIgnoreCredits = 1,  ///< Senders write whether or not there is room.
  kIgnoreFlags = 2,    ///< Receivers take what lies in the slots.
  kReceiversOnly = 4,  ///< Reduce-scatter: nobody sends.
};

/// What goes to one rank, and comes from it.
struct Route {
  const uint8_t* send;
  uint64_t send_bytes;
  uint8_t* receive;
  uint64_t receive_bytes;
};

struct Parameters {
  WindowLayout layout;
  uint32_t rank;
  uint32_t channels;  ///< In use: of senders, and of receivers.
  uint32_t channels_per_cta;
  uint32_t sends;           ///< Whether the thread blocks have warps that send,
  uint32_t receiver_teams;  ///< and how many warps a channel that receive.
  uint32_t coded;           ///< Elements are bf16: code what gets smaller.
  uint32_t same_data;       ///< All ranks get what routes[rank].send has.
  uint32_t direct;          ///< Coded tiles go from registers to the peers, not by bulk copies.
  uint32_t measure;
  uint64_t min_coded_bytes;  ///< Shorter messages travel as they are.
  WaitRules wait;
  uint8_t* window[kMaxRanks];
  Route routes[kMaxRanks];  ///< That of the rank itself is copied.
};

}  // namespace cinch::fused
