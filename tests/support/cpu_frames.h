// SPDX-License-Identifier: Apache-2.0
/// @file cpu_frames.h
/// Codecs of the CPU and their frames, which other codecs' results are compared with.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cinch/codec.h"

namespace cinch::test {

using Bytes = std::vector<uint8_t>;

struct CodecDeleter {
  void operator()(cinch_codec* codec) const { cinch_codec_destroy(codec); }
};
using Codec = std::unique_ptr<cinch_codec, CodecDeleter>;

/// `threads` as in cinch_codec_options: 0 is all cores.
inline Codec MakeCodec(cinch_backend backend, uint32_t threads) {
  cinch_codec_options options;
  cinch_codec_options_init(&options);
  options.backend = backend;
  options.threads = threads;
  cinch_codec* codec = nullptr;
  EXPECT_EQ(cinch_codec_create(&options, &codec), CINCH_OK);
  return Codec(codec);
}

inline Bytes Compress(cinch_codec* codec, const Bytes& input, cinch_dtype dtype,
                      bool checksum = true) {
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  options.dtype = dtype;
  options.checksum = checksum ? 1 : 0;
  Bytes frame(cinch_compress_bound(input.size()));
  uint64_t frame_bytes = 0;
  EXPECT_EQ(cinch_compress(codec, &options, input.data(), input.size(), frame.data(), frame.size(),
                           &frame_bytes),
            CINCH_OK);
  frame.resize(frame_bytes);
  return frame;
}

/// The CPU's codec, on all cores.
inline cinch_codec* CpuCodec() {
  static const Codec codec = MakeCodec(CINCH_BACKEND_CPU, 0);
  return codec.get();
}

inline Bytes CpuFrame(const Bytes& input, cinch_dtype dtype, bool checksum) {
  return Compress(CpuCodec(), input, dtype, checksum);
}

}  // namespace cinch::test
