// SPDX-License-Identifier: Apache-2.0
#include "tensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/safetensors_image.h"
#include "support/temporary_directory.h"

namespace cinch::tensors {
namespace {

using test::BytesOf;
using test::SafetensorsImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct ReadResult {
  Status status;
  SafetensorsLayout layout;
  std::string message;
};

ReadResult Read(const std::string& image) {
  ReadResult result;
  result.status = ReadSafetensors(BytesOf(image), &result.layout, &result.message);
  return result;
}

/// What every accepted file must satisfy, whatever its bytes.
void ExpectSound(const SafetensorsLayout& layout, uint64_t file_bytes) {
  uint64_t end_bytes = layout.data_offset_bytes;
  for (const TensorInfo& tensor : layout.tensors) {
    EXPECT_EQ(tensor.offset_bytes, end_bytes) << tensor.name;
    uint64_t size_bytes = 0;
    EXPECT_TRUE(TensorBytes(tensor.file_dtype, tensor.shape, &size_bytes)) << tensor.name;
    EXPECT_EQ(tensor.size_bytes, size_bytes) << tensor.name;
    EXPECT_EQ(tensor.dtype, CodecDtype(tensor.file_dtype)) << tensor.name;
    end_bytes += tensor.size_bytes;
  }
  EXPECT_EQ(end_bytes, file_bytes);
  EXPECT_EQ(layout.file_bytes, file_bytes);
}

TEST(SafetensorsRead, TakesAllThatTheFormatAllows) {
  const std::string image = SafetensorsImage(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      16);
  const ReadResult result = Read(image);
  ASSERT_EQ(result.status, CINCH_OK) << result.message;
  ASSERT_EQ(result.layout.tensors.size(), 2u);
  EXPECT_EQ(result.layout.tensors[0].name, "a");
  EXPECT_EQ(result.layout.tensors[0].dtype, CINCH_DTYPE_FP32);
  EXPECT_THAT(result.layout.tensors[0].shape, IsEmpty());
  EXPECT_EQ(result.layout.tensors[1].name, "b");
  EXPECT_EQ(result.layout.tensors[1].dtype, CINCH_DTYPE_BF16);
  EXPECT_EQ(result.layout.tensors[1].file_dtype, FileDtype::kBf16);
  EXPECT_THAT(result.layout.tensors[1].shape, ElementsAre(2, 3));
  EXPECT_EQ(result.layout.tensors[1].offset_bytes, image.size() - 12);
  EXPECT_EQ(result.layout.metadata.at("format"), "pt");
  ExpectSound(result.layout, image.size());
}

TEST(SafetensorsRead, TakesTheFilesOfTheFormatsOwnTests) {
  const std::string no_tensors = SafetensorsImage("{}      ", 0);
  EXPECT_EQ(Read(no_tensors).status, CINCH_OK);
  const std::string one =
      SafetensorsImage(R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})", 24);
  EXPECT_EQ(Read(one).status, CINCH_OK);
  const std::string metadata_only =
      SafetensorsImage(R"({"__metadata__":{"framework":"pt"}}     )", 0);
  EXPECT_EQ(Read(metadata_only).status, CINCH_OK);
}

struct ValidCase {
  const char* what;
  const char* json;
  size_t data_bytes;
};

class SafetensorsValidOddity : public ::testing::TestWithParam<ValidCase> {};

TEST_P(SafetensorsValidOddity, IsRead) {
  const std::string image = SafetensorsImage(GetParam().json, GetParam().data_bytes);
  const ReadResult result = Read(image);
  EXPECT_EQ(result.status, CINCH_OK) << result.message;
  ExpectSound(result.layout, image.size());
}

const ValidCase kValidCases[] = {
    {"empty_header", "{}", 0},
    {"white_space", "{ \n\t\"t\" : {\"shape\":[ 1 ],\"dtype\":\"U8\",\"data_offsets\":[0,1]} }\n ",
     1},
    {"zero_size", R"({"t":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}})", 0},
    {"zero_size_huge_dimension",
     R"({"t":{"dtype":"F16","shape":[4611686018427387904,0],"data_offsets":[0,0]}})", 0},
    {"zero_size_between",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("z":{"dtype":"U8","shape":[0,7],"data_offsets":[2,2]},)"
     R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
     3},
    {"several_zero_size",
     R"({"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
     R"("a":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}})",
     0},
    {"rank_0", R"({"t":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8},
    {"four_bits", R"({"t":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}})", 3},
    {"six_bits", R"({"t":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3},
    {"complex", R"({"t":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8},
    {"empty_metadata", R"({"__metadata__":{}})", 0},
    {"metadata_last",
     R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{"a":"","":"b"}})", 1},
    {"empty_name", R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1},
    {"name_of_a_key", R"({"shape":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1},
    {"escaped_name", R"({"\u00e9\ud83d\ude00\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
     1},
    {"utf_8_name", "{\"\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
    {"odd_header_length", R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )", 4},
};

INSTANTIATE_TEST_SUITE_P(All, SafetensorsValidOddity, ::testing::ValuesIn(kValidCases),
                         [](const auto& valid) { return std::string(valid.param.what); });

struct BrokenCase {
  const char* what;
  std::string image;
  Status status;
  const char* message;
};

class SafetensorsBroken : public ::testing::TestWithParam<BrokenCase> {};

TEST_P(SafetensorsBroken, IsRefusedWithAReason) {
  ReadResult result = Read(GetParam().image);
  EXPECT_EQ(result.status, GetParam().status);
  EXPECT_THAT(result.message, HasSubstr(GetParam().message));
  EXPECT_THAT(result.message, HasSubstr("; ")) << "a message says what to do";
  EXPECT_THAT(result.layout.tensors, IsEmpty());
}

std::string WithLength(uint64_t length, std::string image) {
  for (unsigned i = 0; i < 8; ++i) {
    image[i] = static_cast<char>((length >> (8 * i)) & 0xff);
  }
  return image;
}

BrokenCase Broken(const char* what, const std::string& json, size_t data_bytes,
                  const char* message) {
  return {what, SafetensorsImage(json, data_bytes), CINCH_ERROR_FILE_FORMAT, message};
}

/// A header of one tensor whose entry is given.
std::string One(const std::string& entry) { return R"({"t":)" + entry + "}"; }

const std::string kByte = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";

std::vector<BrokenCase> BrokenLengths() {
  const std::string image = SafetensorsImage("{}", 0);
  return {
      {"empty_file", "", CINCH_ERROR_FILE_FORMAT, "fewer than the 8"},
      {"seven_bytes", std::string(7, '\0'), CINCH_ERROR_FILE_FORMAT, "fewer than the 8"},
      {"length_zero", std::string(8, '\0'), CINCH_ERROR_FILE_FORMAT, "start with '{'"},
      {"length_past_end", WithLength(3, image), CINCH_ERROR_FILE_FORMAT, "but only 2 follow"},
      {"length_at_limit", WithLength(100'000'000, image), CINCH_ERROR_FILE_FORMAT, "but only 2"},
      {"length_over_limit", WithLength(100'000'001, image), CINCH_ERROR_FILE_FORMAT, "the limit"},
      {"length_2_60", WithLength(uint64_t{1} << 60, image), CINCH_ERROR_FILE_FORMAT, "the limit"},
      {"length_all_ones", WithLength(~uint64_t{0}, image), CINCH_ERROR_FILE_FORMAT, "the limit"},
      {"length_too_short", WithLength(1, image), CINCH_ERROR_FILE_FORMAT, "not valid JSON"},
      Broken("leading_space", " {}", 0, "start with '{'"),
      Broken("byte_order_mark", "\xef\xbb\xbf{}", 0, "start with '{'"),
      Broken("array", "[]", 0, "start with '{'"),
  };
}

std::vector<BrokenCase> BrokenJson() {
  return {
      Broken("not_closed", R"({"t":)" + kByte, 1, "not valid JSON"),
      Broken("text_after", "{}x", 0, "not valid JSON"),
      Broken("second_object", "{}{}", 0, "not valid JSON"),
      Broken("nul_after", std::string("{}\0", 3), 0, "NUL"),
      Broken("nul_inside", std::string("{\0}", 3), 0, "NUL"),
      Broken("comment", "{/**/}", 0, "not valid JSON"),
      Broken("trailing_comma", R"({"t":)" + kByte + ",}", 1, "not valid JSON"),
      Broken("bad_utf_8", "{\"\xc3\x28\":" + kByte + "}", 1, "not valid JSON"),
      Broken("overlong_utf_8", "{\"\xc0\x80\":" + kByte + "}", 1, "not valid JSON"),
      Broken("lone_surrogate", R"({"\ud800":)" + kByte + "}", 1, "not valid JSON"),
      Broken("deep_nesting", "{\"t\":" + std::string(100'000, '['), 0, "where an object"),
      Broken("deep_objects", One(R"({"dtype":{"dtype":{}}})"), 0, "a dtype's name"),
      Broken("duplicate_name", R"({"t":)" + kByte + R"(,"u":)" + kByte + R"(,"t":)" + kByte + "}",
             3, "'t' twice"),
      Broken("duplicate_name_escaped",
             R"({"t":)" + kByte + R"(,"\u0074":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
             2, "'t' twice"),
      Broken("duplicate_dtype",
             One(R"({"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]})"), 1,
             "'dtype' twice"),
      Broken("duplicate_shape",
             One(R"({"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]})"), 1,
             "'shape' twice"),
      Broken("duplicate_metadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"),
      Broken("duplicate_metadata_key", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' twice"),
  };
}

std::vector<BrokenCase> BrokenEntries() {
  return {
      Broken("missing_dtype", One(R"({"shape":[1],"data_offsets":[0,1]})"), 1, "lacks one of"),
      Broken("missing_shape", One(R"({"dtype":"U8","data_offsets":[0,1]})"), 1, "lacks one of"),
      Broken("missing_offsets", One(R"({"dtype":"U8","shape":[1]})"), 1, "lacks one of"),
      Broken("empty_entry", One("{}"), 0, "lacks one of"),
      Broken("unknown_key", One(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]})"),
             1, "unknown key 'strides'"),
      Broken("entry_is_number", One("1"), 0, "where an object"),
      Broken("entry_is_null", One("null"), 0, "where an object"),
      Broken("dtype_is_number", One(R"({"dtype":1,"shape":[1],"data_offsets":[0,1]})"), 1, "name"),
      Broken("shape_is_object", One(R"({"dtype":"U8","shape":{},"data_offsets":[0,1]})"), 1,
             "an array of numbers"),
      Broken("shape_is_string", One(R"({"dtype":"U8","shape":"1","data_offsets":[0,1]})"), 1,
             "an array of numbers"),
      Broken("shape_of_strings", One(R"({"dtype":"U8","shape":["1"],"data_offsets":[0,1]})"), 1,
             "a whole number"),
      Broken("nested_shape", One(R"({"dtype":"U8","shape":[[1]],"data_offsets":[0,1]})"), 1,
             "a whole number"),
      Broken("negative_dimension", One(R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})"), 1,
             "negative"),
      Broken("fractional_dimension", One(R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})"), 1,
             "not whole"),
      Broken("dimension_2_64",
             One(R"({"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]})"), 1,
             "exceeds 64 bits"),
      Broken("boolean_dimension", One(R"({"dtype":"U8","shape":[true],"data_offsets":[0,1]})"), 1,
             "a boolean"),
      Broken("offsets_one", One(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})"), 1,
             "exactly two"),
      Broken("offsets_three", One(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})"), 1,
             "exactly two"),
      Broken("offsets_none", One(R"({"dtype":"U8","shape":[1],"data_offsets":[]})"), 1,
             "exactly two"),
      Broken("metadata_number", R"({"__metadata__":{"a":1}})", 0, "object of strings"),
      Broken("metadata_null", R"({"__metadata__":null})", 0, "object of strings"),
      Broken("metadata_string", R"({"__metadata__":"a"})", 0, "object of strings"),
      Broken("metadata_nested", R"({"__metadata__":{"a":{}}})", 0, "object of strings"),
      Broken("metadata_array", R"({"__metadata__":{"a":[]}})", 0, "object of strings"),
      Broken("rank_65",
             One(R"({"dtype":"U8","shape":[1)" +
                 [] {
                   std::string more;
                   for (int i = 0; i < 64; ++i) {
                     more += ",1";
                   }
                   return more;
                 }() +
                 R"(],"data_offsets":[0,1]})"),
             1, "more than 64 dimensions"),
  };
}

