// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms.h"

#include <algorithm>

namespace cinch::collectives {
namespace {

// Slots of one step and direction, together.
constexpr uint64_t kStepBytes = uint64_t{512} << 20;
constexpr uint64_t kMaxChunkBytes = uint64_t{256} << 20;
constexpr uint64_t kMinChunkBytes = uint64_t{1} << 20;
constexpr uint64_t kWireStep = 128;
// Elements: keeps parts aligned, and no part empty.
constexpr uint64_t kShardStep = 8;

Place AddSample(const Lowering& lowering, uint64_t bytes, uint32_t use, Step* step) {
  const Operation& operation = lowering.operation;
  const Place slot = step->Stage(OutSlotBytes(bytes, true));
  step->out.push_back({User(operation.send), bytes, slot, sizeof(SlotHeader),
                       CodecDtype(operation.dtype), use, true, kAllPeers});
  return slot;
}

void AddHeader(Place slot, uint32_t use, int peer, Step* step) {
  step->in.push_back({slot, sizeof(SlotHeader), {}, 0, use, true, peer});
}

void ExchangeHeaders(const Lowering& lowering, uint64_t sent_bytes, uint32_t use, Step* step) {
  const Operation& operation = lowering.operation;
  const int ranks = operation.comm->ranks();
  const Place own = AddSample(lowering, sent_bytes, use, step);
  const Place all = step->Stage(sizeof(SlotHeader) * static_cast<uint64_t>(ranks));
  step->wires.push_back({Wire::Type::kAllGather, own, all, sizeof(SlotHeader), 0, {}});
  for (int rank = 0; rank < ranks; ++rank) {
    const uint64_t offset = sizeof(SlotHeader) * static_cast<uint64_t>(rank);
    AddHeader({nullptr, all.offset + offset}, use, rank, step);
  }
}

void AddCarrierHeaders(const Lowering& lowering, Step* step) {
  const Operation& operation = lowering.operation;
  const auto ranks = static_cast<uint64_t>(operation.comm->ranks());
  const uint64_t bytes = operation.count * NcclDtypeBytes(operation.dtype);
  const uint32_t use = AddUse(lowering, lowering.records[0], step);
  if (lowering.records[1] != nullptr) AddUse(lowering, lowering.records[1], step);
  switch (operation.kind) {
    case Kind::kSend: {
      const Place slot = AddSample(lowering, bytes, use, step);
      step->wires.push_back({Wire::Type::kSend, slot, {}, sizeof(SlotHeader), operation.peer, {}});
      return;
    }
    case Kind::kReceive: {
      const Place slot = step->Stage(sizeof(SlotHeader));
      step->wires.push_back(
          {Wire::Type::kReceive, {}, slot, sizeof(SlotHeader), operation.peer, {}});
      AddHeader(slot, use, operation.peer, step);
      return;
    }
    case Kind::kBroadcast: {
      const bool root = operation.comm->rank() == operation.peer;
      const Place slot =
          root ? AddSample(lowering, bytes, use, step) : step->Stage(sizeof(SlotHeader));
      step->wires.push_back(
          {Wire::Type::kBroadcast, slot, slot, sizeof(SlotHeader), operation.peer, {}});
      if (!root) AddHeader(slot, use, operation.peer, step);
      return;
    }
    case Kind::kReduceScatter:
      return ExchangeHeaders(lowering, bytes * ranks, use, step);
    default:
      return ExchangeHeaders(lowering, bytes, use, step);
  }
}

}  // namespace

uint64_t WireBytes(uint64_t bytes, uint64_t ratio) {
  const uint64_t bound = format::FrameBound(bytes);
  // A frame's size wanders from operation to operation by much less than this.
  const uint64_t predicted = bytes / kRatioOne * ratio + bytes % kRatioOne * ratio / kRatioOne;
  const uint64_t frame = std::min(bound, predicted + predicted / 128 + 2048);
  return AlignUp(sizeof(SlotHeader) + frame, kWireStep);
}

uint64_t ChunkBytes(const Communicator& comm) {
  const uint64_t share = kStepBytes / static_cast<uint64_t>(comm.ranks());
  return std::clamp(share / kMinChunkBytes * kMinChunkBytes, kMinChunkBytes, kMaxChunkBytes);
}

uint64_t ShardElements(uint64_t count, int ranks) {
  const auto parts = static_cast<uint64_t>(ranks);
  return AlignUp((count + parts - 1) / parts, kShardStep);
}

uint32_t AddUse(const Lowering& lowering, KeyRecord* record, Step* step) {
  step->uses.push_back({lowering.operation.key, record});
  return static_cast<uint32_t>(step->uses.size() - 1);
}

void PrepareRepairs(const Operation& operation, Step* step) {
  const Communicator& comm = *operation.comm;
  const auto add = [&](Wire::Type type, int peer) {
    step->shadow_wires.push_back({type, {}, {}, sizeof(SlotHeader), peer, {}});
  };
  if (operation.kind == Kind::kSend) return add(Wire::Type::kSend, operation.peer);
  if (operation.kind == Kind::kReceive) return add(Wire::Type::kReceive, operation.peer);
  if (operation.kind != Kind::kReduceScatter) add(Wire::Type::kBroadcast, 0);
  if (operation.kind != Kind::kReduceScatter && operation.kind != Kind::kAllReduce) return;
  for (int peer = 0; peer < comm.ranks(); ++peer) {
    if (peer == comm.rank()) continue;
    add(Wire::Type::kSend, peer);
    add(Wire::Type::kReceive, peer);
  }
}

void LowerPlain(const Lowering& lowering, Plan* plan) {
  Step& step = plan->At(0);
  step.wires.push_back({Wire::Type::kCall, {}, {}, 0, 0, lowering.operation});
  if (lowering.records[0] != nullptr) AddCarrierHeaders(lowering, &step);
}

}  // namespace cinch::collectives
