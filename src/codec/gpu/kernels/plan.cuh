// SPDX-License-Identifier: Apache-2.0
/// @file plan.cuh
/// From an item as the caller gave it to its plan.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/kernels/frame_head.cuh"

namespace cinch::codec::gpu {

/// Whether the item's output overlaps `bytes` bytes at `input`.
CINCH_PORTABLE bool OverlapsOutput(const cinch_cuda_item& item, const void* input_pointer,
                                   uint64_t bytes) {
  const auto input = reinterpret_cast<uintptr_t>(input_pointer);
  const auto output = reinterpret_cast<uintptr_t>(item.output);
  return bytes != 0 && item.output_capacity_bytes != 0 &&
         input < output + item.output_capacity_bytes && output < input + bytes;
}

inline constexpr cinch_base kNoBase = {nullptr, 0, 0, 1};

/// The checks that both directions have. `frame` is whichever buffer holds the frame.
CINCH_PORTABLE int32_t CheckBuffers(const cinch_cuda_item& item, const cinch_base& base,
                                    const void* frame) {
  if ((item.input == nullptr && item.input_bytes != 0) ||
      (item.output == nullptr && item.output_capacity_bytes != 0) || item.reserved != 0 ||
      !IsAligned(frame, format::kPayloadUnitBytes) ||
      (base.bytes == nullptr ? base.size_bytes != 0 : base.hash_known == 0)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  return OverlapsOutput(item, item.input, item.input_bytes) ||
                 OverlapsOutput(item, base.bytes, base.size_bytes)
             ? CINCH_ERROR_OVERLAP
             : CINCH_OK;
}

CINCH_PORTABLE PlanItem PlanOf(const cinch_cuda_item& item) {
  PlanItem plan{};
  plan.input = static_cast<const uint8_t*>(item.input);
  plan.output = static_cast<uint8_t*>(item.output);
  plan.input_bytes = item.input_bytes;
  plan.capacity_bytes = item.output_capacity_bytes;
  return plan;
}

CINCH_PORTABLE PlanItem PlanCompression(const cinch_cuda_item& item, uint32_t checksum,
                                        const cinch_base& base = kNoBase) {
  PlanItem plan = PlanOf(item);
  plan.original_bytes = item.input_bytes;
  plan.dtype = static_cast<uint32_t>(item.dtype);
  plan.checksum = checksum;
  if (base.bytes != nullptr) {
    plan.checksum = 1;
    plan.base = static_cast<const uint8_t*>(base.bytes);
    plan.content_hash = base.content_hash;
  }
  const bool valid = format::IsFrameDtype(plan.dtype) &&
                     (plan.base == nullptr || base.size_bytes == item.input_bytes);
  plan.status = valid ? CheckBuffers(item, base, item.output) : CINCH_ERROR_INVALID_ARGUMENT;
  if (plan.status != CINCH_OK) return plan;
  const uint64_t blocks = format::BlockCount(item.input_bytes);
  if (item.input_bytes > CINCH_MAX_FRAME_INPUT_BYTES) {
    plan.status = CINCH_ERROR_TOO_LARGE;
  } else if (item.output_capacity_bytes < format::PayloadOffset(blocks)) {
    plan.status = CINCH_ERROR_DESTINATION_TOO_SMALL;
  } else {
    plan.blocks = static_cast<uint32_t>(blocks);
  }
  return plan;
}

/// Section 2.2 of docs/format.md.
CINCH_PORTABLE int32_t CheckBase(const HeaderWords& header, const cinch_base& base) {
  if (!header.delta()) return CINCH_OK;
  if (base.bytes == nullptr && header.original_bytes() != 0) {
    return CINCH_ERROR_FRAME_BASE_MISSING;
  }
  return base.size_bytes == header.original_bytes() && base.content_hash == header.base_hash()
             ? CINCH_OK
             : CINCH_ERROR_FRAME_BASE_MISMATCH;
}

/// A frame without blocks has nothing more to check than this.
CINCH_PORTABLE int32_t StatusWithoutBlocks(const PlanItem& plan, int32_t base_status) {
  if (plan.payload_bytes != 0) return CINCH_ERROR_FRAME_INDEX;
  if (base_status != CINCH_OK) return base_status;
  return plan.content_hash != 0 ? CINCH_ERROR_FRAME_CHECKSUM : CINCH_OK;
}

/// Reads the frame's header.
CINCH_PORTABLE PlanItem PlanDecompression(const cinch_cuda_item& item,
                                          const cinch_base& base = kNoBase) {
  PlanItem plan = PlanOf(item);
  plan.status = CheckBuffers(item, base, item.input);
  if (plan.status != CINCH_OK) return plan;
  if (item.input_bytes < sizeof(format::FrameHeader)) {
    plan.status = CINCH_ERROR_FRAME_TRUNCATED;
    return plan;
  }
  HeaderWords header;
  for (uint32_t i = 0; i < kHeaderWords; i += 4) {
    const auto words = LoadAligned<Words4>(plan.input + 4 * i);
    for (uint32_t k = 0; k < 4; ++k) header.word[i + k] = words.word[k];
  }
  plan.status = CheckHeader(header, item.input_bytes);
  if (plan.status != CINCH_OK) return plan;
  plan.original_bytes = header.original_bytes();
  plan.payload_bytes = header.payload_bytes();
  plan.content_hash = header.content_hash();
  plan.dtype = header.dtype();
  plan.checksum = (header.flags() & format::kFlagChecksum) != 0 ? 1 : 0;
  plan.blocks = header.word[6];
  if (header.delta()) plan.base = static_cast<const uint8_t*>(base.bytes);
  const int32_t base_status = CheckBase(header, base);
  if (plan.blocks == 0) {
    plan.status = StatusWithoutBlocks(plan, base_status);
  } else if (plan.original_bytes > plan.capacity_bytes) {
    // The index is still to be checked, and comes first.
    plan.status = CINCH_ERROR_DESTINATION_TOO_SMALL;
  } else {
    plan.status = base_status;
  }
  return plan;
}

}  // namespace cinch::codec::gpu
