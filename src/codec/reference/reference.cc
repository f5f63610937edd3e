// SPDX-License-Identifier: Apache-2.0
#include "codec/reference/reference.h"

#include "format/block_hash.h"

namespace cinch::codec {
namespace {

class ReferenceCodec final : public BlockCodec {
 public:
  EncodedBlock Encode(const BlockInput& input, uint8_t* payload) const override {
    return reference::EncodeBlock(input, payload);
  }
  Status Decode(const BlockPayload& payload, uint8_t* output, uint64_t* hash) const override {
    return reference::DecodeBlock(payload, output, hash);
  }
  uint64_t Hash(const uint8_t* bytes, uint32_t length_bytes, uint64_t index) const override {
    return format::BlockHash(bytes, length_bytes, index);
  }
};

}  // namespace

const BlockCodec& ReferenceBlockCodec() {
  static const ReferenceCodec codec;
  return codec;
}

}  // namespace cinch::codec
