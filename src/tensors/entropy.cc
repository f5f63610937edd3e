// SPDX-License-Identifier: Apache-2.0
#include "tensors/entropy.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensors/float_rounding.h"
#include "tensors/tensor_info.h"

namespace cinch::tensors {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

constexpr unsigned kMostFieldBits = 11;

/// The bits of an element that are coded by frequency.
struct Field {
  unsigned shift;
  unsigned bits;
};

Field FieldOf(cinch_dtype dtype) {
  if (const FloatFormat* format = FloatFormatOf(dtype); format != nullptr) {
    return {format->mantissa_bits, format->exponent_bits};
  }
  return {static_cast<unsigned>(8 * ElementBytes(dtype)) - 8, 8};
}

/// Two tables, so that a run of equal exponents does not wait for its own last addition.
struct Histogram {
  std::array<uint64_t, size_t{1} << kMostFieldBits> even{};
  std::array<uint64_t, size_t{1} << kMostFieldBits> odd{};
};

template <typename Word>
void Count(std::span<const std::byte> data, Field field, Histogram* histogram) {
  const uint64_t mask = (uint64_t{1} << field.bits) - 1;
  const size_t elements = data.size() / sizeof(Word);
  for (size_t i = 0; i < elements; ++i) {
    Word word;
    std::memcpy(&word, data.data() + i * sizeof(Word), sizeof(Word));
    const uint64_t exponent = (static_cast<uint64_t>(word) >> field.shift) & mask;
    ++(i % 2 == 0 ? histogram->even : histogram->odd)[exponent];
  }
}

double EntropyBits(const Histogram& histogram, uint64_t elements) {
  double bits = 0;
  for (size_t i = 0; i < histogram.even.size(); ++i) {
    const uint64_t count = histogram.even[i] + histogram.odd[i];
    if (count > 0) {
      const double probability = static_cast<double>(count) / static_cast<double>(elements);
      bits -= probability * std::log2(probability);
    }
  }
  return bits > 0 ? bits : 0;  // A single exponent gives -0.
}

}  // namespace

EntropyBound ComputeEntropyBound(cinch_dtype dtype, std::span<const std::byte> data) {
  const uint64_t element_bytes = ElementBytes(dtype);
  const Field field = FieldOf(dtype);
  EntropyBound bound;
  bound.elements = data.size() / element_bytes;
  if (data.empty()) {
    return bound;
  }
  Histogram histogram;
  switch (element_bytes) {
    case 1:
      Count<uint8_t>(data, field, &histogram);
      break;
    case 2:
      Count<uint16_t>(data, field, &histogram);
      break;
    case 4:
      Count<uint32_t>(data, field, &histogram);
      break;
    default:
      Count<uint64_t>(data, field, &histogram);
      break;
  }
  bound.exponent_entropy_bits = bound.elements == 0 ? 0 : EntropyBits(histogram, bound.elements);
  const auto other_bits = static_cast<double>(8 * element_bytes - field.bits);
  bound.bits_per_element = bound.exponent_entropy_bits + other_bits;
  const auto tail_bytes = static_cast<double>(data.size() % element_bytes);
  bound.bound_fraction =
      (static_cast<double>(bound.elements) * bound.bits_per_element / 8 + tail_bytes) /
      static_cast<double>(data.size());
  return bound;
}

}  // namespace cinch::tensors
