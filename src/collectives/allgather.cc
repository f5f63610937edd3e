// SPDX-License-Identifier: Apache-2.0
// Each rank encodes its part once; slots of equal size go round in NCCL's own all-gather.
#include <algorithm>

#include "collectives/algorithms.h"

namespace cinch::collectives {

void LowerAllGather(const Lowering& lowering, Plan* plan) {
  const Operation& operation = lowering.operation;
  const Communicator& comm = *operation.comm;
  const auto ranks = static_cast<uint64_t>(comm.ranks());
  const auto self = static_cast<uint64_t>(comm.rank());
  const uint64_t total = operation.count * NcclDtypeBytes(operation.dtype);
  const uint64_t chunk = ChunkBytes(comm);
  for (uint64_t at = 0, index = 0; at < total; at += chunk, ++index) {
    Step& step = plan->At(index);
    const uint64_t bytes = std::min(chunk, total - at);
    const uint64_t wire = WireBytes(bytes, lowering.decision.ratio);
    const uint32_t use = AddUse(lowering, index == 0 ? lowering.records[0] : nullptr, &step);
    const Place own = step.Stage(std::max(OutSlotBytes(bytes, false), wire));
    const Place all = step.Stage(wire * ranks);
    step.out.push_back({User(operation.send, at), bytes, own, wire, CodecDtype(operation.dtype),
                        use, false, kAllPeers});
    step.wires.push_back({Wire::Type::kAllGather, own, all, wire, 0, {}});
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      const Place destination = User(operation.receive, rank * total + at);
      if (rank != self) {
        step.in.push_back({{nullptr, all.offset + rank * wire},
                           wire,
                           destination,
                           bytes,
                           use,
                           false,
                           static_cast<int>(rank),
                           true});
      } else if (destination.In(nullptr) != User(operation.send, at).In(nullptr)) {
        step.copies.push_back({destination, User(operation.send, at), bytes});
      }
    }
  }
}

}  // namespace cinch::collectives
