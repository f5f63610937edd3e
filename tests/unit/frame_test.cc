// SPDX-License-Identifier: Apache-2.0
// Frames through the C ABI, for every backend: round trips, sizes, bounds, hostile bytes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "cinch/codec.h"
#include "format/block_hash.h"
#include "format/layout.h"
#include "support/cpu_frames.h"
#include "support/test_data.h"

namespace cinch {
namespace {

using test::Bytes;
using test::Codec;
using test::Compress;
using test::DataKind;
using test::MakeCodec;
using test::MakeData;

Status Decompress(cinch_codec* codec, const Bytes& frame, Bytes* output) {
  uint64_t output_bytes = 0;
  const Status status = cinch_decompress(codec, frame.data(), frame.size(), output->data(),
                                         output->size(), &output_bytes);
  EXPECT_TRUE(status != CINCH_OK || output_bytes == output->size());
  return status;
}

void FixHeaderHash(Bytes* frame) {
  const auto hash =
      static_cast<uint32_t>(format::BlockHash(frame->data(), 60, format::kHeaderHashIndex));
  std::memcpy(frame->data() + 60, &hash, sizeof hash);
}

class FrameTest : public testing::TestWithParam<cinch_backend> {
 protected:
  Codec codec_ = MakeCodec(GetParam(), 1);
};

TEST_P(FrameTest, RoundTripsEveryDtypeKindAndLength) {
  const size_t block = format::kBlockBytes;
  const size_t lengths[] = {0,        1,    2,         3,     7,         8,
                            9,        63,   64,        65,    2047,      2048,
                            2049,     4096, block - 1, block, block + 1, 2 * block + 5,
                            3 * block};
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const DataKind kind : test::kAllDataKinds) {
      for (const size_t length : lengths) {
        const Bytes input = MakeData(kind, dtype, length, length + 1);
        const Bytes frame = Compress(codec_.get(), input, dtype);
        Bytes output(length);
        ASSERT_EQ(Decompress(codec_.get(), frame, &output), CINCH_OK)
            << cinch_dtype_name(dtype) << " " << test::NameOf(kind) << " " << length;
        ASSERT_EQ(output, input) << cinch_dtype_name(dtype) << " " << test::NameOf(kind);
      }
    }
  }
}

TEST_P(FrameTest, RoundTripsEveryPatternOfSixteenBitsAndEight) {
  Bytes patterns(2 * 65536);
  for (size_t i = 0; i < 65536; ++i) {
    patterns[2 * i] = static_cast<uint8_t>(i);
    patterns[2 * i + 1] = static_cast<uint8_t>(i >> 8);
  }
  // In order, every pattern has neighbours like itself; shuffled, they meet all others.
  for (const bool shuffled : {false, true}) {
    if (shuffled) {
      auto* halves = reinterpret_cast<uint16_t*>(patterns.data());
      std::shuffle(halves, halves + 65536, std::mt19937_64(3));
    }
    for (const cinch_dtype dtype : test::kAllDtypes) {
      Bytes output(patterns.size());
      ASSERT_EQ(Decompress(codec_.get(), Compress(codec_.get(), patterns, dtype), &output),
                CINCH_OK);
      ASSERT_EQ(output, patterns) << cinch_dtype_name(dtype);
    }
  }
}

TEST_P(FrameTest, AllThreadCountsAndChecksumChoicesAgree) {
  const Bytes input = MakeData(DataKind::kMixed, CINCH_DTYPE_AUTO, 3 << 20, 11);
  const Bytes alone = Compress(codec_.get(), input, CINCH_DTYPE_AUTO);
  const Codec threaded = MakeCodec(GetParam(), 4);
  EXPECT_EQ(Compress(threaded.get(), input, CINCH_DTYPE_AUTO), alone);
  Bytes output(input.size());
  EXPECT_EQ(Decompress(threaded.get(), alone, &output), CINCH_OK);
  EXPECT_EQ(output, input);
  const Bytes bare = Compress(threaded.get(), input, CINCH_DTYPE_AUTO, false);
  EXPECT_EQ(bare.size(), alone.size());
  EXPECT_EQ(Decompress(threaded.get(), bare, &output), CINCH_OK);
  EXPECT_EQ(output, input);
}

