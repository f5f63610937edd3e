// SPDX-License-Identifier: Apache-2.0
// The GPU's compression kernel on an emulated GPU, from its source, against the CPU's frames.
#include "emulated_gpu.h"

#include <gtest/gtest.h>

#include <string>

#include "cinch/codec.h"
#include "codec/gpu/kernels/encode_kernel.cuh"
#include "support/emulated_batch.h"
#include "support/test_data.h"

namespace cinch::codec::gpu {
namespace {

using test::Bytes;
using test::CpuFrame;
using test::DataKind;
using test::MakeData;

struct Item {
  Bytes input;
  cinch_dtype dtype;
  uint64_t capacity_bytes;
};

Item ItemOf(DataKind kind, cinch_dtype dtype, size_t bytes) {
  return {MakeData(kind, dtype, bytes, bytes), dtype, cinch_compress_bound(bytes)};
}

struct Settings {
  uint32_t ctas = 2;
  bool checksum = true;
  bool progress = false;
  bool planned = false;
  uint64_t seed = 1;
};

class Launcher {
 public:
  Launcher(uint64_t max_items, uint64_t max_units) : memory_(max_items, max_units) {}

  /// Compresses and compares with the CPU's frames.
  void Check(const std::vector<Item>& items, const Settings& settings) {
    BatchParameters batch{};
    batch.scratch = scratch_;
    batch.item_count = static_cast<uint32_t>(items.size());
    batch.checksum = settings.checksum ? 1 : 0;
    batch.planned = settings.planned ? 1 : 0;
    std::vector<cinch_cuda_result> results(items.size());
    std::vector<uint64_t> progress(items.size());
    batch.results = results.data();
    batch.progress = settings.progress ? progress.data() : nullptr;
    std::vector<std::unique_ptr<Aligned>> buffers;
    std::vector<uint8_t*> outputs;
    uint32_t unit = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      buffers.push_back(std::make_unique<Aligned>(items[i].input.size() + 16));
      uint8_t* input = buffers.back()->data();
      std::copy(items[i].input.begin(), items[i].input.end(), input);
      buffers.push_back(std::make_unique<Aligned>(items[i].capacity_bytes + 16));
      outputs.push_back(buffers.back()->data());
      std::fill_n(outputs.back(), items[i].capacity_bytes + 16, uint8_t{0xCD});
      const cinch_cuda_item item{
          input, items[i].input.size(), outputs.back(), items[i].capacity_bytes, items[i].dtype, 0};
      if (settings.planned) {
        scratch_.plan[i] = PlanCompression(item, batch.checksum);
        scratch_.first_unit[i] = unit;
        unit += scratch_.plan[i].units();
        scratch_.header->total_units = unit;
      } else {
        batch.inline_items[i] = item;
      }
    }
    emulated::Grid grid(settings.ctas, kEncodeTuning.threads, settings.seed);
    grid.Run([&] {
      SyncEncodeBatch(batch, reinterpret_cast<EncodeShared*>(
                                 emulated::Grid::Current().own_block().shared_base()));
    });
    for (size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE("item " + std::to_string(i) + " " + cinch_dtype_name(items[i].dtype) + " " +
                   std::to_string(items[i].input.size()));
      CheckItem(items[i], settings, results[i], outputs[i]);
      if (settings.progress) {
        ASSERT_EQ(progress[i], format::BlockCount(items[i].input.size()));
      }
    }
    CheckIsReady(items.size());
  }

 private:
  /// Nothing is left of a launch that the next one would trip over.
  void CheckIsReady(size_t item_count) const {
    ASSERT_EQ(scratch_.header->next_unit, 0U);
    ASSERT_EQ(scratch_.header->exited_ctas, 0U);
    for (size_t i = 0; i < item_count; ++i) {
      ASSERT_EQ(scratch_.states[i].finished_blocks, 0U);
      ASSERT_EQ(scratch_.states[i].hash_sum, 0U);
    }
  }

