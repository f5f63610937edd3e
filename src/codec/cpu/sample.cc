// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu/sample.h"

#include "codec/cpu/element.h"

namespace cinch::codec::cpu {
namespace {

constexpr uint32_t kGroup = 256;       // elements that are sampled at one place of every 8
constexpr uint32_t kDetectionGroup = 64;  // elements of which detection takes one
constexpr uint32_t kTables = 8;

/// The place of the sampled element among 8 for a group.
constexpr uint32_t PlaceInGroup(uint32_t group) { return 2 * (group % 4) + group / 4 % 2; }

constexpr bool InSample(uint32_t j) { return j % 8 == PlaceInGroup(j / kGroup); }
constexpr bool InDetectionSample(uint32_t j) {
  return InSample(j) && j % 64 / 8 == j / 64 % 8;
}

/// Counts in several tables, so that equal symbols in a row do not wait for each other's store. A
/// block has at most 4096 samples.
struct CountTables {
  uint16_t count[kTables][256] = {};

  void AddTo(SymbolCounts* counts) const {
    for (uint32_t symbol = 0; symbol < 256; ++symbol) {
      uint32_t sum = 0;
      for (uint32_t table = 0; table < kTables; ++table) sum += count[table][symbol];
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

/// The OR of one sampled place of a group, as whole words, brought into split order: rotating once
/// is as good as rotating each.
template <uint32_t kDtype>
uint64_t AnyElement(uint64_t any_word, uint32_t j) {
  using E = Element<kDtype>;
  return WordToSplitOrder<kDtype>(any_word, E::kRotated ? j % (4 / E::kBytes) : 0);
}

template <uint32_t kDtype>
void Take(const uint8_t* bytes, uint32_t length_bytes, Sample* sample) {
  using E = Element<kDtype>;
  CountTables tables;
  const uint32_t groups = length_bytes / E::kBytes / kGroup;
  for (uint32_t group = 0; group < groups; ++group) {
    const uint32_t first = group * kGroup + PlaceInGroup(group);
    uint64_t any = 0;
    for (uint32_t i = 0; i < kGroup / 8; ++i) {
      any |= LoadWord<kDtype>(bytes, first + 8 * i);
      ++tables.count[i % kTables][LoadSymbol<kDtype>(bytes, first + 8 * i)];
    }
    sample->any |= AnyElement<kDtype>(any, first);
  }
  tables.AddTo(&sample->counts);
  sample->counts.total += groups * (kGroup / 8);
  TakeRest<kDtype>(bytes, length_bytes, groups * kGroup, InSample, sample);
}

template <uint32_t kDtype>
void TakeDetection(const uint8_t* bytes, uint32_t length_bytes, Sample* sample) {
  using E = Element<kDtype>;
  const uint32_t groups = length_bytes / E::kBytes / kDetectionGroup;
  for (uint32_t group = 0; group < groups; ++group) {
    const uint32_t j = group * kDetectionGroup + 8 * (group % 8) + PlaceInGroup(group / 4);
    ++sample->counts.count[LoadSymbol<kDtype>(bytes, j)];
    sample->any |= AnyElement<kDtype>(LoadWord<kDtype>(bytes, j), j);
  }
  sample->counts.total += groups;
  TakeRest<kDtype>(bytes, length_bytes, groups * kDetectionGroup, InDetectionSample, sample);
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