/// The output ends where readable memory ends, so that one byte too many is a crash.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t size_bytes) : size_bytes_(size_bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_bytes_ = (size_bytes + page - 1) / page * page + page;
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + mapped_bytes_ - page, page, PROT_NONE), 0);
    begin_ = base_ + mapped_bytes_ - page - size_bytes;
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { munmap(base_, mapped_bytes_); }
  uint8_t* data() { return begin_; }
  size_t size() const { return size_bytes_; }

 private:
  size_t size_bytes_;
  size_t mapped_bytes_ = 0;
  uint8_t* base_ = nullptr;
  uint8_t* begin_ = nullptr;
};

TEST_P(FrameTest, IncompressibleInputFitsTheBoundUpToAGuardPage) {
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  for (const size_t length : {size_t{0}, size_t{1}, size_t{100}, size_t{32767}, size_t{32768},
                              size_t{32769}, size_t{1000001}}) {
    const Bytes random = MakeData(DataKind::kRandom, CINCH_DTYPE_UINT8, length, 5);
    for (const cinch_dtype dtype : test::kAllDtypes) {
      options.dtype = dtype;
      GuardedBytes input(length);
      std::copy(random.begin(), random.end(), input.data());
      GuardedBytes frame(cinch_compress_bound(length));
      EXPECT_LE(frame.size(), length + length / 200 + 128);
      uint64_t frame_bytes = 0;
      ASSERT_EQ(cinch_compress(codec_.get(), &options, input.data(), length, frame.data(),
                               frame.size(), &frame_bytes),
                CINCH_OK);
      GuardedBytes exact(frame_bytes);
      std::copy_n(frame.data(), frame_bytes, exact.data());
      GuardedBytes output(length);
      uint64_t output_bytes = 0;
      ASSERT_EQ(cinch_decompress(codec_.get(), exact.data(), frame_bytes, output.data(), length,
                                 &output_bytes),
                CINCH_OK);
      ASSERT_TRUE(std::equal(random.begin(), random.end(), output.data()));
    }
  }
}

TEST_P(FrameTest, EveryTruncationIsAnErrorAndSoAreTrailingBytes) {
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 5000, 1);
  Bytes frame = Compress(codec_.get(), input, CINCH_DTYPE_BF16);
  Bytes output(input.size());
  for (size_t size = 0; size < frame.size(); ++size) {
    GuardedBytes part(size);
    std::copy_n(frame.begin(), size, part.data());
    uint64_t output_bytes = 0;
    ASSERT_EQ(cinch_decompress(codec_.get(), part.data(), size, output.data(), output.size(),
                               &output_bytes),
              CINCH_ERROR_FRAME_TRUNCATED);
  }
  frame.push_back(0);
  EXPECT_EQ(Decompress(codec_.get(), frame, &output), CINCH_ERROR_FRAME_TRAILING);
}

TEST_P(FrameTest, EverySingleBitFlipGivesAnErrorOrTheExactBytes) {
  const std::pair<DataKind, size_t> inputs[] = {
      {DataKind::kGaussian, 3001}, {DataKind::kZeros, 3001},  {DataKind::kRandom, 3001},
      {DataKind::kRandom, 5},      {DataKind::kGaussian, 65}, {DataKind::kGaussian, 0}};
  for (const auto& [kind, size_bytes] : inputs) {
    const Bytes input = MakeData(kind, CINCH_DTYPE_BF16, size_bytes, 1);
    Bytes frame = Compress(codec_.get(), input, CINCH_DTYPE_BF16);
    Bytes output(input.size());
    size_t undetected = 0;
    for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ (1U << (bit % 8)));
      // Only the start of a window that no code refers to can change without a trace.
      std::fill(output.begin(), output.end(), uint8_t{0xA5});
      const Status status = Decompress(codec_.get(), frame, &output);
      undetected += status == CINCH_OK ? 1 : 0;
      ASSERT_TRUE(status != CINCH_OK || output == input) << "bit " << bit;
      frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ (1U << (bit % 8)));
    }
    EXPECT_LE(undetected, 8U * format::kLevels);
  }
}

