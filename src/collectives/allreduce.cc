// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter by direct exchange, then an all-gather of the reduced parts: everything is encoded
// once before each, never on the way, and all ranks end up with the same bits.
#include <algorithm>

#include "collectives/reducescatter.h"

namespace cinch::collectives {
namespace {

struct Shards {
  uint64_t shard_bytes;
  uint64_t total_bytes;

  /// The bytes of rank's part that a chunk [at, at + chunk) of each part has.
  [[nodiscard]] uint64_t Bytes(uint64_t rank, uint64_t at, uint64_t chunk) const {
    const uint64_t start = rank * shard_bytes + at;
    const uint64_t end = std::min({start + chunk, (rank + 1) * shard_bytes, total_bytes});
    return end > start ? end - start : 0;
  }
};

/// Everybody sends everybody else the reduced chunk. Parts may be short, so these are pairs.
void AddGather(const Lowering& lowering, const Shards& shards, uint64_t at, uint64_t chunk,
               uint32_t use, Step* step) {
  const Operation& operation = lowering.operation;
  const Communicator& comm = *operation.comm;
  const auto self = static_cast<uint64_t>(comm.rank());
  const uint64_t own = shards.Bytes(self, at, chunk);
  const uint64_t own_wire = WireBytes(own, lowering.decision.ratio);
  Place slot;
  if (own != 0) {
    slot = step->Stage(std::max(OutSlotBytes(own, false), own_wire));
    step->out.push_back({User(operation.receive, self * shards.shard_bytes + at), own, slot,
                         own_wire, CodecDtype(operation.dtype), use, false, kAllPeers});
  }
  for (int peer = 0; peer < comm.ranks(); ++peer) {
    if (peer == comm.rank()) continue;
    const auto rank = static_cast<uint64_t>(peer);
    if (own != 0) step->wires.push_back({Wire::Type::kSend, slot, {}, own_wire, peer, {}});
    const uint64_t bytes = shards.Bytes(rank, at, chunk);
    if (bytes == 0) continue;
    const uint64_t wire = WireBytes(bytes, lowering.decision.ratio);
    const Place incoming = step->Stage(wire);
    step->wires.push_back({Wire::Type::kReceive, {}, incoming, wire, peer, {}});
    step->in.push_back({incoming, wire, User(operation.receive, rank * shards.shard_bytes + at),
                        bytes, use, false, peer, true});
  }
}

}  // namespace

void LowerAllReduce(const Lowering& lowering, Plan* plan) {
  const Operation& operation = lowering.operation;
  const Communicator& comm = *operation.comm;
  const auto ranks = static_cast<uint64_t>(comm.ranks());
  const auto self = static_cast<uint64_t>(comm.rank());
  const uint64_t element = NcclDtypeBytes(operation.dtype);
  const Shards shards{ShardElements(operation.count, comm.ranks()) * element,
                      operation.count * element};
  const uint64_t chunk = ChunkBytes(comm);
  size_t index = 0;
  for (uint64_t at = 0; at < shards.shard_bytes; at += chunk) {
    const bool first = at == 0;
    Step& exchanging = plan->At(index++);
    ShardExchange exchange;
    exchange.use = AddUse(lowering, first ? lowering.records[0] : nullptr, &exchanging);
    exchange.own_bytes = shards.Bytes(self, at, chunk);
    exchange.output = User(operation.receive, self * shards.shard_bytes + at);
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      exchange.pieces.push_back(
          {User(operation.send, rank * shards.shard_bytes + at), shards.Bytes(rank, at, chunk)});
    }
    AddShardExchange(lowering, exchange, &exchanging);
    Step& gathering = plan->At(index++);
    const uint32_t use = AddUse(lowering, first ? lowering.records[1] : nullptr, &gathering);
    AddGather(lowering, shards, at, chunk, use, &gathering);
  }
}

}  // namespace cinch::collectives
