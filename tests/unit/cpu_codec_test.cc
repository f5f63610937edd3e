// SPDX-License-Identifier: Apache-2.0
// The SIMD codec against the plain one: the same payloads, the same bytes back, and the same status
// for whatever is wrong. Every test runs on every SIMD target that this machine has. Buffers have
// exactly the promised size, so that the sanitizers see a byte too many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "codec/block_codec.h"
#include "codec/cpu/codebook-inl.h"
#include "codec/cpu/cpu_target.h"
#include "codec/plan/codebook.h"
#include "format/layout.h"
#include "support/test_data.h"

namespace cinch::codec {
namespace {

using test::DataKind;
using test::MakeData;

struct Encoded {
  std::vector<uint8_t> payload;
  uint64_t hash = 0;
};

Encoded EncodeWith(const BlockCodec& codec, const std::vector<uint8_t>& block, uint32_t dtype,
                   uint64_t index, bool checksum) {
  std::vector<uint8_t> room(kEncodeCapacityBytes, 0xA5);
  const BlockInput input{block.data(), static_cast<uint32_t>(block.size()), dtype, index, checksum};
  const EncodedBlock encoded = codec.Encode(input, room.data());
  return {{room.begin(), room.begin() + encoded.payload_bytes}, encoded.hash};
}

struct Decoded {
  Status status = CINCH_OK;
  std::vector<uint8_t> block;
  uint64_t hash = 0;
};

Decoded DecodeWith(const BlockCodec& codec, const std::vector<uint8_t>& payload,
                   uint32_t length_bytes, uint64_t index, bool checksum) {
  Decoded decoded;
  decoded.block.assign(length_bytes, 0x5A);
  decoded.status = codec.Decode(
      {payload.data(), static_cast<uint32_t>(payload.size()), length_bytes, index, checksum},
      decoded.block.data(), &decoded.hash);
  return decoded;
}

/// Encodes and decodes with both codecs and compares everything.
void ExpectAgreement(const std::vector<uint8_t>& block, uint32_t dtype, uint64_t index,
                     bool checksum) {
  const Encoded expected = EncodeWith(ReferenceBlockCodec(), block, dtype, index, checksum);
  const Encoded actual = EncodeWith(CpuBlockCodec(), block, dtype, index, checksum);
  ASSERT_EQ(actual.payload, expected.payload);
  ASSERT_EQ(actual.hash, expected.hash);
  const auto length_bytes = static_cast<uint32_t>(block.size());
  const Decoded decoded =
      DecodeWith(CpuBlockCodec(), expected.payload, length_bytes, index, checksum);
  ASSERT_EQ(decoded.status, CINCH_OK);
  ASSERT_EQ(decoded.block, block);
  ASSERT_EQ(decoded.hash, expected.hash);
}

/// Both codecs must say the same of a payload, and agree on the bytes when it is valid.
void ExpectSameVerdict(const std::vector<uint8_t>& payload, uint32_t length_bytes, bool checksum) {
  const Decoded expected = DecodeWith(ReferenceBlockCodec(), payload, length_bytes, 3, checksum);
  const Decoded actual = DecodeWith(CpuBlockCodec(), payload, length_bytes, 3, checksum);
  ASSERT_EQ(actual.status, expected.status);
  if (expected.status == CINCH_OK) {
    ASSERT_EQ(actual.block, expected.block);
    ASSERT_EQ(actual.hash, expected.hash);
  }
}

class CpuCodecTest : public testing::TestWithParam<SimdTarget> {
 protected:
  void SetUp() override {
    SetCpuTargetLimit(GetParam());
    SCOPED_TRACE(CpuTargetName());
  }
  void TearDown() override { SetCpuTargetLimit(SimdTarget::kAuto); }
};

std::string TargetLabel(const testing::TestParamInfo<SimdTarget>& info) {
  SetCpuTargetLimit(info.param);
  const std::string name = CpuTargetName();
  SetCpuTargetLimit(SimdTarget::kAuto);
  return name + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuCodecTest,
                         testing::Values(SimdTarget::kScalar, SimdTarget::kAvx2,
                                         SimdTarget::kAvx512),
                         TargetLabel);

std::vector<uint32_t> InterestingLengths(uint32_t element_bytes) {
  std::set<uint32_t> lengths;
  for (uint32_t length = 1; length <= 70; ++length) lengths.insert(length);
  for (const uint32_t elements : {127U, 128U, 129U, 1023U, 1024U, 1025U, 2047U, 2048U, 2500U}) {
    const uint32_t length = elements * element_bytes;
    for (const uint32_t near : {length - 1, length, length + 1}) lengths.insert(near);
  }
  lengths.insert({format::kBlockBytes - 1, format::kBlockBytes});
  return {lengths.begin(), std::upper_bound(lengths.begin(), lengths.end(), format::kBlockBytes)};
}

TEST_P(CpuCodecTest, AgreesOnEveryDtypeLengthAndKindOfData) {
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const DataKind kind : test::kAllDataKinds) {
      const std::vector<uint8_t> data =
          MakeData(kind, dtype, format::kBlockBytes, 17 + static_cast<uint64_t>(kind));
      const auto element_bytes =
          std::max<uint32_t>(1, static_cast<uint32_t>(cinch_dtype_size(dtype)));
      for (const uint32_t length : InterestingLengths(element_bytes)) {
        SCOPED_TRACE(std::string(cinch_dtype_name(dtype)) + " " + NameOf(kind) + " length " +
                     std::to_string(length));
        const std::vector<uint8_t> block(data.begin(), data.begin() + length);
        ExpectAgreement(block, dtype, length % 5, length % 3 != 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CpuCodecTest, AgreesOnRandomBlocks) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 400; ++round) {
    const cinch_dtype made_as = test::kAllDtypes[random() % std::size(test::kAllDtypes)];
    // Now and then told another dtype than the data's.
    const cinch_dtype told =
        random() % 4 == 0 ? test::kAllDtypes[random() % std::size(test::kAllDtypes)] : made_as;
    const DataKind kind = test::kAllDataKinds[random() % std::size(test::kAllDataKinds)];
    const auto length = static_cast<uint32_t>(1 + random() % format::kBlockBytes);
    SCOPED_TRACE(std::string(cinch_dtype_name(made_as)) + " as " + cinch_dtype_name(told) + " " +
                 NameOf(kind) + " length " + std::to_string(length));
    const std::vector<uint8_t> data = MakeData(kind, made_as, length + 3, random());
    const size_t begin = random() % 4;  // Inputs need no alignment.
    ExpectAgreement({data.begin() + begin, data.begin() + begin + length}, told, random(),
                    random() % 2 != 0);
    if (HasFatalFailure()) return;
  }
}

/// Blocks in which the sample misses what matters.
TEST_P(CpuCodecTest, AgreesWhenTheSampleMisleads) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const DataKind kind :
         {DataKind::kZeros, DataKind::kOneExponent, DataKind::kZeroPlanes, DataKind::kGaussian}) {
      const auto element_bytes = std::max<size_t>(1, cinch_dtype_size(dtype));
      std::vector<uint8_t> block = MakeData(kind, dtype, format::kBlockBytes - 5, random());
      // Element 1 of each 8 x 8 square is not sampled.
      for (size_t j = 1; (j + 1) * element_bytes <= block.size(); j += 64 * (1 + random() % 40)) {
        block[j * element_bytes + random() % element_bytes] = static_cast<uint8_t>(random());
      }
      SCOPED_TRACE(std::string(cinch_dtype_name(dtype)) + " " + NameOf(kind));
      ExpectAgreement(block, dtype, 1, true);
      if (HasFatalFailure()) return;
      for (size_t j = 0; j < block.size(); ++j) {
        if (j / element_bytes % 8 != j / element_bytes / 8 % 8) {
          block[j] = static_cast<uint8_t>(random());
        }
      }
      ExpectAgreement(block, dtype, 1, true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CpuCodecTest, RestoresEveryBitPattern) {
  for (const cinch_dtype dtype : {CINCH_DTYPE_BF16, CINCH_DTYPE_FP16, CINCH_DTYPE_INT16}) {
    for (uint32_t first = 0; first < 0x10000; first += format::kBlockBytes / 2) {
      std::vector<uint8_t> block;
      for (uint32_t pattern = first; pattern < first + format::kBlockBytes / 2; ++pattern) {
        block.push_back(static_cast<uint8_t>(pattern));
        block.push_back(static_cast<uint8_t>(pattern >> 8));
      }
      ExpectAgreement(block, dtype, 0, true);
      if (HasFatalFailure()) return;
    }
  }
  for (const cinch_dtype dtype : {CINCH_DTYPE_FP8_E4M3FN, CINCH_DTYPE_FP8_E4M3FNUZ,
                                  CINCH_DTYPE_FP8_E5M2, CINCH_DTYPE_FP8_E5M2FNUZ}) {
    std::vector<uint8_t> block;
    for (uint32_t pair = 0; pair < 0x10000; pair += 7) {
      block.push_back(static_cast<uint8_t>(pair));
      block.push_back(static_cast<uint8_t>(pair >> 8));
    }
    ExpectAgreement(block, dtype, 0, true);
    if (HasFatalFailure()) return;
  }
}

/// Changes a valid payload in one of the ways that corruption and malice do.
std::vector<uint8_t> Mutate(std::vector<uint8_t> payload, std::mt19937_64& random) {
  const auto any_byte = [&](size_t below) { return random() % std::min(below, payload.size()); };
  switch (random() % 6) {
    case 0:
      payload[any_byte(payload.size())] ^= static_cast<uint8_t>(1U << (random() % 8));
      break;
    case 1:
      payload[any_byte(payload.size())] = static_cast<uint8_t>(random());
      break;
    case 2:  // The header, codebook and counts are where structure is.
      payload[4 + any_byte(20) % (payload.size() - 4)] = static_cast<uint8_t>(random());
      break;
    case 3:
      payload.resize(16 * (1 + random() % (payload.size() / 16)));
      break;
    case 4:
      payload.resize(payload.size() + 16 * (1 + random() % 8), 0);
      break;
    default:
      for (size_t i = random() % payload.size(); i < payload.size(); i += 1 + random() % 64) {
        payload[i] = static_cast<uint8_t>(random());
      }
      break;
  }
  return payload;
}

TEST_P(CpuCodecTest, JudgesDamagedPayloadsAsThePlainCodecDoes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    const cinch_dtype dtype = test::kAllDtypes[random() % std::size(test::kAllDtypes)];
    const DataKind kind = test::kAllDataKinds[random() % std::size(test::kAllDataKinds)];
    const auto length = static_cast<uint32_t>(1 + random() % (random() % 2 != 0 ? 300 : 12000));
    const std::vector<uint8_t> block = MakeData(kind, dtype, length, random());
    const Encoded encoded = EncodeWith(ReferenceBlockCodec(), block, dtype, 3, false);
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(std::string(cinch_dtype_name(dtype)) + " " + NameOf(kind) + " length " +
                   std::to_string(length) + " mutation " + std::to_string(i));
      ExpectSameVerdict(Mutate(encoded.payload, random), length, false);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CpuCodecTest, JudgesWrongLengthsAndChecksumsAsThePlainCodecDoes) {
  for (const cinch_dtype dtype : test::kAllDtypes) {
    const std::vector<uint8_t> block = MakeData(DataKind::kGaussian, dtype, 5000, 5);
    for (const bool made_with : {false, true}) {
      const Encoded encoded = EncodeWith(ReferenceBlockCodec(), block, dtype, 3, made_with);
      for (const uint32_t length : {1U, 4999U, 5000U, 5001U, 32768U}) {
        for (const bool checked : {false, true}) {
          ExpectSameVerdict(encoded.payload, length, checked);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

/// Counts of escapes that descend, mostly as steeply as real ones.
format::EscapeCounts InventCounts(uint32_t elements, std::mt19937_64& random) {
  format::EscapeCounts escapes;
  uint32_t most = elements;
  for (uint16_t& count : escapes.count) {
    count = static_cast<uint16_t>(random() % (most / (1 + random() % 8) + 1));
    most = count;
  }
  return escapes;
}

/// `codes` gets `count` codes of `bits` bits, of which `escapes` are escapes, as planes.
void AppendCodes(uint32_t bits, uint32_t count, uint32_t escapes, std::mt19937_64& random,
                 std::vector<uint8_t>* bytes) {
  const uint32_t escape = (1U << bits) - 1;
  std::vector<uint32_t> codes(count, escape);
  for (uint32_t i = escapes; i < count; ++i) codes[i] = static_cast<uint32_t>(random() % escape);
  std::shuffle(codes.begin(), codes.end(), random);
  uint32_t low_bit = 0;
  for (const uint32_t width : {2U, 1U}) {
    if ((bits & width) == 0) continue;
    const size_t start = bytes->size();
    bytes->resize(start + (width * count + 7) / 8, 0);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t piece = (codes[i] >> low_bit) & ((1U << width) - 1);
      uint8_t& byte = (*bytes)[start + width * i / 8];
      byte = static_cast<uint8_t>(byte | piece << (width * i % 8));
    }
    low_bit += width;
  }
}

/// A payload with a cascade header of its own and what the counts in it ask for behind it; now and
/// then a count is not borne out.
TEST_P(CpuCodecTest, JudgesInventedPayloadsAsThePlainCodecDoes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int valid = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto dtype = test::kAllDtypes[random() % std::size(test::kAllDtypes)];
    const auto length =
        static_cast<uint32_t>(8 + random() % (round % 16 == 0 ? format::kBlockBytes - 7 : 5000));
    const auto level0_bits = static_cast<uint32_t>(random() % 4);
    const format::CascadeLayout layout = format::MakeCascadeLayout(dtype, length, level0_bits, 0);
    format::EscapeCounts escapes = InventCounts(layout.elements, random);
    if (level0_bits == 0 && random() % 4 != 0) escapes = {};
    std::vector<uint8_t> payload(layout.code_offset, 0);
    for (uint32_t i = format::kResidueOffset; i + 1 < layout.code_offset; ++i) {
      payload[i] = static_cast<uint8_t>(random());
    }
    const auto escapes_to_write = [&](uint32_t level, uint32_t most) {
      const uint32_t count = escapes.count[level];
      return random() % 32 != 0 ? count : static_cast<uint32_t>(random() % (most + 1));
    };
    if (level0_bits != 0) {
      AppendCodes(level0_bits, layout.elements, escapes_to_write(0, layout.elements), random,
                  &payload);
    }
    for (uint32_t level = 1; level < format::kLevels; ++level) {
      const uint32_t entries = escapes.count[level - 1];
      AppendCodes(2, entries, escapes_to_write(level, entries), random, &payload);
    }
    for (uint32_t i = 0; i < escapes.count[format::kLevels - 1]; ++i) {
      payload.push_back(static_cast<uint8_t>(random() % (random() % 256 == 0 ? 256 : 16)));
    }
    payload.insert(payload.end(), layout.tail_bytes, 7);
    payload.resize(format::AlignUp(payload.size(), format::kPayloadUnitBytes), 0);
    payload[4] = static_cast<uint8_t>(format::BlockMode::kCascade);
    payload[5] = static_cast<uint8_t>(dtype);
    payload[6] = static_cast<uint8_t>(level0_bits);
    if (random() % 32 == 0) {
      uint16_t& count = escapes.count[random() % format::kLevels];
      count = static_cast<uint16_t>(count ^ (1U << (random() % 16)));
    }
    std::memcpy(&payload[format::kEscapeCountOffset], &escapes, sizeof escapes);
    ExpectSameVerdict(payload, length, false);
    if (HasFatalFailure()) return;
    valid += DecodeWith(CpuBlockCodec(), payload, length, 3, false).status == CINCH_OK ? 1 : 0;
  }
  // They are no test of decoding when all are rejected.
  EXPECT_GT(valid, 300);
}

/// Counts like those of samples, ties and gaps included.
SymbolCounts RandomCounts(uint32_t symbol_bits, std::mt19937_64& random) {
  SymbolCounts counts;
  const uint64_t symbols = uint64_t{1} << symbol_bits;
  const uint64_t center = random() % symbols;
  const uint64_t spread = 1 + random() % 40;
  const uint64_t largest = 1 + random() % (random() % 2 != 0 ? 4 : 200);
  for (uint32_t i = 0; i < spread; ++i) {
    const uint64_t symbol = random() % 8 == 0 ? random() % symbols : (center + i) % symbols;
    for (uint64_t n = random() % (largest + 1); n > 0; --n) {
      counts.Add(static_cast<uint32_t>(symbol));
    }
  }
  if (counts.total == 0) counts.Add(static_cast<uint32_t>(center));
  return counts;
}

/// The choice of codebooks on every target, by blocks whose bytes are the symbols.
TEST_P(CpuCodecTest, AgreesOnOddHistograms) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 400; ++round) {
    const SymbolCounts counts = RandomCounts(8, random);
    std::vector<uint8_t> symbols;
    for (uint32_t symbol = 0; symbol < 256; ++symbol) {
      symbols.insert(symbols.end(), counts.count[symbol], static_cast<uint8_t>(symbol));
    }
    std::shuffle(symbols.begin(), symbols.end(), random);
    symbols.resize(std::min<size_t>(symbols.size(), format::kBlockBytes));
    // Eight times, so that every symbol is sampled; the rest of the payload follows the codebook.
    std::vector<uint8_t> block;
    for (const uint8_t symbol : symbols) block.insert(block.end(), 8, symbol);
    block.resize(std::min<size_t>(block.size(), format::kBlockBytes));
    ExpectAgreement(block, CINCH_DTYPE_BYTES, 0, true);
    if (HasFatalFailure()) return;
  }
}

TEST(FastCodebookTest, ChoosesAsThePlainCodeDoes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    const uint32_t symbol_bits = round % 3 == 0 ? 4 : round % 3 == 1 ? 5 : 8;
    const SymbolCounts counts = RandomCounts(symbol_bits, random);
    const bool allow_single = random() % 2 != 0;
    const CodebookChoice expected = ChooseCodebook(counts, symbol_bits, allow_single);
    const CodebookChoice actual =
        cpu::HWY_NAMESPACE::FastChooseCodebook(counts, symbol_bits, allow_single);
    ASSERT_EQ(actual.level0_bits, expected.level0_bits) << round;
    ASSERT_EQ(actual.cost_bits, expected.cost_bits) << round;
    ASSERT_EQ(actual.single_symbol, expected.single_symbol) << round;
    for (uint32_t level = 0; level < format::kLevels; ++level) {
      ASSERT_EQ(actual.codebook.window_start[level], expected.codebook.window_start[level])
          << round << " level " << level;
    }
  }
}

TEST(CpuTargetTest, NamesWhatItUses) {
  SetCpuTargetLimit(SimdTarget::kScalar);
  EXPECT_STREQ(CpuTargetName(), "scalar");
  SetCpuTargetLimit(SimdTarget::kAuto);
  const std::string best = CpuTargetName();
  EXPECT_EQ(std::set<std::string>({"avx512", "avx2", "neon", "scalar"}).count(best), 1U) << best;
}

}  // namespace
}  // namespace cinch::codec
