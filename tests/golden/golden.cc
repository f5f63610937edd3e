// SPDX-License-Identifier: Apache-2.0
// Golden frames: what this library once wrote must decode for ever to the same bytes, and what it
// must refuse stays refused. `golden --write DIR` makes them, `golden --check DIR` is the test.
//
//   decode/NAME.frame   decodes to NAME's recipe, and encoding the recipe gives these very bytes
//   reject/NAME.STATUS  decoding gives STATUS
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>

#include "cinch/codec.h"
#include "format/block_hash.h"
#include "format/layout.h"
#include "support/test_data.h"

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;
using cinch::test::DataKind;

struct Recipe {
  DataKind kind;
  cinch_dtype dtype;
  size_t size_bytes;
  bool delta = false;  ///< Relative to the same kind of data, of whose elements a few changed.
};

/// One of each dtype and kind that differ in layout; sizes small, with partial bytes and tails.
std::map<std::string, Recipe> Recipes() {
  std::map<std::string, Recipe> recipes;
  const auto add = [&](DataKind kind, cinch_dtype dtype, size_t size_bytes) {
    recipes[cinch::test::NameOf(kind) + "_" + cinch_dtype_name(dtype)] = {kind, dtype, size_bytes};
  };
  for (const cinch_dtype dtype : cinch::test::kAllDtypes) add(DataKind::kGaussian, dtype, 2501);
  for (const DataKind kind : {DataKind::kZeros, DataKind::kOneExponent, DataKind::kSpiky,
                              DataKind::kWide, DataKind::kFarOutliers}) {
    add(kind, CINCH_DTYPE_BF16, 4099);
  }
  add(DataKind::kZeroPlanes, CINCH_DTYPE_FP32, 4099);
  add(DataKind::kRandom, CINCH_DTYPE_BF16, 300);
  add(DataKind::kSparse, CINCH_DTYPE_BF16, 4099);
  add(DataKind::kSparse, CINCH_DTYPE_FP8_E4M3FN, 4099);
  add(DataKind::kScattered, CINCH_DTYPE_FP32, cinch::format::kBlockBytes + 4099);
  add(DataKind::kScattered, CINCH_DTYPE_FP64, 16387);
  add(DataKind::kScattered, CINCH_DTYPE_BYTES, 4099);
  add(DataKind::kScattered, CINCH_DTYPE_AUTO, 4099);
  recipes["delta_bf16"] = {DataKind::kGaussian, CINCH_DTYPE_BF16, 40001, true};
  recipes["delta_auto"] = {DataKind::kGaussian, CINCH_DTYPE_AUTO, 4099, true};
  add(DataKind::kMixed, CINCH_DTYPE_AUTO, 2 * cinch::format::kBlockBytes + 77);
  return recipes;
}

cinch_codec* MakeCodec(cinch_backend backend) {
  cinch_codec_options options;
  cinch_codec_options_init(&options);
  options.backend = backend;
  cinch_codec* codec = nullptr;
  if (cinch_codec_create(&options, &codec) != CINCH_OK) std::abort();
  return codec;
}

cinch_base BaseOf(const Bytes& base) { return {base.data(), base.size(), 0, 0}; }

/// An empty `base` is none.
Bytes Encode(cinch_codec* codec, const Bytes& input, const Bytes& base_bytes, cinch_dtype dtype) {
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  options.dtype = dtype;
  Bytes frame(cinch_compress_bound(input.size()));
  uint64_t frame_bytes = 0;
  const cinch_base base = BaseOf(base_bytes);
  const cinch_status status =
      base_bytes.empty() ? cinch_compress(codec, &options, input.data(), input.size(), frame.data(),
                                          frame.size(), &frame_bytes)
                         : cinch_compress_delta(codec, &options, input.data(), input.size(), &base,
                                                frame.data(), frame.size(), &frame_bytes);
  if (status != CINCH_OK) std::abort();
  frame.resize(frame_bytes);
  return frame;
}

