// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "tensors/tensor_info.h"

namespace cinch::tensors {
namespace {

struct FileDtypeRow {
  FileDtype dtype;
  std::string_view name;
  uint64_t bits;
  cinch_dtype codec_dtype;
};

constexpr std::array<FileDtypeRow, kFileDtypeCount> kRows = {{
    {FileDtype::kBool, "BOOL", 8, CINCH_DTYPE_BYTES},
    {FileDtype::kF4, "F4", 4, CINCH_DTYPE_BYTES},
    {FileDtype::kF6E2M3, "F6_E2M3", 6, CINCH_DTYPE_BYTES},
    {FileDtype::kF6E3M2, "F6_E3M2", 6, CINCH_DTYPE_BYTES},
    {FileDtype::kU8, "U8", 8, CINCH_DTYPE_UINT8},
    {FileDtype::kI8, "I8", 8, CINCH_DTYPE_INT8},
    {FileDtype::kF8E5M2, "F8_E5M2", 8, CINCH_DTYPE_FP8_E5M2},
    {FileDtype::kF8E4M3, "F8_E4M3", 8, CINCH_DTYPE_FP8_E4M3FN},
    {FileDtype::kF8E8M0, "F8_E8M0", 8, CINCH_DTYPE_BYTES},
    {FileDtype::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8, CINCH_DTYPE_FP8_E4M3FNUZ},
    {FileDtype::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8, CINCH_DTYPE_FP8_E5M2FNUZ},
    {FileDtype::kI16, "I16", 16, CINCH_DTYPE_INT16},
    {FileDtype::kU16, "U16", 16, CINCH_DTYPE_UINT16},
    {FileDtype::kF16, "F16", 16, CINCH_DTYPE_FP16},
    {FileDtype::kBf16, "BF16", 16, CINCH_DTYPE_BF16},
    {FileDtype::kI32, "I32", 32, CINCH_DTYPE_INT32},
    {FileDtype::kU32, "U32", 32, CINCH_DTYPE_UINT32},
    {FileDtype::kF32, "F32", 32, CINCH_DTYPE_FP32},
    {FileDtype::kC64, "C64", 64, CINCH_DTYPE_FP32},
    {FileDtype::kF64, "F64", 64, CINCH_DTYPE_FP64},
    {FileDtype::kI64, "I64", 64, CINCH_DTYPE_INT64},
    {FileDtype::kU64, "U64", 64, CINCH_DTYPE_UINT64},
}};

constexpr bool RowsAreInEnumOrder() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i) {
      return false;
    }
  }
  return true;
}
static_assert(RowsAreInEnumOrder());

const FileDtypeRow& Row(FileDtype dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view FileDtypeName(FileDtype dtype) { return Row(dtype).name; }

uint64_t FileDtypeBits(FileDtype dtype) { return Row(dtype).bits; }

bool ParseFileDtype(std::string_view name, FileDtype* dtype) {
  for (const FileDtypeRow& row : kRows) {
    if (row.name == name) {
      *dtype = row.dtype;
      return true;
    }
  }
  return false;
}

cinch_dtype CodecDtype(FileDtype dtype) { return Row(dtype).codec_dtype; }

FileDtype StoredAs(cinch_dtype dtype) {
  // F32 stands before C64, so fp32 finds the plain one first.
  for (const FileDtypeRow& row : kRows) {
    if (row.codec_dtype == dtype && dtype != CINCH_DTYPE_BYTES) {
      return row.dtype;
    }
  }
  return FileDtype::kU8;
}

uint64_t ElementBytes(cinch_dtype dtype) { return FileDtypeBits(StoredAs(dtype)) / 8; }

}  // namespace cinch::tensors
