// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace cinch::transfer {

/// A fixed number of slots for segments under way in one direction of an endpoint. A slot is a
/// permit; its buffer is allocated when a segment first needs one, and then kept. This is what
/// bounds an endpoint's memory.
class Staging {
 public:
  static constexpr size_t kBudgetBytes = size_t{15} << 20;
  static constexpr size_t kMaxSlots = 15;
  static constexpr size_t kMinSlots = 3;

  class Slot {
   public:
    /// The buffer, of buffer_bytes(); null when memory ran out.
    [[nodiscard]] uint8_t* Buffer(size_t bytes) {
      if (!buffer_) {
        buffer_.reset(static_cast<uint8_t*>(
            ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow)));
      }
      return buffer_.get();
    }

   private:
    static constexpr size_t kAlignment = 64;
    struct Free {
      void operator()(uint8_t* buffer) const {
        ::operator delete (buffer, std::align_val_t{kAlignment});
      }
    };
    std::unique_ptr<uint8_t, Free> buffer_;
  };

  /// `buffer_bytes` is what one coded segment can need.
  explicit Staging(size_t buffer_bytes) : buffer_bytes_(buffer_bytes) {
    const size_t fitting = kBudgetBytes / buffer_bytes;
    count_ = fitting < kMinSlots ? kMinSlots : fitting > kMaxSlots ? kMaxSlots : fitting;
    slots_.resize(count_);
    for (Slot& slot : slots_) free_.push_back(&slot);
  }

  [[nodiscard]] size_t buffer_bytes() const { return buffer_bytes_; }
  [[nodiscard]] size_t count() const { return count_; }
  [[nodiscard]] size_t free_count() const { return free_.size(); }

  /// A free slot or null. Slots that have a buffer come first.
  [[nodiscard]] Slot* Take() {
    if (free_.empty()) return nullptr;
    Slot* slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Return(Slot* slot) {
    if (slot != nullptr) free_.push_back(slot);
  }

 private:
  size_t buffer_bytes_;
  size_t count_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
};

}  // namespace cinch::transfer
