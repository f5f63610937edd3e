// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cinch/codec.h"
#include "cinch/status.h"

/// Seeded test data. The same specification, dtype and seed give the same bytes on every machine,
/// compiler and thread count, so that a benchmark or a failing test can be repeated from its name.
namespace cinch::tensors {

enum class DataKind {
  kGaussian,     ///< Normal with standard deviation `parameter`: what trained weights look like.
  kHeavyTailed,  ///< The product of two normals, times `parameter`: gradients.
  kSparseRelu,   ///< A fraction `parameter` of exact zeros, positive halves of normals elsewhere.
  kConstant,     ///< Every element is `parameter`.
  kKvLike,       ///< Rows of 128 channels, each channel with its own scale and offset around
                 ///< `parameter`, a few of them far larger: attention keys and values.
  kMixed,        ///< Stretches of 40 KiB in several dtypes: a bucket of parameters.
  kRandomBits,   ///< Every bit is random: nothing to gain.
  kAlternatingExponents,  ///< The least and the greatest normal exponent in turn.
  kAllPatterns,           ///< Every bit pattern of the element, in order.
  kNanPayloads,           ///< The highest exponent with random mantissas.
  kOutliers,              ///< Normal, but 1 element in 256 has a random exponent.
  kAdversarial,           ///< Stretches of 40 KiB of the five above.
};

/// What `--data` says, e.g. "gaussian:0.02".
struct DataSpec {
  DataKind kind = DataKind::kGaussian;
  /// The meaning depends on the kind; ignored by kinds without one.
  double parameter = 0.02;
};

/// One entry of the list of kinds, for help texts.
struct DataKindInfo {
  DataKind kind;
  std::string_view name;
  bool has_parameter;
  double default_parameter;
  /// One line, without the name.
  std::string_view description;
};

/// All kinds. Static storage.
std::span<const DataKindInfo> DataKinds();

/// Reads "NAME" or "NAME:PARAMETER". OK or INVALID_ARGUMENT, with the valid names in `message`.
[[nodiscard]] Status ParseDataSpec(std::string_view text, DataSpec* spec, std::string* message);

/// "NAME" or "NAME:PARAMETER", such that ParseDataSpec() reads it back.
std::string FormatDataSpec(const DataSpec& spec);

/// Fills `output` with the bytes that begin `offset_bytes` into the endless stream of this
/// specification, dtype and seed, so that large data can be made in parts and in parallel.
///
/// Values are rounded to the dtype, ties to even, and saturate where it has no infinity. Integers
/// hold 1024 times the value (unsigned ones its magnitude), except for kConstant, which they hold
/// as it is. Bytes count as uint8; auto as bf16, since that is what untyped buffers mostly carry.
/// kMixed chooses its own dtypes. A last element that does not fit is cut.
/// Thread-safe. OK, INVALID_ARGUMENT (`offset_bytes` is not a multiple of 8).
[[nodiscard]] Status GenerateData(const DataSpec& spec, cinch_dtype dtype, uint64_t seed,
                                  uint64_t offset_bytes, std::span<std::byte> output);

}  // namespace cinch::tensors