std::vector<BrokenCase> BrokenRanges() {
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}";
  };
  const auto two = [&](const char* first, const char* second) {
    return R"({"a":)" + entry("U8", "[2]", first) + R"(,"b":)" + entry("U8", "[2]", second) + "}";
  };
  return {
      Broken("overlap", two("[0,2]", "[1,3]"), 3, "overlaps"),
      Broken("same_range", two("[0,2]", "[0,2]"), 2, "overlaps"),
      Broken("hole", two("[0,2]", "[3,5]"), 5, "hole"),
      Broken("hole_at_start", two("[1,3]", "[3,5]"), 5, "hole"),
      Broken("end_before_begin", One(entry("U8", "[1]", "[1,0]")), 1, "ends before"),
      Broken("trailing_bytes", One(entry("U8", "[1]", "[0,1]")), 2, "bytes follow"),
      Broken("cut_short", One(entry("U8", "[4]", "[0,4]")), 3, "cut short"),
      Broken("claims_2_60", One(entry("U8", "[1152921504606846976]", "[0,1152921504606846976]")), 1,
             "cut short"),
      Broken("size_too_small", One(entry("F32", "[2]", "[0,7]")), 7, "ask for 8"),
      Broken("size_too_large", One(entry("F32", "[2]", "[0,9]")), 9, "ask for 8"),
      Broken("elements_overflow", One(entry("U8", "[4294967296,4294967296]", "[0,0]")), 0,
             "overflow"),
      Broken("zero_after_overflow", One(entry("U8", "[4294967296,4294967296,0]", "[0,0]")), 0,
             "overflow"),
      Broken("bits_overflow", One(entry("F64", "[288230376151711744]", "[0,0]")), 0, "overflow"),
      Broken("half_a_byte", One(entry("F4", "[3]", "[0,1]")), 1, "whole bytes"),
      Broken("six_bits_alone", One(entry("F6_E3M2", "[1]", "[0,1]")), 1, "whole bytes"),
      {"unknown_dtype", SafetensorsImage(One(entry("F128", "[1]", "[0,16]")), 16),
       CINCH_ERROR_UNSUPPORTED, "unknown dtype 'F128'"},
      {"lower_case_dtype", SafetensorsImage(One(entry("bf16", "[1]", "[0,2]")), 2),
       CINCH_ERROR_UNSUPPORTED, "unknown dtype 'bf16'"},
      {"empty_dtype", SafetensorsImage(One(entry("", "[1]", "[0,2]")), 2), CINCH_ERROR_UNSUPPORTED,
       "unknown dtype ''"},
  };
}