  /// What came of an item.
  static void CheckItem(const Item& item, const Settings& settings, const cinch_cuda_result& result,
                        const uint8_t* output) {
    const Bytes expected = CpuFrame(item.input, item.dtype, settings.checksum);
    for (uint64_t k = 0; k < 16; ++k) ASSERT_EQ(output[item.capacity_bytes + k], 0xCD);
    if (expected.size() > item.capacity_bytes) {
      ASSERT_EQ(result.status, CINCH_ERROR_DESTINATION_TOO_SMALL);
      return;
    }
    ASSERT_EQ(result.status, CINCH_OK);
    ASSERT_EQ(result.output_bytes, expected.size());
    const auto [here, there] = std::mismatch(expected.begin(), expected.end(), output);
    ASSERT_TRUE(here == expected.end()) << "first difference at " << here - expected.begin();
  }

  PreparedScratch memory_;
  const Scratch& scratch_ = memory_.get();
};

class GpuEncodeKernelTest : public testing::TestWithParam<cinch_dtype> {
 protected:
  Launcher launcher_{200, 2000};
};

TEST_P(GpuEncodeKernelTest, EveryKindOfDataGivesTheBytesOfTheCpu) {
  uint64_t seed = 0;
  for (const DataKind kind : test::kAllDataKinds) {
    SCOPED_TRACE(test::NameOf(kind));
    launcher_.Check({ItemOf(kind, GetParam(), 4 * kBlock + 1536)}, {.ctas = 1, .seed = ++seed});
    if (HasFatalFailure()) return;
  }
}

TEST_P(GpuEncodeKernelTest, EveryLengthGivesTheBytesOfTheCpu) {
  std::vector<Item> items;
  for (const size_t bytes : kLengths) {
    items.push_back(ItemOf(DataKind::kGaussian, GetParam(), bytes));
  }
  launcher_.Check(items, {.ctas = 2});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GpuEncodeKernelTest, testing::ValuesIn(test::kAllDtypes),
                         [](const auto& dtype) {
                           return std::string(cinch_dtype_name(dtype.param));
                         });

TEST(GpuEncodeBatchTest, AutoFindsTheDtypesThatTheCpuFinds) {
  Launcher launcher(200, 2000);
  for (const DataKind kind : test::kAllDataKinds) {
    std::vector<Item> items;
    for (const cinch_dtype dtype : test::kAllDtypes) {
      items.push_back(ItemOf(kind, dtype, kBlock + 32 * items.size()));
      items.back().dtype = CINCH_DTYPE_AUTO;
    }
    SCOPED_TRACE(test::NameOf(kind));
    launcher.Check(items, {.ctas = 2, .planned = true});
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(GpuEncodeBatchTest, ScanAndLookBackGiveTheSamePlaces) {
  Launcher launcher(200, 2000);
  const std::vector<Item> items{ItemOf(DataKind::kGaussian, CINCH_DTYPE_BF16, 25 * kBlock),
                                ItemOf(DataKind::kGaussian, CINCH_DTYPE_FP32, 0),
                                ItemOf(DataKind::kMixed, CINCH_DTYPE_FP16, 9 * kBlock + 64),
                                ItemOf(DataKind::kGaussian, CINCH_DTYPE_FP8_E5M2, kBlock)};
  for (const uint32_t ctas : {1U, 3U, kMinScanCtas}) {
    for (const bool progress : {false, true}) {
      SCOPED_TRACE(ctas);
      launcher.Check(items, {.ctas = ctas, .progress = progress, .seed = ctas});
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(GpuEncodeBatchTest, APlannedBatchWithItemsTooSmallGivesTheCpusVerdicts) {
  Launcher launcher(200, 2000);
  std::vector<Item> items;
  for (size_t i = 0; i < 60; ++i) {
    items.push_back(ItemOf(i % 7 == 0 ? DataKind::kMixed : DataKind::kGaussian,
                           test::kAllDtypes[i % std::size(test::kAllDtypes)], 4096 * (i % 9)));
    Item& item = items.back();
    if (i % 11 == 5) item.capacity_bytes = CpuFrame(item.input, item.dtype, true).size() - 1;
  }
  launcher.Check(items, {.ctas = 3, .planned = true});
  launcher.Check(items, {.ctas = kMinScanCtas, .planned = true});
  launcher.Check(items, {.ctas = 2, .checksum = false, .planned = true});
}

}  // namespace
}  // namespace cinch::codec::gpu
