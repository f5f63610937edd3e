// SPDX-License-Identifier: Apache-2.0
#include "file_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <new>

namespace cinch::cli {

void FileHash::Deleter::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

FileHash::FileHash() : state_(XXH3_createState()) {
  if (state_ == nullptr) {
    throw std::bad_alloc();
  }
  XXH3_128bits_reset(state_.get());
}

void FileHash::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

FileDigest FileHash::Digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  FileDigest digest;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), digest.begin());
  return digest;
}

uint64_t ShortHash(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string ToHex(const FileDigest& digest) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool FromHex(const std::string& text, FileDigest* digest) {
  if (text.size() != 2 * digest->size()) {
    return false;
  }
  for (size_t index = 0; index < text.size(); ++index) {
    const char character = text[index];
    unsigned value = 0;
    if (character >= '0' && character <= '9') {
      value = static_cast<unsigned>(character - '0');
    } else if (character >= 'a' && character <= 'f') {
      value = static_cast<unsigned>(character - 'a') + 10;
    } else {
      return false;
    }
    uint8_t& byte = (*digest)[index / 2];
    byte = static_cast<uint8_t>(index % 2 == 0 ? value << 4 : byte | value);
  }
  return true;
}

}  // namespace cinch::cli
