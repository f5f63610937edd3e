// SPDX-License-Identifier: Apache-2.0
// What cinch/cuda.h promises on every machine: with CUDA in the build or not, with a GPU or not.
#include <gtest/gtest.h>

#include <vector>

#include "cinch/cuda.h"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/plan.cuh"

namespace cinch::codec::gpu {
namespace {

TEST(CudaAbiTest, StructsHaveTheSizesThatTheHeaderPins) {
  EXPECT_EQ(sizeof(cinch_cuda_item), 40U);
  EXPECT_EQ(sizeof(cinch_cuda_result), 16U);
}

TEST(CudaAbiTest, DefaultsAreTheDocumentedOnes) {
  cinch_cuda_options options;
  cinch_cuda_options_init(&options);
  EXPECT_EQ(options.struct_size, sizeof options);
  EXPECT_EQ(options.stream, nullptr);
  EXPECT_EQ(options.max_ctas, 0U);
  EXPECT_EQ(options.checksum, 1);
  EXPECT_EQ(options.items_on_host, 0);
  EXPECT_EQ(options.progress, nullptr);
  cinch_cuda_options_init(nullptr);
}

TEST(CudaAbiTest, ScratchIsASmallShareOfTheInput) {
  const uint64_t input_bytes = uint64_t{1} << 36;
  EXPECT_LT(cinch_cuda_scratch_bytes(1, input_bytes), input_bytes / 3000);
  EXPECT_LT(cinch_cuda_scratch_bytes(100000, 0), 220U * 100000);
  EXPECT_GT(cinch_cuda_scratch_bytes(2, 0), 0U);
  EXPECT_EQ(cinch_cuda_scratch_bytes(0, 100), 0U);
  EXPECT_EQ(cinch_cuda_scratch_bytes(uint64_t{1} << 32, 100), 0U);
  EXPECT_EQ(cinch_cuda_scratch_bytes(1, ~uint64_t{0}), 0U);
}

TEST(CudaAbiTest, BadArgumentsAndMissingDevicesAreStatuses) {
  cinch_cuda_options options;
  cinch_cuda_options_init(&options);
  cinch_cuda_item item{};
  cinch_cuda_result result{};
#if CINCH_HAVE_CUDA
  const Status expected = CINCH_ERROR_INVALID_ARGUMENT;
#else
  const Status expected = CINCH_ERROR_UNSUPPORTED;
#endif
  EXPECT_EQ(cinch_cuda_scratch_init(nullptr, nullptr), expected);
  EXPECT_EQ(cinch_cuda_compress(&options, &item, &result, nullptr), expected);
  EXPECT_EQ(cinch_cuda_decompress(&options, &item, &result, nullptr), expected);
  EXPECT_EQ(cinch_cuda_measure(&options, CINCH_DTYPE_BF16, nullptr, 0, 0, 1, nullptr), expected);
  EXPECT_EQ(cinch_cuda_compress(nullptr, &item, &result, nullptr), CINCH_ERROR_INVALID_ARGUMENT);
}

cinch_cuda_item ItemAt(uintptr_t input, uint64_t input_bytes, uintptr_t output, uint64_t capacity) {
  return {reinterpret_cast<const void*>(input),
          input_bytes,
          reinterpret_cast<void*>(output),
          capacity,
          CINCH_DTYPE_BF16,
          0};
}

TEST(CudaPlanTest, CompressionRefusesWhatTheCpuRefuses) {
  const auto status = [](const cinch_cuda_item& item) { return PlanCompression(item, 1).status; };
  EXPECT_EQ(status(ItemAt(0x1000, 100, 0x2000, 1000)), CINCH_OK);
  EXPECT_EQ(PlanCompression(ItemAt(0x1000, 65537, 0x200000, 70000), 1).blocks, 3U);
  EXPECT_EQ(status(ItemAt(0, 0, 0x2000, 64)), CINCH_OK);
  EXPECT_EQ(status(ItemAt(0, 1, 0x2000, 1000)), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status(ItemAt(0x1000, 100, 0, 1000)), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status(ItemAt(0x1000, 100, 0x2008, 1000)), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status(ItemAt(0x1000, 100, 0x1050, 1000)), CINCH_ERROR_OVERLAP);
  EXPECT_EQ(status(ItemAt(0x1000, 100, 0x2000, 79)), CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(status(ItemAt(0x1000, CINCH_MAX_FRAME_INPUT_BYTES + 1, uintptr_t{1} << 40, 1000)),
            CINCH_ERROR_TOO_LARGE);
  cinch_cuda_item item = ItemAt(0x1000, 100, 0x2000, 1000);
  item.reserved = 1;
  EXPECT_EQ(status(item), CINCH_ERROR_INVALID_ARGUMENT);
  item.reserved = 0;
  item.dtype = static_cast<cinch_dtype>(9999);
  EXPECT_EQ(status(item), CINCH_ERROR_INVALID_ARGUMENT);
}

/// A CPU frame of an input, and a plan of its decompression into `capacity` bytes.
PlanItem PlanOfFrame(std::vector<uint8_t>* frame, uint64_t frame_bytes, uint64_t capacity) {
  return PlanDecompression(ItemAt(reinterpret_cast<uintptr_t>(frame->data()), frame_bytes,
                                  uintptr_t{1} << 40, capacity));
}

TEST(CudaPlanTest, HeadersAreReadAndWrittenAsTheCpuDoes) {
  const std::vector<uint8_t> input(100000, 7);
  std::vector<uint8_t> frame(cinch_compress_bound(input.size()));
  cinch_codec* codec = nullptr;
  ASSERT_EQ(cinch_codec_create(nullptr, &codec), CINCH_OK);
  uint64_t frame_bytes = 0;
  ASSERT_EQ(cinch_compress(codec, nullptr, input.data(), input.size(), frame.data(), frame.size(),
                           &frame_bytes),
            CINCH_OK);
  cinch_codec_destroy(codec);
  const PlanItem plan = PlanOfFrame(&frame, frame_bytes, input.size());
  EXPECT_EQ(plan.status, CINCH_OK);
  EXPECT_EQ(plan.original_bytes, input.size());
  EXPECT_EQ(plan.blocks, 4U);
  EXPECT_EQ(plan.checksum, 1U);
  const HeaderWords header = MakeHeaderWords(plan, plan.payload_bytes, plan.content_hash);
  EXPECT_EQ(std::memcmp(&header, frame.data(), sizeof header), 0);

  EXPECT_EQ(PlanOfFrame(&frame, frame_bytes, 99999).status, CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(PlanOfFrame(&frame, 63, input.size()).status, CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_EQ(PlanOfFrame(&frame, frame_bytes - 16, input.size()).status,
            CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_EQ(PlanOfFrame(&frame, frame_bytes + 16, input.size()).status, CINCH_ERROR_FRAME_TRAILING);
  frame[8] ^= 1;
  EXPECT_EQ(PlanOfFrame(&frame, frame_bytes, input.size()).status, CINCH_ERROR_FRAME_HEADER);
  frame[4] ^= 1;
  EXPECT_EQ(PlanOfFrame(&frame, frame_bytes, input.size()).status, CINCH_ERROR_FRAME_VERSION);
  frame[0] ^= 1;
  EXPECT_EQ(PlanOfFrame(&frame, frame_bytes, input.size()).status, CINCH_ERROR_FRAME_MAGIC);
}

TEST(CudaErrorsTest, TheGravestErrorHasTheLargestKey) {
  const uint64_t block5 = ErrorKey(ErrorRank::kBlock, 5, CINCH_ERROR_FRAME_CHECKSUM);
  const uint64_t block6 = ErrorKey(ErrorRank::kBlock, 6, CINCH_ERROR_FRAME_BLOCK);
  const uint64_t destination =
      ErrorKey(ErrorRank::kDestination, 9, CINCH_ERROR_DESTINATION_TOO_SMALL);
  const uint64_t padding = ErrorKey(ErrorRank::kPadding, 9, CINCH_ERROR_FRAME_RESERVED);
  const uint64_t index = ErrorKey(ErrorRank::kIndex, 0xFFFFFFFF, CINCH_ERROR_FRAME_INDEX);
  EXPECT_GT(block6, 0U);
  EXPECT_GT(block5, block6);
  EXPECT_GT(destination, block5);
  EXPECT_GT(padding, destination);
  EXPECT_GT(index, padding);
  EXPECT_EQ(StatusOfKey(block5), CINCH_ERROR_FRAME_CHECKSUM);
  EXPECT_EQ(StatusOfKey(index), CINCH_ERROR_FRAME_INDEX);
}

}  // namespace
}  // namespace cinch::codec::gpu
