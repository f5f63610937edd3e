// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cinch/status.h"
#include "tensors/safetensors.h"

namespace cinch::tensors {

/// One tensor's entry as the header has it, before any rule about offsets or sizes is checked.
struct HeaderEntry {
  std::string name;
  FileDtype dtype = FileDtype::kU8;
  std::vector<uint64_t> shape;
  /// From the start of the data section.
  uint64_t begin_bytes = 0;
  uint64_t end_bytes = 0;
};

/// Parses the JSON of a header. Entries keep the header's order; duplicate names are refused, as
/// are unknown or missing keys, wrong types, numbers that are not whole or exceed 64 bits, invalid
/// UTF-8, NUL bytes, and anything after the closing brace but white space.
/// OK, FILE_FORMAT, UNSUPPORTED (unknown dtype), OUT_OF_MEMORY. No exception leaves.
[[nodiscard]] Status ParseHeader(std::string_view json, std::vector<HeaderEntry>* entries,
                                 Metadata* metadata, std::string* message);

/// A name as it may stand in a message: shortened, quoted, control characters replaced.
std::string Quoted(std::string_view name);

}  // namespace cinch::tensors
