// SPDX-License-Identifier: Apache-2.0
#include "tensors/generators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "tensors/float_rounding.h"
#include "tensors/gaussian.h"
#include "tensors/tensor_info.h"

namespace cinch::tensors {
namespace {

using ::testing::HasSubstr;

constexpr cinch_dtype kFloatDtypes[] = {CINCH_DTYPE_BF16,       CINCH_DTYPE_FP16,
                                        CINCH_DTYPE_FP32,       CINCH_DTYPE_FP64,
                                        CINCH_DTYPE_FP8_E4M3FN, CINCH_DTYPE_FP8_E4M3FNUZ,
                                        CINCH_DTYPE_FP8_E5M2,   CINCH_DTYPE_FP8_E5M2FNUZ};

constexpr cinch_dtype kIntegerDtypes[] = {CINCH_DTYPE_INT8,   CINCH_DTYPE_UINT8, CINCH_DTYPE_INT16,
                                          CINCH_DTYPE_UINT16, CINCH_DTYPE_INT32, CINCH_DTYPE_UINT32,
                                          CINCH_DTYPE_INT64,  CINCH_DTYPE_UINT64};

std::vector<std::byte> Generate(const DataSpec& spec, cinch_dtype dtype, size_t bytes,
                                uint64_t seed = 1) {
  std::vector<std::byte> data(bytes, std::byte{0xcc});
  EXPECT_EQ(GenerateData(spec, dtype, seed, 0, data), CINCH_OK);
  return data;
}

DataSpec Spec(std::string_view text) {
  DataSpec spec;
  std::string message;
  EXPECT_EQ(ParseDataSpec(text, &spec, &message), CINCH_OK) << message;
  return spec;
}

uint64_t PatternAt(const std::vector<std::byte>& data, size_t index, cinch_dtype dtype) {
  uint64_t pattern = 0;
  std::memcpy(&pattern, data.data() + index * ElementBytes(dtype), ElementBytes(dtype));
  return pattern;
}

std::vector<double> Values(const DataSpec& spec, cinch_dtype dtype, size_t count) {
  const std::vector<std::byte> data = Generate(spec, dtype, count * ElementBytes(dtype));
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = ValueOfFormat(PatternAt(data, i, dtype), *FloatFormatOf(dtype));
  }
  return values;
}

uint64_t Fnv(const std::vector<std::byte>& data) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : data) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

// ---- Rounding ----

bool IsNan(uint64_t pattern, const FloatFormat& format) {
  return std::isnan(ValueOfFormat(pattern, format));
}

TEST(FloatRounding, EverySmallPatternSurvivesTheRoundTrip) {
  for (const cinch_dtype dtype : kFloatDtypes) {
    const FloatFormat& format = *FloatFormatOf(dtype);
    if (format.total_bits() > 16) {
      continue;
    }
    int nans = 0;
    for (uint64_t pattern = 0; pattern < uint64_t{1} << format.total_bits(); ++pattern) {
      const double value = ValueOfFormat(pattern, format);
      if (std::isnan(value)) {
        ++nans;
        EXPECT_TRUE(IsNan(RoundToFormat(value, format), format));
      } else {
        ASSERT_EQ(RoundToFormat(value, format), pattern) << "dtype " << dtype;
      }
    }
    const int ieee_nans = 2 * ((1 << format.mantissa_bits) - 1);
    const int expected = format.specials == FloatFormat::Specials::kIeee ? ieee_nans
                         : format.specials == FloatFormat::Specials::kFn ? 2
                                                                         : 1;
    EXPECT_EQ(nans, expected) << "dtype " << dtype;
  }
}

TEST(FloatRounding, TiesGoToEvenAndAllElseToTheNearest) {
  for (const cinch_dtype dtype : kFloatDtypes) {
    const FloatFormat& format = *FloatFormatOf(dtype);
    if (format.total_bits() > 16) {
      continue;
    }
    const uint64_t sign = uint64_t{1} << (format.total_bits() - 1);
    for (uint64_t lower = 0; lower + 1 < sign; ++lower) {
      const double low = ValueOfFormat(lower, format);
      const double high = ValueOfFormat(lower + 1, format);
      if (!std::isfinite(low) || !std::isfinite(high)) {
        continue;
      }
      const double middle = (low + high) / 2;
      const uint64_t even = lower % 2 == 0 ? lower : lower + 1;
      ASSERT_EQ(RoundToFormat(middle, format), even) << dtype << " " << lower;
      ASSERT_EQ(RoundToFormat(std::nextafter(middle, low), format), lower);
      ASSERT_EQ(RoundToFormat(std::nextafter(middle, high), format), lower + 1);
      if (lower > 0) {
        ASSERT_EQ(RoundToFormat(-middle, format), even | sign);
      }
    }
  }
}

