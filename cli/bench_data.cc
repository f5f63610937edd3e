// SPDX-License-Identifier: Apache-2.0
#include "bench_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <thread>

#include "handles.h"
#include "tensors/generators.h"
#include "tensors/tensor_file.h"

namespace cinch::cli {
namespace {

constexpr std::string_view kFilePrefix = "file:";
constexpr size_t kAlignmentBytes = 4096;
/// A part that a thread generates at a time; a multiple of every element.
constexpr uint64_t kPartBytes = uint64_t{1} << 20;

Outcome Generate(const tensors::DataSpec& spec, cinch_dtype dtype, uint64_t seed,
                 TouchedBuffer* buffer) {
  std::atomic<uint64_t> next_part{0};
  std::atomic<int> worst{CINCH_OK};
  const auto work = [&] {
    while (true) {
      const uint64_t offset_bytes = kPartBytes * next_part.fetch_add(1);
      if (offset_bytes >= buffer->size_bytes()) {
        return;
      }
      const std::span<std::byte> part(buffer->data() + offset_bytes,
                                      std::min(kPartBytes, buffer->size_bytes() - offset_bytes));
      const Status status = tensors::GenerateData(spec, dtype, seed, offset_bytes, part);
      if (status != CINCH_OK) {
        worst = status;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned index = 1; index < std::thread::hardware_concurrency(); ++index) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return FromStatus(static_cast<Status>(worst.load()), {});
}

/// Takes "PATH" or "PATH:TENSOR"; a path may hold colons, so the file decides.
Outcome OpenTensor(const std::string& text, cinch_dtype dtype, tensors::TensorFile* file,
                   std::string* tensor) {
  std::string message;
  Status status =
      tensors::TensorFile::Open(text, tensors::TensorFile::Kind::kByName, dtype, file, &message);
  size_t colon = text.find(':');
  while (status != CINCH_OK && colon != std::string::npos) {
    std::string ignored;
    if (tensors::TensorFile::Open(text.substr(0, colon), tensors::TensorFile::Kind::kByName, dtype,
                                  file, &ignored) == CINCH_OK) {
      *tensor = text.substr(colon + 1);
      return {};
    }
    colon = text.find(':', colon + 1);
  }
  return FromStatus(status, message);
}

const tensors::TensorInfo* Choose(const tensors::TensorFile& file, const std::string& name) {
  const tensors::TensorInfo* chosen = nullptr;
  for (const tensors::TensorInfo& tensor : file.tensors()) {
    const bool better = chosen == nullptr || tensor.size_bytes > chosen->size_bytes;
    if (name.empty() ? better : tensor.name == name) {
      chosen = &tensor;
    }
  }
  return chosen;
}

Outcome LoadTensor(const std::string& text, cinch_dtype dtype, uint64_t size_bytes,
                   BenchData* data) {
  tensors::TensorFile file;
  std::string name;
  if (Outcome outcome = OpenTensor(text, dtype, &file, &name); !outcome.ok()) {
    return outcome;
  }
  const tensors::TensorInfo* tensor = Choose(file, name);
  if (tensor == nullptr || tensor->size_bytes == 0) {
    return Refuse(
        ExitCode::kUsage,
        fmt::format("'{}' has no tensor '{}' with bytes; `cinch inspect` lists them", text, name));
  }
  const std::span<const std::byte> bytes = file.bytes(*tensor);
  data->label =
      file.is_safetensors()
          ? fmt::format("file:{}:{}",
                        text.substr(0, text.size() - (name.empty() ? 0 : name.size() + 1)),
                        tensor->name)
          : fmt::format("file:{}", text);
  data->true_dtype = file.is_safetensors() ? tensor->dtype : dtype;
  data->buffer = TouchedBuffer(size_bytes == 0 ? bytes.size() : size_bytes);
  for (uint64_t done_bytes = 0; done_bytes < data->buffer.size_bytes();
       done_bytes += bytes.size()) {
    const uint64_t part_bytes =
        std::min<uint64_t>(bytes.size(), data->buffer.size_bytes() - done_bytes);
    std::memcpy(data->buffer.data() + done_bytes, bytes.data(), part_bytes);
  }
  return {};
}

}  // namespace

TouchedBuffer::TouchedBuffer(uint64_t size_bytes) : size_bytes_(size_bytes) {
  const uint64_t rounded = (size_bytes + kAlignmentBytes) / kAlignmentBytes * kAlignmentBytes;
  bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, rounded)));
  if (bytes_ == nullptr) {
    throw std::bad_alloc();
  }
  std::memset(bytes_.get(), 0x5A, rounded);
}

void TouchedBuffer::Deleter::operator()(std::byte* bytes) const { std::free(bytes); }

Outcome MakeBenchData(const BenchDataOptions& options, uint64_t size_bytes, BenchData* data) {
  if (Outcome outcome = ParseDtype(options.dtype, &data->dtype); !outcome.ok()) {
    return outcome;
  }
  if (options.data.starts_with(kFilePrefix)) {
    return LoadTensor(options.data.substr(kFilePrefix.size()), data->dtype, size_bytes, data);
  }
  tensors::DataSpec spec;
  std::string message;
  if (const Status status = tensors::ParseDataSpec(options.data, &spec, &message);
      status != CINCH_OK) {
    return FromStatus(status, message + ", or file:PATH[:TENSOR]");
  }
  data->label = tensors::FormatDataSpec(spec);
  // The generators' own rule: untyped means bf16.
  data->true_dtype = data->dtype == CINCH_DTYPE_AUTO ? CINCH_DTYPE_BF16 : data->dtype;
  data->buffer = TouchedBuffer(size_bytes);
  return Generate(spec, data->dtype, options.seed, &data->buffer);
}

std::string DescribeGenerators() {
  std::string text;
  for (const tensors::DataKindInfo& kind : tensors::DataKinds()) {
    const std::string name = kind.has_parameter
                                 ? fmt::format("{}:{}", kind.name, kind.default_parameter)
                                 : std::string(kind.name);
    text += fmt::format("  {:24} {}\n", name, kind.description);
  }
  return text;
}

}  // namespace cinch::cli
