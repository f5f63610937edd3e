// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace cinch::cli {

/// XXH3-128 in its canonical byte order: detects faults, does not authenticate.
using FileDigest = std::array<uint8_t, 16>;

/// The digest of a file's bytes, given in order.
class FileHash {
 public:
  FileHash();

  void Update(std::span<const std::byte> bytes);
  FileDigest Digest() const;

 private:
  struct Deleter {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Deleter> state_;
};

/// XXH3-64 of a few bytes.
uint64_t ShortHash(std::span<const std::byte> bytes);

/// 32 hexadecimal digits, as xxhsum prints them.
std::string ToHex(const FileDigest& digest);

/// Reads them back. False when the text is something else.
bool FromHex(const std::string& text, FileDigest* digest);

}  // namespace cinch::cli
