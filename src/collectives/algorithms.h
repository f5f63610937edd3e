// SPDX-License-Identifier: Apache-2.0
/// @file algorithms.h
/// One function for each way of moving an operation; each appends to the steps of a plan. All
/// participants call the same one with equal sizes and equal decisions.
#pragma once

#include "collectives/communicator.h"
#include "collectives/step.h"

namespace cinch::collectives {

/// An operation on its way into a plan.
struct Lowering {
  const Operation& operation;
  Decision decision;
  /// Where a carrier's headers are combined; null otherwise. The second one is for algorithms that
  /// move data twice.
  KeyRecord* records[2];
};

void LowerAllGather(const Lowering& lowering, Plan* plan);
void LowerBroadcast(const Lowering& lowering, Plan* plan);
void LowerSend(const Lowering& lowering, Plan* plan);
void LowerReceive(const Lowering& lowering, Plan* plan);
void LowerReduceScatter(const Lowering& lowering, Plan* plan);
void LowerAllReduce(const Lowering& lowering, Plan* plan);

/// Plain, in the first step; with a sample and a round of headers when it is a carrier.
void LowerPlain(const Lowering& lowering, Plan* plan);

/// Sends a little over those connections of the shadow communicator that a repair of the operation
/// would use. NCCL makes connections when they are first used, and a repair is no time for that.
void PrepareRepairs(const Operation& operation, Step* step);

/// Whether an all-to-all, gather or scatter is made of sends and receives: when its pairs are large
/// enough to be compressed.
[[nodiscard]] bool IsPairwise(Kind kind);
/// The sends and receives (with tickets) that an all-to-all, gather or scatter consists of, and the
/// copy of this rank's own part; see Communicator::Admit.
void SplitIntoPairs(const Operation& operation, std::vector<Operation>* pairs, LocalCopy* own);

/// Bytes of a slot, header included, for `bytes` at `ratio`: with a margin, at most what any frame
/// takes.
[[nodiscard]] uint64_t WireBytes(uint64_t bytes, uint64_t ratio);

/// Original bytes of a step's slot, so that staging memory stays bounded.
[[nodiscard]] uint64_t ChunkBytes(const Communicator& comm);

/// Elements of each rank's part of an all-reduce but the last ones', which may be short or empty.
[[nodiscard]] uint64_t ShardElements(uint64_t count, int ranks);

/// The operation's entry in a step.
uint32_t AddUse(const Lowering& lowering, KeyRecord* record, Step* step);

}  // namespace cinch::collectives
