// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstring>
#include <string>

#include "container_reader.h"
#include "container_writer.h"
#include "support/temporary_directory.h"
#include "tensors/generators.h"
#include "tensors/safetensors.h"

namespace cinch::cli::container {
namespace {

using ::testing::HasSubstr;

/// Keeps what is written.
class StringSink : public ByteSink {
 public:
  Outcome Write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Outcome Finish() override { return {}; }

  std::string text;
};

class ContainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(CreateCodec(CINCH_BACKEND_CPU, 1, &codec_).ok());
    std::vector<std::byte> weights(3000);
    ASSERT_EQ(tensors::GenerateData({}, CINCH_DTYPE_BF16, 1, 0, weights), CINCH_OK);
    const std::vector<tensors::TensorData> list = {
        {{"weights", tensors::FileDtype::kBf16, {1500}}, weights},
        {{"empty", tensors::FileDtype::kF32, {0, 7}}, {}},
        {{"scalar", tensors::FileDtype::kU8, {}}, std::span(weights).first(1)}};
    std::string message;
    ASSERT_EQ(tensors::WriteSafetensors(directory_.File("a.safetensors"), list, {{"k", "v"}},
                                        tensors::AtomicFile::IfExists::kFail, &message),
              CINCH_OK)
        << message;
    container_ = Compress(directory_.File("a.safetensors"));
    original_ = Text(file_.bytes());
  }

  static std::string Text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::string Compress(const std::string& path) {
    std::string message;
    EXPECT_EQ(tensors::TensorFile::Open(path, tensors::TensorFile::Kind::kByName, CINCH_DTYPE_AUTO,
                                        &file_, &message),
              CINCH_OK)
        << message;
    StringSink sink;
    Progress progress("", 0, false);
    WriteResult result;
    const std::vector<Segment> segments = SegmentsOf(file_, CINCH_DTYPE_AUTO);
    EXPECT_TRUE(Write({file_, segments}, codec_.get(), &sink, &progress, &result).ok());
    EXPECT_EQ(result.container_bytes, sink.text.size());
    return sink.text;
  }

  /// Opens and decodes everything.
  Outcome Decode(const std::string& container, std::string* original) {
    original->clear();
    Reader reader;
    if (Outcome outcome = Reader::Open(std::as_bytes(std::span(container)), &reader);
        !outcome.ok()) {
      return outcome;
    }
    Progress progress("", 0, false);
    return reader.DecodeAll(codec_.get(), {}, &progress,
                            [original](const FrameRange&, std::span<const std::byte> chunk) {
                              *original += Text(chunk);
                              return Outcome{};
                            });
  }

  /// A container whose header and directory are in order, whatever they say.
  static std::string WithDirectory(const std::string& json, uint64_t original_bytes,
                                   uint64_t chunk_bytes = kChunkBytes) {
    Header header;
    header.original_bytes = original_bytes;
    header.directory_bytes = json.size();
    header.chunk_bytes = chunk_bytes;
    header.directory_hash = ShortHash(std::as_bytes(std::span(json)));
    return Text(EncodeHeader(header)) + json;
  }

  std::string RefusalOf(const std::string& container) {
    std::string original;
    const Outcome outcome = Decode(container, &original);
    EXPECT_EQ(outcome.code, ExitCode::kBadData);
    return outcome.message;
  }

  test::TemporaryDirectory directory_;
  CodecHandle codec_;
  tensors::TensorFile file_;
  std::string container_;
  std::string original_;
};

TEST_F(ContainerTest, GivesTheSameBytesBack) {
  std::string decoded;
  ASSERT_TRUE(Decode(container_, &decoded).ok());
  EXPECT_EQ(decoded, original_);
}

TEST_F(ContainerTest, KnowsTheTensors) {
  Reader reader;
  ASSERT_TRUE(Reader::Open(std::as_bytes(std::span(container_)), &reader).ok());
  ASSERT_EQ(reader.directory().segments.size(), 4U);
  EXPECT_TRUE(reader.directory().is_safetensors);
  EXPECT_FALSE(reader.directory().segments[0].is_tensor);
  const Segment& weights = reader.directory().segments[2];
  EXPECT_EQ(weights.name, "weights");
  EXPECT_EQ(weights.file_dtype, "BF16");
  EXPECT_EQ(weights.dtype, CINCH_DTYPE_BF16);
  EXPECT_THAT(weights.shape, ::testing::ElementsAre(1500));
}

TEST_F(ContainerTest, RefusesEveryTruncation) {
  std::string decoded;
  for (size_t size = 0; size < container_.size(); ++size) {
    ASSERT_EQ(Decode(container_.substr(0, size), &decoded).code, ExitCode::kBadData) << size;
  }
}

