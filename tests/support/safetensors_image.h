// SPDX-License-Identifier: Apache-2.0
/// @file safetensors_image.h
/// Builds the bytes of safetensors files, valid and broken, without the code under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cinch::test {

/// A file with this header, whatever it says, and `data_bytes` bytes after it.
inline std::string SafetensorsImage(std::string_view json, size_t data_bytes) {
  std::string image;
  for (unsigned i = 0; i < 8; ++i) {
    image += static_cast<char>((static_cast<uint64_t>(json.size()) >> (8 * i)) & 0xff);
  }
  image += json;
  for (size_t i = 0; i < data_bytes; ++i) {
    image += static_cast<char>(i * 37 + 11);
  }
  return image;
}

/// The same bytes as the readers take them. Valid while `text` is.
inline std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace cinch::test
