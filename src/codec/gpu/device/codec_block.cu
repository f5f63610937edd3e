// SPDX-License-Identifier: Apache-2.0
// The device library: the block algorithm behind functions that other programs' kernels link to.
#include "cinch/device/codec_block.cuh"

#include "codec/gpu/block/decode_block.cuh"
#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::device {
namespace gpu = codec::gpu;

static_assert(kBlockBytes == format::kBlockBytes);
static_assert(kMaxPayloadBytes == format::kMaxBlockPayloadBytes);
static_assert(sizeof(gpu::EncodeWorkspace) <= sizeof(EncodeMemory));
static_assert(sizeof(gpu::DecodeWorkspace) <= sizeof(DecodeMemory));

__device__ EncodedBlock EncodeBlock(const void* bytes, uint32_t length_bytes, cinch_dtype dtype,
                                    uint64_t index, bool checksum, EncodeMemory* memory,
                                    const unsigned char** payload) {
  auto* workspace = reinterpret_cast<gpu::EncodeWorkspace*>(memory->bytes);
  const auto known = format::IsFrameDtype(static_cast<uint32_t>(dtype))
                         ? static_cast<uint32_t>(dtype)
                         : uint32_t{CINCH_DTYPE_BYTES};
  const gpu::EncodeTask task{static_cast<const uint8_t*>(bytes), length_bytes, known, index,
                             checksum};
  const gpu::EncodeResult result = gpu::SyncEncodeBlock(gpu::CtaTeam<kThreads>(), task, workspace);
  *payload = workspace->payload;
  return {result.payload_bytes, result.hash};
}

__device__ cinch_status DecodeBlock(const void* payload, uint32_t payload_bytes,
                                    uint32_t length_bytes, uint64_t index, bool checksum,
                                    DecodeMemory* memory, const unsigned char** bytes,
                                    uint64_t* hash) {
  auto* workspace = reinterpret_cast<gpu::DecodeWorkspace*>(memory->bytes);
  *bytes = workspace->original;
  uint64_t own_hash = 0;
  cinch_status status = CINCH_ERROR_FRAME_BLOCK;
  if (payload_bytes >= format::kPayloadUnitBytes && payload_bytes <= kMaxPayloadBytes &&
      payload_bytes % format::kPayloadUnitBytes == 0) {
    const gpu::DecodeTask task{static_cast<const uint8_t*>(payload), payload_bytes, length_bytes,
                               index, checksum};
    status = gpu::SyncDecodeBlock(gpu::CtaTeam<kThreads>(), task, workspace, &own_hash);
  }
  if (hash != nullptr) *hash = own_hash;
  return status;
}

}  // namespace cinch::device
