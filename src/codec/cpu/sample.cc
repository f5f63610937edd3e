// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu/sample.h"

#include "codec/cpu/element.h"

namespace cinch::codec::cpu {
namespace {

constexpr uint32_t kGroup = 64;         // elements that share one diagonal
constexpr uint32_t kGroupSamples = 8;   // on it
constexpr uint32_t kDiagonalStep = 9;   // from one to the next
constexpr uint32_t kTables = 4;

/// Counts in several tables, so that equal symbols in a row do not wait for each other's store.
struct CountTables {
  uint32_t count[kTables][256] = {};

  void AddTo(SymbolCounts* counts) const {
    for (uint32_t symbol = 0; symbol < 256; ++symbol) {
      uint32_t sum = 0;
      for (const auto& table : count) sum += table[symbol];
      counts->count[symbol] += sum;
    }
  }
};

/// The samples after the last whole group: element j is one when `in_sample(j)`.
template <uint32_t kDtype, typename InSample>
void TakeRest(const uint8_t* bytes, uint32_t length_bytes, uint32_t first, InSample in_sample,
              Sample* sample) {
  using E = Element<kDtype>;
  const uint32_t word_elements = WordElements(E::kBytes, length_bytes);
  for (uint32_t j = first; j < length_bytes / E::kBytes; ++j) {
    if (!in_sample(j)) continue;
    const uint64_t element = LoadSplitOrder<kDtype>(bytes, j, word_elements);
    sample->counts.Add(static_cast<uint32_t>(element >> E::kResidueBits));
    sample->any |= element;
  }
}

template <uint32_t kDtype>
void Take(const uint8_t* bytes, uint32_t length_bytes, Sample* sample) {
  using E = Element<kDtype>;
  CountTables tables;
  const uint32_t groups = length_bytes / E::kBytes / kGroup;
  uint64_t any = 0;
  for (uint32_t group = 0; group < groups; ++group) {
    const uint8_t* at = bytes + size_t{group} * kGroup * E::kBytes;
    for (uint32_t i = 0; i < kGroupSamples; ++i) {
      const uint64_t element = LoadSplitOrder<kDtype>(at, kDiagonalStep * i, kGroup);
      ++tables.count[i % kTables][element >> E::kResidueBits];
      any |= element;
    }
  }
  tables.AddTo(&sample->counts);
  sample->counts.total += groups * kGroupSamples;
  sample->any |= any;
  TakeRest<kDtype>(
      bytes, length_bytes, groups * kGroup, [](uint32_t j) { return j % 8 == (j / 8) % 8; },
      sample);
}

template <uint32_t kDtype>
void TakeDetection(const uint8_t* bytes, uint32_t length_bytes, Sample* sample) {
  using E = Element<kDtype>;
  const uint32_t groups = length_bytes / E::kBytes / kGroup;
  for (uint32_t group = 0; group < groups; ++group) {
    const uint32_t j = group * kGroup + kDiagonalStep * (group % 8);
    const uint64_t element = LoadSplitOrder<kDtype>(bytes, j, j + 64);
    ++sample->counts.count[element >> E::kResidueBits];
    sample->any |= element;
  }
  sample->counts.total += groups;
  TakeRest<kDtype>(
      bytes, length_bytes, groups * kGroup,
      [](uint32_t j) { return j % 8 == (j / 8) % 8 && (j % 64) / 8 == (j / 64) % 8; }, sample);
}

}  // namespace

#define CINCH_FOR_CANONICAL_DTYPE(Function, dtype, ...)       \
  switch (CanonicalDtype(dtype)) {                            \
    case CINCH_DTYPE_BF16:                                    \
      return Function<CINCH_DTYPE_BF16>(__VA_ARGS__);         \
    case CINCH_DTYPE_FP16:                                    \
      return Function<CINCH_DTYPE_FP16>(__VA_ARGS__);         \
    case CINCH_DTYPE_FP32:                                    \
      return Function<CINCH_DTYPE_FP32>(__VA_ARGS__);         \
    case CINCH_DTYPE_FP64:                                    \
      return Function<CINCH_DTYPE_FP64>(__VA_ARGS__);         \
    case CINCH_DTYPE_FP8_E4M3FN:                              \
      return Function<CINCH_DTYPE_FP8_E4M3FN>(__VA_ARGS__);   \
    case CINCH_DTYPE_FP8_E5M2:                                \
      return Function<CINCH_DTYPE_FP8_E5M2>(__VA_ARGS__);     \
    case CINCH_DTYPE_INT16:                                   \
      return Function<CINCH_DTYPE_INT16>(__VA_ARGS__);        \
    case CINCH_DTYPE_INT32:                                   \
      return Function<CINCH_DTYPE_INT32>(__VA_ARGS__);        \
    case CINCH_DTYPE_INT64:                                   \
      return Function<CINCH_DTYPE_INT64>(__VA_ARGS__);        \
    default:                                                  \
      return Function<CINCH_DTYPE_BYTES>(__VA_ARGS__);        \
  }

void TakeSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes, Sample* sample) {
  CINCH_FOR_CANONICAL_DTYPE(Take, dtype, bytes, length_bytes, sample)
}

void TakeDetectionSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes,
                         Sample* sample) {
  CINCH_FOR_CANONICAL_DTYPE(TakeDetection, dtype, bytes, length_bytes, sample)
}

}  // namespace cinch::codec::cpu
