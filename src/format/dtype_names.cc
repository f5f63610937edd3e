// SPDX-License-Identifier: Apache-2.0
#include <strings.h>

#include "base/guarded.h"
#include "cinch/codec.h"
#include "format/dtype.h"

namespace cinch::format {
namespace {

/// `alias` is safetensors' name, where it differs by more than case.
struct DtypeName {
  cinch_dtype dtype;
  const char* name;
  const char* alias;
};

constexpr DtypeName kNames[] = {
    {CINCH_DTYPE_BYTES, "bytes", nullptr},
    {CINCH_DTYPE_AUTO, "auto", nullptr},
    {CINCH_DTYPE_BF16, "bf16", nullptr},
    {CINCH_DTYPE_FP16, "fp16", "F16"},
    {CINCH_DTYPE_FP32, "fp32", "F32"},
    {CINCH_DTYPE_FP64, "fp64", "F64"},
    {CINCH_DTYPE_FP8_E4M3FN, "fp8_e4m3fn", "F8_E4M3"},
    {CINCH_DTYPE_FP8_E4M3FNUZ, "fp8_e4m3fnuz", "F8_E4M3FNUZ"},
    {CINCH_DTYPE_FP8_E5M2, "fp8_e5m2", "F8_E5M2"},
    {CINCH_DTYPE_FP8_E5M2FNUZ, "fp8_e5m2fnuz", "F8_E5M2FNUZ"},
    {CINCH_DTYPE_INT8, "int8", "I8"},
    {CINCH_DTYPE_UINT8, "uint8", "U8"},
    {CINCH_DTYPE_INT16, "int16", "I16"},
    {CINCH_DTYPE_UINT16, "uint16", "U16"},
    {CINCH_DTYPE_INT32, "int32", "I32"},
    {CINCH_DTYPE_UINT32, "uint32", "U32"},
    {CINCH_DTYPE_INT64, "int64", "I64"},
    {CINCH_DTYPE_UINT64, "uint64", "U64"},
};

}  // namespace
}  // namespace cinch::format

extern "C" {

const char* cinch_dtype_name(cinch_dtype dtype) {
  for (const auto& entry : cinch::format::kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "unknown";
}

cinch_status cinch_dtype_parse(const char* name, cinch_dtype* dtype) {
  if (name == nullptr || dtype == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  for (const auto& entry : cinch::format::kNames) {
    if (strcasecmp(name, entry.name) == 0 ||
        (entry.alias != nullptr && strcasecmp(name, entry.alias) == 0)) {
      *dtype = entry.dtype;
      return CINCH_OK;
    }
  }
  return CINCH_ERROR_INVALID_ARGUMENT;
}

uint64_t cinch_dtype_size(cinch_dtype dtype) {
  return cinch::GuardedOr(uint64_t{0}, [&]() -> uint64_t {
    if (!cinch::format::IsFrameDtype(dtype)) return 0;
    return cinch::format::TraitsOf(dtype).element_bytes;
  });
}

}  // extern "C"
