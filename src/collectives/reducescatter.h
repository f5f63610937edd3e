// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "collectives/algorithms.h"

namespace cinch::collectives {

/// What one rank gets of this rank's data in a step.
struct ShardPiece {
  Place source;
  uint64_t bytes;
};

struct ShardExchange {
  std::vector<ShardPiece> pieces;  ///< For every rank, this one included.
  uint64_t own_bytes = 0;          ///< Of this rank's piece, and of everybody's for it.
  Place output;                    ///< Of the reduction.
  uint32_t use = 0;
};

/// Exchanges the pieces and reduces those for this rank.
void AddShardExchange(const Lowering& lowering, const ShardExchange& exchange, Step* step);

}  // namespace cinch::collectives
