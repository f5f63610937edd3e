// SPDX-License-Identifier: Apache-2.0
// Untrusted frames on the GPU: the CPU's verdicts, item by item, and no harm to anything else.
#include <algorithm>
#include <random>

#include "format/block_hash.h"
#include "format/layout.h"
#include "gpu/gpu_codec.h"
#include "support/test_data.h"

namespace cinch {
namespace {

using test::BatchOptions;
using test::BatchRunner;
using test::Bytes;
using test::CpuFrame;
using test::HostItem;
using test::HostResult;
using test::MakeData;

void FixHeaderHash(Bytes* frame) {
  if (frame->size() < 64) return;
  const auto hash =
      static_cast<uint32_t>(format::BlockHash(frame->data(), 60, format::kHeaderHashIndex));
  std::memcpy(frame->data() + 60, &hash, sizeof hash);
}

/// Changes a few bits, mostly where the structure is, or the size.
void Mutate(std::mt19937_64* random, Bytes* frame) {
  const auto below = [&](size_t limit) { return static_cast<size_t>((*random)() % limit); };
  for (size_t left = below(4); left != 0; --left) {
    const size_t range = below(3) == 0 ? frame->size() : std::min<size_t>(frame->size(), 160);
    (*frame)[below(range)] ^= static_cast<uint8_t>(1U << below(8));
  }
  if (below(8) == 0) frame->resize(below(frame->size() + 1));
  if (below(16) == 0) frame->resize(frame->size() + 16 * below(3));
  // Most frames must get past the header's hash to be of use.
  if (below(8) != 0) FixHeaderHash(frame);
}

/// Frames to start from: every dtype and kind, with and without checksums.
std::vector<Bytes> Seeds(std::vector<size_t>* original_bytes) {
  std::vector<Bytes> seeds;
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const test::DataKind kind : test::kAllDataKinds) {
      for (const size_t length : {size_t{40}, size_t{3001}, size_t{33000}, size_t{70000}}) {
        if (length > 4000 && seeds.size() % 5 != 0) continue;
        seeds.push_back(CpuFrame(MakeData(kind, dtype, length, length), dtype, length % 2 == 1));
        original_bytes->push_back(length);
      }
    }
  }
  return seeds;
}

std::vector<HostItem> MutatedFrames(size_t count, uint64_t seed) {
  static std::vector<size_t> original_bytes;
  static const std::vector<Bytes> seeds = Seeds(&original_bytes);
  std::mt19937_64 random(seed);
  std::vector<HostItem> items(count);
  for (HostItem& item : items) {
    const size_t which = random() % seeds.size();
    item.input = seeds[which];
    item.capacity_bytes = original_bytes[which] - (random() % 32 == 0 ? 1 : 0);
    Mutate(&random, &item.input);
  }
  return items;
}

/// What the CPU says of an item, and its output.
HostResult CpuVerdict(const HostItem& item) {
  HostResult result{CINCH_OK, 0, Bytes(item.capacity_bytes)};
  result.status =
      cinch_decompress(test::CpuCodec(), item.input.data(), item.input.size(), result.output.data(),
                       result.output.size(), &result.output_bytes);
  return result;
}

void Compare(const std::vector<HostItem>& items, const std::vector<HostResult>& results,
             size_t* rejected) {
  for (size_t i = 0; i < items.size(); ++i) {
    const HostResult expected = CpuVerdict(items[i]);
    ASSERT_EQ(results[i].status, expected.status) << "item " << i;
    if (expected.status == CINCH_OK) {
      ASSERT_EQ(results[i].output_bytes, expected.output_bytes);
      ASSERT_TRUE(std::equal(expected.output.begin(),
                             expected.output.begin() + static_cast<long>(expected.output_bytes),
                             results[i].output.begin()));
    } else {
      ASSERT_EQ(results[i].output_bytes, 0U);
      ++*rejected;
    }
  }
}

/// Fewer under a tool that makes everything slow.
size_t Rounds() {
  const char* rounds = std::getenv("CINCH_TEST_HOSTILE_ROUNDS");
  return rounds == nullptr ? 25 : static_cast<size_t>(std::atoi(rounds));
}

TEST(GpuHostileTest, MutatedFramesGetTheVerdictsOfTheCpu) {
  constexpr size_t kItems = 4096;
  BatchRunner runner(kItems, uint64_t{1} << 30);
  size_t rejected = 0;
  for (size_t round = 0; round < Rounds(); ++round) {
    const std::vector<HostItem> items = MutatedFrames(kItems, round);
    BatchOptions options;
    options.compress = false;
    Compare(items, runner.Run(items, options), &rejected);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(rejected, Rounds() * kItems / 4);
  EXPECT_LT(rejected, Rounds() * kItems);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(GpuHostileTest, EveryTruncationOfAFrameIsTruncated) {
  const Bytes frame = CpuFrame(MakeData(test::DataKind::kGaussian, CINCH_DTYPE_BF16, 1500, 1),
                               CINCH_DTYPE_BF16, true);
  std::vector<HostItem> items;
  for (size_t size = 0; size < frame.size(); ++size) {
    HostItem item;
    item.input.assign(frame.begin(), frame.begin() + static_cast<long>(size));
    item.capacity_bytes = 1500;
    items.push_back(std::move(item));
  }
  BatchRunner runner(items.size(), 16 << 20);
  BatchOptions options;
  options.compress = false;
  for (const HostResult& result : runner.Run(items, options)) {
    ASSERT_EQ(result.status, CINCH_ERROR_FRAME_TRUNCATED);
  }
}

}  // namespace
}  // namespace cinch
