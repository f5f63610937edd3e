// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/device_bench.h"

#include <cstring>

namespace cinch::bench {

Speed MeasureCodec(const Problem& problem, DeviceCodec* codec) {
  Speed speed;
  const uint32_t copies = problem.copies();
  for (uint32_t copy = 0; copy < copies; ++copy) {
    codec->Compress(copy);
    codec->Decompress(copy);
  }
  speed.compressed_bytes = codec->CompressedBytes(0);
  std::vector<std::byte> output(problem.data.size());
  Check(cudaMemcpy(output.data(), codec->Output(0), output.size(), cudaMemcpyDeviceToHost),
        "download");
  Require(std::memcmp(output.data(), problem.data.data(), output.size()) == 0,
          "the decompressed data differ");
  speed.compress_seconds = MedianSeconds(copies, [&](uint32_t copy) { codec->Compress(copy); });
  speed.decompress_seconds = MedianSeconds(copies, [&](uint32_t copy) { codec->Decompress(copy); });
  return speed;
}

}  // namespace cinch::bench
