// SPDX-License-Identifier: Apache-2.0
/// @file detect.cuh
/// The choice of a block's dtype for `auto` (docs/format.md, section 7.3), a warp a candidate.
#pragma once

#include <cstdint>

#include "codec/gpu/block/codebook.cuh"
#include "codec/gpu/block/sample.cuh"
#include "codec/gpu/block/workspace.cuh"

namespace cinch::codec::gpu {

CINCH_PORTABLE uint32_t AutoCandidate(uint32_t i) {
  switch (i) {
    case 0:
      return CINCH_DTYPE_BF16;
    case 1:
      return CINCH_DTYPE_FP32;
    case 2:
      return CINCH_DTYPE_FP16;
    case 3:
      return CINCH_DTYPE_FP64;
    case 4:
      return CINCH_DTYPE_FP8_E4M3FN;
    case 5:
      return CINCH_DTYPE_FP8_E5M2;
    default:
      return CINCH_DTYPE_BYTES;
  }
}

/// How many residue byte planes of a dtype are zero in the OR of normalized elements.
CINCH_PORTABLE uint32_t ZeroPlanesIn(uint64_t any, const DtypeFacts& facts) {
  uint32_t zero_planes = 0;
  for (uint32_t plane = 0; plane < facts.residue_bits / 8; ++plane) {
    if (((any >> (8 * plane)) & 0xFF) == 0) zero_planes |= 1U << plane;
  }
  return zero_planes;
}

/// Bits that the elements of a sample would take.
CINCH_PORTABLE uint64_t EstimatedBits(const DtypeFacts& facts, uint32_t cost_bits, uint32_t samples,
                                      uint32_t zero_planes) {
  return cost_bits + uint64_t{samples} * (facts.residue_bits - 8 * format::CountBits(zero_planes));
}

/// Weighs candidate `i` by one warp. `counts` has room for 256 numbers of this warp.
template <typename Team>
CINCH_TEAM void WarpEstimate(const Team& team, uint32_t i, uint32_t length_bytes, uint32_t* counts,
                             EncodeWorkspace* workspace) {
  const DtypeFacts facts = FactsOf(AutoCandidate(i), length_bytes);
  for (uint32_t k = team.lane(); k < 256; k += Team::kLanes) counts[k] = 0;
  team.WarpSync();
  uint64_t any = 0;
  uint32_t samples = 0;
  uint32_t zeros = 0;
  uint32_t zero_symbols = 0;
  VisitDetectionSample(facts, team.lane(), Team::kLanes, [&](uint32_t index) {
    const uint64_t element = LoadElement(workspace->original, index, facts);
    const uint32_t symbol = facts.SymbolOf(element);
    if (symbol == 0) {
      ++zero_symbols;
    } else {
      team.Add(&counts[symbol], 1);
    }
    any |= element;
    ++samples;
    zeros += IsZeroElement(workspace->original, index, facts) ? 1 : 0;
  });
  const uint32_t low = team.WarpOr(static_cast<uint32_t>(any));
  const uint32_t high = team.WarpOr(static_cast<uint32_t>(any >> 32));
  samples = team.WarpSum(samples);
  zeros = team.WarpSum(zeros);
  zero_symbols = team.WarpSum(zero_symbols);
  if (team.lane() == 0) counts[0] = zero_symbols;  // Nobody else's.
  team.WarpSync();
  uint32_t cost_bits = 0;
  if (samples != 0 && WarpSingleSymbol(team, counts, samples) == 256) {
    for (uint32_t k = 0; k < kShapes; ++k) {
      const Shape shape =
          WarpChooseShape(team, counts, samples, facts.symbol_bits, k, workspace->remaining[i]);
      if (k == 0 || shape.cost_bits < cost_bits) cost_bits = shape.cost_bits;
    }
  }
  if (team.lane() == 0) {
    const uint32_t zero_planes = ZeroPlanesIn((uint64_t{high} << 32) | low, facts);
    workspace->estimate_samples[i] = samples;
    workspace->estimate_zeros[i] = zeros;
    workspace->estimate_sparse_bits[i] = format::SparseEstimate(
        facts.element_bytes, facts.residue_bits - 8 * format::CountBits(zero_planes), samples,
        zeros, cost_bits);
    workspace->estimate_bits[i] = EstimatedBits(facts, cost_bits, samples, zero_planes);
  }
}

/// What candidate `i` is estimated at (docs/format.md, section 7.3), when all have been weighed.
CINCH_PORTABLE uint64_t EstimateOf(const EncodeWorkspace& workspace, uint32_t i) {
  constexpr uint32_t kBytes = kAutoCandidates - 1;
  const uint64_t bits = workspace.estimate_bits[i];
  const uint32_t samples = workspace.estimate_samples[i];
  const uint32_t zeros = workspace.estimate_zeros[i];
  if (!format::HasManyZeros(workspace.estimate_samples[kBytes], workspace.estimate_zeros[kBytes]) ||
      !format::HasManyZeros(samples, zeros)) {
    return bits;
  }
  const uint64_t sparse_bits = workspace.estimate_sparse_bits[i];
  return sparse_bits < bits ? sparse_bits : bits;
}

/// The dtype of a block whose original bytes are in the workspace; the same in every thread. The
/// staged payload is overwritten.
template <typename Team>
CINCH_TEAM uint32_t SyncDetectDtype(const Team& team, uint32_t length_bytes,
                                    EncodeWorkspace* workspace) {
  auto* counts = reinterpret_cast<uint32_t*>(workspace->payload);
  for (uint32_t i = team.warp(); i < kAutoCandidates; i += team.warps()) {
    WarpEstimate(team, i, length_bytes, counts + 256 * i, workspace);
  }
  team.Sync();
  uint32_t best_dtype = CINCH_DTYPE_BYTES;
  uint64_t best_bits = 0;
  uint64_t best_raw_bits = 0;
  for (uint32_t i = 0; i < kAutoCandidates; ++i) {
    const uint32_t element_bytes = format::TraitsOf(AutoCandidate(i)).element_bytes;
    if (element_bytes > length_bytes) continue;
    const uint64_t bits = EstimateOf(*workspace, i);
    const uint64_t raw_bits = uint64_t{workspace->estimate_samples[i]} * 8 * element_bytes;
    if (best_raw_bits == 0 || bits * best_raw_bits < best_bits * raw_bits) {
      best_dtype = AutoCandidate(i);
      best_bits = bits;
      best_raw_bits = raw_bits;
    }
  }
  team.Sync();
  return best_dtype;
}

}  // namespace cinch::codec::gpu
