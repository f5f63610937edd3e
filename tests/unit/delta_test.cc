// SPDX-License-Identifier: Apache-2.0
// Delta frames (docs/format.md, section 2.2) and what they need of the API.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cinch/codec.h"
#include "cinch/codec.hpp"
#include "format/block_hash.h"
#include "format/layout.h"
#include "support/test_data.h"

namespace cinch {
namespace {

using test::ChangeSome;
using test::DataKind;
using test::MakeData;
using Bytes = std::vector<uint8_t>;

struct CodecDeleter {
  void operator()(cinch_codec* codec) const { cinch_codec_destroy(codec); }
};

class DeltaTest : public testing::TestWithParam<cinch_backend> {
 protected:
  DeltaTest() {
    cinch_codec_options options;
    cinch_codec_options_init(&options);
    options.backend = GetParam();
    options.threads = 2;
    cinch_codec* codec = nullptr;
    EXPECT_EQ(cinch_codec_create(&options, &codec), CINCH_OK);
    codec_.reset(codec);
  }

  Bytes Compress(const Bytes& input, const Bytes& base, cinch_dtype dtype) {
    cinch_compress_options options;
    cinch_compress_options_init(&options);
    options.dtype = dtype;
    const cinch_base held{base.data(), base.size(), 0, 0};
    Bytes frame(cinch_compress_bound(input.size()));
    uint64_t frame_bytes = 0;
    EXPECT_EQ(cinch_compress_delta(codec_.get(), &options, input.data(), input.size(), &held,
                                   frame.data(), frame.size(), &frame_bytes),
              CINCH_OK);
    frame.resize(frame_bytes);
    return frame;
  }

  Status Decompress(const Bytes& frame, const cinch_base* base, Bytes* output) {
    uint64_t output_bytes = 0;
    const Status status = cinch_decompress_delta(codec_.get(), frame.data(), frame.size(), base,
                                                 output->data(), output->size(), &output_bytes);
    EXPECT_TRUE(status != CINCH_OK || output_bytes == output->size());
    return status;
  }

  uint64_t HashOf(const Bytes& bytes) {
    uint64_t hash = 0;
    EXPECT_EQ(cinch_content_hash(codec_.get(), bytes.data(), bytes.size(), &hash), CINCH_OK);
    return hash;
  }

  std::unique_ptr<cinch_codec, CodecDeleter> codec_;
};

cinch_base BaseOf(const Bytes& bytes) { return {bytes.data(), bytes.size(), 0, 0}; }

TEST_P(DeltaTest, RoundTripsEveryDtypeLengthAndAmountOfChange) {
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const size_t size : {1U, 7U, 77U, 4099U, 32768U, 100003U}) {
      for (const uint64_t percent : {0U, 1U, 30U, 100U}) {
        SCOPED_TRACE(std::string(cinch_dtype_name(dtype)) + " " + std::to_string(size));
        const Bytes base = MakeData(DataKind::kGaussian, dtype, size, size);
        const Bytes input = ChangeSome(base, cinch_dtype_size(dtype), percent, size + percent);
        const Bytes frame = Compress(input, base, dtype);
        const cinch_base held = BaseOf(base);
        Bytes output(size);
        ASSERT_EQ(Decompress(frame, &held, &output), CINCH_OK);
        ASSERT_TRUE(output == input);
        cinch_frame_info info{};
        info.struct_size = sizeof info;
        ASSERT_EQ(cinch_frame_inspect(frame.data(), frame.size(), &info), CINCH_OK);
        EXPECT_EQ(info.is_delta, 1);
        EXPECT_EQ(info.base_hash, HashOf(base));
        EXPECT_EQ(info.content_hash, HashOf(input));
        EXPECT_EQ(
            info.stored_blocks + info.constant_blocks + info.cascade_blocks + info.sparse_blocks,
            info.block_count);
      }
    }
  }
}

TEST_P(DeltaTest, OnePercentOfBf16KeepsNoMoreThanTwoAndAHalf) {
  const Bytes base = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 1 << 20, 1);
  std::mt19937_64 random(2);
  Bytes input = base;
  // Whole elements, exponents and all: the hardest case.
  for (size_t at = 0; at < input.size(); at += 2) {
    if (random() % 100 != 0) continue;
    input[at] = static_cast<uint8_t>(random());
    input[at + 1] = static_cast<uint8_t>(random());
  }
  const double kept =
      static_cast<double>(Compress(input, base, CINCH_DTYPE_BF16).size()) / (1 << 20);
  EXPECT_LE(kept, 0.025);
  RecordProperty("kept", std::to_string(kept));
}