TEST_P(FrameTest, HeaderLiesAreNamed) {
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 70000, 1);
  const Bytes good = Compress(codec_.get(), input, CINCH_DTYPE_BF16);
  struct Lie {
    size_t offset;
    Bytes bytes;
    Status expected;
  };
  const Lie lies[] = {
      {0, {0}, CINCH_ERROR_FRAME_MAGIC},
      {4, {2}, CINCH_ERROR_FRAME_VERSION},
      {6, {200}, CINCH_ERROR_FRAME_HEADER},
      {7, {5}, CINCH_ERROR_FRAME_RESERVED},
      {7, {3}, CINCH_ERROR_FRAME_BASE_MISSING},
      {40, {1}, CINCH_ERROR_FRAME_RESERVED},                       // a base's hash without the flag
      {8, {0, 0, 0, 0, 0, 0, 0, 0x10}, CINCH_ERROR_FRAME_HEADER},  // 2^60 bytes
      {16, {1}, CINCH_ERROR_FRAME_HEADER},
      {24, {9}, CINCH_ERROR_FRAME_HEADER},
      {28, {1}, CINCH_ERROR_FRAME_HEADER},
      {32, {0, 1, 2, 3, 4, 5, 6, 7}, CINCH_ERROR_FRAME_CHECKSUM},
      {50, {1}, CINCH_ERROR_FRAME_RESERVED},
  };
  for (const Lie& lie : lies) {
    Bytes frame = good;
    std::copy(lie.bytes.begin(), lie.bytes.end(), frame.begin() + static_cast<long>(lie.offset));
    Bytes output(input.size());
    if (lie.offset >= 6) {
      EXPECT_EQ(Decompress(codec_.get(), frame, &output), CINCH_ERROR_FRAME_HEADER);
    }
    FixHeaderHash(&frame);
    EXPECT_EQ(Decompress(codec_.get(), frame, &output), lie.expected) << lie.offset;
  }
}

TEST_P(FrameTest, SwappedBlocksAreNoticed) {
  // Two blocks of the same size: random bytes are stored.
  const Bytes input = MakeData(DataKind::kRandom, CINCH_DTYPE_UINT8, 2 * format::kBlockBytes, 1);
  Bytes frame = Compress(codec_.get(), input, CINCH_DTYPE_UINT8);
  const auto first = frame.begin() + static_cast<long>(format::PayloadOffset(2));
  std::swap_ranges(first, first + format::kMaxBlockPayloadBytes,
                   first + format::kMaxBlockPayloadBytes);
  Bytes output(input.size());
  EXPECT_EQ(Decompress(codec_.get(), frame, &output), CINCH_ERROR_FRAME_CHECKSUM);
}

TEST_P(FrameTest, IndexMustAscendAndEndWithThePayload) {
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 3 * format::kBlockBytes, 1);
  const Bytes good = Compress(codec_.get(), input, CINCH_DTYPE_BF16);
  Bytes output(input.size());
  for (size_t entry = 0; entry < 3; ++entry) {
    for (const uint32_t value : {0U, 1U, 0xFFFFFFFFU}) {
      Bytes frame = good;
      std::memcpy(frame.data() + 64 + 4 * entry, &value, 4);
      const Status status = Decompress(codec_.get(), frame, &output);
      EXPECT_TRUE(status == CINCH_ERROR_FRAME_INDEX || status == CINCH_ERROR_FRAME_BLOCK)
          << cinch_status_name(status);
    }
  }
  Bytes frame = good;
  frame[64 + 12] = 1;
  EXPECT_EQ(Decompress(codec_.get(), frame, &output), CINCH_ERROR_FRAME_RESERVED);
}

