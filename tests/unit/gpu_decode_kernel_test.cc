// SPDX-License-Identifier: Apache-2.0
// The GPU's decompression kernel on an emulated GPU, from its source, against the CPU's verdicts.
#include "emulated_gpu.h"

#include <gtest/gtest.h>

#include <string>

#include "cinch/codec.h"
#include "codec/gpu/kernels/decode_kernel.cuh"
#include "format/block_hash.h"
#include "support/emulated_batch.h"
#include "support/test_data.h"

namespace cinch::codec::gpu {
namespace {

using test::Bytes;
using test::CpuCodec;
using test::CpuFrame;
using test::DataKind;
using test::MakeData;

struct Item {
  Bytes frame;
  uint64_t capacity_bytes;
  uint32_t output_offset = 0;  ///< From an address that 256 divides.
};

Item ItemOf(const Bytes& input, cinch_dtype dtype, bool checksum = true) {
  return {CpuFrame(input, dtype, checksum), input.size()};
}

Item ItemOf(DataKind kind, cinch_dtype dtype, size_t bytes, bool checksum = true) {
  return ItemOf(MakeData(kind, dtype, bytes, bytes), dtype, checksum);
}

struct Settings {
  uint32_t ctas = 2;
  bool progress = false;
  bool planned = false;
  uint64_t seed = 1;
  bool arriving = false;  ///< The frames come while the kernel runs; not all of item 1.
};

class Launcher {
 public:
  Launcher(uint64_t max_items, uint64_t max_units) : memory_(max_items, max_units) {}

  /// Decompresses and compares with what the CPU says; returns how many items it rejects.
  size_t Check(const std::vector<Item>& items, const Settings& settings) {
    Buffers buffers(items);
    BatchParameters batch = ParametersOf(items, settings, &buffers);
    std::mt19937_64 random(settings.seed);
    on_poll = [&] {
      if (settings.arriving) Bring(items, random, &buffers);
    };
    emulated::Grid grid(settings.ctas, kDecodeTuning.threads, settings.seed);
    grid.Run([&] {
      SyncDecodeBatch(batch, reinterpret_cast<DecodeShared*>(
                                 emulated::Grid::Current().own_block().shared_base()));
    });
    size_t rejected = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE("item " + std::to_string(i) + " of " + std::to_string(items[i].capacity_bytes) +
                   " bytes");
      if (settings.arriving && i == kMissing) {
        EXPECT_EQ(buffers.results[i].status, CINCH_ERROR_TIMEOUT);
        EXPECT_EQ(buffers.results[i].output_bytes, 0U);
        continue;
      }
      CheckItem(items[i], buffers.results[i], buffers.outputs[i], &rejected);
      if (testing::Test::HasFatalFailure()) break;
      if (settings.progress && buffers.results[i].status == CINCH_OK) {
        EXPECT_EQ(buffers.progress[i], format::BlockCount(buffers.results[i].output_bytes));
      }
    }
    CheckScratch(items.size());
    return rejected;
  }

 private:
  /// Of a launch.
  struct Buffers {
    explicit Buffers(const std::vector<Item>& items)
        : results(items.size()), progress(items.size()), available(items.size()) {
      for (const Item& item : items) {
        memory.push_back(std::make_unique<Aligned>(item.frame.size()));
        inputs.push_back(memory.back()->data());
        std::copy(item.frame.begin(), item.frame.end(), inputs.back());
        memory.push_back(std::make_unique<Aligned>(item.capacity_bytes + item.output_offset + 16));
        outputs.push_back(memory.back()->data() + item.output_offset);
        std::fill_n(outputs.back(), item.capacity_bytes + 16, uint8_t{0xCD});
      }
    }
    std::vector<std::unique_ptr<Aligned>> memory;
    std::vector<uint8_t*> inputs;
    std::vector<uint8_t*> outputs;
    std::vector<cinch_cuda_result> results;
    std::vector<uint64_t> progress;
    std::vector<uint64_t> available;
  };
  static constexpr size_t kMissing = 1;  ///< The item that does not arrive.