std::string BrokenName(const ::testing::TestParamInfo<BrokenCase>& info) { return info.param.what; }

INSTANTIATE_TEST_SUITE_P(Length, SafetensorsBroken, ::testing::ValuesIn(BrokenLengths()),
                         BrokenName);
INSTANTIATE_TEST_SUITE_P(Json, SafetensorsBroken, ::testing::ValuesIn(BrokenJson()), BrokenName);
INSTANTIATE_TEST_SUITE_P(Entry, SafetensorsBroken, ::testing::ValuesIn(BrokenEntries()),
                         BrokenName);
INSTANTIATE_TEST_SUITE_P(Range, SafetensorsBroken, ::testing::ValuesIn(BrokenRanges()), BrokenName);

TEST(SafetensorsRead, TakesAHeaderOfExactlyTheLimit) {
  std::string json = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  json.resize(kMaxHeaderBytes, ' ');
  const ReadResult result = Read(SafetensorsImage(json, 1));
  EXPECT_EQ(result.status, CINCH_OK) << result.message;
}

TEST(SafetensorsRead, MessagesHoldNoControlCharactersAndStayShort) {
  const std::string name = "\\u001b[31m" + std::string(5000, 'n');
  const ReadResult result = Read(
      SafetensorsImage(R"({")" + name + R"(":{"dtype":"X","shape":[1],"data_offsets":[0,1]}})", 1));
  EXPECT_EQ(result.status, CINCH_ERROR_UNSUPPORTED);
  EXPECT_EQ(result.message.find('\x1b'), std::string::npos);
  EXPECT_LT(result.message.size(), 400u);
}

