// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cinch/codec.h"
#include "outcome.h"

namespace cinch::cli {

/// Memory whose pages are all there, so that no page fault falls into a measurement.
class TouchedBuffer {
 public:
  TouchedBuffer() = default;
  explicit TouchedBuffer(uint64_t size_bytes);

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  struct Deleter {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Deleter> bytes_;
  uint64_t size_bytes_ = 0;
};

/// What is measured with.
struct BenchData {
  /// As in the result's line: a generator with its parameter, or file:PATH:TENSOR.
  std::string label;
  /// What the codec is told.
  cinch_dtype dtype = CINCH_DTYPE_BF16;
  /// What the data are; the same unless the codec is told auto.
  cinch_dtype true_dtype = CINCH_DTYPE_BF16;
  TouchedBuffer buffer;
};

/// How --data, --dtype, --size and --seed choose it.
struct BenchDataOptions {
  /// NAME[:PARAMETER] of a generator, or file:PATH[:TENSOR].
  std::string data = "gaussian:0.02";
  std::string dtype = "bf16";
  uint64_t seed = 1;
};

/// Makes `size_bytes` of data, in parallel over the cores; from a file, the tensor (the largest one
/// when none is named) is repeated or cut, and a size of 0 takes it as it is.
Outcome MakeBenchData(const BenchDataOptions& options, uint64_t size_bytes, BenchData* data);

/// The generators, one a line, for help texts.
std::string DescribeGenerators();

}  // namespace cinch::cli
