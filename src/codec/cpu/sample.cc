// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu/sample.h"

#include "codec/cpu/element.h"
#include "codec/plan/dtype_choice.h"

namespace cinch::codec::cpu {
namespace {

/// The sampled place among 8 elements, for 256 elements each.
constexpr uint32_t SampledPlace(uint32_t j) { return 2 * (j / 256 % 4) + j / 1024 % 2; }

/// Which elements are samples: one in a period, at a place that may differ from period to period.
struct FullSample {
  static constexpr uint32_t kPeriod = 8;
  static constexpr uint32_t At(uint32_t first) { return first + SampledPlace(first); }
};
struct DetectionSample {
  static constexpr uint32_t kPeriod = 64;
  static constexpr uint32_t At(uint32_t first) {
    return first + 8 * (first / 64 % 8) + SampledPlace(first);
  }
};

/// Counts in several tables, so that equal symbols in a row do not wait for each other's store. A
/// block has at most 4096 samples.
template <uint32_t kTables>
struct CountTables {
  uint16_t count[kTables][256] = {};

  void AddTo(SymbolCounts* counts) const {
    uint16_t sums[256] = {};
    for (const auto& table : count) {
      for (uint32_t symbol = 0; symbol < 256; ++symbol) {
        sums[symbol] = static_cast<uint16_t>(sums[symbol] + table[symbol]);
      }
    }
    for (uint32_t symbol = 0; symbol < 256; ++symbol) counts->count[symbol] += sums[symbol];
  }
};

/// Counts the samples of the elements from `first` on one by one.
template <uint32_t kDtype, typename Set>
void CountRest(const uint8_t* bytes, uint32_t elements, uint32_t first, SymbolCounts* counts) {
  for (; first < elements; first += Set::kPeriod) {
    const uint32_t j = Set::At(first);
    if (j < elements) counts->Add(LoadSymbol<kDtype>(bytes + size_t{j} * Element<kDtype>::kBytes));
  }
}

template <uint32_t kDtype>
void CountFullSample(const uint8_t* bytes, uint32_t length_bytes, SymbolCounts* counts) {
  constexpr uint32_t kTables = 8;
  constexpr uint32_t kGroup = 256;  // elements that are sampled at one place
  constexpr uint32_t kBytes = Element<kDtype>::kBytes;
  CountTables<kTables> tables;
  const uint32_t elements = length_bytes / kBytes;
  const uint32_t groups = elements / kGroup;
  for (uint32_t group = 0; group < groups; ++group) {
    const uint8_t* at = bytes + size_t{FullSample::At(group * kGroup)} * kBytes;
    for (uint32_t i = 0; i < kGroup / 8; i += kTables) {
      for (uint32_t table = 0; table < kTables; ++table) {  // Short enough to be unrolled.
        ++tables.count[table][LoadSymbol<kDtype>(at + table * 8 * kBytes)];
      }
      at += kTables * 8 * kBytes;
    }
  }
  tables.AddTo(counts);
  counts->total += groups * (kGroup / 8);
  CountRest<kDtype, FullSample>(bytes, elements, groups * kGroup, counts);
}

template <uint32_t kDtype>
void CountDetection(const uint8_t* bytes, uint32_t length_bytes, SymbolCounts* counts) {
  constexpr uint32_t kTables = 4;
  constexpr uint32_t kGroup = kTables * DetectionSample::kPeriod;
  constexpr uint32_t kBytes = Element<kDtype>::kBytes;
  CountTables<kTables> tables;
  const uint32_t elements = length_bytes / kBytes;
  const uint32_t groups = elements / kGroup;
  for (uint32_t group = 0; group < groups; ++group) {
    // Within a group, from one sample to the next: a period and a place among 8 further.
    const uint8_t* at = bytes + size_t{DetectionSample::At(group * kGroup)} * kBytes;
    for (uint32_t table = 0; table < kTables; ++table) {
      ++tables
            .count[table][LoadSymbol<kDtype>(at + table * (DetectionSample::kPeriod + 8) * kBytes)];
    }
  }
  tables.AddTo(counts);
  counts->total += groups * kTables;
  CountRest<kDtype, DetectionSample>(bytes, elements, groups * kGroup, counts);
}

template <uint32_t kDtype, typename Set>
uint32_t ZeroPlanes(const uint8_t* bytes, uint32_t length_bytes) {
  using E = Element<kDtype>;
  const uint32_t elements = length_bytes / E::kBytes;
  const uint32_t word_elements = WordElements(E::kBytes, length_bytes);
  uint32_t zero_planes = (1U << E::kPlanes) - 1;
  for (uint32_t first = 0; first < elements && zero_planes != 0; first += Set::kPeriod) {
    const uint32_t j = Set::At(first);
    if (j >= elements) continue;
    zero_planes &= ZeroPlanesOf(LoadSplitOrder<kDtype>(bytes, j, word_elements), kDtype);
  }
  return zero_planes;
}

template <uint32_t kDtype, typename Set>
uint32_t CountZeros(const uint8_t* bytes, uint32_t length_bytes) {
  constexpr uint32_t kBytes = Element<kDtype>::kBytes;
  const uint32_t elements = length_bytes / kBytes;
  uint32_t zeros = 0;
  for (uint32_t first = 0; first < elements; first += Set::kPeriod) {
    const uint32_t j = Set::At(first);
    if (j < elements && LoadRaw<kDtype>(bytes + size_t{j} * kBytes) == 0) ++zeros;
  }
  return zeros;
}

struct SampleFunctions {
  void (*count)(const uint8_t* bytes, uint32_t length_bytes, SymbolCounts* counts);
  void (*count_detection)(const uint8_t* bytes, uint32_t length_bytes, SymbolCounts* counts);
  uint32_t (*zero_planes)(const uint8_t* bytes, uint32_t length_bytes);
  uint32_t (*detection_zero_planes)(const uint8_t* bytes, uint32_t length_bytes);
  uint32_t (*zeros)(const uint8_t* bytes, uint32_t length_bytes);
  uint32_t (*detection_zeros)(const uint8_t* bytes, uint32_t length_bytes);
};

template <uint32_t kDtype>
struct SampleFunctionsOf {
  static constexpr SampleFunctions kValue = {
      CountFullSample<kDtype>,        CountDetection<kDtype>,
      ZeroPlanes<kDtype, FullSample>, ZeroPlanes<kDtype, DetectionSample>,
      CountZeros<kDtype, FullSample>, CountZeros<kDtype, DetectionSample>};
};

SampleFunctions FunctionsOf(uint32_t dtype) {
  return SelectByDtype<SampleFunctionsOf, SampleFunctions>(dtype);
}

}  // namespace

void CountSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes,
                 SymbolCounts* counts) {
  FunctionsOf(dtype).count(bytes, length_bytes, counts);
}

uint32_t SampleZeroPlanes(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes) {
  return FunctionsOf(dtype).zero_planes(bytes, length_bytes);
}

void CountDetectionSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes,
                          SymbolCounts* counts) {
  FunctionsOf(dtype).count_detection(bytes, length_bytes, counts);
}

uint32_t DetectionZeroPlanes(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes) {
  return FunctionsOf(dtype).detection_zero_planes(bytes, length_bytes);
}

uint32_t CountSampleZeros(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes) {
  return FunctionsOf(dtype).zeros(bytes, length_bytes);
}

uint32_t CountDetectionZeros(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes) {
  return FunctionsOf(dtype).detection_zeros(bytes, length_bytes);
}

}  // namespace cinch::codec::cpu