Bytes Data(const Recipe& recipe) {
  return cinch::test::MakeData(recipe.kind, recipe.dtype, recipe.size_bytes, 1);
}
Bytes Base(const Recipe& recipe) { return recipe.delta ? Data(recipe) : Bytes(); }
Bytes Input(const Recipe& recipe) {
  return recipe.delta ? cinch::test::ChangeSome(Data(recipe), 2, 3, 2) : Data(recipe);
}
Bytes Encode(cinch_codec* codec, const Recipe& recipe) {
  return Encode(codec, Input(recipe), Base(recipe), recipe.dtype);
}

/// A good frame with `bytes` at `offset`; the header's hash is made right again.
Bytes Spoilt(Bytes frame, size_t offset, const Bytes& bytes) {
  std::copy(bytes.begin(), bytes.end(), frame.begin() + static_cast<long>(offset));
  const auto hash = static_cast<uint32_t>(
      cinch::format::BlockHash(frame.data(), 60, cinch::format::kHeaderHashIndex));
  std::memcpy(frame.data() + 60, &hash, sizeof hash);
  return frame;
}

/// Where the inner payload of a frame's first block is, from the block's start.
size_t SparseInner(const Bytes& frame) {
  const uint8_t* payload = frame.data() + cinch::format::PayloadOffset(1);
  cinch::format::SparseCounts counts;
  std::memcpy(&counts, payload + cinch::format::kSparseCountsOffset, sizeof counts);
  return cinch::format::MakeSparseLayout(payload[5], 2501, counts).inner_offset;
}

/// Frames that must be refused, by name and status.
std::map<std::string, Bytes> Rejects() {
  cinch_codec* codec = MakeCodec(CINCH_BACKEND_REFERENCE);
  const Bytes good = Encode(codec, {DataKind::kGaussian, CINCH_DTYPE_BF16, 2501});
  const Bytes sparse = Encode(codec, {DataKind::kSparse, CINCH_DTYPE_BF16, 2501});
  const Bytes delta = Encode(codec, {DataKind::kGaussian, CINCH_DTYPE_BF16, 2501, true});
  cinch_codec_destroy(codec);
  const size_t block = cinch::format::PayloadOffset(1);
  const Bytes claim_2_60 = {0, 0, 0, 0, 0, 0, 0, 0x10};
  Bytes trailing = good;
  trailing.push_back(0);
  return {
      {"magic.CINCH_ERROR_FRAME_MAGIC", Spoilt(good, 0, {'X'})},
      {"version.CINCH_ERROR_FRAME_VERSION", Spoilt(good, 4, {9})},
      {"claim.CINCH_ERROR_FRAME_HEADER", Spoilt(good, 8, claim_2_60)},
      {"flags.CINCH_ERROR_FRAME_RESERVED", Spoilt(good, 7, {0x81})},
      {"index.CINCH_ERROR_FRAME_INDEX", Spoilt(good, 64, {0, 0, 0, 0})},
      {"index_padding.CINCH_ERROR_FRAME_RESERVED", Spoilt(good, 70, {1})},
      {"delta.CINCH_ERROR_FRAME_BASE_MISSING", delta},
      {"delta_unchecked.CINCH_ERROR_FRAME_HEADER", Spoilt(delta, 7, {2})},
      {"base_hash.CINCH_ERROR_FRAME_RESERVED", Spoilt(good, 40, {1})},
      {"sparse_groups.CINCH_ERROR_FRAME_BLOCK", Spoilt(sparse, block + 8, {0xFF, 0xFF})},
      {"sparse_elements.CINCH_ERROR_FRAME_BLOCK", Spoilt(sparse, block + 10, {0xFF, 0xFF})},
      {"sparse_bits.CINCH_ERROR_FRAME_BLOCK", Spoilt(sparse, block + 12, {0})},
      {"sparse_empty_group.CINCH_ERROR_FRAME_BLOCK", Spoilt(sparse, block + 12 + 20, {0})},
      {"sparse_nested.CINCH_ERROR_FRAME_BLOCK",
       Spoilt(sparse, block + SparseInner(sparse) + 4, {4})},
      {"sparse_inner_dtype.CINCH_ERROR_FRAME_BLOCK",
       Spoilt(sparse, block + SparseInner(sparse) + 5, {18})},
      {"sparse_inner_checksum.CINCH_ERROR_FRAME_BLOCK",
       Spoilt(sparse, block + SparseInner(sparse), {1})},
      {"mode.CINCH_ERROR_FRAME_BLOCK", Spoilt(good, block + 4, {3})},
      {"block_dtype.CINCH_ERROR_FRAME_BLOCK", Spoilt(good, block + 5, {1})},
      {"level0_bits.CINCH_ERROR_FRAME_BLOCK", Spoilt(good, block + 6, {4})},
      {"zero_planes.CINCH_ERROR_FRAME_BLOCK", Spoilt(good, block + 7, {2})},
      {"codebook.CINCH_ERROR_FRAME_BLOCK", Spoilt(good, block + 8, {254})},
      {"escapes.CINCH_ERROR_FRAME_BLOCK", Spoilt(good, block + 12, {0xFF, 0xFF})},
      {"escapes_moved.CINCH_ERROR_FRAME_BLOCK", Spoilt(good, block + 20, {1})},
      {"checksum.CINCH_ERROR_FRAME_CHECKSUM", Spoilt(good, block, {0, 0, 0, 0})},
      {"truncated.CINCH_ERROR_FRAME_TRUNCATED", Bytes(good.begin(), good.end() - 16)},
      {"trailing.CINCH_ERROR_FRAME_TRAILING", trailing},
  };
}