TEST_F(ContainerTest, NoFlippedBitChangesTheResult) {
  std::string decoded;
  size_t ignored_bits = 0;
  for (size_t bit = 0; bit < 8 * container_.size(); ++bit) {
    std::string damaged = container_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const Outcome outcome = Decode(damaged, &decoded);
    if (outcome.ok()) {
      ASSERT_EQ(decoded, original_) << "bit " << bit;
      ++ignored_bits;
    } else {
      ASSERT_EQ(outcome.code, ExitCode::kBadData) << "bit " << bit;
    }
  }
  // Only a constant block of a few bytes has bits that no reader needs.
  EXPECT_LE(ignored_bits, 7 * 8U);
}

TEST_F(ContainerTest, RefusesTrailingBytes) {
  EXPECT_THAT(RefusalOf(container_ + '\0'), HasSubstr("bytes follow"));
}

TEST_F(ContainerTest, RefusesOtherVersions) {
  std::string other = container_;
  other[8] = 2;
  EXPECT_THAT(RefusalOf(other), HasSubstr("version 2"));
}

TEST_F(ContainerTest, RefusesDirectoriesThatAreNotTrue) {
  const std::string segment =
      R"({"name":"a","kind":"tensor","dtype":"bf16","file_dtype":"","shape":[],"bytes":4})";
  const auto directory = [](const std::string& segments) {
    return R"({"source":"raw","segments":[)" + segments + "]}";
  };
  for (
      const std::string& json :
      {std::string("{}"), std::string("["), std::string(1000, '['), directory("1"),
       directory(segment + "," + segment), directory("{}"),
       directory(R"({"name":"a","kind":"x","dtype":"bf16","file_dtype":"","shape":[],"bytes":4})"),
       directory(
           R"({"name":"a","kind":"tensor","dtype":"x","file_dtype":"","shape":[],"bytes":4})"),
       directory(
           R"({"name":"a","kind":"tensor","dtype":"bf16","file_dtype":"","shape":[-1],"bytes":4})"),
       directory(
           R"({"name":"a","kind":"tensor","dtype":"bf16","file_dtype":"","shape":[],"bytes":-4})"),
       directory(
           R"({"name":"a","kind":"tensor","dtype":"bf16","file_dtype":"","shape":[],"bytes":1e3})"),
       directory(
           R"({"name":"a","kind":"tensor","dtype":"bf16","file_dtype":"","shape":[],"bytes":3})"),
       directory(
           R"({"name":"a","kind":"tensor","dtype":"bf16","file_dtype":"","shape":[],"bytes":18446744073709551615})")}) {
    RefusalOf(WithDirectory(json, 4));
  }
}

TEST_F(ContainerTest, RefusesDirectoriesThatAreNotExactlyJson) {
  const std::string empty = R"({"source":"raw","segments":[]})";
  for (const std::string& json :
       {"\xEF\xBB\xBF" + empty, empty + std::string("\0more", 5), empty + "x",
        std::string(R"({"source":"raw","source":"raw","segments":[]})"), std::string(1 << 20, '['),
        R"({"source":"raw","segments":[)" + std::string(1 << 20, '[') + "]}"}) {
    EXPECT_THAT(RefusalOf(WithDirectory(json, 0)), HasSubstr("not the JSON that it must be"));
  }
}

