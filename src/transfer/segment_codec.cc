// SPDX-License-Identifier: Apache-2.0
#include "transfer/segment_codec.h"

namespace cinch::transfer {
namespace {

class CpuSegmentCodec final : public SegmentCodec {
 public:
  explicit CpuSegmentCodec(cinch_codec* codec) : codec_(codec) {}
  ~CpuSegmentCodec() override { cinch_codec_destroy(codec_); }

  [[nodiscard]] Status Encode(cinch_dtype dtype, bool checksum, const void* input,
                              uint64_t input_bytes, void* output, uint64_t capacity_bytes,
                              uint64_t& output_bytes) override {
    cinch_compress_options options;
    cinch_compress_options_init(&options);
    options.dtype = dtype;
    options.checksum = checksum ? 1 : 0;
    return cinch_compress(codec_, &options, input, input_bytes, output, capacity_bytes,
                          &output_bytes);
  }

  [[nodiscard]] Status Decode(const void* frame, uint64_t frame_bytes, void* output,
                              uint64_t capacity_bytes, uint64_t& output_bytes) override {
    return cinch_decompress(codec_, frame, frame_bytes, output, capacity_bytes, &output_bytes);
  }

 private:
  cinch_codec* codec_;
};

}  // namespace

Status CreateCpuSegmentCodec(std::unique_ptr<SegmentCodec>& codec) {
  cinch_codec_options options;
  cinch_codec_options_init(&options);
  options.threads = 1;
  cinch_codec* handle = nullptr;
  CINCH_RETURN_IF_ERROR(cinch_codec_create(&options, &handle));
  codec = std::make_unique<CpuSegmentCodec>(handle);
  return CINCH_OK;
}

}  // namespace cinch::transfer
