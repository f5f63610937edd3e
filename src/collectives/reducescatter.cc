// SPDX-License-Identifier: Apache-2.0
// Direct exchange: each rank sends every other its part, encoded once, and adds up in fp32 in the
// order of the ranks what it got; see docs/collectives.md.
#include "collectives/reducescatter.h"

#include <algorithm>

namespace cinch::collectives {

void AddShardExchange(const Lowering& lowering, const ShardExchange& exchange, Step* step) {
  const Operation& operation = lowering.operation;
  const Communicator& comm = *operation.comm;
  const uint64_t element = NcclDtypeBytes(operation.dtype);
  PlannedReduction reduction{
      {},
      exchange.output,
      exchange.own_bytes / element,
      operation.dtype,
      operation.reduction == kNcclAverage ? 1.0F / static_cast<float>(comm.ranks()) : 1.0F};
  const uint64_t own_wire = WireBytes(exchange.own_bytes, lowering.decision.ratio);
  for (int peer = 0; peer < comm.ranks(); ++peer) {
    const ShardPiece piece = exchange.pieces[static_cast<size_t>(peer)];
    if (peer == comm.rank()) {
      reduction.sources.push_back(piece.source);
      continue;
    }
    if (piece.bytes != 0) {
      const uint64_t wire = WireBytes(piece.bytes, lowering.decision.ratio);
      const Place slot = step->Stage(std::max(OutSlotBytes(piece.bytes, false), wire));
      step->out.push_back({piece.source, piece.bytes, slot, wire, CodecDtype(operation.dtype),
                           exchange.use, false, peer});
      step->wires.push_back({Wire::Type::kSend, slot, {}, wire, peer, {}});
    }
    if (exchange.own_bytes != 0) {
      const Place slot = step->Stage(own_wire);
      const Place decoded = step->Stage(exchange.own_bytes);
      step->wires.push_back({Wire::Type::kReceive, {}, slot, own_wire, peer, {}});
      step->in.push_back({slot, own_wire, decoded, exchange.own_bytes, exchange.use, false, peer});
      reduction.sources.push_back(decoded);
    }
  }
  if (exchange.own_bytes != 0) step->reductions.push_back(std::move(reduction));
}

void LowerReduceScatter(const Lowering& lowering, Plan* plan) {
  const Operation& operation = lowering.operation;
  const Communicator& comm = *operation.comm;
  const auto ranks = static_cast<uint64_t>(comm.ranks());
  const uint64_t shard = operation.count * NcclDtypeBytes(operation.dtype);
  const uint64_t chunk = ChunkBytes(comm);
  for (uint64_t at = 0, index = 0; at < shard; at += chunk, ++index) {
    Step& step = plan->At(index);
    const uint64_t bytes = std::min(chunk, shard - at);
    ShardExchange exchange;
    exchange.use = AddUse(lowering, index == 0 ? lowering.records[0] : nullptr, &step);
    exchange.own_bytes = bytes;
    exchange.output = User(operation.receive, at);
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      exchange.pieces.push_back({User(operation.send, rank * shard + at), bytes});
    }
    AddShardExchange(lowering, exchange, &step);
  }
}

}  // namespace cinch::collectives
