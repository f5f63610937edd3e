// SPDX-License-Identifier: Apache-2.0
#include "handles.h"

#include <fmt/format.h>

#include <array>

namespace cinch::cli {
namespace {

constexpr std::array kBackends = {CINCH_BACKEND_CPU, CINCH_BACKEND_REFERENCE, CINCH_BACKEND_CUDA};

}  // namespace

const char* BackendName(cinch_backend backend) {
  switch (backend) {
    case CINCH_BACKEND_CPU:
      return "cpu";
    case CINCH_BACKEND_REFERENCE:
      return "reference";
    case CINCH_BACKEND_CUDA:
      return "cuda";
    default:
      return "unknown";
  }
}

Outcome ParseBackend(const std::string& name, cinch_backend* backend) {
  for (const cinch_backend candidate : kBackends) {
    if (name == BackendName(candidate)) {
      *backend = candidate;
      return {};
    }
  }
  return Refuse(ExitCode::kUsage,
                fmt::format("'{}' is not a backend; use cpu, reference or cuda", name));
}

Outcome CreateCodec(cinch_backend backend, uint32_t threads, CodecHandle* codec) {
  cinch_codec_options options;
  cinch_codec_options_init(&options);
  options.backend = backend;
  options.threads = threads;
  cinch_codec* created = nullptr;
  const Status status = cinch_codec_create(&options, &created);
  if (status == CINCH_ERROR_UNSUPPORTED) {
    return FromStatus(status, fmt::format("this build has no backend '{}'; `cinch info` lists them",
                                          BackendName(backend)));
  }
  if (status != CINCH_OK) {
    return FromStatus(status, fmt::format("cannot create a codec with {} threads: {}", threads,
                                          cinch_status_text(status)));
  }
  codec->reset(created);
  return {};
}

Outcome ParseDtype(const std::string& name, cinch_dtype* dtype) {
  if (cinch_dtype_parse(name.c_str(), dtype) == CINCH_OK) {
    return {};
  }
  return Refuse(ExitCode::kUsage,
                fmt::format("'{}' is not a dtype; use auto, bytes, bf16, fp16, fp32, fp64, "
                            "fp8_e4m3fn, fp8_e5m2, int8 ... uint64",
                            name));
}

Outcome OpenInput(const CodecInput& input, OpenedInput* opened) {
  cinch_backend backend = CINCH_BACKEND_CPU;
  Outcome outcome = ParseDtype(input.dtype, &opened->dtype);
  if (outcome.ok()) {
    outcome = ParseBackend(input.backend, &backend);
  }
  if (outcome.ok()) {
    outcome = CreateCodec(backend, input.threads, &opened->codec);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  std::string message;
  const Status status = tensors::TensorFile::Open(input.path, tensors::TensorFile::Kind::kByName,
                                                  opened->dtype, &opened->file, &message);
  return FromStatus(status, message);
}

Outcome OpenBase(const std::string& path, uint64_t size_bytes, tensors::MappedFile* base) {
  if (path.empty()) {
    return {};
  }
  std::string message;
  if (const Status status = tensors::MappedFile::Open(path, base, &message); status != CINCH_OK) {
    return FromStatus(status, message);
  }
  if (base->bytes().size() != size_bytes) {
    return Refuse(ExitCode::kUsage,
                  fmt::format("'{}' has {} bytes; a base must have as many as the file, {}", path,
                              base->bytes().size(), size_bytes));
  }
  return {};
}

Status CompressChunk(cinch_codec* codec, std::span<const std::byte> chunk,
                     std::span<const std::byte> base, cinch_dtype dtype,
                     std::span<std::byte> output, uint64_t* frame_bytes) {
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  options.dtype = dtype;
  if (base.empty()) {
    return cinch_compress(codec, &options, chunk.data(), chunk.size(), output.data(), output.size(),
                          frame_bytes);
  }
  const cinch_base held{base.data(), base.size(), 0, 0};
  return cinch_compress_delta(codec, &options, chunk.data(), chunk.size(), &held, output.data(),
                              output.size(), frame_bytes);
}

}  // namespace cinch::cli
