// SPDX-License-Identifier: Apache-2.0
#include "codec/block_codec.h"
#include "codec/cpu/cpu_target.h"

namespace cinch::codec {
namespace {

class CpuCodec final : public BlockCodec {
 public:
  EncodedBlock Encode(const BlockInput& input, uint8_t* payload) const override {
    return cpu::ActiveKernels().encode(input, payload);
  }
  Status Decode(const BlockPayload& payload, uint8_t* output, uint64_t* hash) const override {
    return cpu::ActiveKernels().decode(payload, output, hash);
  }
  uint64_t Hash(const uint8_t* bytes, uint32_t length_bytes, uint64_t index) const override {
    return cpu::ActiveKernels().hash(bytes, length_bytes, index);
  }
};

}  // namespace

const BlockCodec& CpuBlockCodec() {
  static const CpuCodec codec;
  return codec;
}

}  // namespace cinch::codec
