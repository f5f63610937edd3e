// SPDX-License-Identifier: Apache-2.0
#include "tensors/generators.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensors/float_rounding.h"
#include "tensors/gaussian.h"
#include "tensors/tensor_info.h"

namespace cinch::tensors {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

/// Elements made at a time: values, patterns and output of a batch stay in the first-level cache.
constexpr size_t kBatchElements = 1024;
/// Not a multiple of any codec block, so that one block holds several kinds.
constexpr uint64_t kStretchBytes = 40 * 1024;
constexpr uint64_t kOffsetAlignmentBytes = 8;
constexpr uint64_t kHeadDimension = 128;
constexpr double kIntegerScale = 1024;

/// Independent random streams of one seed.
enum Stream : uint64_t { kValues, kSecondValues, kChannels, kStretches };

using Values = std::array<double, kBatchElements>;
using Patterns = std::array<uint64_t, kBatchElements>;

uint64_t ElementMask(cinch_dtype dtype) {
  const uint64_t bits = 8 * ElementBytes(dtype);
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

/// A channel's scale spreads over some binades; 1 channel in 32 is an outlier, as in trained keys.
struct Channel {
  double scale;
  double offset;
};

std::array<Channel, kHeadDimension> MakeChannels(double parameter, uint64_t seed) {
  const GaussianTable& gaussian = GaussianTable::Get();
  const RandomWords words(seed, kChannels);
  std::array<Channel, kHeadDimension> channels{};
  for (uint64_t i = 0; i < kHeadDimension; ++i) {
    const double spread = PortableExp2(gaussian(words[3 * i]));
    const double boost = words[3 * i + 1] % 32 == 0 ? 16 : 1;
    channels[i].scale = parameter * spread * boost;
    channels[i].offset = channels[i].scale * gaussian(words[3 * i + 2]);
  }
  return channels;
}

/// Makes the values of a kind that is defined by numbers. Element `i` depends on the seed and `i`.
class ValueMaker {
 public:
  ValueMaker(const DataSpec& spec, uint64_t seed)
      : spec_(spec), words_(seed, kValues), second_words_(seed, kSecondValues) {
    if (spec.kind == DataKind::kKvLike) {
      channels_ = MakeChannels(spec.parameter, seed);
    }
  }

  void Fill(uint64_t first_element, size_t count, Values* values) const {
    const GaussianTable& gaussian = GaussianTable::Get();
    const double parameter = spec_.parameter;
    const auto fill = [&](const auto& value_of) {
      for (size_t i = 0; i < count; ++i) {
        (*values)[i] = value_of(first_element + i);
      }
    };
    switch (spec_.kind) {
      case DataKind::kConstant:
        return fill([&](uint64_t) { return parameter; });
      case DataKind::kHeavyTailed:
        return fill([&](uint64_t i) {
          return parameter * gaussian(words_[i]) * gaussian(second_words_[i]);
        });
      case DataKind::kSparseRelu:
        return fill([&](uint64_t i) { return IsZero(i) ? 0 : std::fabs(gaussian(words_[i])); });
      case DataKind::kKvLike:
        return fill([&](uint64_t i) {
          const Channel& channel = channels_[i % kHeadDimension];
          return channel.offset + channel.scale * gaussian(words_[i]);
        });
      default:
        return fill([&](uint64_t i) { return parameter * gaussian(words_[i]); });
    }
  }

 private:
  bool IsZero(uint64_t element) const {
    return static_cast<double>(second_words_[element] >> 11) * 0x1p-53 < spec_.parameter;
  }

  DataSpec spec_;
  RandomWords words_;
  RandomWords second_words_;
  std::array<Channel, kHeadDimension> channels_{};
};

/// An integer's pattern: rounded to even, saturating at the dtype's ends.
uint64_t IntegerPattern(double value, cinch_dtype dtype) {
  const uint64_t mask = ElementMask(dtype);
  const bool is_signed = dtype == CINCH_DTYPE_INT8 || dtype == CINCH_DTYPE_INT16 ||
                         dtype == CINCH_DTYPE_INT32 || dtype == CINCH_DTYPE_INT64;
  const double rounded = std::nearbyint(value);
  const uint64_t limit = is_signed ? mask >> 1 : mask;
  const bool negative = is_signed && rounded < 0;
  const double magnitude = std::fabs(rounded);
  const uint64_t clamped =
      magnitude < static_cast<double>(limit) ? static_cast<uint64_t>(magnitude) : limit;
  return (negative ? ~clamped + 1 : clamped) & mask;
}

void RoundValues(const Values& values, size_t count, cinch_dtype dtype, DataKind kind,
                 Patterns* patterns) {
  if (dtype == CINCH_DTYPE_FP32) {
    for (size_t i = 0; i < count; ++i) {
      (*patterns)[i] = std::bit_cast<uint32_t>(static_cast<float>(values[i]));
    }
  } else if (dtype == CINCH_DTYPE_FP64) {
    for (size_t i = 0; i < count; ++i) {
      (*patterns)[i] = std::bit_cast<uint64_t>(values[i]);
    }
  } else if (const FloatFormat* format = FloatFormatOf(dtype); format != nullptr) {
    const FloatRounder round(*format);
    for (size_t i = 0; i < count; ++i) {
      (*patterns)[i] = round(values[i]);
    }
  } else {
    const double scale = kind == DataKind::kConstant ? 1 : kIntegerScale;
    for (size_t i = 0; i < count; ++i) {
      (*patterns)[i] = IntegerPattern(values[i] * scale, dtype);
    }
  }
}

/// The pattern of a kind that is defined by bits. `random` is the element's random word.
uint64_t AdversarialPattern(DataKind kind, uint64_t element, uint64_t random,
                            const FloatFormat* format) {
  if (kind == DataKind::kAllPatterns) {
    return element;
  }
  if (kind == DataKind::kRandomBits || format == nullptr) {
    return random;
  }
  const uint64_t highest = (uint64_t{1} << format->exponent_bits) - 1;
  const uint64_t exponent_mask = highest << format->mantissa_bits;
  if (kind == DataKind::kNanPayloads) {
    return random | exponent_mask | 1;
  }
  const uint64_t exponent = element % 2 == 0 ? 1 : highest - 1;
  return (random & ~exponent_mask) | exponent << format->mantissa_bits;
}

bool IsDefinedByBits(DataKind kind) {
  return kind == DataKind::kRandomBits || kind == DataKind::kAllPatterns ||
         kind == DataKind::kNanPayloads || kind == DataKind::kAlternatingExponents;
}

/// Gives 1 element in 256 a random exponent (integers: random bits).
void AddOutliers(uint64_t first_element, size_t count, uint64_t seed, cinch_dtype dtype,
                 Patterns* patterns) {
  const RandomWords words(seed, kSecondValues);
  const FloatFormat* format = FloatFormatOf(dtype);
  const uint64_t exponent_mask = format == nullptr ? ElementMask(dtype)
                                                   : ((uint64_t{1} << format->exponent_bits) - 1)
                                                         << format->mantissa_bits;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t random = words[first_element + i];
    if (random >> 56 == 0) {
      (*patterns)[i] = ((*patterns)[i] & ~exponent_mask) | (random & exponent_mask);
    }
  }
}

void StorePatterns(const Patterns& patterns, uint64_t element_bytes, std::span<std::byte> output) {
  const size_t whole_elements = output.size() / element_bytes;
  if (element_bytes == 2) {
    for (size_t i = 0; i < whole_elements; ++i) {
      const auto pattern = static_cast<uint16_t>(patterns[i]);
      std::memcpy(output.data() + 2 * i, &pattern, 2);
    }
  } else {
    for (size_t i = 0; i < whole_elements; ++i) {
      std::memcpy(output.data() + element_bytes * i, &patterns[i], element_bytes);
    }
  }
  const size_t tail_bytes = output.size() % element_bytes;
  if (tail_bytes > 0) {
    std::memcpy(output.data() + output.size() - tail_bytes, &patterns[whole_elements], tail_bytes);
  }
}

/// Fills `output` with elements of one kind and dtype, from `offset_bytes` on.
void FillUniform(const DataSpec& spec, cinch_dtype dtype, uint64_t seed, uint64_t offset_bytes,
                 std::span<std::byte> output) {
  const uint64_t element_bytes = ElementBytes(dtype);
  const FloatFormat* format = FloatFormatOf(dtype);
  const RandomWords words(seed, kValues);
  const ValueMaker maker(spec, seed);
  Values values;
  Patterns patterns;
  uint64_t element = offset_bytes / element_bytes;
  while (!output.empty()) {
    const size_t batch_bytes = std::min<size_t>(output.size(), kBatchElements * element_bytes);
    const size_t count = (batch_bytes + element_bytes - 1) / element_bytes;
    if (IsDefinedByBits(spec.kind)) {
      for (size_t i = 0; i < count; ++i) {
        patterns[i] = AdversarialPattern(spec.kind, element + i, words[element + i], format);
      }
    } else {
      maker.Fill(element, count, &values);
      RoundValues(values, count, dtype, spec.kind, &patterns);
      if (spec.kind == DataKind::kOutliers) {
        AddOutliers(element, count, seed, dtype, &patterns);
      }
    }
    StorePatterns(patterns, element_bytes, output.first(batch_bytes));
    output = output.subspan(batch_bytes);
    element += count;
  }
}

struct Stretch {
  DataSpec spec;
  cinch_dtype dtype;
};

/// What stretch number `index` of kMixed or kAdversarial holds.
Stretch StretchAt(DataKind kind, cinch_dtype dtype, uint64_t seed, uint64_t index) {
  constexpr std::array<Stretch, 9> kMixedStretches = {{
      {{DataKind::kGaussian, 0.02}, CINCH_DTYPE_BF16},
      {{DataKind::kGaussian, 0.02}, CINCH_DTYPE_FP16},
      {{DataKind::kGaussian, 0.02}, CINCH_DTYPE_FP32},
      {{DataKind::kGaussian, 0.02}, CINCH_DTYPE_FP64},
      {{DataKind::kGaussian, 1}, CINCH_DTYPE_FP8_E4M3FN},
      {{DataKind::kGaussian, 1}, CINCH_DTYPE_FP8_E5M2},
      {{DataKind::kGaussian, 1}, CINCH_DTYPE_INT32},
      {{DataKind::kConstant, 0}, CINCH_DTYPE_UINT8},
      {{DataKind::kRandomBits, 0}, CINCH_DTYPE_UINT8},
  }};
  constexpr std::array<DataSpec, 5> kAdversarialStretches = {{
      {DataKind::kRandomBits, 0},
      {DataKind::kAlternatingExponents, 0},
      {DataKind::kAllPatterns, 0},
      {DataKind::kNanPayloads, 0},
      {DataKind::kOutliers, 0.02},
  }};
  const uint64_t choice = RandomWords(seed, kStretches)[index];
  if (kind == DataKind::kMixed) {
    return kMixedStretches[choice % kMixedStretches.size()];
  }
  return {kAdversarialStretches[choice % kAdversarialStretches.size()], dtype};
}

void FillStretches(DataKind kind, cinch_dtype dtype, uint64_t seed, uint64_t offset_bytes,
                   std::span<std::byte> output) {
  while (!output.empty()) {
    const uint64_t index = offset_bytes / kStretchBytes;
    const uint64_t left_bytes = kStretchBytes - offset_bytes % kStretchBytes;
    const size_t part_bytes = std::min<size_t>(output.size(), left_bytes);
    const Stretch stretch = StretchAt(kind, dtype, seed, index);
    FillUniform(stretch.spec, stretch.dtype, seed, offset_bytes, output.first(part_bytes));
    output = output.subspan(part_bytes);
    offset_bytes += part_bytes;
  }
}

}  // namespace

Status GenerateData(const DataSpec& spec, cinch_dtype dtype, uint64_t seed, uint64_t offset_bytes,
                    std::span<std::byte> output) {
  if (offset_bytes % kOffsetAlignmentBytes != 0) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  const cinch_dtype element_dtype = dtype == CINCH_DTYPE_AUTO ? CINCH_DTYPE_BF16 : dtype;
  if (spec.kind == DataKind::kMixed || spec.kind == DataKind::kAdversarial) {
    FillStretches(spec.kind, element_dtype, seed, offset_bytes, output);
  } else {
    FillUniform(spec, element_dtype, seed, offset_bytes, output);
  }
  return CINCH_OK;
}

}  // namespace cinch::tensors