TEST(FloatRounding, Fp32IsTheProcessorsOwn) {
  const FloatFormat& format = *FloatFormatOf(CINCH_DTYPE_FP32);
  const RandomWords words(3, 0);
  for (uint64_t i = 0; i < 300'000; ++i) {
    // Exponents around and beyond fp32's whole range, subnormals and overflow included.
    const double value = std::ldexp(1 + static_cast<double>(words[2 * i] >> 11) * 0x1p-53,
                                    static_cast<int>(words[2 * i + 1] % 310) - 165);
    ASSERT_EQ(RoundToFormat(value, format), std::bit_cast<uint32_t>(static_cast<float>(value)));
  }
}

TEST(FloatRounding, TooLargeValuesAndSpecials) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto round = [](double value, cinch_dtype dtype) {
    return RoundToFormat(value, *FloatFormatOf(dtype));
  };
  EXPECT_EQ(round(1e30, CINCH_DTYPE_FP8_E4M3FN), 0x7eu) << "448, the largest number";
  EXPECT_EQ(round(-infinity, CINCH_DTYPE_FP8_E4M3FN), 0xfeu);
  EXPECT_EQ(round(464, CINCH_DTYPE_FP8_E4M3FN), 0x7eu) << "halfway to the NaN's pattern";
  EXPECT_EQ(round(std::nan(""), CINCH_DTYPE_FP8_E4M3FN), 0x7fu);
  EXPECT_EQ(round(1e30, CINCH_DTYPE_FP8_E4M3FNUZ), 0x7fu) << "240";
  EXPECT_EQ(round(-0.0, CINCH_DTYPE_FP8_E4M3FNUZ), 0u) << "there is no negative zero";
  EXPECT_EQ(round(-1e-30, CINCH_DTYPE_FP8_E5M2FNUZ), 0u);
  EXPECT_EQ(round(std::nan(""), CINCH_DTYPE_FP8_E5M2FNUZ), 0x80u);
  EXPECT_EQ(round(1e30, CINCH_DTYPE_FP8_E5M2), 0x7cu) << "infinity";
  EXPECT_EQ(round(61440, CINCH_DTYPE_FP8_E5M2), 0x7cu) << "halfway beyond 57344";
  EXPECT_EQ(round(61439, CINCH_DTYPE_FP8_E5M2), 0x7bu);
  EXPECT_EQ(round(65520, CINCH_DTYPE_FP16), 0x7c00u);
  EXPECT_EQ(round(65519, CINCH_DTYPE_FP16), 0x7bffu);
  EXPECT_EQ(round(-0.0, CINCH_DTYPE_BF16), 0x8000u);
  EXPECT_EQ(round(3.4e38, CINCH_DTYPE_BF16), 0x7f80u);
  EXPECT_EQ(round(infinity, CINCH_DTYPE_FP64), std::bit_cast<uint64_t>(infinity));
  EXPECT_EQ(round(5e-324, CINCH_DTYPE_FP64), 1u);
  EXPECT_EQ(round(5e-324, CINCH_DTYPE_FP32), 0u);
}

// ---- Names ----

TEST(DataSpec, EveryKindIsParsedAndPrinted) {
  std::set<std::string> names;
  for (const DataKindInfo& info : DataKinds()) {
    const DataSpec spec = Spec(info.name);
    EXPECT_EQ(spec.kind, info.kind);
    EXPECT_EQ(spec.parameter, info.default_parameter);
    const DataSpec again = Spec(FormatDataSpec(spec));
    EXPECT_EQ(again.kind, spec.kind);
    EXPECT_EQ(again.parameter, spec.parameter);
    EXPECT_TRUE(names.insert(std::string(info.name)).second);
  }
  EXPECT_EQ(Spec("gaussian:1e-4").parameter, 1e-4);
  EXPECT_EQ(Spec("constant:-3").parameter, -3);
  EXPECT_EQ(FormatDataSpec(Spec("gaussian:0.1")), "gaussian:0.1");
}