TEST_P(DeltaTest, ChangedMantissasAloneStillPay) {
  // Every element changes in its lowest two bits.
  const Bytes base = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 1 << 20, 1);
  Bytes input = base;
  std::mt19937_64 random(2);
  for (size_t at = 0; at < input.size(); at += 2) {
    input[at] = static_cast<uint8_t>(input[at] ^ (random() & 3));
  }
  EXPECT_LE(Compress(input, base, CINCH_DTYPE_BF16).size(), (1 << 20) * 0.58);
}

TEST_P(DeltaTest, WithoutTheBaseNothingIsWritten) {
  const Bytes base = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 100000, 1);
  const Bytes frame = Compress(ChangeSome(base, 2, 5, 3), base, CINCH_DTYPE_BF16);
  const Bytes untouched(base.size(), 0xA5);
  Bytes output = untouched;
  EXPECT_EQ(Decompress(frame, nullptr, &output), CINCH_ERROR_FRAME_BASE_MISSING);
  EXPECT_TRUE(output == untouched);

  Bytes other = base;
  other[77777] ^= 1;
  cinch_base held = BaseOf(other);
  EXPECT_EQ(Decompress(frame, &held, &output), CINCH_ERROR_FRAME_BASE_MISMATCH);
  EXPECT_TRUE(output == untouched);
  held = BaseOf(base);
  held.size_bytes -= 1;
  EXPECT_EQ(Decompress(frame, &held, &output), CINCH_ERROR_FRAME_BASE_MISMATCH);
  held = BaseOf(base);
  held.hash_known = 1;
  held.content_hash = HashOf(other);
  EXPECT_EQ(Decompress(frame, &held, &output), CINCH_ERROR_FRAME_BASE_MISMATCH);
  EXPECT_TRUE(output == untouched);
}

TEST_P(DeltaTest, ABaseThatIsNotWhatItsHashClaimsIsNoticedByChecksums) {
  const Bytes base = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 100000, 1);
  const Bytes frame = Compress(ChangeSome(base, 2, 5, 3), base, CINCH_DTYPE_BF16);
  Bytes other = base;
  other[77777] ^= 1;
  const cinch_base held{other.data(), other.size(), HashOf(base), 1};
  Bytes output(base.size());
  EXPECT_EQ(Decompress(frame, &held, &output), CINCH_ERROR_FRAME_CHECKSUM);
}

TEST_P(DeltaTest, PlainFramesDoNotLookAtABase) {
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, 100000, 1);
  Bytes frame(cinch_compress_bound(input.size()));
  uint64_t frame_bytes = 0;
  ASSERT_EQ(cinch_compress(codec_.get(), nullptr, input.data(), input.size(), frame.data(),
                           frame.size(), &frame_bytes),
            CINCH_OK);
  frame.resize(frame_bytes);
  const Bytes base(17, 3);
  const cinch_base held = BaseOf(base);
  Bytes output(input.size());
  EXPECT_EQ(Decompress(frame, &held, &output), CINCH_OK);
  EXPECT_TRUE(output == input);
}

TEST_P(DeltaTest, ArgumentsAreChecked) {
  const Bytes input(1000, 1);
  Bytes frame(cinch_compress_bound(input.size()));
  uint64_t frame_bytes = 0;
  const auto compress = [&](const cinch_base* base) {
    return cinch_compress_delta(codec_.get(), nullptr, input.data(), input.size(), base,
                                frame.data(), frame.size(), &frame_bytes);
  };
  cinch_base held = BaseOf(input);
  EXPECT_EQ(compress(&held), CINCH_OK);  // its own base
  EXPECT_EQ(compress(nullptr), CINCH_ERROR_INVALID_ARGUMENT);
  held.size_bytes = 999;
  EXPECT_EQ(compress(&held), CINCH_ERROR_INVALID_ARGUMENT);
  held = {nullptr, 1000, 0, 0};
  EXPECT_EQ(compress(&held), CINCH_ERROR_INVALID_ARGUMENT);
  held = {frame.data(), 1000, 0, 0};
  EXPECT_EQ(compress(&held), CINCH_ERROR_OVERLAP);
  EXPECT_EQ(cinch_content_hash(codec_.get(), nullptr, 1, &frame_bytes),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_content_hash(codec_.get(), nullptr, 0, &frame_bytes), CINCH_OK);
  EXPECT_EQ(frame_bytes, 0U);
}

