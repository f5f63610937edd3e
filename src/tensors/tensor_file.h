// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cinch/codec.h"
#include "cinch/status.h"
#include "tensors/mapped_file.h"
#include "tensors/safetensors.h"
#include "tensors/tensor_info.h"

namespace cinch::tensors {

/// Any file as a list of tensors: a safetensors file as its own, any other as one tensor.
class TensorFile {
 public:
  enum class Kind {
    kByName,       ///< safetensors when the name ends in ".safetensors", raw otherwise.
    kSafetensors,  ///< Must be valid safetensors.
    kRaw,          ///< One tensor of the whole file, whatever it holds.
  };

  /// Maps and reads `path`. A raw file becomes one tensor that is named like the file without its
  /// directories and has dtype `raw_dtype`; a tail that does not fill an element belongs to
  /// size_bytes but not to the shape.
  /// As MappedFile::Open() and ReadSafetensors(). `file` changes only on success.
  [[nodiscard]] static Status Open(const std::string& path, Kind kind, cinch_dtype raw_dtype,
                                   TensorFile* file, std::string* message);

  bool is_safetensors() const { return is_safetensors_; }
  const std::vector<TensorInfo>& tensors() const { return layout_.tensors; }
  const Metadata& metadata() const { return layout_.metadata; }
  /// The whole file, header included. Valid while this object lives.
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  /// The bytes of one of tensors(). Valid while this object lives.
  std::span<const std::byte> bytes(const TensorInfo& tensor) const {
    return file_.bytes().subspan(tensor.offset_bytes, tensor.size_bytes);
  }

 private:
  MappedFile file_;
  SafetensorsLayout layout_;
  bool is_safetensors_ = false;
};

}  // namespace cinch::tensors
