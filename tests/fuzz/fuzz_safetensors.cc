// SPDX-License-Identifier: Apache-2.0
/// @file fuzz_safetensors.cc
/// Reads arbitrary bytes as a safetensors file, and as the header of one. Whatever is accepted must
/// be sound, must be written again by our writer, and must then be read as the same tensors.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/safetensors_image.h"
#include "tensors/safetensors.h"
#include "tensors/safetensors_header.h"

namespace {

using cinch::test::BytesOf;
using cinch::test::SafetensorsImage;
using namespace cinch::tensors;  // The target is about one namespace only.

constexpr uint64_t kLargestDataBytes = uint64_t{1} << 16;

void Require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
  }
}

void RequireSound(const SafetensorsLayout& layout, uint64_t file_bytes) {
  uint64_t end_bytes = layout.data_offset_bytes;
  for (const TensorInfo& tensor : layout.tensors) {
    uint64_t size_bytes = 0;
    Require(tensor.offset_bytes == end_bytes, "tensors follow each other");
    Require(TensorBytes(tensor.file_dtype, tensor.shape, &size_bytes), "the size is computable");
    Require(tensor.size_bytes == size_bytes, "the size follows from dtype and shape");
    end_bytes += tensor.size_bytes;
  }
  Require(end_bytes == file_bytes && layout.file_bytes == file_bytes, "tensors end with the file");
}

std::vector<TensorInfo> SortedByName(std::vector<TensorInfo> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& left, const TensorInfo& right) { return left.name < right.name; });
  return tensors;
}

void RequireRoundTrip(const SafetensorsLayout& layout) {
  std::vector<TensorSpec> specs;
  for (const TensorInfo& tensor : layout.tensors) {
    specs.push_back({tensor.name, tensor.file_dtype, tensor.shape});
  }
  SafetensorsPlan plan;
  std::string message;
  Require(PlanSafetensors(specs, layout.metadata, &plan, &message) == CINCH_OK,
          "what was read can be written");
  std::string image = plan.head;
  image.resize(plan.layout.file_bytes, 'x');
  SafetensorsLayout again;
  Require(ReadSafetensors(BytesOf(image), &again, &message) == CINCH_OK,
          "what was written can be read");
  RequireSound(again, image.size());
  Require(again.metadata == layout.metadata, "metadata survive");
  const std::vector<TensorInfo> before = SortedByName(layout.tensors);
  const std::vector<TensorInfo> after = SortedByName(again.tensors);
  Require(before.size() == after.size(), "all tensors survive");
  for (size_t i = 0; i < before.size(); ++i) {
    Require(before[i].name == after[i].name && before[i].file_dtype == after[i].file_dtype &&
                before[i].shape == after[i].shape && before[i].dtype == after[i].dtype,
            "each tensor survives");
  }
}

void CheckFile(const std::string& image) {
  SafetensorsLayout layout;
  std::string message;
  const cinch::Status status = ReadSafetensors(BytesOf(image), &layout, &message);
  if (status == CINCH_OK) {
    RequireSound(layout, image.size());
    RequireRoundTrip(layout);
  } else {
    Require(!message.empty(), "an error has a message");
    Require(layout.tensors.empty(), "an error leaves the output alone");
  }
}

/// Finding a length field that matches the file is luck, so the input also serves as a header with
/// as many bytes behind it as its last tensor claims.
void CheckHeader(const std::string& json) {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
  std::string message;
  uint64_t data_bytes = 0;
  if (ParseHeader(json, &entries, &metadata, &message) == CINCH_OK) {
    for (const HeaderEntry& entry : entries) {
      data_bytes = std::max(data_bytes, entry.end_bytes);
    }
  }
  CheckFile(SafetensorsImage(json, std::min(data_bytes, kLargestDataBytes)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::string input(reinterpret_cast<const char*>(data), size_bytes);
  CheckFile(input);
  CheckHeader(input);
  return 0;
}