  BatchParameters ParametersOf(const std::vector<Item>& items, const Settings& settings,
                               Buffers* buffers) {
    BatchParameters batch{};
    batch.scratch = scratch_;
    batch.item_count = static_cast<uint32_t>(items.size());
    batch.planned = settings.planned ? 1 : 0;
    batch.results = buffers->results.data();
    batch.progress = settings.progress ? buffers->progress.data() : nullptr;
    uint32_t unit = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const cinch_cuda_item item{buffers->inputs[i],  items[i].frame.size(),
                                 buffers->outputs[i], items[i].capacity_bytes,
                                 CINCH_DTYPE_BYTES,   0};
      if (settings.planned) {
        scratch_.plan[i] = PlanDecompression(item);
        scratch_.first_unit[i] = unit;
        unit += scratch_.plan[i].units();
        scratch_.header->total_units = unit;
      } else {
        batch.inline_items[i] = item;
      }
    }
    if (!settings.arriving) return batch;
    batch.available_bytes = buffers->available.data();
    batch.available_timeout_ns = 2'000'000;
    for (size_t i = 0; i < items.size(); ++i) {
      std::fill_n(buffers->inputs[i] + 64, items[i].frame.size() - 64, uint8_t{0xEE});
      buffers->available[i] = 64;
    }
    return batch;
  }

  /// Some more bytes of one of the items arrive.
  static void Bring(const std::vector<Item>& items, std::mt19937_64& random, Buffers* buffers) {
    const size_t i = random() % items.size();
    const uint64_t end = items[i].frame.size() - (i == kMissing ? 16 : 0);
    uint64_t& available = buffers->available[i];
    const uint64_t more = std::min<uint64_t>(random() % 3000, end - available);
    std::copy_n(items[i].frame.data() + available, more, buffers->inputs[i] + available);
    available += more;
  }

  /// It is ready for the next launch.
  void CheckScratch(size_t items) const {
    EXPECT_EQ(scratch_.header->next_unit, 0U);
    EXPECT_EQ(scratch_.header->exited_ctas, 0U);
    for (size_t i = 0; i < items; ++i) {
      EXPECT_EQ(scratch_.states[i].finished_blocks, 0U);
      EXPECT_EQ(scratch_.states[i].hash_sum, 0U);
      EXPECT_EQ(scratch_.states[i].error_key, 0U);
    }
  }

  static void CheckItem(const Item& item, const cinch_cuda_result& result, const uint8_t* output,
                        size_t* rejected) {
    Bytes expected(item.capacity_bytes);
    uint64_t expected_bytes = 0;
    const cinch_status verdict =
        cinch_decompress(CpuCodec(), item.frame.data(), item.frame.size(), expected.data(),
                         expected.size(), &expected_bytes);
    for (uint64_t k = 0; k < 16; ++k) ASSERT_EQ(output[item.capacity_bytes + k], 0xCD);
    ASSERT_EQ(result.status, verdict);
    if (verdict != CINCH_OK) {
      ++*rejected;
      ASSERT_EQ(result.output_bytes, 0U);
      return;
    }
    ASSERT_EQ(result.output_bytes, expected_bytes);
    const auto [here, there] = std::mismatch(
        expected.begin(), expected.begin() + static_cast<long>(expected_bytes), output);
    ASSERT_EQ(here - expected.begin(), static_cast<long>(expected_bytes)) << "first difference";
  }

  PreparedScratch memory_;
  const Scratch& scratch_ = memory_.get();
};

class GpuDecodeKernelTest : public testing::TestWithParam<cinch_dtype> {
 protected:
  Launcher launcher_{200, 2000};
};

TEST_P(GpuDecodeKernelTest, EveryKindOfDataComesBack) {
  uint64_t seed = 0;
  for (const DataKind kind : test::kAllDataKinds) {
    SCOPED_TRACE(test::NameOf(kind));
    launcher_.Check({ItemOf(kind, GetParam(), 4 * kBlock + 1536)}, {.ctas = 1, .seed = ++seed});
    if (HasFatalFailure()) return;
  }
}

TEST_P(GpuDecodeKernelTest, EveryLengthComesBack) {
  std::vector<Item> items;
  for (const size_t bytes : kLengths) {
    items.push_back(ItemOf(DataKind::kGaussian, GetParam(), bytes));
  }
  launcher_.Check(items, {.ctas = 2});
}

TEST_P(GpuDecodeKernelTest, EveryAlignmentIsServed) {
  std::vector<Item> items;
  for (uint32_t offset = 0; offset < 16; ++offset) {
    items.push_back(ItemOf(offset % 5 == 0 ? DataKind::kRandom : DataKind::kGaussian, GetParam(),
                           offset % 3 == 0 ? kBlock : 1056 + 32 * offset));
    items.back().output_offset = offset;
  }
  launcher_.Check(items, {.ctas = 2});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GpuDecodeKernelTest, testing::ValuesIn(test::kAllDtypes),
                         [](const auto& dtype) {
                           return std::string(cinch_dtype_name(dtype.param));
                         });

