// SPDX-License-Identifier: Apache-2.0
#include "format/block_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace cinch::format {
namespace {

TEST(BlockHash, EmptyInputIsTheFinaliserOfZeroes) {
  EXPECT_EQ(BlockHash(nullptr, 0, 0), 0U);
  EXPECT_NE(BlockHash(nullptr, 0, 1), 0U);
}

TEST(BlockHash, FollowsTheDocumentsFormula) {
  const uint8_t bytes[] = {1, 2, 3, 4, 5};
  const uint64_t product =
      uint64_t{0x04030201U + 0x9E3779B1U} * uint64_t{0x00000005U + 0x85EBCA77U};
  uint64_t x = product ^ (5 * 0xD6E8FEB86659FD93ULL + 7 * 0xA0761D6478BD642FULL);
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDULL;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  EXPECT_EQ(BlockHash(bytes, sizeof bytes, 7), x ^ (x >> 33));
}

TEST(BlockHash, ChangesWithEveryBitTheLengthAndTheIndex) {
  std::mt19937_64 random(1);
  std::vector<uint8_t> bytes(257);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
  std::set<uint64_t> seen{BlockHash(bytes.data(), bytes.size(), 0)};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
    EXPECT_TRUE(seen.insert(BlockHash(bytes.data(), bytes.size(), 0)).second) << bit;
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
  }
  EXPECT_TRUE(seen.insert(BlockHash(bytes.data(), bytes.size(), 1)).second);
  EXPECT_TRUE(seen.insert(BlockHash(bytes.data(), bytes.size() - 1, 0)).second);
}

/// Exchanges `size` bytes at `a` and at `b`.
uint64_t HashWithSwap(std::vector<uint8_t> bytes, size_t a, size_t b, size_t size) {
  const auto begin = bytes.begin();
  std::swap_ranges(begin + static_cast<long>(a), begin + static_cast<long>(a + size),
                   begin + static_cast<long>(b));
  return BlockHash(bytes.data(), bytes.size(), 0);
}

TEST(BlockHash, NoticesExchangedWordsAndPairs) {
  // Counting bytes are the hard case: exchanged pairs often have the same sum.
  std::vector<uint8_t> counting(128);
  for (size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<uint8_t>(i);
  std::vector<uint8_t> mirrored = counting;
  for (size_t i = 0; i < 64; i += 4) {
    std::copy_n(counting.begin() + static_cast<long>(i), 4,
                mirrored.end() - static_cast<long>(i) - 4);
  }
  for (const auto& bytes : {counting, mirrored}) {
    const uint64_t original = BlockHash(bytes.data(), bytes.size(), 0);
    for (const size_t size : {4U, 8U, 16U}) {
      for (size_t a = 0; a + size <= bytes.size(); a += size) {
        for (size_t b = a + size; b + size <= bytes.size(); b += size) {
          if (std::memcmp(&bytes[a], &bytes[b], size) == 0) continue;
          EXPECT_NE(HashWithSwap(bytes, a, b, size), original) << a << " " << b << " " << size;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cinch::format
