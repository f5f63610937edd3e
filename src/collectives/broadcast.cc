// SPDX-License-Identifier: Apache-2.0
// The root encodes once; its slot goes out in NCCL's own broadcast.
#include <algorithm>

#include "collectives/algorithms.h"

namespace cinch::collectives {

void LowerBroadcast(const Lowering& lowering, Plan* plan) {
  const Operation& operation = lowering.operation;
  const bool root = operation.comm->rank() == operation.peer;
  const uint64_t total = operation.count * NcclDtypeBytes(operation.dtype);
  const uint64_t chunk = ChunkBytes(*operation.comm);
  for (uint64_t at = 0, index = 0; at < total; at += chunk, ++index) {
    Step& step = plan->At(index);
    const uint64_t bytes = std::min(chunk, total - at);
    const uint64_t wire = WireBytes(bytes, lowering.decision.ratio);
    const uint32_t use = AddUse(lowering, index == 0 ? lowering.records[0] : nullptr, &step);
    const Place slot = step.Stage(root ? std::max(OutSlotBytes(bytes, false), wire) : wire);
    step.wires.push_back({Wire::Type::kBroadcast, slot, slot, wire, operation.peer, {}});
    if (!root) {
      step.in.push_back(
          {slot, wire, User(operation.receive, at), bytes, use, false, operation.peer, true});
      continue;
    }
    step.out.push_back({User(operation.send, at), bytes, slot, wire, CodecDtype(operation.dtype),
                        use, false, kAllPeers});
    if (operation.send != operation.receive) {
      step.copies.push_back({User(operation.receive, at), User(operation.send, at), bytes});
    }
  }
}

}  // namespace cinch::collectives
