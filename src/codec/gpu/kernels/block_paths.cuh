// SPDX-License-Identifier: Apache-2.0
/// @file block_paths.cuh
/// Which code a block takes. A path for special blocks (whole, aligned, of one dtype) goes here: it
/// is asked first, gets the same task and workspace, leaves the same bytes, and declines what it
/// does not know.
#pragma once

#include "codec/gpu/block/decode_block.cuh"
#include "codec/gpu/block/encode_block.cuh"

namespace cinch::codec::gpu {

/// By all threads: the payload is then in workspace->payload.
template <typename Team>
__device__ __forceinline__ EncodeResult SyncEncodeAnyBlock(const Team& team, const EncodeTask& task,
                                                           Workspace* workspace) {
  return SyncEncodeBlock(team, task, workspace);
}

/// By all threads: decodes to `output`, which may have any alignment. On an error nothing or
/// nothing useful is written.
template <typename Team>
__device__ __forceinline__ Status SyncDecodeAnyBlock(const Team& team, const DecodeTask& task,
                                                     Workspace* workspace, uint8_t* output,
                                                     uint64_t* hash) {
  const Status status = SyncDecodeBlock(team, task, workspace, hash);
  if (status == CINCH_OK) CopyBytes(team, output, workspace->original, task.length_bytes);
  return status;
}

}  // namespace cinch::codec::gpu
