// SPDX-License-Identifier: Apache-2.0
// A pair: one slot from the sender to the receiver. All-to-all, gather and scatter are pairs.
#include <algorithm>

#include "collectives/algorithms.h"

namespace cinch::collectives {

void LowerSend(const Lowering& lowering, Plan* plan) {
  const Operation& operation = lowering.operation;
  const uint64_t total = operation.count * NcclDtypeBytes(operation.dtype);
  const uint64_t chunk = ChunkBytes(*operation.comm);
  for (uint64_t at = 0, index = 0; at < total; at += chunk, ++index) {
    Step& step = plan->At(index);
    const uint64_t bytes = std::min(chunk, total - at);
    const uint64_t wire = WireBytes(bytes, lowering.decision.ratio);
    const uint32_t use = AddUse(lowering, index == 0 ? lowering.records[0] : nullptr, &step);
    const Place slot = step.Stage(std::max(OutSlotBytes(bytes, false), wire));
    step.out.push_back({User(operation.send, at), bytes, slot, wire, CodecDtype(operation.dtype),
                        use, false, operation.peer});
    step.wires.push_back({Wire::Type::kSend, slot, {}, wire, operation.peer, {}});
  }
}

void LowerReceive(const Lowering& lowering, Plan* plan) {
  const Operation& operation = lowering.operation;
  const uint64_t total = operation.count * NcclDtypeBytes(operation.dtype);
  const uint64_t chunk = ChunkBytes(*operation.comm);
  for (uint64_t at = 0, index = 0; at < total; at += chunk, ++index) {
    Step& step = plan->At(index);
    const uint64_t bytes = std::min(chunk, total - at);
    const uint64_t wire = WireBytes(bytes, lowering.decision.ratio);
    const uint32_t use = AddUse(lowering, index == 0 ? lowering.records[0] : nullptr, &step);
    const Place slot = step.Stage(wire);
    step.wires.push_back({Wire::Type::kReceive, {}, slot, wire, operation.peer, {}});
    step.in.push_back({slot, wire, User(operation.receive, at), bytes, use, false, operation.peer});
  }
}

}  // namespace cinch::collectives
