// SPDX-License-Identifier: Apache-2.0
/// @file nccl_double_reduce.h
/// All reductions of all dtypes, as the double does them: in the order of the ranks, floats of up
/// to 32 bits in fp32 with one rounding, integers modulo their size. fp8 is added up as the bytes
/// that it is: nothing compares it with anything but itself.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "collectives/float_math.h"
#include "collectives/nccl_api.h"

namespace cinch::testing {

/// A reduction operator: a built-in one, or a sum of what was multiplied by `scalar`.
struct Operator {
  int reduction = collectives::kNcclSum;
  double scalar = 1;
};

using Sources = std::vector<const void*>;

template <typename T>
T Apply(int reduction, T a, T b) {
  switch (reduction) {
    case collectives::kNcclProduct:
      return static_cast<T>(a * b);
    case collectives::kNcclMaximum:
      return std::max(a, b);
    case collectives::kNcclMinimum:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

/// `T` is what the elements are, `Wrapping` the type in which they are added up.
template <typename T, typename Wrapping>
void ReduceIntegers(const Sources& sources, void* output, uint64_t elements, const Operator& op) {
  const auto scalar = static_cast<Wrapping>(static_cast<int64_t>(static_cast<T>(op.scalar)));
  const bool compares =
      op.reduction == collectives::kNcclMaximum || op.reduction == collectives::kNcclMinimum;
  for (uint64_t i = 0; i < elements; ++i) {
    T result{};
    for (size_t s = 0; s < sources.size(); ++s) {
      T value{};
      std::memcpy(&value, static_cast<const uint8_t*>(sources[s]) + i * sizeof(T), sizeof(T));
      value = static_cast<T>(static_cast<Wrapping>(value) * scalar);
      if (s == 0) {
        result = value;
      } else if (compares) {
        result = Apply(op.reduction, result, value);
      } else {
        result = static_cast<T>(
            Apply(op.reduction, static_cast<Wrapping>(result), static_cast<Wrapping>(value)));
      }
    }
    if (op.reduction == collectives::kNcclAverage) {
      result = static_cast<T>(result / static_cast<T>(sources.size()));
    }
    std::memcpy(static_cast<uint8_t*>(output) + i * sizeof(T), &result, sizeof(T));
  }
}

inline void ReduceDoubles(const Sources& sources, void* output, uint64_t elements,
                          const Operator& op) {
  for (uint64_t i = 0; i < elements; ++i) {
    double result = 0;
    for (size_t s = 0; s < sources.size(); ++s) {
      double value = 0;
      std::memcpy(&value, static_cast<const uint8_t*>(sources[s]) + i * 8, 8);
      value *= op.scalar;
      result = s == 0 ? value : Apply(op.reduction, result, value);
    }
    if (op.reduction == collectives::kNcclAverage) result /= static_cast<double>(sources.size());
    std::memcpy(static_cast<uint8_t*>(output) + i * 8, &result, 8);
  }
}

inline void ReduceFloats(const Sources& sources, void* output, uint64_t elements, int dtype,
                         const Operator& op) {
  const auto count = static_cast<float>(sources.size());
  const bool sums =
      op.reduction == collectives::kNcclSum || op.reduction == collectives::kNcclAverage;
  if (sums && op.scalar == 1) {
    const float scale = op.reduction == collectives::kNcclAverage ? 1.0F / count : 1.0F;
    return ReduceInOrder(sources.data(), sources.size(), output, elements, dtype, scale);
  }
  const auto scalar = static_cast<float>(op.scalar);
  for (uint64_t i = 0; i < elements; ++i) {
    float result = Load(sources[0], i, dtype) * scalar;
    for (size_t s = 1; s < sources.size(); ++s) {
      result = Apply(op.reduction, result, Load(sources[s], i, dtype) * scalar);
    }
    Store(output, i, dtype, result);
  }
}

inline void ReduceAny(const Sources& sources, void* output, uint64_t elements, int dtype,
                      const Operator& op) {
  switch (dtype) {
    case collectives::kNcclInt8:
      return ReduceIntegers<int8_t, uint32_t>(sources, output, elements, op);
    case collectives::kNcclInt32:
      return ReduceIntegers<int32_t, uint32_t>(sources, output, elements, op);
    case collectives::kNcclUint32:
      return ReduceIntegers<uint32_t, uint32_t>(sources, output, elements, op);
    case collectives::kNcclInt64:
      return ReduceIntegers<int64_t, uint64_t>(sources, output, elements, op);
    case collectives::kNcclUint64:
      return ReduceIntegers<uint64_t, uint64_t>(sources, output, elements, op);
    case collectives::kNcclFloat64:
      return ReduceDoubles(sources, output, elements, op);
    case collectives::kNcclFloat16:
    case collectives::kNcclBfloat16:
    case collectives::kNcclFloat32:
      return ReduceFloats(sources, output, elements, dtype, op);
    default:
      return ReduceIntegers<uint8_t, uint32_t>(sources, output, elements, op);
  }
}

}  // namespace cinch::testing