TEST(GpuDecodeBatchTest, AnyNumberOfThreadBlocksDecodesABatch) {
  Launcher launcher(200, 2000);
  const std::vector<Item> items{ItemOf(DataKind::kGaussian, CINCH_DTYPE_BF16, 40 * kBlock),
                                ItemOf(DataKind::kGaussian, CINCH_DTYPE_FP32, 0),
                                ItemOf(DataKind::kMixed, CINCH_DTYPE_FP16, 20 * kBlock + 64),
                                ItemOf(DataKind::kGaussian, CINCH_DTYPE_FP8_E5M2, kBlock)};
  for (const uint32_t ctas : {1U, 3U, 17U, 70U}) {
    for (const bool progress : {false, true}) {
      SCOPED_TRACE(ctas);
      launcher.Check(items, {.ctas = ctas, .progress = progress, .seed = ctas});
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(GpuDecodeBatchTest, APlannedBatchGivesTheCpusVerdicts) {
  Launcher launcher(200, 2000);
  std::vector<Item> items;
  for (size_t i = 0; i < 150; ++i) {
    items.push_back(ItemOf(i % 7 == 0 ? DataKind::kMixed : DataKind::kGaussian,
                           test::kAllDtypes[i % std::size(test::kAllDtypes)], 4096 * (i % 9)));
    if (i % 11 == 5 && items.back().capacity_bytes != 0) --items.back().capacity_bytes;
  }
  for (const uint32_t ctas : {1U, 3U, 20U}) {
    EXPECT_GT(launcher.Check(items, {.ctas = ctas, .planned = true}), 0U);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(GpuDecodeBatchTest, FramesAreDecodedWhileTheyArriveAndOneThatDoesNotTimesOut) {
  Launcher launcher(200, 2000);
  std::vector<Item> items;
  for (size_t i = 0; i < 5; ++i) {
    items.push_back(ItemOf(DataKind::kGaussian, CINCH_DTYPE_BF16, (3 + i) * kBlock + 64 * i));
  }
  for (const uint32_t ctas : {1U, 3U, 12U}) {
    for (const bool progress : {false, true}) {
      SCOPED_TRACE(ctas);
      const Settings settings{
          .ctas = ctas, .progress = progress, .planned = true, .seed = ctas, .arriving = true};
      EXPECT_EQ(launcher.Check(items, settings), 0U);
      if (testing::Test::HasFailure()) return;
    }
  }
}

void FixHeaderHash(Bytes* frame) {
  if (frame->size() < 64) return;
  const auto hash =
      static_cast<uint32_t>(format::BlockHash(frame->data(), 60, format::kHeaderHashIndex));
  std::memcpy(frame->data() + 60, &hash, sizeof hash);
}

/// Changes some bits, mostly where the structure is: the frame's head, and that of the first block.
void Mutate(std::mt19937_64* random, Bytes* frame) {
  for (uint64_t left = (*random)() % 4; left != 0; --left) {
    const size_t range =
        (*random)() % 3 == 0 ? frame->size() : std::min<size_t>(frame->size(), 128);
    const size_t at = (*random)() % range;
    (*frame)[at] ^= static_cast<uint8_t>(1U << ((*random)() % 8));
  }
  FixHeaderHash(frame);
}

TEST(GpuDecodeBatchTest, MutatedFramesGetTheCpusVerdicts) {
  Launcher launcher(200, 2000);
  std::mt19937_64 random(5);
  std::vector<Item> seeds;
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const DataKind kind : test::kAllDataKinds) {
      for (const size_t bytes : {size_t{64}, size_t{1024}, size_t{4096}, size_t{3001}}) {
        seeds.push_back(ItemOf(kind, dtype, bytes, seeds.size() % 2 == 0));
      }
    }
  }
  size_t rejected = 0;
  size_t all = 0;
  for (uint64_t round = 0; round < 12; ++round) {
    std::vector<Item> items;
    for (size_t i = 0; i < 190; ++i) {
      items.push_back(seeds[random() % seeds.size()]);
      Mutate(&random, &items.back().frame);
    }
    all += items.size();
    SCOPED_TRACE(round);
    rejected += launcher.Check(items, {.ctas = 2, .planned = true, .seed = round});
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(rejected, all / 4);
  EXPECT_LT(rejected, all);
}

}  // namespace
}  // namespace cinch::codec::gpu
