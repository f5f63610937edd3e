// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "transfer/device_runtime.h"

namespace cinch::transfer {

/// A fixed number of slots for segments under way in one direction of an endpoint. A slot is a
/// permit; its buffer is allocated when a segment first needs one, and then kept. This is what
/// bounds an endpoint's memory.
class Staging {
 public:
  static constexpr size_t kBudgetBytes = size_t{15} << 20;
  static constexpr size_t kMaxSlots = 15;
  static constexpr size_t kMinSlots = 3;
  /// Of device memory: a device codes several segments at once, and two processes that share one
  /// take turns of milliseconds.
  static constexpr size_t kDeviceBudgetBytes = size_t{50} << 20;
  static constexpr size_t kMaxDeviceSlots = 48;

  /// Where the buffers of slots for device memory come from; null when memory ran out.
  using Allocate = std::function<std::unique_ptr<DeviceBuffer>(size_t bytes)>;

  class Slot {
   public:
    /// The buffer, of buffer_bytes(); null when memory ran out.
    [[nodiscard]] uint8_t* Buffer(size_t bytes) {
      if (place_ != nullptr) return place_;
      if (staging_->allocate_) {
        device_buffer_ = staging_->allocate_(bytes);
        place_ = device_buffer_ ? device_buffer_->data() : nullptr;
        return place_;
      }
      if (!buffer_) {
        buffer_.reset(static_cast<uint8_t*>(
            ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow)));
      }
      return buffer_.get();
    }
    [[nodiscard]] Staging& staging() { return *staging_; }

   private:
    friend class Staging;
    static constexpr size_t kAlignment = 64;
    struct Free {
      void operator()(uint8_t* buffer) const {
        ::operator delete (buffer, std::align_val_t{kAlignment});
      }
    };
    Staging* staging_ = nullptr;
    uint8_t* place_ = nullptr;  // Not null: the buffer, owned elsewhere or below.
    std::unique_ptr<DeviceBuffer> device_buffer_;
    std::unique_ptr<uint8_t, Free> buffer_;
  };

  /// Of host memory. `buffer_bytes` is what one coded segment can need.
  explicit Staging(size_t buffer_bytes)
      : Staging(buffer_bytes, SlotCount(buffer_bytes, kBudgetBytes, kMaxSlots)) {}
  /// Of memory for a device, allocated slot by slot.
  Staging(size_t buffer_bytes, Allocate allocate)
      : Staging(AlignedBytes(buffer_bytes), DeviceSlotCount(buffer_bytes)) {
    allocate_ = std::move(allocate);
  }
  /// Of one buffer of SharedBytes().
  Staging(size_t buffer_bytes, std::unique_ptr<DeviceBuffer> whole)
      : Staging(AlignedBytes(buffer_bytes), DeviceSlotCount(buffer_bytes)) {
    whole_ = std::move(whole);
    for (size_t i = 0; i < count_; ++i) slots_[i].place_ = whole_->data() + i * buffer_bytes_;
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] static size_t SharedBytes(size_t buffer_bytes) {
    return AlignedBytes(buffer_bytes) * DeviceSlotCount(buffer_bytes);
  }
  /// Of a slot in the buffer that all have in common.
  [[nodiscard]] static size_t OffsetOf(const Slot& slot) {
    return static_cast<size_t>(slot.place_ - slot.staging_->whole_->data());
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
  /// A slot goes back to where it came from; null is allowed.
  static void Return(Slot* slot) {
    if (slot != nullptr) slot->staging_->free_.push_back(slot);
  }

 private:
  Staging(size_t buffer_bytes, size_t count) : buffer_bytes_(buffer_bytes), count_(count) {
    slots_ = std::vector<Slot>(count_);
    for (Slot& slot : slots_) {
      slot.staging_ = this;
      free_.push_back(&slot);
    }
  }
  [[nodiscard]] static size_t SlotCount(size_t buffer_bytes, size_t budget_bytes, size_t most) {
    const size_t fitting = budget_bytes / buffer_bytes;
    return fitting < kMinSlots ? kMinSlots : fitting > most ? most : fitting;
  }
  [[nodiscard]] static size_t DeviceSlotCount(size_t buffer_bytes) {
    return SlotCount(AlignedBytes(buffer_bytes), kDeviceBudgetBytes, kMaxDeviceSlots);
  }
  [[nodiscard]] static size_t AlignedBytes(size_t buffer_bytes) {
    constexpr size_t kDeviceAlignment = 256;
    return (buffer_bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  }

  size_t buffer_bytes_;
  size_t count_;
  Allocate allocate_;
  std::unique_ptr<DeviceBuffer> whole_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
};

}  // namespace cinch::transfer