TEST_F(ContainerTest, HoldsManyTensorsWithoutBytes) {
  std::vector<Segment> segments(100'000);
  std::string json;
  ASSERT_TRUE(EncodeDirectory(segments, false, &json).ok());
  Directory directory;
  const Outcome outcome = DecodeDirectory(json, 0, &directory);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(directory.segments.size(), segments.size());
}

TEST_F(ContainerTest, RefusesSizesThatNoMachineHas) {
  const std::string json =
      R"({"source":"raw","segments":[{"name":"a","kind":"tensor","dtype":"bf16","file_dtype":"",)"
      R"("shape":[],"bytes":1152921504606846976}]})";
  // Refused for the missing frame, without reserving what it claims.
  EXPECT_THAT(RefusalOf(WithDirectory(json, uint64_t{1} << 60)), HasSubstr("frame"));
  EXPECT_THAT(RefusalOf(WithDirectory(json, (uint64_t{1} << 60) + 1)), HasSubstr("out of range"));
  EXPECT_THAT(RefusalOf(WithDirectory(json, uint64_t{1} << 60, uint64_t{1} << 40)),
              HasSubstr("out of range"));
  EXPECT_THAT(RefusalOf(WithDirectory(json, uint64_t{1} << 60, 32769)), HasSubstr("out of range"));
}

TEST_F(ContainerTest, RefusesFramesOfAnotherTensorsSize) {
  // The same frames under a directory that cuts the file elsewhere.
  Reader reader;
  ASSERT_TRUE(Reader::Open(std::as_bytes(std::span(container_)), &reader).ok());
  std::vector<Segment> segments = reader.directory().segments;
  segments[2].size_bytes -= 2;
  segments[3].size_bytes += 2;
  std::string json;
  ASSERT_TRUE(EncodeDirectory(segments, true, &json).ok());
  const std::string body = container_.substr(reader.frames().front().offset_bytes);
  EXPECT_THAT(RefusalOf(WithDirectory(json, original_.size()) + body), HasSubstr("header is"));
}

TEST_F(ContainerTest, NoticesFramesInTheWrongPlace) {
  const std::string path = directory_.File("raw.bin");
  std::string bytes(2 * kChunkBytes, 'a');
  std::memset(bytes.data() + kChunkBytes, 'b', kChunkBytes);
  test::WriteFile(path, bytes);
  const std::string good = Compress(path);
  Reader reader;
  ASSERT_TRUE(Reader::Open(std::as_bytes(std::span(good)), &reader).ok());
  const FrameRange first = reader.frames().at(0);
  const FrameRange second = reader.frames().at(1);
  ASSERT_EQ(first.size_bytes, second.size_bytes);
  std::string swapped = good;
  swapped.replace(first.offset_bytes, first.size_bytes,
                  good.substr(second.offset_bytes, second.size_bytes));
  swapped.replace(second.offset_bytes, second.size_bytes,
                  good.substr(first.offset_bytes, first.size_bytes));
  EXPECT_THAT(RefusalOf(swapped), HasSubstr("checksum of the original"));
}

TEST_F(ContainerTest, HoldsAnEmptyFile) {
  const std::string path = directory_.File("empty");
  test::WriteFile(path, "");
  const std::string container = Compress(path);
  std::string decoded = "x";
  EXPECT_TRUE(Decode(container, &decoded).ok());
  EXPECT_EQ(decoded, "");
}

/// Segments one after another, as (dtype, size).
std::vector<Segment> SegmentsLike(const std::vector<std::pair<cinch_dtype, uint64_t>>& parts) {
  std::vector<Segment> segments;
  uint64_t offset_bytes = 0;
  for (const auto& [dtype, size_bytes] : parts) {
    Segment segment;
    segment.dtype = dtype;
    segment.offset_bytes = offset_bytes;
    segment.size_bytes = size_bytes;
    offset_bytes += size_bytes;
    segments.push_back(segment);
  }
  return segments;
}

TEST(SegmentsTest, NeighboursOfOneDtypeShareAChunk) {
  const std::vector<Segment> segments = SegmentsLike({{CINCH_DTYPE_BYTES, 100000},
                                                      {CINCH_DTYPE_BF16, 200000},
                                                      {CINCH_DTYPE_BF16, 0},
                                                      {CINCH_DTYPE_BF16, 1000000}});
  std::vector<Chunk> chunks = ChunksOf(segments, 1200000);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[1].offset_bytes, 100000U);
  EXPECT_EQ(chunks[1].size_bytes, 1200000U);
  EXPECT_EQ(chunks[1].dtype, CINCH_DTYPE_BF16);
  chunks = ChunksOf(segments, 640000);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[2].size_bytes, 640000U);
  EXPECT_EQ(chunks[3].offset_bytes, 940000U);
  EXPECT_EQ(chunks[3].size_bytes, 360000U);
}

TEST(SegmentsTest, SmallOnesShareAChunkWhateverTheyAre) {
  std::vector<Chunk> chunks = ChunksOf(
      SegmentsLike({{CINCH_DTYPE_BF16, 100}, {CINCH_DTYPE_FP32, 200}, {CINCH_DTYPE_INT64, 8}}),
      kChunkBytes);
  ASSERT_EQ(chunks.size(), 2U);  // 300 is no multiple of 8.
  EXPECT_EQ(chunks[0].dtype, CINCH_DTYPE_AUTO);
  // A small one does not change what a large one is.
  chunks = ChunksOf(
      SegmentsLike(
          {{CINCH_DTYPE_BF16, 100000}, {CINCH_DTYPE_FP32, 200}, {CINCH_DTYPE_BF16, 100000}}),
      kChunkBytes);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].dtype, CINCH_DTYPE_BF16);
}

TEST(SegmentsTest, ElementsStayAligned) {
  const std::vector<Chunk> chunks =
      ChunksOf(SegmentsLike({{CINCH_DTYPE_UINT8, 3}, {CINCH_DTYPE_BF16, 100}}), kChunkBytes);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[1].offset_bytes, 3U);
}

}  // namespace
}  // namespace cinch::cli::container
