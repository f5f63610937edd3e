// SPDX-License-Identifier: Apache-2.0
#include "tensors/tensor_file.h"

#include <utility>

#include "base/status.h"

namespace cinch::tensors {
namespace {

bool IsNamedSafetensors(const std::string& path) { return path.ends_with(".safetensors"); }

TensorInfo WholeFile(const MappedFile& file, cinch_dtype dtype) {
  const size_t slash = file.path().rfind('/');
  TensorInfo info;
  info.name = slash == std::string::npos ? file.path() : file.path().substr(slash + 1);
  info.dtype = dtype;
  info.file_dtype = StoredAs(dtype);
  info.size_bytes = file.bytes().size();
  info.shape = {info.size_bytes / ElementBytes(dtype)};
  return info;
}

}  // namespace

Status TensorFile::Open(const std::string& path, Kind kind, cinch_dtype raw_dtype, TensorFile* file,
                        std::string* message) {
  TensorFile opened;
  CINCH_RETURN_IF_ERROR(MappedFile::Open(path, &opened.file_, message));
  opened.is_safetensors_ =
      kind == Kind::kSafetensors || (kind == Kind::kByName && IsNamedSafetensors(path));
  if (opened.is_safetensors_) {
    if (const Status status = ReadSafetensors(opened.bytes(), &opened.layout_, message);
        status != CINCH_OK) {
      *message = "'" + path + "': " + *message;
      return status;
    }
  } else {
    opened.layout_.tensors = {WholeFile(opened.file_, raw_dtype)};
    opened.layout_.file_bytes = opened.bytes().size();
  }
  *file = std::move(opened);
  return CINCH_OK;
}

}  // namespace cinch::tensors