TEST(SafetensorsRead, EveryDtypeHasANameASizeAndACodecDtype) {
  for (int i = 0; i < kFileDtypeCount; ++i) {
    const auto dtype = static_cast<FileDtype>(i);
    FileDtype parsed = FileDtype::kU64;
    ASSERT_TRUE(ParseFileDtype(FileDtypeName(dtype), &parsed));
    EXPECT_EQ(parsed, dtype);
    const uint64_t bytes = FileDtypeBits(dtype);  // Eight elements have that many bytes.
    const std::string image =
        SafetensorsImage(One(R"({"dtype":")" + std::string(FileDtypeName(dtype)) +
                             R"(","shape":[8],"data_offsets":[0,)" + std::to_string(bytes) + "]}"),
                         bytes);
    const ReadResult result = Read(image);
    ASSERT_EQ(result.status, CINCH_OK) << result.message;
    EXPECT_EQ(result.layout.tensors[0].file_dtype, dtype);
    if (CodecDtype(dtype) != CINCH_DTYPE_BYTES && dtype != FileDtype::kC64) {
      EXPECT_EQ(StoredAs(CodecDtype(dtype)), dtype);
      EXPECT_EQ(ElementBytes(CodecDtype(dtype)) * 8, FileDtypeBits(dtype));
    }
  }
}