Bytes ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void WriteFile(const fs::path& path, const Bytes& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
}

void WriteAll(const fs::path& directory) {
  cinch_codec* codec = MakeCodec(CINCH_BACKEND_REFERENCE);
  for (const auto& [name, recipe] : Recipes()) {
    WriteFile(directory / "decode" / (name + ".frame"), Encode(codec, recipe));
  }
  for (const auto& [name, frame] : Rejects()) WriteFile(directory / "reject" / name, frame);
  cinch_codec_destroy(codec);
}

int failures = 0;
void Expect(bool condition, const std::string& what) {
  if (condition) return;
  std::cerr << "FAILED: " << what << "\n";
  ++failures;
}

void CheckAll(const fs::path& directory, cinch_backend backend) {
  cinch_codec* codec = MakeCodec(backend);
  const auto recipes = Recipes();
  size_t decoded = 0;
  for (const auto& entry : fs::directory_iterator(directory / "decode")) {
    const std::string name = entry.path().stem();
    const auto recipe = recipes.find(name);
    Expect(recipe != recipes.end(), name + ": has a recipe");
    if (recipe == recipes.end()) continue;
    const Bytes frame = ReadFile(entry.path());
    const Bytes expected = Input(recipe->second);
    const Bytes base_bytes = Base(recipe->second);
    const cinch_base base = BaseOf(base_bytes);
    Bytes output(expected.size());
    uint64_t output_bytes = 0;
    const cinch_status status = cinch_decompress_delta(codec, frame.data(), frame.size(), &base,
                                                       output.data(), output.size(), &output_bytes);
    Expect(status == CINCH_OK, name + ": " + cinch_status_name(status));
    Expect(output_bytes == expected.size() && output == expected, name + ": decodes to its recipe");
    Expect(Encode(codec, recipe->second) == frame, name + ": encodes to itself");
    ++decoded;
  }
  Expect(decoded == recipes.size(), "every recipe has a frame");
  size_t rejected = 0;
  for (const auto& entry : fs::directory_iterator(directory / "reject")) {
    const std::string expected = entry.path().extension().string().substr(1);
    const Bytes frame = ReadFile(entry.path());
    Bytes output(1 << 20);
    uint64_t output_bytes = 0;
    const cinch_status status = cinch_decompress(codec, frame.data(), frame.size(), output.data(),
                                                 output.size(), &output_bytes);
    Expect(expected == cinch_status_name(status),
           entry.path().filename().string() + ": " + cinch_status_name(status));
    ++rejected;
  }
  Expect(rejected >= Rejects().size(), "no refused frame was lost");
  cinch_codec_destroy(codec);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) {
    std::cerr << "usage: golden --write|--check DIRECTORY\n";
    return 2;
  }
  if (std::strcmp(arguments[1], "--write") == 0) {
    WriteAll(arguments[2]);
    return 0;
  }
  for (const cinch_backend backend : {CINCH_BACKEND_REFERENCE, CINCH_BACKEND_CPU}) {
    CheckAll(arguments[2], backend);
  }
  return failures == 0 ? 0 : 1;
}
