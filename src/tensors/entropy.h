// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cinch/codec.h"

namespace cinch::tensors {

/// What a coder could reach at best that codes each element's exponent by its frequency in the
/// tensor, spends nothing on describing these frequencies, and keeps all other bits as they are.
struct EntropyBound {
  /// Whole elements counted.
  uint64_t elements = 0;
  /// Shannon entropy of the exponent field, in bits an element.
  double exponent_entropy_bits = 0;
  /// exponent_entropy_bits and the other bits of an element.
  double bits_per_element = 0;
  /// Bits at the bound divided by bits as they are, a tail of less than an element counting in
  /// full; 1 when there are no bytes.
  double bound_fraction = 1;
};

/// Counts a tensor's exponents part by part, so that a tensor need not be in memory at once. The
/// exponent field is 8 bits of bf16 and fp32, 5 of fp16 and fp8 e5m2,
/// 4 of fp8 e4m3, 11 of fp64, and the highest byte of everything else (bytes and auto: each byte).
/// One call at a time.
class EntropyCounter {
 public:
  explicit EntropyCounter(cinch_dtype dtype);
  ~EntropyCounter();
  EntropyCounter(const EntropyCounter&) = delete;
  EntropyCounter& operator=(const EntropyCounter&) = delete;

  /// Every part but the last must be whole elements: a tail ends the tensor.
  void Add(std::span<const std::byte> data);
  /// The bound of everything added.
  EntropyBound Bound() const;

 private:
  struct Histogram;
  cinch_dtype dtype_;
  uint64_t size_bytes_ = 0;
  std::unique_ptr<Histogram> histogram_;
};

/// The bound of one tensor. Thread-safe; reads each byte once.
EntropyBound ComputeEntropyBound(cinch_dtype dtype, std::span<const std::byte> data);

}  // namespace cinch::tensors
