// SPDX-License-Identifier: Apache-2.0
// The GPU's block algorithm on the host, from the same source, against the plain codec.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "codec/block_codec.h"
#include "codec/gpu/block/decode_block.cuh"
#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/warp/team.cuh"
#include "support/fiber_team.h"
#include "support/test_data.h"

namespace cinch::codec::gpu {
namespace {

using test::DataKind;
using test::MakeData;
using Bytes = std::vector<uint8_t>;

struct Encoded {
  Bytes payload;
  uint64_t hash;
};

Encoded EncodeByReference(const BlockInput& input) {
  Encoded result{Bytes(kEncodeCapacityBytes), 0};
  const EncodedBlock encoded = ReferenceBlockCodec().Encode(input, result.payload.data());
  result.payload.resize(encoded.payload_bytes);
  result.hash = encoded.hash;
  return result;
}

EncodeTask TaskOf(const BlockInput& input) {
  return {input.bytes, input.length_bytes, input.dtype, input.index, input.checksum, input.base};
}

/// Coding by one thread.
struct Solo {
  static Encoded Encode(const BlockInput& input, EncodeWorkspace* workspace) {
    const EncodeResult result = SyncEncodeBlock(SoloTeam(), TaskOf(input), workspace);
    return {Bytes(workspace->payload, workspace->payload + result.payload_bytes), result.hash};
  }
  static Status Decode(const DecodeTask& task, DecodeWorkspace* workspace, uint64_t* hash) {
    return SyncDecodeBlock(SoloTeam(), task, workspace, hash);
  }
};

/// Coding by warps of 32 threads that take turns at random.
struct Fibers {
  static Encoded Encode(const BlockInput& input, EncodeWorkspace* workspace) {
    Encoded encoded;
    test::RunTeam<4>(input.length_bytes, [&](const test::FiberTeam<4>& team) {
      const EncodeResult result = SyncEncodeBlock(team, TaskOf(input), workspace);
      if (team.thread() == 0) {
        encoded = {Bytes(workspace->payload, workspace->payload + result.payload_bytes),
                   result.hash};
      }
    });
    return encoded;
  }
  static Status Decode(const DecodeTask& task, DecodeWorkspace* workspace, uint64_t* hash) {
    Status status = CINCH_ERROR_INTERNAL;
    test::RunTeam<4>(task.length_bytes, [&](const test::FiberTeam<4>& team) {
      uint64_t own_hash = 0;
      const Status own = SyncDecodeBlock(team, task, workspace, &own_hash);
      if (team.thread() == 77) {
        status = own;
        *hash = own_hash;
      }
    });
    return status;
  }
};

template <typename Coder>
class GpuBlockTest : public testing::Test {
 protected:
  void SetUp() override {
    // What is left from another block must not matter.
    std::fill_n(reinterpret_cast<uint8_t*>(encode_.get()), sizeof *encode_, uint8_t{0xA5});
    std::fill_n(reinterpret_cast<uint8_t*>(decode_.get()), sizeof *decode_, uint8_t{0xA5});
  }

  void RoundTrip(const BlockInput& input) {
    const Encoded expected = EncodeByReference(input);
    const Encoded encoded = Coder::Encode(input, encode_.get());
    ASSERT_EQ(encoded.payload.size(), expected.payload.size());
    ASSERT_TRUE(encoded.payload == expected.payload)
        << "first difference at "
        << std::mismatch(encoded.payload.begin(), encoded.payload.end(), expected.payload.begin())
                   .first -
               encoded.payload.begin();
    ASSERT_EQ(encoded.hash, expected.hash);
    uint64_t hash = 1;
    const DecodeTask task{expected.payload.data(), static_cast<uint32_t>(expected.payload.size()),
                          input.length_bytes,      input.index,
                          input.checksum,          input.base};
    ASSERT_EQ(Coder::Decode(task, decode_.get(), &hash), CINCH_OK);
    ASSERT_EQ(hash, expected.hash);
    ASSERT_TRUE(std::equal(input.bytes, input.bytes + input.length_bytes, decode_->original));
  }

