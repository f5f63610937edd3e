// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transfer/segment_codec.h"

namespace cinch::transfer {

/// What a codec thread owns.
struct CodecThread {
  std::unique_ptr<SegmentCodec> codec;
  std::vector<uint8_t> scratch;  ///< For segments that are not in one piece.
};

/// Work for a codec thread. Run() must take whatever locks it needs itself.
class CodecJob {
 public:
  CodecJob() = default;
  CodecJob(const CodecJob&) = delete;
  CodecJob& operator=(const CodecJob&) = delete;
  virtual ~CodecJob() = default;
  virtual void Run(CodecThread& thread) = 0;
};

/// Threads that encode and decode segments, in the order in which they were asked.
class CodecPool {
 public:
  CodecPool() = default;
  CodecPool(const CodecPool&) = delete;
  CodecPool& operator=(const CodecPool&) = delete;
  ~CodecPool() { Stop(); }

  /// OK, OUT_OF_MEMORY, or what `factory` returns.
  [[nodiscard]] Status Start(uint32_t threads, const SegmentCodecFactory& factory);
  /// Finishes what was asked for and ends the threads.
  void Stop();
  void Submit(std::unique_ptr<CodecJob> job);

 private:
  void Work(CodecThread& thread);

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::deque<std::unique_ptr<CodecJob>> jobs_;
  bool stopping_ = false;
  std::vector<std::unique_ptr<CodecThread>> states_;
  std::vector<std::thread> threads_;
};

}  // namespace cinch::transfer
