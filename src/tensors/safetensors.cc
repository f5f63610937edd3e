// SPDX-License-Identifier: Apache-2.0
#include "tensors/safetensors.h"

#include <algorithm>
#include <new>
#include <tuple>

#include "base/status.h"
#include "tensors/safetensors_header.h"

namespace cinch::tensors {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr const char* kAdvice = "; the file is damaged or not safetensors: fetch or write it again";

Status Broken(std::string why, std::string* message) {
  *message = std::move(why) + kAdvice;
  return CINCH_ERROR_FILE_FORMAT;
}

uint64_t LoadLittleEndian64(const std::byte* bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < kLengthBytes; ++i) {
    value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

/// Finds the JSON header in the file.
Status LocateHeader(std::span<const std::byte> file, std::string_view* json, std::string* message) {
  if (file.size() < kLengthBytes) {
    return Broken("the file has " + std::to_string(file.size()) +
                      " bytes, fewer than the 8 of the header's length",
                  message);
  }
  const uint64_t header_bytes = LoadLittleEndian64(file.data());
  if (header_bytes > kMaxHeaderBytes) {
    return Broken("the header claims " + std::to_string(header_bytes) +
                      " bytes, over the limit of " + std::to_string(kMaxHeaderBytes),
                  message);
  }
  if (header_bytes > file.size() - kLengthBytes) {
    return Broken("the header claims " + std::to_string(header_bytes) + " bytes, but only " +
                      std::to_string(file.size() - kLengthBytes) + " follow its length",
                  message);
  }
  *json = {reinterpret_cast<const char*>(file.data()) + kLengthBytes,
           static_cast<size_t>(header_bytes)};
  if (json->empty() || json->front() != '{') {
    return Broken("the header does not start with '{'", message);
  }
  return CINCH_OK;
}

/// Checks that the sorted entries' ranges follow each other without hole or overlap and that each
/// has the size that dtype and shape ask for.
Status CheckRanges(const std::vector<HeaderEntry>& entries, uint64_t data_bytes,
                   std::string* message) {
  uint64_t expected_begin_bytes = 0;
  for (const HeaderEntry& entry : entries) {
    const std::string who = "tensor " + Quoted(entry.name);
    if (entry.end_bytes < entry.begin_bytes) {
      return Broken(who + " ends before it begins", message);
    }
    if (entry.begin_bytes != expected_begin_bytes) {
      const bool hole = entry.begin_bytes > expected_begin_bytes;
      return Broken(who + (hole ? " leaves a hole: it" : " overlaps its predecessor: it") +
                        " begins at " + std::to_string(entry.begin_bytes) + " instead of " +
                        std::to_string(expected_begin_bytes),
                    message);
    }
    uint64_t size_bytes = 0;
    if (!TensorBytes(entry.dtype, entry.shape, &size_bytes)) {
      return Broken(who + " has a shape whose size overflows or does not fill whole bytes",
                    message);
    }
    if (entry.end_bytes - entry.begin_bytes != size_bytes) {
      return Broken(who + " has " + std::to_string(entry.end_bytes - entry.begin_bytes) +
                        " bytes, but its dtype and shape ask for " + std::to_string(size_bytes),
                    message);
    }
    expected_begin_bytes = entry.end_bytes;
  }
  if (expected_begin_bytes != data_bytes) {
    return Broken("the tensors have " + std::to_string(expected_begin_bytes) +
                      " bytes, but the file holds " + std::to_string(data_bytes) +
                      (expected_begin_bytes < data_bytes ? ": bytes follow the last tensor"
                                                         : ": the file is cut short"),
                  message);
  }
  return CINCH_OK;
}

TensorInfo ToTensorInfo(HeaderEntry&& entry, uint64_t data_offset_bytes) {
  TensorInfo info;
  info.name = std::move(entry.name);
  info.dtype = CodecDtype(entry.dtype);
  info.file_dtype = entry.dtype;
  info.shape = std::move(entry.shape);
  info.offset_bytes = data_offset_bytes + entry.begin_bytes;
  info.size_bytes = entry.end_bytes - entry.begin_bytes;
  return info;
}

Status Read(std::span<const std::byte> file, SafetensorsLayout* layout, std::string* message) {
  std::string_view json;
  CINCH_RETURN_IF_ERROR(LocateHeader(file, &json, message));
  std::vector<HeaderEntry> entries;
  SafetensorsLayout read;
  if (const Status status = ParseHeader(json, &entries, &read.metadata, message);
      status != CINCH_OK) {
    return status == CINCH_ERROR_FILE_FORMAT ? Broken(*message, message) : status;
  }
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& left, const HeaderEntry& right) {
    return std::tie(left.begin_bytes, left.end_bytes, left.name) <
           std::tie(right.begin_bytes, right.end_bytes, right.name);
  });
  read.data_offset_bytes = kLengthBytes + json.size();
  read.file_bytes = file.size();
  CINCH_RETURN_IF_ERROR(CheckRanges(entries, read.file_bytes - read.data_offset_bytes, message));
  read.tensors.reserve(entries.size());
  for (HeaderEntry& entry : entries) {
    read.tensors.push_back(ToTensorInfo(std::move(entry), read.data_offset_bytes));
  }
  *layout = std::move(read);
  return CINCH_OK;
}

}  // namespace

bool TensorBytes(FileDtype dtype, std::span<const uint64_t> shape, uint64_t* size_bytes) {
  // A dimension of zero empties the tensor, yet the format refuses an overflow before it.
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) {
    if (__builtin_mul_overflow(elements, dimension, &elements)) {
      return false;
    }
  }
  uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, FileDtypeBits(dtype), &bits) || bits % 8 != 0) {
    return false;
  }
  *size_bytes = bits / 8;
  return true;
}

Status ReadSafetensors(std::span<const std::byte> file, SafetensorsLayout* layout,
                       std::string* message) {
  try {
    return Read(file, layout, message);
  } catch (const std::bad_alloc&) {
    *message = "not enough memory for the header";
    return CINCH_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace cinch::tensors