TEST(DataSpec, RefusesWhatMakesNoSense) {
  for (const char* text :
       {"", "gauss", "gaussian:", "gaussian:x", "gaussian:0.1x", "gaussian:-1", "gaussian:nan",
        "gaussian:inf", "gaussian: 1", "sparse_relu:1.5", "sparse_relu:nan", "constant:inf",
        "random_bits:1", "GAUSSIAN", "gaussian:1:2"}) {
    DataSpec spec = {DataKind::kMixed, 5};
    std::string message;
    EXPECT_EQ(ParseDataSpec(text, &spec, &message), CINCH_ERROR_INVALID_ARGUMENT) << text;
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(spec.kind, DataKind::kMixed);
  }
  DataSpec spec;
  std::string message;
  EXPECT_EQ(ParseDataSpec("gauss", &spec, &message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("gaussian, heavy_tailed"));
}

// ---- Streams ----

TEST(Generators, PartsEqualTheWhole) {
  for (const DataKindInfo& info : DataKinds()) {
    const DataSpec spec = {info.kind, info.default_parameter};
    for (const cinch_dtype dtype : {CINCH_DTYPE_BF16, CINCH_DTYPE_FP64, CINCH_DTYPE_FP8_E5M2}) {
      const std::vector<std::byte> whole = Generate(spec, dtype, 100'000);
      for (const uint64_t offset : {8u, 4096u, 40'960u, 81'912u}) {
        std::vector<std::byte> part(whole.size() - offset);
        ASSERT_EQ(GenerateData(spec, dtype, 1, offset, part), CINCH_OK);
        ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(offset)))
            << info.name << " from " << offset;
      }
      // A cut element is the beginning of the whole one.
      const std::vector<std::byte> odd = Generate(spec, dtype, 4099);
      ASSERT_TRUE(std::equal(odd.begin(), odd.end(), whole.begin())) << info.name;
    }
  }
}

