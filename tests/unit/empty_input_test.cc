// SPDX-License-Identifier: Apache-2.0
// A null pointer to no bytes is as good as any other, for every call that takes memory: that is
// what an empty vector gives. Under the sanitizers this also shows that none of them is handed to
// memcpy.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cinch/codec.h"
#include "cinch/patch.h"

namespace cinch {
namespace {

using Bytes = std::vector<uint8_t>;

struct DestroyCodec {
  void operator()(cinch_codec* codec) const { cinch_codec_destroy(codec); }
};

class EmptyInput : public testing::TestWithParam<cinch_backend> {
 protected:
  EmptyInput() {
    cinch_codec_options options;
    cinch_codec_options_init(&options);
    options.backend = GetParam();
    options.threads = 2;
    cinch_codec* codec = nullptr;
    EXPECT_EQ(cinch_codec_create(&options, &codec), CINCH_OK);
    codec_.reset(codec);
  }

  [[nodiscard]] Bytes EmptyFrame() const {
    Bytes frame(cinch_compress_bound(0));
    uint64_t frame_bytes = 0;
    EXPECT_EQ(
        cinch_compress(codec_.get(), nullptr, nullptr, 0, frame.data(), frame.size(), &frame_bytes),
        CINCH_OK);
    frame.resize(frame_bytes);
    return frame;
  }

  std::unique_ptr<cinch_codec, DestroyCodec> codec_;
  const cinch_base no_base_{nullptr, 0, 0, 0};
};
INSTANTIATE_TEST_SUITE_P(Backends, EmptyInput,
                         testing::Values(CINCH_BACKEND_CPU, CINCH_BACKEND_REFERENCE));

TEST_P(EmptyInput, IsCompressedAndComesBack) {
  const Bytes frame = EmptyFrame();
  uint64_t bytes = 7;
  EXPECT_EQ(cinch_decompress(codec_.get(), frame.data(), frame.size(), nullptr, 0, &bytes),
            CINCH_OK);
  EXPECT_EQ(bytes, 0U);
  Bytes delta(cinch_compress_bound(0));
  ASSERT_EQ(cinch_compress_delta(codec_.get(), nullptr, nullptr, 0, &no_base_, delta.data(),
                                 delta.size(), &bytes),
            CINCH_OK);
  EXPECT_EQ(
      cinch_decompress_delta(codec_.get(), delta.data(), bytes, &no_base_, nullptr, 0, &bytes),
      CINCH_OK);
  EXPECT_EQ(bytes, 0U);
}

TEST_P(EmptyInput, EmptyBuffersGiveStatuses) {
  const Bytes frame = EmptyFrame();
  const Bytes input(100, 1);
  uint64_t bytes = 0;
  EXPECT_EQ(cinch_compress(codec_.get(), nullptr, nullptr, 0, nullptr, 0, &bytes),
            CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(cinch_compress(codec_.get(), nullptr, input.data(), input.size(), nullptr, 0, &bytes),
            CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(cinch_compress_delta(codec_.get(), nullptr, nullptr, 0, &no_base_, nullptr, 0, &bytes),
            CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(cinch_decompress(codec_.get(), nullptr, 0, nullptr, 0, &bytes),
            CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_EQ(cinch_decompress_delta(codec_.get(), nullptr, 0, &no_base_, nullptr, 0, &bytes),
            CINCH_ERROR_FRAME_TRUNCATED);
  cinch_frame_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(cinch_frame_inspect(nullptr, 0, &info), CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_EQ(cinch_frame_inspect(nullptr, 1, &info), CINCH_ERROR_INVALID_ARGUMENT);
  uint64_t hash = 7;
  EXPECT_EQ(cinch_content_hash(codec_.get(), nullptr, 0, &hash), CINCH_OK);
  EXPECT_EQ(hash, 0U);
}

TEST_P(EmptyInput, BatchesMayBeEmptyAndHaveEmptyItems) {
  EXPECT_EQ(cinch_compress_batch(codec_.get(), nullptr, nullptr, 0), CINCH_OK);
  EXPECT_EQ(cinch_decompress_batch(codec_.get(), nullptr, 0), CINCH_OK);
  EXPECT_EQ(cinch_compress_delta_batch(codec_.get(), nullptr, nullptr, nullptr, 0), CINCH_OK);
  EXPECT_EQ(cinch_decompress_delta_batch(codec_.get(), nullptr, nullptr, 0), CINCH_OK);
  Bytes frames[3];
  cinch_batch_item items[3] = {};
  const cinch_base bases[3] = {no_base_, no_base_, no_base_};
  for (int i = 0; i < 3; ++i) {
    frames[i].resize(cinch_compress_bound(0));
    items[i].output = frames[i].data();
    items[i].output_capacity_bytes = frames[i].size();
    items[i].dtype = CINCH_DTYPE_BF16;
  }
  ASSERT_EQ(cinch_compress_delta_batch(codec_.get(), nullptr, items, bases, 3), CINCH_OK);
  for (cinch_batch_item& item : items) {
    item = {item.output, item.output_bytes, nullptr, 0, 0, CINCH_DTYPE_BYTES, CINCH_OK};
  }
  EXPECT_EQ(cinch_decompress_delta_batch(codec_.get(), items, bases, 3), CINCH_OK);
  for (cinch_batch_item& item : items) item.input = nullptr, item.input_bytes = 0;
  EXPECT_EQ(cinch_decompress_batch(codec_.get(), items, 3), CINCH_ERROR_FRAME_TRUNCATED);
}

TEST(EmptyPatch, LeadsFromNothingToNothing) {
  uint64_t hash = 7;
  ASSERT_EQ(cinch_patch_content_hash(nullptr, 0, &hash), CINCH_OK);
  EXPECT_EQ(hash, 0U);
  Bytes patch(cinch_patch_bound(0));
  uint64_t bytes = 0;
  ASSERT_EQ(cinch_patch_create(nullptr, nullptr, 0, patch.data(), patch.size(), &bytes), CINCH_OK);
  EXPECT_EQ(cinch_patch_apply(nullptr, hash, patch.data(), bytes, nullptr, 0), CINCH_OK);
}

TEST(EmptyPatch, EmptyBuffersGiveStatuses) {
  const Bytes data(100, 1);
  Bytes result(100);
  uint64_t bytes = 0;
  EXPECT_EQ(cinch_patch_create(nullptr, nullptr, 0, nullptr, 0, &bytes),
            CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(cinch_patch_create(data.data(), data.data(), 100, nullptr, 0, &bytes),
            CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(cinch_patch_apply(nullptr, 0, nullptr, 0, nullptr, 0), CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_EQ(cinch_patch_apply(data.data(), 0, nullptr, 0, result.data(), 100),
            CINCH_ERROR_FRAME_TRUNCATED);
  cinch_patch_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(cinch_patch_get_info(nullptr, 0, &info), CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_EQ(cinch_patch_get_info(nullptr, 1, &info), CINCH_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace cinch
