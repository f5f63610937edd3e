// SPDX-License-Identifier: Apache-2.0
/// @file require.h
/// How fuzz targets say that a promise is broken.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>

namespace cinch::test {

inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

/// Takes values from the front of a fuzz input; zeroes come when it has ended.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t bytes) : left_(data, bytes) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  [[nodiscard]] std::span<const uint8_t> Take(size_t bytes) {
    const std::span<const uint8_t> taken = left_.first(bytes < left_.size() ? bytes : left_.size());
    left_ = left_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] std::span<const uint8_t> TakeAll() { return Take(left_.size()); }

  template <typename Value>
  [[nodiscard]] Value Take() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value{};
    const std::span<const uint8_t> taken = Take(sizeof(value));
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }

  /// Small mostly, but any number in the end: the first byte chooses.
  [[nodiscard]] uint64_t Number() {
    const auto choice = Take<uint8_t>();
    if (choice < 0xC0) return choice;
    if (choice < 0xE0) return Take<uint16_t>();
    if (choice < 0xF0) return Take<uint32_t>();
    const uint64_t value = Take<uint64_t>();
    return (choice & 1) != 0 ? ~value : value;
  }

 private:
  std::span<const uint8_t> left_;
};

}  // namespace cinch::test