  std::unique_ptr<EncodeWorkspace> encode_ = std::make_unique<EncodeWorkspace>();
  std::unique_ptr<DecodeWorkspace> decode_ = std::make_unique<DecodeWorkspace>();
};

using Coders = testing::Types<Solo, Fibers>;
TYPED_TEST_SUITE(GpuBlockTest, Coders);

template <typename Coder>
constexpr bool kSlow = std::is_same_v<Coder, Fibers>;

TYPED_TEST(GpuBlockTest, GivesTheBytesOfThePlainCodecForEveryDtypeKindAndLength) {
  const uint32_t lengths[] = {1,  2,  3,    5,    7,    8,    9,     15,   31,
                              64, 77, 2047, 2049, 4099, 8192, 32767, 32768};
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const DataKind kind : test::kAllDataKinds) {
      for (const uint32_t length : lengths) {
        // Fibers take their time: one length of every sort.
        if (kSlow<TypeParam> && length > 100 && length % 8192 != 4099 &&
            (kind != DataKind::kGaussian || length != 32767)) {
          continue;
        }
        SCOPED_TRACE(std::string(cinch_dtype_name(dtype)) + " " + test::NameOf(kind) + " " +
                     std::to_string(length));
        const Bytes input = MakeData(kind, dtype, length, length + 3);
        this->RoundTrip(
            {input.data(), length, static_cast<uint32_t>(dtype), length, length % 2 == 0});
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(GpuBlockTest, CodesDeltasOfEveryDtypeAndAmountOfChange) {
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (const uint32_t length : {7U, 77U, 4099U, 32767U, 32768U}) {
      for (const uint64_t percent : {0U, 1U, 40U, 70U, 80U, 100U}) {
        if (kSlow<TypeParam> && (length > 5000 || percent % 40 != 0)) continue;
        SCOPED_TRACE(std::string(cinch_dtype_name(dtype)) + " " + std::to_string(length) + " " +
                     std::to_string(percent));
        const Bytes base = MakeData(DataKind::kGaussian, dtype, length + 3, length);
        const Bytes shifted(base.begin() + 1, base.end());
        const Bytes input = test::ChangeSome(shifted, cinch_dtype_size(dtype), percent, percent);
        // Bases may have any alignment.
        this->RoundTrip({input.data(), length, static_cast<uint32_t>(dtype), length, true,
                         length % 2 == 0 ? shifted.data() : base.data() + 1});
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(GpuBlockTest, CodesEveryShortLengthAtEveryAlignment) {
  for (const cinch_dtype dtype : test::kAllDtypes) {
    for (uint32_t length = 1; length <= 70; length += kSlow<TypeParam> ? 23 : 1) {
      for (uint32_t offset = 0; offset < 4; ++offset) {
        SCOPED_TRACE(std::string(cinch_dtype_name(dtype)) + " " + std::to_string(length));
        Bytes input = MakeData(DataKind::kGaussian, dtype, length, length);
        input.insert(input.begin(), offset, uint8_t{0xEE});
        this->RoundTrip({input.data() + offset, length, static_cast<uint32_t>(dtype), 0, true});
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(GpuBlockTest, CodesEveryPatternOfSixteenBits) {
  for (const bool shuffled : {false, true}) {
    std::vector<uint16_t> patterns(65536);
    for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
    if (shuffled) std::shuffle(patterns.begin(), patterns.end(), std::mt19937_64(3));
    for (const cinch_dtype dtype : {CINCH_DTYPE_BF16, CINCH_DTYPE_FP16, CINCH_DTYPE_INT16}) {
      for (uint64_t block = 0; block < 4; block += kSlow<TypeParam> ? 3 : 1) {
        this->RoundTrip({reinterpret_cast<const uint8_t*>(patterns.data()) + 32768 * block, 32768,
                         static_cast<uint32_t>(dtype), block, true});
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

/// Changes a payload in one to three places.
void Mutate(std::mt19937_64* random, Bytes* payload) {
  for (uint64_t left = 1 + (*random)() % 3; left != 0; --left) {
    // Mostly the first bytes, where the structure is.
    const size_t range =
        (*random)() % 2 == 0 ? std::min<size_t>(payload->size(), 48) : payload->size();
    (*payload)[(*random)() % range] ^= static_cast<uint8_t>(1U << ((*random)() % 8));
  }
}

TYPED_TEST(GpuBlockTest, JudgesMutatedPayloadsLikeThePlainCodec) {
  std::mt19937_64 random(17);
  const int rounds = kSlow<TypeParam> ? 300 : 40000;
  int rejected = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto dtype = test::kAllDtypes[random() % std::size(test::kAllDtypes)];
    const auto kind = test::kAllDataKinds[random() % std::size(test::kAllDataKinds)];
    const auto length = static_cast<uint32_t>(1 + random() % (random() % 8 == 0 ? 9000 : 600));
    const Bytes input = MakeData(kind, dtype, length, random());
    const bool checksum = random() % 2 == 0;
    Bytes payload =
        EncodeByReference({input.data(), length, static_cast<uint32_t>(dtype), 5, checksum})
            .payload;
    Mutate(&random, &payload);
    if (random() % 8 == 0) payload.resize(payload.size() + 16);
    if (random() % 8 == 0 && payload.size() > 16) payload.resize(payload.size() - 16);
    Bytes expected(length);
    uint64_t expected_hash = 0;
    const auto payload_bytes = static_cast<uint32_t>(payload.size());
    const Status verdict = ReferenceBlockCodec().Decode(
        {payload.data(), payload_bytes, length, 5, checksum}, expected.data(), &expected_hash);
    uint64_t hash = 0;
    ASSERT_EQ(TypeParam::Decode({payload.data(), payload_bytes, length, 5, checksum},
                                this->decode_.get(), &hash),
              verdict)
        << "round " << round;
    if (verdict == CINCH_OK) {
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), this->decode_->original));
    } else {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, rounds / 4);
  EXPECT_LT(rejected, rounds);
}

}  // namespace
}  // namespace cinch::codec::gpu
