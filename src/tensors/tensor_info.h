// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cinch/codec.h"

namespace cinch::tensors {

/// The element types of the safetensors format, in its own order: by rising alignment. A writer
/// sorts tensors by this order, highest first.
enum class FileDtype : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

inline constexpr int kFileDtypeCount = static_cast<int>(FileDtype::kU64) + 1;

/// The name in a file's header, e.g. "BF16", "F8_E4M3". Static storage.
std::string_view FileDtypeName(FileDtype dtype);

/// Bits of one element: 4, 6, 8, 16, 32 or 64.
uint64_t FileDtypeBits(FileDtype dtype);

/// Finds the dtype of that exact name. False, and `dtype` untouched, when there is none.
bool ParseFileDtype(std::string_view name, FileDtype* dtype);

/// The codec's dtype for such elements. Complex numbers are pairs of fp32; what the codec has no
/// model for (bool, 4- and 6-bit floats, e8m0 scales) is bytes.
cinch_dtype CodecDtype(FileDtype dtype);

/// The file dtype that a tensor of this codec dtype is stored as; bytes and auto are U8.
FileDtype StoredAs(cinch_dtype dtype);

/// Bytes of one element of a codec dtype; 1 for bytes, auto and unknown values.
uint64_t ElementBytes(cinch_dtype dtype);

/// One tensor of a file.
struct TensorInfo {
  std::string name;
  cinch_dtype dtype = CINCH_DTYPE_BYTES;
  FileDtype file_dtype = FileDtype::kU8;
  std::vector<uint64_t> shape;
  /// From the start of the file, not of its data section.
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

}  // namespace cinch::tensors
