// SPDX-License-Identifier: Apache-2.0
// Decodes arbitrary bytes as a frame with both codecs: same verdict, same bytes, nothing out of
// bounds. Then takes them as data: both encode the same frame, tightly bounded, and get them back.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cinch/codec.h"
#include "format/block_hash.h"
#include "format/layout.h"
#include "support/test_data.h"

namespace {

using Bytes = std::vector<uint8_t>;

void Require(bool condition) {
  if (!condition) std::abort();
}

cinch_codec* MakeCodec(cinch_backend backend) {
  cinch_codec_options options;
  cinch_codec_options_init(&options);
  options.backend = backend;
  cinch_codec* codec = nullptr;
  Require(cinch_codec_create(&options, &codec) == CINCH_OK);
  return codec;
}

cinch_codec* Reference() {
  static cinch_codec* const codec = MakeCodec(CINCH_BACKEND_REFERENCE);
  return codec;
}
cinch_codec* Cpu() {
  static cinch_codec* const codec = MakeCodec(CINCH_BACKEND_CPU);
  return codec;
}

/// What delta frames are decoded by.
const Bytes& Base() {
  static const Bytes base = cinch::test::MakeData(
      cinch::test::DataKind::kGaussian, CINCH_DTYPE_BF16, 4 * cinch::format::kBlockBytes, 1);
  return base;
}
cinch_base BaseOf(uint64_t size_bytes) { return {Base().data(), size_bytes, 0, 0}; }

/// Makes the header plausible, since chance never finds its hash, and the claim small.
void RepairHeader(Bytes* frame) {
  cinch::format::FrameHeader header;
  if (frame->size() < sizeof header) return;
  std::memcpy(&header, frame->data(), sizeof header);
  header.magic = cinch::format::kMagic;
  header.version = cinch::format::kVersion;
  header.flags &= cinch::format::kFlagChecksum | cinch::format::kFlagDelta;
  header.original_bytes %= 4 * cinch::format::kBlockBytes;
  header.block_bytes = cinch::format::kBlockBytes;
  header.block_count = static_cast<uint32_t>(cinch::format::BlockCount(header.original_bytes));
  const uint64_t payload_offset = cinch::format::PayloadOffset(header.block_count);
  if (frame->size() < payload_offset) return;
  frame->resize(frame->size() - (frame->size() - payload_offset) % 16);
  header.payload_bytes = frame->size() - payload_offset;
  header.base_hash = 0;
  if ((header.flags & cinch::format::kFlagDelta) != 0) {
    header.flags |= cinch::format::kFlagChecksum;
    Require(cinch_content_hash(Cpu(), Base().data(), header.original_bytes, &header.base_hash) ==
            CINCH_OK);
  }
  std::memset(header.reserved, 0, sizeof header.reserved);
  std::memcpy(frame->data(), &header, sizeof header);
  const auto hash = static_cast<uint32_t>(
      cinch::format::BlockHash(frame->data(), 60, cinch::format::kHeaderHashIndex));
  std::memcpy(frame->data() + 60, &hash, sizeof hash);
}

void DecodeBoth(const Bytes& frame) {
  cinch::format::FrameHeader header{};
  // An empty vector's data may be null, which memcpy must not be given.
  if (!frame.empty()) {
    std::memcpy(&header, frame.data(), std::min(sizeof header, frame.size()));
  }
  const cinch_base base = BaseOf(std::min<uint64_t>(header.original_bytes, Base().size()));
  Bytes by_reference(4 * cinch::format::kBlockBytes);
  Bytes by_cpu(by_reference.size());
  uint64_t reference_bytes = 0;
  uint64_t cpu_bytes = 0;
  const cinch_status reference_status =
      cinch_decompress_delta(Reference(), frame.data(), frame.size(), &base, by_reference.data(),
                             by_reference.size(), &reference_bytes);
  const cinch_status cpu_status = cinch_decompress_delta(Cpu(), frame.data(), frame.size(), &base,
                                                         by_cpu.data(), by_cpu.size(), &cpu_bytes);
  Require(reference_status == cpu_status);
  if (cpu_status != CINCH_OK) return;
  Require(reference_bytes == cpu_bytes);
  Require(std::equal(by_cpu.begin(), by_cpu.begin() + static_cast<long>(cpu_bytes),
                     by_reference.begin()));
  cinch_frame_info info;
  info.struct_size = sizeof info;
  Require(cinch_frame_inspect(frame.data(), frame.size(), &info) == CINCH_OK);
  Require(info.original_bytes == cpu_bytes);
}

Bytes EncodeWith(cinch_codec* codec, const Bytes& input, cinch_dtype dtype) {
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  options.dtype = dtype;
  Bytes frame(cinch_compress_bound(input.size()));
  uint64_t frame_bytes = 0;
  Require(cinch_compress(codec, &options, input.data(), input.size(), frame.data(), frame.size(),
                         &frame_bytes) == CINCH_OK);
  frame.resize(frame_bytes);
  return frame;
}

void EncodeBoth(const Bytes& input, cinch_dtype dtype) {
  const Bytes frame = EncodeWith(Cpu(), input, dtype);
  Require(frame == EncodeWith(Reference(), input, dtype));
  Bytes output(input.size());
  uint64_t output_bytes = 0;
  Require(cinch_decompress(Cpu(), frame.data(), frame.size(), output.data(), output.size(),
                           &output_bytes) == CINCH_OK);
  Require(output == input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t choice = data[0];
  Bytes bytes(data + 1, data + size);
  if ((choice & 1) != 0) {
    EncodeBoth(bytes, cinch::test::kAllDtypes[(choice >> 1) % std::size(cinch::test::kAllDtypes)]);
  } else {
    if ((choice & 2) != 0) RepairHeader(&bytes);
    DecodeBoth(bytes);
  }
  return 0;
}
