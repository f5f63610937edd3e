// SPDX-License-Identifier: Apache-2.0
// A frame of more than 4 GiB: sizes and offsets that do not fit 32 bits. Needs about 5 GiB of
// memory for the output; the input is a sparse mapping.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "cinch/codec.h"
#include "support/test_data.h"

namespace cinch {
namespace {

constexpr uint64_t kInputBytes = (uint64_t{9} << 29) + 12345;  // 4.5 GiB and a bit

/// Zeroes, but for what is written to it.
class SparseBytes {
 public:
  explicit SparseBytes(uint64_t size_bytes) : size_bytes_(size_bytes) {
    void* mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bytes_ = mapped == MAP_FAILED ? nullptr : static_cast<uint8_t*>(mapped);
  }
  SparseBytes(const SparseBytes&) = delete;
  SparseBytes& operator=(const SparseBytes&) = delete;
  ~SparseBytes() { munmap(bytes_, size_bytes_); }
  uint8_t* bytes() const { return bytes_; }

 private:
  uint64_t size_bytes_;
  uint8_t* bytes_;
};

TEST(HugeFrame, MoreThanFourGibibytesRoundTrip) {
  const SparseBytes input(kInputBytes);
  ASSERT_NE(input.bytes(), nullptr);
  const std::vector<uint8_t> island =
      test::MakeData(test::DataKind::kGaussian, CINCH_DTYPE_BF16, 200001, 1);
  const uint64_t islands[] = {0, (uint64_t{1} << 32) - 100000, kInputBytes - island.size()};
  for (const uint64_t at : islands) {
    std::copy(island.begin(), island.end(), input.bytes() + at);
  }

  cinch_codec_options options;
  cinch_codec_options_init(&options);
  options.threads = 2;
  cinch_codec* codec = nullptr;
  ASSERT_EQ(cinch_codec_create(&options, &codec), CINCH_OK);
  const std::unique_ptr<cinch_codec, decltype(&cinch_codec_destroy)> owner(codec,
                                                                           &cinch_codec_destroy);
  const uint64_t capacity_bytes = cinch_compress_bound(kInputBytes);
  ASSERT_GT(capacity_bytes, kInputBytes);
  const SparseBytes frame(capacity_bytes);
  ASSERT_NE(frame.bytes(), nullptr);
  uint64_t frame_bytes = 0;
  ASSERT_EQ(cinch_compress(codec, nullptr, input.bytes(), kInputBytes, frame.bytes(),
                           capacity_bytes, &frame_bytes),
            CINCH_OK);
  EXPECT_LT(frame_bytes, kInputBytes / 500) << "nearly everything is constant";

  const SparseBytes output(kInputBytes);
  ASSERT_NE(output.bytes(), nullptr);
  uint64_t output_bytes = 0;
  ASSERT_EQ(cinch_decompress(codec, frame.bytes(), frame_bytes, output.bytes(), kInputBytes,
                             &output_bytes),
            CINCH_OK);
  EXPECT_EQ(output_bytes, kInputBytes);
  EXPECT_EQ(std::memcmp(output.bytes(), input.bytes(), kInputBytes), 0);
}

}  // namespace
}  // namespace cinch
