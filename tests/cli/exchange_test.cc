// SPDX-License-Identifier: Apache-2.0
#include "exchange.h"

#include <gmock/gmock.h>

#include <string>

#include "segments.h"
#include "strict_json.h"

namespace cinch::cli::exchange {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(ManifestTest, RoundTrip) {
  Manifest manifest;
  manifest.chunk_bytes = kChunkBytes;
  manifest.files = {{"model.safetensors", 3 * kChunkBytes, 3}, {"empty", 0, 0}, {"\xc3\xa9", 5, 2}};
  Manifest decoded;
  const Outcome outcome = DecodeManifest(EncodeManifest(manifest), &decoded);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  ASSERT_EQ(decoded.files.size(), 3U);
  EXPECT_EQ(decoded.files[2].name, "\xc3\xa9");
  EXPECT_EQ(decoded.total_bytes(), 3 * kChunkBytes + 5);
  EXPECT_EQ(decoded.total_chunks(), 5U);
}

TEST(ManifestTest, RefusesNamesThatLeaveTheDirectory) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../x"), std::string("/x"),
        std::string("a/b"), std::string("a\\b"), std::string(".bashrc"), std::string("a\nb"),
        std::string("a\x1b[2J"), std::string("a\0b", 3), std::string(256, 'a')}) {
    EXPECT_FALSE(CheckName(name).ok()) << name;
    Manifest manifest;
    manifest.chunk_bytes = kChunkBytes;
    manifest.files = {{name, 1, 1}};
    Manifest decoded;
    EXPECT_EQ(DecodeManifest(EncodeManifest(manifest), &decoded).status, CINCH_ERROR_PROTOCOL)
        << name;
  }
  EXPECT_TRUE(CheckName(std::string(255, 'a')).ok());
  EXPECT_TRUE(CheckName("a..b-c d").ok());
}

std::string WithFiles(const std::string& files) {
  return R"({"cinch_files":1,"chunk_bytes":1024,"files":[)" + files + "]}";
}

TEST(ManifestTest, RefusesWhatIsNotExactlyAManifest) {
  for (const std::string& json : {
           std::string(),
           std::string("\xff\xff"),
           std::string(100000, '['),
           std::string("[]"),
           std::string(R"({"cinch_files":1})"),
           std::string(R"({"cinch_files":1,"chunk_bytes":0,"files":[]})"),
           WithFiles(""),
           WithFiles("1"),
           WithFiles(R"({"name":"a","bytes":1})"),
           WithFiles(R"({"name":1,"bytes":1,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":-1,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":1.5,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":1,"chunks":1,"mode":7})"),
           WithFiles(R"({"name":"a","bytes":18446744073709551615,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":1025,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":4,"chunks":5})"),
           WithFiles(R"({"name":"a","bytes":0,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":1,"chunks":1},{"name":"a","bytes":1,"chunks":1})"),
           std::string(R"({"cinch_files":1,"chunk_bytes":1099511627776,"files":[]})"),
           "\xEF\xBB\xBF" + WithFiles(R"({"name":"a","bytes":1,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":1,"chunks":1})") + std::string("\0more", 5),
           WithFiles(R"({"name":"a","name":"b","bytes":1,"chunks":1})"),
           WithFiles(R"({"name":"a","bytes":1,"chunks":1})") + "}",
       }) {
    Manifest decoded;
    EXPECT_EQ(DecodeManifest(json, &decoded).status, CINCH_ERROR_PROTOCOL) << json.substr(0, 100);
  }
  Manifest decoded;
  EXPECT_TRUE(DecodeManifest(WithFiles(R"({"name":"a","bytes":4,"chunks":4})"), &decoded).ok());
}

TEST(ManifestTest, RefusesStructureBeforeItTakesMemory) {
  constexpr size_t kBytes = kMaxManifestBytes;
  std::string empty_objects = WithFiles("{}");
  while (empty_objects.size() < kBytes) {
    empty_objects.insert(empty_objects.size() - 2, ",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}");
  }
  for (const std::string& json :
       {std::string(kBytes, '['), WithFiles(std::string(kBytes, '[')), empty_objects}) {
    Json parsed = ParseStrictJson(json, {.depth = 3, .containers = kMaxFiles + 2});
    EXPECT_TRUE(parsed.is_discarded());
    Manifest decoded;
    EXPECT_EQ(DecodeManifest(json, &decoded).status, CINCH_ERROR_PROTOCOL) << json.substr(0, 100);
  }
}

TEST(StrictJsonTest, LimitsCountStructureAndNotWhatStringsHold) {
  const JsonLimits limits = {.depth = 2, .containers = 3};
  EXPECT_FALSE(ParseStrictJson(R"({"a":[],"b":{}})", limits).is_discarded());
  EXPECT_TRUE(ParseStrictJson(R"({"a":[],"b":{},"c":[]})", limits).is_discarded());
  EXPECT_TRUE(ParseStrictJson(R"({"a":[[]]})", limits).is_discarded());
  EXPECT_FALSE(ParseStrictJson(R"({"[[[":"{{{\"[[[\\"})", limits).is_discarded());
  EXPECT_TRUE(ParseStrictJson(R"({"\"[":[{"\\":{}}]})", limits).is_discarded());
  EXPECT_TRUE(ParseStrictJson(R"({"a":{"b":1,"b":2}})", limits).is_discarded());
  EXPECT_FALSE(ParseStrictJson(R"({"a":1,"b":{"a":1}})", limits).is_discarded());
}

TEST(ManifestTest, NamesTheOtherVersion) {
  Manifest decoded;
  const Outcome outcome = DecodeManifest(R"({"cinch_files":2})", &decoded);
  EXPECT_EQ(outcome.status, CINCH_ERROR_VERSION_MISMATCH);
  EXPECT_THAT(outcome.message, HasSubstr("version 2"));
}

TEST(AnswerTest, CarriesARefusalAndCleansItsWords) {
  EXPECT_TRUE(DecodeAnswer(EncodeAnswer({})).ok());
  const Outcome refused =
      DecodeAnswer(EncodeAnswer(FromStatus(CINCH_ERROR_NO_SPACE, "disk\x1b[2J full")));
  EXPECT_EQ(refused.code, ExitCode::kPeer);
  EXPECT_THAT(refused.message, HasSubstr("disk?[2J full"));
  EXPECT_LE(EncodeAnswer(FromStatus(CINCH_ERROR_IO, std::string(100000, '\xc3'))).size(),
            kMaxAnswerBytes);
}

TEST(AnswerTest, RefusesWhatIsNoAnswer) {
  for (const char* json :
       {"", "{}", "[]", R"({"code":"0","status":0,"message":""})", R"({"code":0,"status":0})"}) {
    EXPECT_EQ(DecodeAnswer(json).status, CINCH_ERROR_PROTOCOL) << json;
  }
}

}  // namespace
}  // namespace cinch::cli::exchange
