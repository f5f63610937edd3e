// SPDX-License-Identifier: Apache-2.0
// Patches of host memory (docs/format.md, section 9).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "cinch/codec.h"
#include "cinch/patch.h"
#include "codec/patch/patch_codec.h"
#include "transfer/pattern.h"

namespace cinch {
namespace {

using transfer_test::Changed;
using transfer_test::Pattern;

uint64_t HashOf(const std::vector<uint8_t>& data) {
  uint64_t hash = 0;
  EXPECT_EQ(cinch_patch_content_hash(data.data(), data.size(), &hash), CINCH_OK);
  return hash;
}

std::vector<uint8_t> Create(const std::vector<uint8_t>& base, const std::vector<uint8_t>& data) {
  std::vector<uint8_t> patch(cinch_patch_bound(base.size()));
  uint64_t bytes = 0;
  EXPECT_EQ(
      cinch_patch_create(base.data(), data.data(), base.size(), patch.data(), patch.size(), &bytes),
      CINCH_OK);
  patch.resize(bytes);
  return patch;
}

cinch_status Apply(const std::vector<uint8_t>& base, const std::vector<uint8_t>& patch,
                   std::vector<uint8_t>& result) {
  result.assign(base.size(), 0xEE);
  return cinch_patch_apply(base.data(), HashOf(base), patch.data(), patch.size(), result.data(),
                           result.size());
}

TEST(Patch, LeadsFromOneVersionToTheNext) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{15}, size_t{4097},
                             size_t{32768}, size_t{32769}, size_t{200001}}) {
    for (const double fraction : {0.0, 0.01, 0.3, 1.0}) {
      for (const int bits : {1, 3, 7, 16}) {
        const std::vector<uint8_t> base = Pattern(bytes, bytes);
        const std::vector<uint8_t> data = Changed(base, fraction, bits, bytes + 1);
        const std::vector<uint8_t> patch = Create(base, data);
        std::vector<uint8_t> result;
        ASSERT_EQ(Apply(base, patch, result), CINCH_OK) << bytes << " " << fraction << " " << bits;
        ASSERT_TRUE(result == data) << bytes << " " << fraction << " " << bits;
        cinch_patch_info info{};
        info.struct_size = sizeof(info);
        ASSERT_EQ(cinch_patch_get_info(patch.data(), patch.size(), &info), CINCH_OK);
        EXPECT_EQ(info.original_bytes, bytes);
        EXPECT_EQ(info.patch_bytes, patch.size());
        EXPECT_EQ(info.base_hash, HashOf(base));
        EXPECT_EQ(info.result_hash, HashOf(data));
      }
    }
  }
}

TEST(Patch, HashIsTheOneOfFrames) {
  const std::vector<uint8_t> data = Pattern(3, 100001);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < format::BlockCount(data.size()); ++i) {
    sum +=
        format::BlockHash(&data[i * format::kBlockBytes], format::BlockLength(data.size(), i), i);
  }
  EXPECT_EQ(HashOf(data), sum);
}

TEST(Patch, FewChangesAndSmallOnesAreSmall) {
  const std::vector<uint8_t> base = Pattern(1, size_t{4} << 20);
  const auto fraction = [&](double changed, int bits) {
    return static_cast<double>(Create(base, Changed(base, changed, bits, 5)).size()) /
           static_cast<double>(base.size());
  };
  EXPECT_LE(fraction(0.01, 16), 0.0215);
  EXPECT_LE(fraction(1.0, 7), 0.52);
  EXPECT_LE(fraction(1.0, 2), 0.20);
  EXPECT_LE(fraction(0, 1), 0.001);
  EXPECT_LE(fraction(1.0, 16), 1.002);
}

TEST(Patch, AppliesToNothingElse) {
  const std::vector<uint8_t> base = Pattern(1, 100000);
  const std::vector<uint8_t> patch = Create(base, Changed(base, 0.1, 7, 5));
  std::vector<uint8_t> other = base;
  other[5] ^= 1;
  std::vector<uint8_t> result;
  EXPECT_EQ(Apply(other, patch, result), CINCH_ERROR_FRAME_BASE_MISSING);
  EXPECT_EQ(Apply(Pattern(1, 99999), patch, result), CINCH_ERROR_FRAME_BASE_MISSING);
  // Who claims to have the base, but has not, does not get away with it.
  EXPECT_EQ(cinch_patch_apply(other.data(), HashOf(base), patch.data(), patch.size(), result.data(),
                              other.size()),
            CINCH_ERROR_FRAME_CHECKSUM);
}

TEST(Patch, InPlaceAndTooSmallARoom) {
  const std::vector<uint8_t> base = Pattern(1, 100000);
  const std::vector<uint8_t> data = Changed(base, 0.1, 7, 5);
  std::vector<uint8_t> patch = Create(base, data);
  std::vector<uint8_t> work = base;
  EXPECT_EQ(cinch_patch_apply(work.data(), HashOf(base), patch.data(), patch.size(), work.data(),
                              work.size()),
            CINCH_OK);
  EXPECT_TRUE(work == data);
  uint64_t bytes = 0;
  for (const size_t room : {size_t{10}, size_t{64}, size_t{80}, patch.size() - 1}) {
    std::vector<uint8_t> tight(room);
    EXPECT_EQ(cinch_patch_create(base.data(), data.data(), base.size(), tight.data(), room, &bytes),
              CINCH_ERROR_DESTINATION_TOO_SMALL);
  }
  std::vector<uint8_t> exact(patch.size());
  EXPECT_EQ(
      cinch_patch_create(base.data(), data.data(), base.size(), exact.data(), exact.size(), &bytes),
      CINCH_OK);
  EXPECT_TRUE(exact == patch);
}

TEST(Patch, AnyDamageIsSeenAndHarmless) {
  const std::vector<uint8_t> base = Pattern(1, 70001);
  std::mt19937_64 random(7);
  for (const auto& [fraction, bits] :
       {std::pair{0.02, 16}, std::pair{1.0, 7}, std::pair{1.0, 11}}) {
    const std::vector<uint8_t> patch = Create(base, Changed(base, fraction, bits, 5));
    std::vector<uint8_t> result;
    for (int i = 0; i < 3000; ++i) {
      std::vector<uint8_t> damaged = patch;
      const size_t at = i < 200 ? static_cast<size_t>(i) % patch.size() : random() % patch.size();
      damaged[at] ^= static_cast<uint8_t>(1 + random() % 255);
      EXPECT_NE(Apply(base, damaged, result), CINCH_OK) << at;
      // With a header that says that all is well, the blocks must still be judged.
      const bool only_the_seal =
          at >= offsetof(format::PatchHeader, header_hash) && at < sizeof(format::PatchHeader);
      if (only_the_seal) continue;
      format::PatchHeader header;
      std::memcpy(&header, damaged.data(), sizeof(header));
      codec::SealPatchHeader(header);
      std::memcpy(damaged.data(), &header, sizeof(header));
      EXPECT_NE(Apply(base, damaged, result), CINCH_OK) << at;
    }
    for (size_t length = 0; length < patch.size(); length += 1 + length / 7) {
      const std::vector<uint8_t> cut(patch.begin(), patch.begin() + static_cast<long>(length));
      EXPECT_NE(cinch_patch_apply(base.data(), HashOf(base), cut.data(), cut.size(), result.data(),
                                  base.size()),
                CINCH_OK);
    }
    std::vector<uint8_t> longer = patch;
    longer.push_back(0);
    EXPECT_EQ(Apply(base, longer, result), CINCH_ERROR_FRAME_TRAILING);
  }
}

}  // namespace
}  // namespace cinch
