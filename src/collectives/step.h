// SPDX-License-Identifier: Apache-2.0
/// @file step.h
/// Operations are lowered to steps. A step encodes, moves slots in one NCCL group, decodes and
/// reduces; the next one starts when it is done. The algorithms only fill in steps.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/operation.h"

namespace cinch::collectives {

/// A place in the application's memory, or in the staging memory that a step gets.
struct Place {
  uint8_t* base = nullptr;  ///< Null: staging memory.
  uint64_t offset = 0;

  [[nodiscard]] uint8_t* In(uint8_t* staging) const {
    return (base != nullptr ? base : staging) + offset;
  }
};

inline Place User(const void* memory, uint64_t offset = 0) {
  return {static_cast<uint8_t*>(const_cast<void*>(memory)), offset};
}

/// Sent to everybody.
inline constexpr int kAllPeers = -1;

struct Outgoing {
  Place source;
  uint64_t bytes;
  Place slot;
  uint64_t wire_bytes;
  cinch_dtype dtype;
  uint32_t use;
  bool sampled;
  int peer;  ///< A rank, or kAllPeers.
};

struct Incoming {
  Place slot;
  uint64_t wire_bytes;
  Place destination;
  uint64_t bytes;
  uint32_t use;
  bool header_only;
  int peer;
  bool for_all = false;  ///< Every rank gets what `peer` sent.
};

struct Wire {
  enum class Type : uint8_t { kAllGather, kBroadcast, kCall, kReceive, kSend };
  Type type;
  Place send;
  Place receive;
  uint64_t bytes;
  int peer;             ///< Or the root.
  Operation operation;  ///< Of kCall.
};

struct LocalCopy {
  Place destination;
  Place source;
  uint64_t bytes;
};

struct PlannedReduction {
  std::vector<Place> sources;
  Place output;
  uint64_t elements;
  int dtype;
  float scale;
};

struct Use {
  KeyHistory* key;
  KeyRecord* record;  ///< Null unless the operation is a carrier.
};

struct Step {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::vector<Wire> wires;
  std::vector<Wire> shadow_wires;  ///< Of a preparation; their places do not matter.
  std::vector<LocalCopy> copies;
  std::vector<PlannedReduction> reductions;
  std::vector<Use> uses;
  uint64_t staging_bytes = 0;

  /// Takes `bytes` of the staging memory.
  Place Stage(uint64_t bytes) {
    const Place place{nullptr, staging_bytes};
    staging_bytes = AlignUp(staging_bytes + bytes, 256);
    return place;
  }
};

/// The step's slots, once its staging memory is known.
[[nodiscard]] std::vector<OutSlot> ResolveOut(const Step& step, uint8_t* staging);
[[nodiscard]] std::vector<InSlot> ResolveIn(const Step& step, uint8_t* staging);
[[nodiscard]] std::vector<SlotUse> ResolveUses(const Step& step);

/// False for a step of headers alone, whose outcome nobody has to wait for.
[[nodiscard]] bool MovesFrames(const Step& step);
/// What Communicator::Reserve wants to know.
[[nodiscard]] uint64_t InputBytes(const Step& step);
[[nodiscard]] uint64_t Items(const Step& step);

/// What becomes of one communicator's part of a job.
struct Plan {
  std::vector<Step> steps;

  Step& At(size_t index) {
    if (steps.size() <= index) steps.resize(index + 1);
    return steps[index];
  }
};

}  // namespace cinch::collectives
