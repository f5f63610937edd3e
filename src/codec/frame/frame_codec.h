// SPDX-License-Identifier: Apache-2.0
/// @file frame_codec.h
/// Whole frames from blocks, on one thread or several; the same for every block codec.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/worker_pool.h"
#include "codec/block_codec.h"

namespace cinch::codec {

/// The input of one frame.
struct FrameInput {
  const uint8_t* bytes;
  uint64_t size_bytes;
  uint32_t dtype;
  bool checksum;
  const uint8_t* base = nullptr;  ///< Not null: a delta frame, relative to as many bytes there.
  uint64_t base_hash = 0;
};

/// What a delta frame is decoded by.
struct FrameBase {
  const uint8_t* bytes;
  uint64_t size_bytes;
  uint64_t content_hash;
};

/// Memory that a call may write, and how much of it.
struct FrameOutput {
  uint8_t* bytes;
  uint64_t capacity_bytes;
  uint64_t size_bytes = 0;  ///< Out.
};

/// Owns threads and scratch memory. One call at a time.
class FrameCodec {
 public:
  /// Null when memory is short.
  static std::unique_ptr<FrameCodec> Create(const BlockCodec& block_codec, uint32_t threads);

  /// Blocks of one frame are shared out among the threads.
  Status Encode(const FrameInput& input, FrameOutput* output);
  Status Decode(const uint8_t* frame, uint64_t frame_bytes, const FrameBase& base,
                FrameOutput* output);

  /// The same on the calling thread alone, with the scratch memory of `worker`.
  Status EncodeAlone(const FrameInput& input, FrameOutput* output, uint32_t worker);
  Status DecodeAlone(const uint8_t* frame, uint64_t frame_bytes, const FrameBase& base,
                     FrameOutput* output);

  /// The content hash of any bytes, by all threads or by the calling one.
  uint64_t ContentHash(const uint8_t* bytes, uint64_t size_bytes);
  uint64_t ContentHashAlone(const uint8_t* bytes, uint64_t size_bytes) const;

  WorkerPool& pool() { return pool_; }

 private:
  FrameCodec(const BlockCodec& block_codec, uint32_t threads)
      : block_codec_(block_codec), pool_(threads) {}

  uint64_t HashBlocks(const uint8_t* bytes, uint64_t size_bytes, uint64_t begin,
                      uint64_t end) const;
  uint8_t* ScratchOf(uint32_t worker) { return scratch_.get() + worker * kScratchBytes; }
  Status EncodeBlocksInOrder(const FrameInput& input, FrameOutput* output, uint32_t worker);
  Status EncodeBlocksInParallel(const FrameInput& input, FrameOutput* output);

  /// Below this many blocks, waking other threads costs more than they save.
  static constexpr uint64_t kMinParallelBlocks = 16;
  /// Blocks that a thread takes at once.
  static constexpr uint64_t kBatchBlocks = 8;
  static constexpr uint64_t kScratchBytes =
      kBatchBlocks * format::kMaxBlockPayloadBytes + kEncodeSlackBytes;

  const BlockCodec& block_codec_;
  WorkerPool pool_;
  std::unique_ptr<uint8_t[]> scratch_;
};

}  // namespace cinch::codec