TEST_P(DeltaTest, BatchesMixPlainAndDeltaItems) {
  std::vector<Bytes> inputs;
  std::vector<Bytes> bases;
  for (uint64_t i = 0; i < 40; ++i) {
    const size_t size = i == 7 ? 5 << 20 : 1000 * i;
    bases.push_back(MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, size, i));
    inputs.push_back(ChangeSome(bases.back(), 2, 2, i));
  }
  std::vector<Bytes> frames;
  std::vector<cinch_batch_item> items;
  std::vector<cinch_base> held;
  for (size_t i = 0; i < inputs.size(); ++i) {
    frames.emplace_back(cinch_compress_bound(inputs[i].size()));
    items.push_back({inputs[i].data(), inputs[i].size(), frames[i].data(), frames[i].size(), 0,
                     CINCH_DTYPE_BF16, CINCH_OK});
    held.push_back(i % 3 == 0 ? cinch_base{} : BaseOf(bases[i]));
  }
  ASSERT_EQ(
      cinch_compress_delta_batch(codec_.get(), nullptr, items.data(), held.data(), items.size()),
      CINCH_OK);
  std::vector<Bytes> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    outputs.emplace_back(inputs[i].size());
    items[i] = {frames[i].data(),
                items[i].output_bytes,
                outputs[i].data(),
                outputs[i].size(),
                0,
                CINCH_DTYPE_BYTES,
                CINCH_OK};
  }
  ASSERT_EQ(cinch_decompress_delta_batch(codec_.get(), items.data(), held.data(), items.size()),
            CINCH_OK);
  EXPECT_TRUE(outputs == inputs);
  held[4] = {};
  EXPECT_EQ(cinch_decompress_delta_batch(codec_.get(), items.data(), held.data(), items.size()),
            CINCH_ERROR_FRAME_BASE_MISSING);
  EXPECT_EQ(items[4].status, CINCH_ERROR_FRAME_BASE_MISSING);
  EXPECT_EQ(items[5].status, CINCH_OK);
}

INSTANTIATE_TEST_SUITE_P(Backends, DeltaTest,
                         testing::Values(CINCH_BACKEND_CPU, CINCH_BACKEND_REFERENCE),
                         [](const auto& instance) {
                           return instance.param == CINCH_BACKEND_CPU ? "Cpu" : "Reference";
                         });

TEST(DeltaBackends, GiveTheSameFrames) {
  Codec cpu;
  Codec reference;
  ASSERT_EQ(Codec::Create(CINCH_BACKEND_CPU, 1, &cpu), CINCH_OK);
  ASSERT_EQ(Codec::Create(CINCH_BACKEND_REFERENCE, 1, &reference), CINCH_OK);
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const uint64_t percent : {0U, 1U, 20U, 70U, 80U, 100U}) {
      const Bytes base = MakeData(DataKind::kGaussian, dtype, 70001, 1);
      const Bytes input = ChangeSome(base, cinch_dtype_size(dtype), percent, percent);
      std::vector<std::byte> by_cpu(Codec::Bound(input.size()));
      std::vector<std::byte> by_reference(by_cpu.size());
      uint64_t cpu_bytes = 0;
      uint64_t reference_bytes = 0;
      const auto bytes = [](const Bytes& from) { return std::as_bytes(std::span(from)); };
      ASSERT_EQ(cpu.CompressDelta(bytes(input), bytes(base), dtype, by_cpu, &cpu_bytes), CINCH_OK);
      ASSERT_EQ(
          reference.CompressDelta(bytes(input), bytes(base), dtype, by_reference, &reference_bytes),
          CINCH_OK);
      ASSERT_EQ(cpu_bytes, reference_bytes);
      ASSERT_TRUE(by_cpu == by_reference) << cinch_dtype_name(dtype) << " " << percent;
      std::vector<std::byte> output(input.size());
      ASSERT_EQ(cpu.DecompressDelta(std::span(by_cpu).first(cpu_bytes), bytes(base), output,
                                    &reference_bytes),
                CINCH_OK);
      ASSERT_TRUE(std::memcmp(output.data(), input.data(), input.size()) == 0);
    }
  }
}

}  // namespace
}  // namespace cinch
