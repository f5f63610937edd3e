// SPDX-License-Identifier: Apache-2.0
// The codec on the GPU: the CPU's bytes and back, for everything that can be an item.
#include <algorithm>
#include <random>
#include <string>

#include "gpu/gpu_codec.h"
#include "support/test_data.h"

namespace cinch {
namespace {

using test::BatchOptions;
using test::BatchRunner;
using test::Bytes;
using test::CpuFrame;
using test::DataKind;
using test::HostItem;
using test::HostResult;
using test::MakeData;

constexpr size_t kBlock = CINCH_CUDA_BLOCK_BYTES;

HostItem ItemOf(Bytes input, cinch_dtype dtype, uint32_t offset = 0) {
  HostItem item;
  item.capacity_bytes = cinch_compress_bound(input.size());
  item.input = std::move(input);
  item.dtype = dtype;
  item.input_offset = offset;
  return item;
}

/// Compresses the items, compares with the CPU's frames, decompresses them and compares again.
void CheckRoundTrip(BatchRunner* runner, const std::vector<HostItem>& items,
                    BatchOptions options = {}) {
  const std::vector<HostResult> frames = runner->Run(items, options);
  std::vector<HostItem> back;
  for (size_t i = 0; i < items.size(); ++i) {
    SCOPED_TRACE("item " + std::to_string(i) + " " + cinch_dtype_name(items[i].dtype) + " " +
                 std::to_string(items[i].input.size()) + " bytes at " +
                 std::to_string(items[i].input_offset));
    const Bytes expected = CpuFrame(items[i].input, items[i].dtype, options.checksum);
    ASSERT_EQ(frames[i].status, CINCH_OK);
    ASSERT_EQ(frames[i].output_bytes, expected.size());
    const auto [here, there] =
        std::mismatch(expected.begin(), expected.end(), frames[i].output.begin());
    ASSERT_TRUE(here == expected.end()) << "first difference at " << here - expected.begin();
    HostItem frame;
    frame.input = expected;
    frame.capacity_bytes = items[i].input.size();
    frame.output_offset = items[i].input_offset;
    back.push_back(std::move(frame));
  }
  options.compress = false;
  const std::vector<HostResult> outputs = runner->Run(back, options);
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(outputs[i].status, CINCH_OK) << "item " << i;
    ASSERT_EQ(outputs[i].output_bytes, items[i].input.size());
    ASSERT_TRUE(outputs[i].output == items[i].input) << "item " << i;
  }
}

class GpuCodecTest : public testing::TestWithParam<cinch_dtype> {
 protected:
  BatchRunner runner_{20000, 256 << 20};
};

TEST_P(GpuCodecTest, EveryKindAndLengthGivesTheBytesOfTheCpu) {
  const size_t lengths[] = {
      65, 2047, 2048, 4097, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 5 * kBlock + 77, 1000003};
  std::vector<HostItem> items;
  for (const DataKind kind : test::kAllDataKinds) {
    for (const size_t length : lengths) {
      items.push_back(ItemOf(MakeData(kind, GetParam(), length, length), GetParam()));
    }
    for (size_t length = 0; length <= 64; ++length) {
      items.push_back(ItemOf(MakeData(kind, GetParam(), length, length), GetParam()));
    }
  }
  CheckRoundTrip(&runner_, items);
}

TEST_P(GpuCodecTest, EveryAlignmentGivesTheBytesOfTheCpu) {
  std::vector<HostItem> items;
  for (uint32_t offset = 0; offset < 17; ++offset) {
    for (const size_t length : {size_t{1}, size_t{33}, size_t{1023}, kBlock, 2 * kBlock + 9}) {
      items.push_back(
          ItemOf(MakeData(DataKind::kGaussian, GetParam(), length, offset), GetParam(), offset));
    }
  }
  CheckRoundTrip(&runner_, items);
}

TEST_P(GpuCodecTest, EveryPatternOfSixteenBitsSurvives) {
  Bytes patterns(2 * 65536);
  for (size_t i = 0; i < 65536; ++i) {
    patterns[2 * i] = static_cast<uint8_t>(i);
    patterns[2 * i + 1] = static_cast<uint8_t>(i >> 8);
  }
  std::vector<HostItem> items{ItemOf(patterns, GetParam())};
  auto* halves = reinterpret_cast<uint16_t*>(patterns.data());
  std::shuffle(halves, halves + 65536, std::mt19937_64(3));
  items.push_back(ItemOf(patterns, GetParam()));
  CheckRoundTrip(&runner_, items);
}

TEST_P(GpuCodecTest, FramesWithoutChecksumsAreTheCpus) {
  std::vector<HostItem> items;
  for (const DataKind kind : test::kAllDataKinds) {
    items.push_back(ItemOf(MakeData(kind, GetParam(), 300001, 5), GetParam()));
  }
  BatchOptions options;
  options.checksum = false;
  CheckRoundTrip(&runner_, items, options);
}

TEST_P(GpuCodecTest, AnyNumberOfThreadBlocksGivesTheSameBytes) {
  std::vector<HostItem> items{
      ItemOf(MakeData(DataKind::kGaussian, GetParam(), 3 << 20, 1), GetParam()),
      ItemOf({}, GetParam()),
      ItemOf(MakeData(DataKind::kMixed, GetParam(), (1 << 20) + 5, 2), GetParam())};
  for (const uint32_t max_ctas : {1U, 2U, 7U, 16U, 100000U}) {
    BatchOptions options;
    options.max_ctas = max_ctas;
    CheckRoundTrip(&runner_, items, options);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GpuCodecTest, testing::ValuesIn(test::kAllDtypes),
                         [](const auto& dtype) {
                           return std::string(cinch_dtype_name(dtype.param));
                         });

/// Items of all sizes and dtypes, some of them empty.
std::vector<HostItem> MixedItems(size_t count, size_t max_bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  // Data are made once and cut from: making them costs more than coding them.
  std::vector<Bytes> sources;
  for (const cinch_dtype dtype : test::kAllDtypes) {
    sources.push_back(MakeData(DataKind::kGaussian, dtype, 4 * max_bytes, random()));
  }
  std::vector<HostItem> items;
  for (size_t i = 0; i < count; ++i) {
    const size_t which = random() % sources.size();
    const size_t length = random() % 10 == 0 ? 0 : random() % max_bytes;
    const auto begin = sources[which].begin() + static_cast<long>(random() % max_bytes);
    items.push_back(ItemOf(Bytes(begin, begin + static_cast<long>(length)), test::kAllDtypes[which],
                           static_cast<uint32_t>(8 * (random() % 3))));
  }
  return items;
}

TEST(GpuBatchTest, BatchesOfManyItemsOfAllSortsGiveTheBytesOfTheCpu) {
  BatchRunner runner(20000, 256 << 20);
  for (const bool on_host : {false, true}) {
    for (const size_t count : {size_t{1}, size_t{2}, size_t{31}, size_t{32}, size_t{33}, size_t{64},
                               size_t{65}, size_t{257}, size_t{3000}}) {
      SCOPED_TRACE(std::to_string(count) + (on_host ? " items on the host" : " items"));
      BatchOptions options;
      options.items_on_host = on_host;
      CheckRoundTrip(&runner, MixedItems(count, 100000, count), options);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  CheckRoundTrip(&runner, MixedItems(20000, 6000, 9));
}

TEST(GpuBatchTest, ABadItemGetsTheCpusStatusAndLeavesItsNeighboursAlone) {
  BatchRunner runner(100, 16 << 20);
  std::vector<HostItem> items = MixedItems(40, 50000, 3);
  items[3].input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 200000, 1);
  items[3].dtype = static_cast<cinch_dtype>(77);
  items[5].input = items[3].input;
  items[5].dtype = CINCH_DTYPE_BF16;
  items[5].capacity_bytes = 100;  // Not even the index fits.
  items[7].input = items[3].input;
  items[7].dtype = CINCH_DTYPE_BF16;
  const Bytes frame = CpuFrame(items[7].input, CINCH_DTYPE_BF16, true);
  items[7].capacity_bytes = frame.size() - 1;
  items[9] = items[7];
  items[9].capacity_bytes = frame.size();
  items[11].output_offset = 8;
  const std::vector<HostResult> results = runner.Run(items, {});
  EXPECT_EQ(results[3].status, CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(results[5].status, CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(results[7].status, CINCH_ERROR_DESTINATION_TOO_SMALL);
  EXPECT_EQ(results[9].status, CINCH_OK);
  EXPECT_EQ(results[9].output, frame);
  EXPECT_EQ(results[11].status, CINCH_ERROR_INVALID_ARGUMENT);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == 3 || i == 5 || i == 7 || i == 11) {
      EXPECT_EQ(results[i].output_bytes, 0U);
      continue;
    }
    ASSERT_EQ(results[i].status, CINCH_OK) << i;
    const Bytes expected = CpuFrame(items[i].input, items[i].dtype, true);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), results[i].output.begin())) << i;
  }
  // The scratch memory is as good as new.
  CheckRoundTrip(&runner, MixedItems(40, 50000, 4));
}