TEST_P(FrameTest, DestinationOneByteTooSmallIsAnError) {
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 100000, 1);
  for (const uint32_t threads : {1U, 4U}) {
    const Codec codec = MakeCodec(GetParam(), threads);
    const Bytes frame = Compress(codec.get(), input, CINCH_DTYPE_BF16);
    cinch_compress_options options;
    cinch_compress_options_init(&options);
    options.dtype = CINCH_DTYPE_BF16;
    uint64_t size_bytes = 0;
    for (const size_t capacity : {size_t{0}, size_t{63}, size_t{64}, frame.size() - 1}) {
      GuardedBytes tight(capacity);
      EXPECT_EQ(cinch_compress(codec.get(), &options, input.data(), input.size(), tight.data(),
                               capacity, &size_bytes),
                CINCH_ERROR_DESTINATION_TOO_SMALL);
    }
    GuardedBytes exact(frame.size());
    EXPECT_EQ(cinch_compress(codec.get(), &options, input.data(), input.size(), exact.data(),
                             exact.size(), &size_bytes),
              CINCH_OK);
    Bytes output(input.size() - 1);
    EXPECT_EQ(cinch_decompress(codec.get(), frame.data(), frame.size(), output.data(),
                               output.size(), &size_bytes),
              CINCH_ERROR_DESTINATION_TOO_SMALL);
  }
}

TEST_P(FrameTest, ABatchKeepsItsItemsApart) {
  const Codec codec = MakeCodec(GetParam(), 4);
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  std::vector<Bytes> inputs;
  for (size_t i = 0; i < 60; ++i) {
    inputs.push_back(MakeData(test::kAllDataKinds[i % std::size(test::kAllDataKinds)],
                              test::kAllDtypes[i % 18], i % 7 == 0 ? 0 : i * 1777, i));
  }
  inputs.push_back(MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 5 << 20, 1));
  std::vector<Bytes> frames(inputs.size());
  std::vector<cinch_batch_item> items(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    frames[i].resize(cinch_compress_bound(inputs[i].size()));
    items[i] = {inputs[i].data(),         inputs[i].size(), frames[i].data(), frames[i].size(), 0,
                test::kAllDtypes[i % 18], CINCH_OK};
  }
  ASSERT_EQ(cinch_compress_batch(codec.get(), &options, items.data(), items.size()), CINCH_OK);
  std::vector<Bytes> outputs(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    frames[i].resize(items[i].output_bytes);
    EXPECT_EQ(frames[i], Compress(codec.get(), inputs[i], test::kAllDtypes[i % 18]));
    if (i == 10) frames[i][0] ^= 1;
    if (i == 20) frames[i].pop_back();
    outputs[i].resize(inputs[i].size());
    items[i] = {frames[i].data(),  frames[i].size(), outputs[i].data(), outputs[i].size(), 0,
                CINCH_DTYPE_BYTES, CINCH_OK};
  }
  EXPECT_EQ(cinch_decompress_batch(codec.get(), items.data(), items.size()),
            CINCH_ERROR_FRAME_MAGIC);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Status expected = i == 10   ? CINCH_ERROR_FRAME_MAGIC
                            : i == 20 ? CINCH_ERROR_FRAME_TRUNCATED
                                      : CINCH_OK;
    EXPECT_EQ(items[i].status, expected) << i;
    EXPECT_TRUE(expected != CINCH_OK || outputs[i] == inputs[i]) << i;
  }
}

TEST_P(FrameTest, MutatedFramesNeverLeaveTheirBounds) {
  std::mt19937_64 random(42);
  for (int round = 0; round < 300; ++round) {
    const DataKind kind = test::kAllDataKinds[random() % std::size(test::kAllDataKinds)];
    const cinch_dtype dtype = test::kAllDtypes[random() % 18];
    const Bytes input = MakeData(kind, dtype, random() % 80000, random());
    const Bytes good = Compress(codec_.get(), input, dtype, random() % 2 == 0);
    for (int change = 0; change < 10; ++change) {
      GuardedBytes frame(good.size());
      std::copy(good.begin(), good.end(), frame.data());
      for (uint64_t i = 0; i <= random() % 3 && good.size() > 64; ++i) {
        frame.data()[64 + random() % (good.size() - 64)] = static_cast<uint8_t>(random());
      }
      GuardedBytes output(input.size());
      uint64_t output_bytes = 0;
      // Any status will do: reaching the guard pages would not.
      (void)cinch_decompress(codec_.get(), frame.data(), frame.size(), output.data(), output.size(),
                             &output_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, FrameTest,
                         testing::Values(CINCH_BACKEND_REFERENCE, CINCH_BACKEND_CPU),
                         [](const auto& backend) {
                           return std::string(backend.param == CINCH_BACKEND_CPU ? "Cpu"
                                                                                 : "Reference");
                         });

TEST(FrameBackends, GiveTheSameBytes) {
  const Codec reference = MakeCodec(CINCH_BACKEND_REFERENCE, 1);
  const Codec cpu = MakeCodec(CINCH_BACKEND_CPU, 3);
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const DataKind kind : test::kAllDataKinds) {
      const Bytes input = MakeData(kind, dtype, 600001, 9);
      ASSERT_EQ(Compress(cpu.get(), input, dtype), Compress(reference.get(), input, dtype))
          << cinch_dtype_name(dtype) << " " << test::NameOf(kind);
    }
  }
}

TEST(FrameRatio, GaussianBf16IsWithinTheTarget) {
  const Codec codec = MakeCodec(CINCH_BACKEND_CPU, 1);
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 8 << 20, 1);
  for (const cinch_dtype dtype : {CINCH_DTYPE_BF16, CINCH_DTYPE_AUTO}) {
    const Bytes frame = Compress(codec.get(), input, dtype);
    EXPECT_LE(static_cast<double>(frame.size()), 0.672 * static_cast<double>(input.size()));
  }
}

