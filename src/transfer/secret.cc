// SPDX-License-Identifier: Apache-2.0
#include "transfer/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <limits>
#include <vector>

namespace cinch::transfer {

Status RandomBytes(std::span<uint8_t> bytes) {
  if (bytes.size() > std::numeric_limits<int>::max()) return CINCH_ERROR_INTERNAL;
  return RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1 ? CINCH_OK
                                                                       : CINCH_ERROR_INTERNAL;
}

Status ComputeMac(std::string_view key, std::span<const std::span<const uint8_t>> parts, Mac& mac) {
  if (key.size() > std::numeric_limits<int>::max()) return CINCH_ERROR_INTERNAL;
  std::vector<uint8_t> message;
  for (const auto part : parts) {
    const uint64_t part_bytes = part.size();
    for (unsigned shift = 0; shift < 64; shift += 8) {
      message.push_back(static_cast<uint8_t>(part_bytes >> shift));
    }
    message.insert(message.end(), part.begin(), part.end());
  }
  unsigned mac_bytes = 0;
  const unsigned char* result = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                     message.data(), message.size(), mac.data(), &mac_bytes);
  return result != nullptr && mac_bytes == kMacBytes ? CINCH_OK : CINCH_ERROR_INTERNAL;
}

bool EqualMacs(const Mac& left, const Mac& right) {
  return CRYPTO_memcmp(left.data(), right.data(), kMacBytes) == 0;
}

}  // namespace cinch::transfer
