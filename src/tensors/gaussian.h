// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cinch::tensors {

/// A bijection of 64-bit words whose outputs for consecutive inputs pass for independent (the
/// finalizer of SplitMix64).
constexpr uint64_t MixBits(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

/// Random words by position: word i depends on the seed and i alone, so any part of a stream can be
/// made without the rest.
class RandomWords {
 public:
  /// Streams of one seed with different `stream` numbers are independent.
  constexpr RandomWords(uint64_t seed, uint64_t stream)
      : key_(MixBits(MixBits(seed + kStep) ^ (stream * kStep))) {}
  constexpr uint64_t operator[](uint64_t index) const { return MixBits(key_ + index * kStep); }

 private:
  /// 2^64 divided by the golden ratio; odd, so all positions differ.
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t key_;
};

/// The standard normal distribution as a function of one random word, by interpolating its
/// quantiles. Built from additions, multiplications, divisions and square roots only, which IEEE
/// 754 rounds the same way everywhere; library logarithms differ between systems.
class GaussianTable {
 public:
  /// Built on first use; thread-safe.
  static const GaussianTable& Get();

  /// A word's lowest bit is the sign, the other 63 are the tail probability. At most 9.2 in
  /// magnitude.
  double operator()(uint64_t word) const {
    // Halving intervals of probability, each cut into equal parts: fine where the tail is long.
    const uint64_t tail = (word >> 1) | 1;
    const auto interval = static_cast<size_t>(std::countl_zero(tail));
    const uint64_t normalized = tail << interval;
    const size_t part = (normalized >> (63 - kPartBits)) & (kParts - 1);
    const double fraction =
        static_cast<double>((normalized >> (10 - kPartBits)) & kFractionMask) * kFractionUnit;
    const double* knots = &knots_[interval][part];
    const double magnitude = knots[0] + (knots[1] - knots[0]) * fraction;
    return (word & 1) != 0 ? -magnitude : magnitude;
  }

 private:
  static constexpr unsigned kPartBits = 6;
  static constexpr size_t kParts = size_t{1} << kPartBits;
  static constexpr uint64_t kFractionMask = (uint64_t{1} << 53) - 1;
  static constexpr double kFractionUnit = 1.0 / static_cast<double>(uint64_t{1} << 53);

  GaussianTable();

  /// knots_[i][j] is the value that a standard normal exceeds with probability
  /// 2^-(i+1) * (1 + j / kParts).
  std::array<std::array<double, kParts + 1>, 64> knots_;
};

/// 2^exponent for |exponent| < 1000, the same on every machine; relative error below 1e-14.
double PortableExp2(double exponent);

}  // namespace cinch::tensors
