// SPDX-License-Identifier: Apache-2.0
/// @file ordered_output.h
/// Hands out places in one output to pieces that are finished in any order, in piece order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace cinch::codec {

/// Pieces are numbered from 0 and every number is taken once, by a thread that is already running
/// when the number is handed out, so that waiting for the predecessor always ends.
class OrderedOutput {
 public:
  /// Waits until all pieces before `piece` have their place, then takes the next `bytes`.
  /// Returns the place's offset.
  uint64_t Place(uint64_t piece, uint64_t bytes) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return next_piece_ == piece; });
    const uint64_t offset = size_bytes_;
    size_bytes_ += bytes;
    ++next_piece_;
    turn_.notify_all();
    return offset;
  }

  /// Bytes placed so far; final once all pieces are placed.
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_piece_ = 0;
  uint64_t size_bytes_ = 0;
};

}  // namespace cinch::codec