TEST(FrameArguments, AreChecked) {
  const Codec codec = MakeCodec(CINCH_BACKEND_CPU, 1);
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  Bytes buffer(1000);
  uint64_t size_bytes = 0;
  EXPECT_EQ(
      cinch_compress(nullptr, &options, buffer.data(), 10, buffer.data() + 100, 900, &size_bytes),
      CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_compress(codec.get(), &options, nullptr, 10, buffer.data(), 900, &size_bytes),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_compress(codec.get(), &options, buffer.data(), 200, buffer.data() + 100, 900,
                           &size_bytes),
            CINCH_ERROR_OVERLAP);
  EXPECT_EQ(cinch_compress(codec.get(), &options, buffer.data(), CINCH_MAX_FRAME_INPUT_BYTES + 1,
                           buffer.data(), 0, &size_bytes),
            CINCH_ERROR_TOO_LARGE);
  EXPECT_EQ(cinch_compress_bound(CINCH_MAX_FRAME_INPUT_BYTES + 1), 0U);
  EXPECT_EQ(cinch_compress(codec.get(), nullptr, buffer.data(), 100, buffer.data() + 100, 900,
                           &size_bytes),
            CINCH_OK)
      << "no options are the default options";
  options.dtype = static_cast<cinch_dtype>(99);
  EXPECT_EQ(cinch_compress(codec.get(), &options, buffer.data(), 10, buffer.data() + 100, 900,
                           &size_bytes),
            CINCH_ERROR_INVALID_ARGUMENT);
  cinch_codec_options bad;
  cinch_codec_options_init(&bad);
  bad.struct_size = 1;
  cinch_codec* other = nullptr;
  EXPECT_EQ(cinch_codec_create(&bad, &other), CINCH_ERROR_INVALID_ARGUMENT);
}

// Large frames are written past the caches.
TEST(FrameThreads, ThreadsMakeTheSameLargeFrame) {
  const Bytes input = MakeData(DataKind::kMixed, CINCH_DTYPE_AUTO, (64 << 20) + 12345, 12);
  const Codec alone = MakeCodec(CINCH_BACKEND_CPU, 1);
  const Codec threaded = MakeCodec(CINCH_BACKEND_CPU, 3);
  EXPECT_EQ(Compress(threaded.get(), input, CINCH_DTYPE_BF16),
            Compress(alone.get(), input, CINCH_DTYPE_BF16));
}

TEST(FrameThreads, SixteenHandlesWorkAtOnce) {
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    threads.emplace_back([seed] {
      const Codec codec = MakeCodec(CINCH_BACKEND_CPU, 2);
      const Bytes input = MakeData(DataKind::kMixed, CINCH_DTYPE_AUTO, 1 << 20, seed);
      for (int round = 0; round < 3; ++round) {
        Bytes output(input.size());
        EXPECT_EQ(Decompress(codec.get(), Compress(codec.get(), input, CINCH_DTYPE_AUTO), &output),
                  CINCH_OK);
        EXPECT_EQ(output, input);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace cinch