TEST(Generators, SeedsDifferAndOffsetsMustBeAligned) {
  EXPECT_NE(Generate(Spec("gaussian"), CINCH_DTYPE_BF16, 64, 1),
            Generate(Spec("gaussian"), CINCH_DTYPE_BF16, 64, 2));
  std::vector<std::byte> data(8);
  EXPECT_EQ(GenerateData(Spec("gaussian"), CINCH_DTYPE_BF16, 1, 4, data),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(GenerateData(Spec("gaussian"), CINCH_DTYPE_BF16, 1, 0, {}), CINCH_OK);
}

TEST(Generators, AutoIsBf16AndBytesAreUint8) {
  EXPECT_EQ(Generate(Spec("gaussian"), CINCH_DTYPE_AUTO, 4096),
            Generate(Spec("gaussian"), CINCH_DTYPE_BF16, 4096));
  EXPECT_EQ(Generate(Spec("gaussian"), CINCH_DTYPE_BYTES, 4096),
            Generate(Spec("gaussian"), CINCH_DTYPE_UINT8, 4096));
}

struct Pinned {
  const char* spec;
  cinch_dtype dtype;
  uint64_t hash;
};

/// Results that mention a specification stay comparable only while its bytes stay the same, on
/// every compiler and processor.
const Pinned kPinned[] = {
    {"gaussian:0.02", CINCH_DTYPE_BF16, 0x1b1b4529e4dfcc28},
    {"gaussian:0.02", CINCH_DTYPE_FP16, 0x7c5bedeb202fec73},
    {"gaussian:0.02", CINCH_DTYPE_FP32, 0x49e20f29d6d96628},
    {"gaussian:0.02", CINCH_DTYPE_FP64, 0x803660dc0c44e31d},
    {"gaussian:1", CINCH_DTYPE_FP8_E4M3FN, 0x60f9e74c192c7d16},
    {"gaussian:1", CINCH_DTYPE_FP8_E5M2, 0xa7bb495520b3f716},
    {"gaussian:1", CINCH_DTYPE_INT32, 0x3dc958a9ca250be5},
    {"heavy_tailed:0.02", CINCH_DTYPE_FP64, 0xd723bea23fe4bfba},
    {"sparse_relu:0.5", CINCH_DTYPE_FP64, 0x9672703e86e100d2},
    {"constant:1", CINCH_DTYPE_BF16, 0xc35ede894687fa65},
    {"kv_like:1", CINCH_DTYPE_FP64, 0xb4a11e4dacb212f7},
    {"mixed", CINCH_DTYPE_BYTES, 0xed249e498d1b57cb},
    {"outliers:0.02", CINCH_DTYPE_BF16, 0x6f47c6e18fad348a},
    {"adversarial", CINCH_DTYPE_BF16, 0x23025a5d1870e825},
};

TEST(Generators, BytesNeverChange) {
  for (const Pinned& pinned : kPinned) {
    const uint64_t hash = Fnv(Generate(Spec(pinned.spec), pinned.dtype, 500'000, 42));
    EXPECT_EQ(hash, pinned.hash) << pinned.spec << " dtype " << pinned.dtype << std::hex << " 0x"
                                 << hash;
  }
}

// ---- Distributions ----

TEST(Generators, GaussianHasTheRightMomentsAndTails) {
  const double sigma = 0.02;
  const std::vector<double> values = Values(Spec("gaussian:0.02"), CINCH_DTYPE_FP64, 1'000'000);
  double sum = 0;
  double squares = 0;
  std::array<int, 6> beyond{};
  for (const double value : values) {
    sum += value;
    squares += value * value;
    for (size_t i = 1; i < beyond.size(); ++i) {
      beyond[i] += std::fabs(value) > static_cast<double>(i) * sigma;
    }
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 5 * sigma / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), sigma, sigma * 0.004);
  EXPECT_NEAR(beyond[1] / count, 0.317311, 0.0025);
  EXPECT_NEAR(beyond[2] / count, 0.0455003, 0.0011);
  EXPECT_NEAR(beyond[3] / count, 0.0026998, 0.0003);
  EXPECT_NEAR(beyond[4] / count, 0.0000633, 0.00004);
}

TEST(Generators, GaussianTableFollowsTheQuantiles) {
  const GaussianTable& gaussian = GaussianTable::Get();
  // Words are twice the tail probability's 64-bit fraction; expected values from tables.
  EXPECT_NEAR(gaussian(uint64_t{1} << 62 << 1), 0.6744897501960817, 1e-9) << "1/4";
  EXPECT_NEAR(gaussian(uint64_t{1} << 62), 1.1503493803760079, 1e-9) << "1/8";
  EXPECT_NEAR(gaussian(uint64_t{1} << 50), 4.008772594168584, 1e-9) << "2^-15";
  EXPECT_NEAR(gaussian(uint64_t{1} << 20), 7.51515504463283, 1e-6) << "2^-45";
  EXPECT_NEAR(gaussian(0), 9.080155124873613, 1e-9) << "2^-64";
  EXPECT_NEAR(gaussian(~uint64_t{1}), 0, 1e-9) << "1/2";
  EXPECT_EQ(gaussian(12345 << 1 | 1), -gaussian(12345 << 1));
  EXPECT_NEAR(PortableExp2(0.5), std::sqrt(2.0), 1e-14);
  EXPECT_EQ(PortableExp2(-3), 0.125);
}

TEST(Generators, SparseReluHasThatShareOfZerosAndNothingNegative) {
  const std::vector<double> values = Values(Spec("sparse_relu:0.7"), CINCH_DTYPE_FP32, 200'000);
  const auto zeros = std::count(values.begin(), values.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(zeros) / 200'000, 0.7, 0.006);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
  const std::vector<double> all = Values(Spec("sparse_relu:1"), CINCH_DTYPE_BF16, 1000);
  EXPECT_EQ(std::count(all.begin(), all.end(), 0.0), 1000);
}

TEST(Generators, HeavyTailsAreHeavier) {
  const std::vector<double> values = Values(Spec("heavy_tailed:1"), CINCH_DTYPE_FP64, 400'000);
  double squares = 0;
  double fourth_powers = 0;
  for (const double value : values) {
    squares += value * value;
    fourth_powers += value * value * value * value;
  }
  const double kurtosis = fourth_powers * 400'000 / (squares * squares);
  EXPECT_NEAR(kurtosis, 9, 1.2) << "3 for a normal, 9 for the product of two";
}

TEST(Generators, KvChannelsHaveTheirOwnScales) {
  constexpr size_t kRows = 2000;
  const std::vector<double> values = Values(Spec("kv_like:1"), CINCH_DTYPE_FP32, kRows * 128);
  std::vector<double> deviations;
  for (size_t channel = 0; channel < 128; ++channel) {
    double sum = 0;
    double squares = 0;
    for (size_t row = 0; row < kRows; ++row) {
      const double value = values[row * 128 + channel];
      sum += value;
      squares += value * value;
    }
    const double mean = sum / kRows;
    deviations.push_back(std::sqrt(squares / kRows - mean * mean));
  }
  std::sort(deviations.begin(), deviations.end());
  EXPECT_GT(deviations[96], 1.7 * deviations[32]) << "quartiles";
  EXPECT_GT(deviations[127], 8 * deviations[64]) << "outlier channels";
}

TEST(Generators, ConstantIsConstantInEveryDtype) {
  for (const cinch_dtype dtype : kFloatDtypes) {
    for (const double value : Values(Spec("constant:-1.5"), dtype, 3000)) {
      ASSERT_EQ(value, -1.5);
    }
  }
  for (const cinch_dtype dtype : kIntegerDtypes) {
    const std::vector<std::byte> data = Generate(Spec("constant:100"), dtype, 4096);
    EXPECT_EQ(PatternAt(data, 7, dtype), 100u);
  }
}

TEST(Generators, AdversarialKindsDoWhatTheySay) {
  for (const cinch_dtype dtype : kFloatDtypes) {
    const FloatFormat& format = *FloatFormatOf(dtype);
    const uint64_t highest = (uint64_t{1} << format.exponent_bits) - 1;
    constexpr size_t kCount = 70'000;
    const size_t bytes = kCount * ElementBytes(dtype);
    const auto alternating = Generate(Spec("alternating_exponents"), dtype, bytes);
    const auto nans = Generate(Spec("nan_payloads"), dtype, bytes);
    const auto patterns = Generate(Spec("all_patterns"), dtype, bytes);
    std::set<uint64_t> payloads;
    for (size_t i = 0; i < kCount; ++i) {
      const uint64_t exponent = PatternAt(alternating, i, dtype) >> format.mantissa_bits & highest;
      ASSERT_EQ(exponent, i % 2 == 0 ? 1 : highest - 1);
      const uint64_t nan = PatternAt(nans, i, dtype);
      ASSERT_EQ(nan >> format.mantissa_bits & highest, highest);
      ASSERT_NE(nan & ((uint64_t{1} << format.mantissa_bits) - 1), 0u);
      payloads.insert(nan);
      const uint64_t mask =
          format.total_bits() == 64 ? ~uint64_t{0} : (uint64_t{1} << format.total_bits()) - 1;
      ASSERT_EQ(PatternAt(patterns, i, dtype), i & mask);
    }
    EXPECT_GE(payloads.size(),
              size_t{1} << (format.mantissa_bits > 10 ? 10 : format.mantissa_bits));
  }
}

TEST(Generators, OutliersAreFewAndFar) {
  const std::vector<double> values = Values(Spec("outliers:0.02"), CINCH_DTYPE_FP32, 256'000);
  const auto far = std::count_if(values.begin(), values.end(),
                                 [](double value) { return !(std::fabs(value) < 1); });
  EXPECT_GT(far, 350) << "about half of 1000 random exponents lie above 1";
  EXPECT_LT(far, 650);
}

TEST(Generators, AdversarialAndMixedHoldSeveralKinds) {
  // Stretches of 40 KiB: a constant one and a random one must be among the first hundred.
  const std::vector<std::byte> mixed = Generate(Spec("mixed"), CINCH_DTYPE_BYTES, 100 * 40'960);
  int constant = 0;
  for (size_t stretch = 0; stretch < 100; ++stretch) {
    const auto begin = mixed.begin() + static_cast<long>(stretch * 40'960);
    constant += std::all_of(begin, begin + 40'960, [](std::byte b) { return b == std::byte{0}; });
  }
  EXPECT_GT(constant, 2);
  EXPECT_LT(constant, 30);
  EXPECT_EQ(mixed, Generate(Spec("mixed"), CINCH_DTYPE_FP32, 100 * 40'960))
      << "mixed chooses its own dtypes";
  EXPECT_NE(Generate(Spec("adversarial"), CINCH_DTYPE_BF16, 1 << 20),
            Generate(Spec("random_bits"), CINCH_DTYPE_BF16, 1 << 20));
}

TEST(Generators, IntegersSaturate) {
  for (const cinch_dtype dtype : kIntegerDtypes) {
    const bool is_unsigned = dtype % 2 != 0;
    const uint64_t bits = 8 * ElementBytes(dtype);
    const uint64_t highest =
        (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) >> (is_unsigned ? 0 : 1);
    const std::vector<std::byte> high = Generate(Spec("constant:1e30"), dtype, 64);
    EXPECT_EQ(PatternAt(high, 3, dtype), highest) << "dtype " << dtype;
  }
  EXPECT_EQ(PatternAt(Generate(Spec("constant:-5"), CINCH_DTYPE_INT8, 64), 0, CINCH_DTYPE_INT8),
            0xfbu);
  EXPECT_EQ(PatternAt(Generate(Spec("constant:2.5"), CINCH_DTYPE_INT16, 64), 0, CINCH_DTYPE_INT16),
            2u);
}

}  // namespace
}  // namespace cinch::tensors
