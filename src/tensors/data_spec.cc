// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>

#include "tensors/generators.h"

namespace cinch::tensors {
namespace {

constexpr std::array<DataKindInfo, 12> kKinds = {{
    {DataKind::kGaussian, "gaussian", true, 0.02, "normal, standard deviation PARAMETER"},
    {DataKind::kHeavyTailed, "heavy_tailed", true, 0.02, "product of two normals times PARAMETER"},
    {DataKind::kSparseRelu, "sparse_relu", true, 0.5,
     "a fraction PARAMETER of zeros, rest positive"},
    {DataKind::kConstant, "constant", true, 1.0, "every element is PARAMETER"},
    {DataKind::kKvLike, "kv_like", true, 1.0, "128 channels with own scales around PARAMETER"},
    {DataKind::kMixed, "mixed", false, 0, "stretches in several dtypes"},
    {DataKind::kRandomBits, "random_bits", false, 0, "incompressible"},
    {DataKind::kAlternatingExponents, "alternating_exponents", false, 0,
     "least and greatest exponent in turn"},
    {DataKind::kAllPatterns, "all_patterns", false, 0, "every bit pattern in order"},
    {DataKind::kNanPayloads, "nan_payloads", false, 0, "NaNs with random payloads"},
    {DataKind::kOutliers, "outliers", true, 0.02, "normal with 1 wild exponent in 256"},
    {DataKind::kAdversarial, "adversarial", false, 0, "stretches of the five kinds above"},
}};

const DataKindInfo* FindKind(std::string_view name) {
  for (const DataKindInfo& info : kKinds) {
    if (info.name == name) {
      return &info;
    }
  }
  return nullptr;
}

Status UnknownKind(std::string_view name, std::string* message) {
  *message = "unknown data '" + std::string(name) + "'; choose one of";
  for (const DataKindInfo& info : kKinds) {
    *message += (info.kind == kKinds.front().kind ? " " : ", ") + std::string(info.name);
  }
  return CINCH_ERROR_INVALID_ARGUMENT;
}

bool IsAllowed(DataKind kind, double parameter) {
  if (kind == DataKind::kSparseRelu) {
    return parameter >= 0 && parameter <= 1;
  }
  return std::isfinite(parameter) && (kind == DataKind::kConstant || parameter >= 0);
}

}  // namespace

std::span<const DataKindInfo> DataKinds() { return kKinds; }

Status ParseDataSpec(std::string_view text, DataSpec* spec, std::string* message) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const DataKindInfo* info = FindKind(name);
  if (info == nullptr) {
    return UnknownKind(name, message);
  }
  double parameter = info->default_parameter;
  if (colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), parameter);
    if (!info->has_parameter || error != std::errc() || end != number.data() + number.size() ||
        !IsAllowed(info->kind, parameter)) {
      *message = "'" + std::string(text) + "': " + std::string(name) +
                 (!info->has_parameter                  ? " takes no parameter"
                  : info->kind == DataKind::kSparseRelu ? " needs a fraction from 0 to 1"
                  : info->kind == DataKind::kConstant   ? " needs a finite number"
                                                        : " needs a finite number >= 0");
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
  }
  *spec = {info->kind, parameter};
  return CINCH_OK;
}

std::string FormatDataSpec(const DataSpec& spec) {
  for (const DataKindInfo& info : kKinds) {
    if (info.kind == spec.kind) {
      std::string text(info.name);
      if (info.has_parameter) {
        std::array<char, 32> number{};
        const auto result =
            std::to_chars(number.data(), number.data() + number.size(), spec.parameter);
        text += ":" + std::string(number.data(), result.ptr);
      }
      return text;
    }
  }
  return "unknown";
}

}  // namespace cinch::tensors
