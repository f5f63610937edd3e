// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/safetensors_image.h"
#include "support/temporary_directory.h"
#include "tensors/entropy.h"
#include "tensors/safetensors.h"
#include "tensors/tensor_file.h"

namespace cinch::tensors {
namespace {

using test::BytesOf;
using test::ReadFile;
using test::TemporaryDirectory;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kReplace = AtomicFile::IfExists::kReplace;
constexpr auto kFail = AtomicFile::IfExists::kFail;

std::string Planned(std::vector<TensorSpec> specs, const Metadata& metadata = {}) {
  SafetensorsPlan plan;
  std::string message;
  const Status status = PlanSafetensors(std::move(specs), metadata, &plan, &message);
  return status == CINCH_OK ? plan.head.substr(8) : message;
}

TEST(SafetensorsPlan, WritesTheSameHeaderAsTheFormatsOwnLibrary) {
  EXPECT_EQ(Planned({}), "{}      ");
  EXPECT_EQ(Planned({}, {{"framework", "pt"}}), R"({"__metadata__":{"framework":"pt"}}     )");
  EXPECT_EQ(Planned({{"attn.0", FileDtype::kF32, {1, 2, 3}}}),
            R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  EXPECT_EQ(Planned({{"attn0", FileDtype::kF32, {1, 1, 2, 3}}}),
            R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )");
}

TEST(SafetensorsPlan, SortsByFallingAlignmentThenByName) {
  SafetensorsPlan plan;
  std::string message;
  ASSERT_EQ(PlanSafetensors({{"b", FileDtype::kU8, {3}},
                             {"a", FileDtype::kU8, {1}},
                             {"c", FileDtype::kF16, {1}},
                             {"d", FileDtype::kBf16, {1}},
                             {"e", FileDtype::kI64, {}}},
                            {}, &plan, &message),
            CINCH_OK);
  std::vector<std::string> names;
  for (const TensorInfo& tensor : plan.layout.tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.offset_bytes % (FileDtypeBits(tensor.file_dtype) / 8), 0u) << tensor.name;
  }
  EXPECT_THAT(names, ElementsAre("e", "d", "c", "a", "b"));
}

TEST(SafetensorsPlan, RefusesWhatNoReaderWouldTake) {
  EXPECT_THAT(Planned({{"a", FileDtype::kU8, {1}}, {"a", FileDtype::kU8, {2}}}),
              HasSubstr("two tensors are named 'a'"));
  EXPECT_THAT(Planned({{"__metadata__", FileDtype::kU8, {1}}}), HasSubstr("reserves"));
  EXPECT_THAT(Planned({{"a", FileDtype::kF4, {1}}}), HasSubstr("whole bytes"));
  EXPECT_THAT(Planned({{"a", FileDtype::kU8, {uint64_t{1} << 62, 8}}}), HasSubstr("overflow"));
  EXPECT_THAT(Planned({{"a", FileDtype::kU8, {uint64_t{1} << 61}},
                       {"b", FileDtype::kU8, {uint64_t{1} << 61}},
                       {"c", FileDtype::kU8, {uint64_t{1} << 61}}}),
              HasSubstr("overflow"));
  EXPECT_THAT(Planned({{"\xff", FileDtype::kU8, {1}}}), HasSubstr("UTF-8"));
  EXPECT_THAT(Planned({{"a", FileDtype::kU8, {1}}}, {{"k", "\xc3"}}), HasSubstr("UTF-8"));
  EXPECT_THAT(Planned({{std::string(kMaxHeaderBytes, 'n'), FileDtype::kU8, {1}}}),
              HasSubstr("over the limit"));
}

TEST(SafetensorsWriter, WrittenInAnyOrderAndReadBack) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("out.safetensors");
  SafetensorsWriter writer;
  std::string message;
  ASSERT_EQ(SafetensorsWriter::Create(path,
                                      {{"w", FileDtype::kBf16, {3}},
                                       {"empty", FileDtype::kF32, {0}},
                                       {"b", FileDtype::kU8, {2}}},
                                      {{"k", "v"}}, kReplace, &writer, &message),
            CINCH_OK)
      << message;
  ASSERT_EQ(writer.tensors().size(), 3u);
  const std::string weights = "abcdef";
  const std::string bytes = "gh";
  ASSERT_EQ(writer.tensors()[2].name, "b");
  EXPECT_EQ(writer.Write(2, 0, BytesOf(bytes), &message), CINCH_OK);
  EXPECT_EQ(writer.Write(1, 4, BytesOf(weights).subspan(4), &message), CINCH_OK);
  EXPECT_EQ(writer.Commit(&message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("lacks 4 bytes"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(writer.Write(1, 0, BytesOf(weights).first(4), &message), CINCH_OK);
  EXPECT_EQ(writer.Write(1, 4, BytesOf(weights), &message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(writer.Write(3, 0, {}, &message), CINCH_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(writer.Commit(&message), CINCH_OK) << message;
  EXPECT_THAT(directory.Names(), ElementsAre("out.safetensors"));

  TensorFile file;
  ASSERT_EQ(TensorFile::Open(path, TensorFile::Kind::kByName, CINCH_DTYPE_AUTO, &file, &message),
            CINCH_OK)
      << message;
  EXPECT_TRUE(file.is_safetensors());
  EXPECT_EQ(file.metadata().at("k"), "v");
  const auto read = file.bytes(file.tensors()[1]);
  EXPECT_TRUE(
      std::equal(read.begin(), read.end(), BytesOf(weights).begin(), BytesOf(weights).end()));
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenGivenUp) {
  const TemporaryDirectory directory;
  {
    SafetensorsWriter writer;
    std::string message;
    ASSERT_EQ(SafetensorsWriter::Create(directory.File("out"), {{"w", FileDtype::kU8, {3}}}, {},
                                        kReplace, &writer, &message),
              CINCH_OK);
    EXPECT_THAT(directory.Names(), Not(Contains("out"))) << "it appears only at Commit()";
  }
  EXPECT_THAT(directory.Names(), IsEmpty());
}

TEST(SafetensorsWriter, RefusesBytesThatDoNotFitTheShape) {
  const TemporaryDirectory directory;
  const std::string bytes = "abc";
  const TensorData tensor = {{"w", FileDtype::kBf16, {2}}, BytesOf(bytes)};
  std::string message;
  EXPECT_EQ(WriteSafetensors(directory.File("out"), {&tensor, 1}, {}, kReplace, &message),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("ask for 4"));
  EXPECT_THAT(directory.Names(), IsEmpty());
}

TEST(Sample, IsReadAndWrittenAgainByteForByte) {
  const std::string path = CINCH_SOURCE_DIR "/tests/data/sample.safetensors";
  TensorFile sample;
  std::string message;
  ASSERT_EQ(TensorFile::Open(path, TensorFile::Kind::kByName, CINCH_DTYPE_AUTO, &sample, &message),
            CINCH_OK)
      << message;
  std::vector<TensorData> tensors;
  for (const TensorInfo& info : sample.tensors()) {
    tensors.push_back({{info.name, info.file_dtype, info.shape}, sample.bytes(info)});
  }
  std::reverse(tensors.begin(), tensors.end());
  const TemporaryDirectory directory;
  const std::string copy = directory.File("copy.safetensors");
  ASSERT_EQ(WriteSafetensors(copy, tensors, sample.metadata(), kFail, &message), CINCH_OK)
      << message;
  EXPECT_TRUE(ReadFile(copy) == ReadFile(path));
}

TEST(Sample, HoldsRealWeightsOfEveryFloatWidth) {
  TensorFile sample;
  std::string message;
  ASSERT_EQ(TensorFile::Open(CINCH_SOURCE_DIR "/tests/data/sample.safetensors",
                             TensorFile::Kind::kByName, CINCH_DTYPE_AUTO, &sample, &message),
            CINCH_OK)
      << message;
  int large_16_bit_tensors = 0;
  bool has_fp16 = false;
  bool has_fp32 = false;
  for (const TensorInfo& tensor : sample.tensors()) {
    large_16_bit_tensors += tensor.dtype == CINCH_DTYPE_BF16 && tensor.size_bytes >= 1'000'000;
    has_fp16 |= tensor.dtype == CINCH_DTYPE_FP16;
    has_fp32 |= tensor.dtype == CINCH_DTYPE_FP32;
    if (tensor.dtype == CINCH_DTYPE_BF16 && tensor.size_bytes >= 100'000) {
      const EntropyBound bound = ComputeEntropyBound(tensor.dtype, sample.bytes(tensor));
      EXPECT_GT(bound.bound_fraction, 0.65) << tensor.name;
      EXPECT_LT(bound.bound_fraction, 0.68) << tensor.name;
    }
  }
  EXPECT_GE(large_16_bit_tensors, 2);
  EXPECT_TRUE(has_fp16);
  EXPECT_TRUE(has_fp32);
}

}  // namespace
}  // namespace cinch::tensors