TEST(SafetensorsRead, EverySingleBitFlipAndTruncationGivesAnAnswer) {
  const std::string image = SafetensorsImage(
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},)"
      R"("y":{"dtype":"U8","shape":[],"data_offsets":[4,5]}})",
      5);
  int accepted = 0;
  for (size_t bit = 0; bit < image.size() * 8; ++bit) {
    std::string flipped = image;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const ReadResult result = Read(flipped);
    if (result.status == CINCH_OK) {
      ++accepted;
      ExpectSound(result.layout, flipped.size());
    } else {
      EXPECT_TRUE(result.status == CINCH_ERROR_FILE_FORMAT ||
                  result.status == CINCH_ERROR_UNSUPPORTED);
      EXPECT_FALSE(result.message.empty());
    }
  }
  // Names and tensor bytes may change; most of a header may not.
  EXPECT_GE(accepted, 5 * 8);
  EXPECT_LT(static_cast<size_t>(accepted), image.size() * 8 / 4);
  for (size_t size = 0; size < image.size(); ++size) {
    EXPECT_EQ(Read(image.substr(0, size)).status, CINCH_ERROR_FILE_FORMAT) << size;
  }
}

/// Random valid sets of tensors, small enough to write thousands.
std::vector<TensorSpec> RandomSpecs(std::mt19937_64* random) {
  std::vector<TensorSpec> specs((*random)() % 8);
  for (size_t i = 0; i < specs.size(); ++i) {
    TensorSpec& spec = specs[i];
    spec.name = "layer." + std::to_string((*random)() % 1000) + (i % 2 == 0 ? "\"\\\n" : "é") +
                std::to_string(i);
    spec.file_dtype = static_cast<FileDtype>((*random)() % kFileDtypeCount);
    spec.shape.resize((*random)() % 5);
    for (uint64_t& dimension : spec.shape) {
      dimension = (*random)() % 5;
    }
    if (FileDtypeBits(spec.file_dtype) < 8) {
      spec.shape.push_back(4);  // Whole bytes for 4- and 6-bit elements.
    }
  }
  return specs;
}

std::string ImageOf(const SafetensorsPlan& plan) {
  std::string image = plan.head;
  for (uint64_t i = plan.head.size(); i < plan.layout.file_bytes; ++i) {
    image += static_cast<char>(i);
  }
  return image;
}

TEST(SafetensorsProperty, WhatIsPlannedIsWhatIsRead) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<TensorSpec> specs = RandomSpecs(&random);
    Metadata metadata;
    if (round % 3 == 0) {
      metadata = {{"format", "pt"}, {"\x01", "\"é"}};
    }
    SafetensorsPlan plan;
    std::string message;
    ASSERT_EQ(PlanSafetensors(specs, metadata, &plan, &message), CINCH_OK) << message;
    EXPECT_EQ(plan.head.size() % 8, 0u);
    const std::string image = ImageOf(plan);
    const ReadResult result = Read(image);
    ASSERT_EQ(result.status, CINCH_OK) << result.message;
    ExpectSound(result.layout, image.size());
    EXPECT_EQ(result.layout.metadata, metadata);
    ASSERT_EQ(result.layout.tensors.size(), specs.size());
    for (const TensorSpec& spec : specs) {
      const auto found =
          std::find_if(result.layout.tensors.begin(), result.layout.tensors.end(),
                       [&](const TensorInfo& info) { return info.name == spec.name; });
      ASSERT_NE(found, result.layout.tensors.end());
      EXPECT_EQ(found->file_dtype, spec.file_dtype);
      EXPECT_EQ(found->shape, spec.shape);
    }
  }
}

TEST(SafetensorsProperty, MutatedHeadersGiveAnAnswer) {
  std::mt19937_64 random(11);
  const std::string alphabet = R"({}[]",:0123456789.-eEtrufalsn\ )";
  for (int round = 0; round < 20000; ++round) {
    SafetensorsPlan plan;
    std::string message;
    ASSERT_EQ(PlanSafetensors(RandomSpecs(&random), {{"a", "b"}}, &plan, &message), CINCH_OK);
    std::string image = ImageOf(plan);
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t position = random() % std::min(plan.head.size(), image.size());
      switch (random() % 4) {
        case 0:
          image[position] = static_cast<char>(random());
          break;
        case 1:
          image[position] = alphabet[random() % alphabet.size()];
          break;
        case 2:
          image.erase(position, 1 + random() % 4);
          break;
        default:
          image.insert(position, 1, alphabet[random() % alphabet.size()]);
          break;
      }
    }
    const ReadResult result = Read(image);
    if (result.status == CINCH_OK) {
      ExpectSound(result.layout, image.size());
    } else {
      EXPECT_FALSE(result.message.empty());
    }
  }
}

}  // namespace
}  // namespace cinch::tensors
