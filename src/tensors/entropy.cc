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

using Counts = std::array<uint64_t, size_t{1} << kMostFieldBits>;

template <typename Word>
void Count(std::span<const std::byte> data, Field field, Counts* even, Counts* odd) {
  const uint64_t mask = (uint64_t{1} << field.bits) - 1;
  const size_t elements = data.size() / sizeof(Word);
  for (size_t i = 0; i < elements; ++i) {
    Word word;
    std::memcpy(&word, data.data() + i * sizeof(Word), sizeof(Word));
    const uint64_t exponent = (static_cast<uint64_t>(word) >> field.shift) & mask;
    ++(i % 2 == 0 ? *even : *odd)[exponent];
  }
}

double EntropyBits(const Counts& even, const Counts& odd, uint64_t elements) {
  double bits = 0;
  for (size_t i = 0; i < even.size(); ++i) {
    const uint64_t count = even[i] + odd[i];
    if (count > 0) {
      const double probability = static_cast<double>(count) / static_cast<double>(elements);
      bits -= probability * std::log2(probability);
    }
  }
  return bits > 0 ? bits : 0;  // A single exponent gives -0.
}

}  // namespace

/// Two tables, so that a run of equal exponents does not wait for its own last addition.
struct EntropyCounter::Histogram {
  Counts even{};
  Counts odd{};
};

EntropyCounter::EntropyCounter(cinch_dtype dtype)
    : dtype_(dtype), histogram_(std::make_unique<Histogram>()) {}

EntropyCounter::~EntropyCounter() = default;

void EntropyCounter::Add(std::span<const std::byte> data) {
  const Field field = FieldOf(dtype_);
  size_bytes_ += data.size();
  switch (ElementBytes(dtype_)) {
    case 1:
      return Count<uint8_t>(data, field, &histogram_->even, &histogram_->odd);
    case 2:
      return Count<uint16_t>(data, field, &histogram_->even, &histogram_->odd);
    case 4:
      return Count<uint32_t>(data, field, &histogram_->even, &histogram_->odd);
    default:
      return Count<uint64_t>(data, field, &histogram_->even, &histogram_->odd);
  }
}

EntropyBound EntropyCounter::Bound() const {
  EntropyBound bound;
  if (size_bytes_ == 0) {
    return bound;
  }
  const uint64_t element_bytes = ElementBytes(dtype_);
  bound.elements = size_bytes_ / element_bytes;
  if (bound.elements > 0) {
    bound.exponent_entropy_bits = EntropyBits(histogram_->even, histogram_->odd, bound.elements);
  }
  const auto other_bits = static_cast<double>(8 * element_bytes - FieldOf(dtype_).bits);
  bound.bits_per_element = bound.exponent_entropy_bits + other_bits;
  const auto tail_bytes = static_cast<double>(size_bytes_ % element_bytes);
  bound.bound_fraction =
      (static_cast<double>(bound.elements) * bound.bits_per_element / 8 + tail_bytes) /
      static_cast<double>(size_bytes_);
  return bound;
}

EntropyBound ComputeEntropyBound(cinch_dtype dtype, std::span<const std::byte> data) {
  EntropyCounter counter(dtype);
  counter.Add(data);
  return counter.Bound();
}

}  // namespace cinch::tensors