TEST(GpuBatchTest, ABatchBeyondItsScratchIsRefusedItemByItem) {
  BatchRunner runner(4, 4 * kBlock);
  std::vector<HostItem> items;
  for (int i = 0; i < 3; ++i) items.push_back(ItemOf(Bytes(4 * kBlock), CINCH_DTYPE_BF16));
  for (const HostResult& result : runner.Run(items, {})) {
    EXPECT_EQ(result.status, CINCH_ERROR_TOO_LARGE);
  }
  items.resize(1);
  CheckRoundTrip(&runner, items);
}

TEST(GpuBatchTest, ScratchThatWasNotPreparedIsRefused) {
  test::Memory memory(cinch_cuda_scratch_bytes(1, kBlock));
  ASSERT_EQ(cudaMemset(memory.data(), 0, memory.size()), cudaSuccess);
  const cinch_cuda_scratch scratch{sizeof scratch, memory.data(), memory.size(), 1, kBlock};
  test::Memory buffer(4 * kBlock);
  test::Memory result(sizeof(cinch_cuda_result), test::Memory::Kind::kMapped);
  const cinch_cuda_item item{buffer.data(), kBlock,           buffer.data() + 2 * kBlock,
                             2 * kBlock,    CINCH_DTYPE_BF16, 0};
  cinch_cuda_options options;
  cinch_cuda_options_init(&options);
  ASSERT_EQ(cinch_cuda_compress(&options, &item, result.as<cinch_cuda_result>(), &scratch),
            CINCH_OK);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(result.as<cinch_cuda_result>()->status, CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_cuda_compress(&options, &item, result.as<cinch_cuda_result>(), nullptr),
            CINCH_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace cinch
