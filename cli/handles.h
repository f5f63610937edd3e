// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cinch/codec.h"
#include "outcome.h"
#include "tensors/mapped_file.h"
#include "tensors/tensor_file.h"

namespace cinch::cli {

struct CodecDeleter {
  void operator()(cinch_codec* codec) const { cinch_codec_destroy(codec); }
};
using CodecHandle = std::unique_ptr<cinch_codec, CodecDeleter>;

/// Creates a codec; the message says which backend this build lacks.
Outcome CreateCodec(cinch_backend backend, uint32_t threads, CodecHandle* codec);

/// "cpu", "reference" or "cuda".
const char* BackendName(cinch_backend backend);
/// Reads such a name.
Outcome ParseBackend(const std::string& name, cinch_backend* backend);

/// Reads the value of --dtype: a name of the library or of the safetensors format.
Outcome ParseDtype(const std::string& name, cinch_dtype* dtype);

/// What the commands that read one file of tensors or bytes start from.
struct CodecInput {
  std::string path;
  std::string dtype = "auto";
  std::string backend = "cpu";
  uint32_t threads = 0;
};
struct OpenedInput {
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  CodecHandle codec;
  tensors::TensorFile file;
};

/// Opens a file that another one of `size_bytes` bytes is relative to. An empty path is none, and
/// leaves `base` empty.
Outcome OpenBase(const std::string& path, uint64_t size_bytes, tensors::MappedFile* base);

/// Compresses a part of a file into one frame at the front of `output`, relative to `base`, of the
/// same size, unless that is empty.
Status CompressChunk(cinch_codec* codec, std::span<const std::byte> chunk,
                     std::span<const std::byte> base, cinch_dtype dtype,
                     std::span<std::byte> output, uint64_t* frame_bytes);

/// Reads the options, creates the codec and opens the file, in this order.
Outcome OpenInput(const CodecInput& input, OpenedInput* opened);

}  // namespace cinch::cli
