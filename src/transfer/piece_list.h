// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "cinch/transfer.h"
#include "transfer/memory_place.h"

namespace cinch::transfer {

/// Local memory in pieces, addressed as one run of bytes. All of it is in one place: host memory,
/// which can be read and written directly, or a device's, which only a DeviceRuntime touches.
class PieceList {
 public:
  struct Piece {
    uint8_t* address;
    uint64_t bytes;
    uint64_t offset;  ///< Of its first byte in the whole.
  };

  PieceList() = default;

  /// One piece.
  PieceList(void* address, uint64_t bytes) { Add(address, bytes); }

  /// Checks and copies a list. OK, INVALID_ARGUMENT (a null piece), TOO_LARGE (the sum overflows
  /// or the list is longer than CINCH_MAX_PIECES).
  [[nodiscard]] static Status Make(const cinch_piece* pieces, uint64_t count, PieceList& list);

  /// Appends a piece; empty ones are left out.
  void Add(void* address, uint64_t bytes);

  [[nodiscard]] uint64_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] size_t piece_count() const { return pieces_.size(); }

  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }

  /// Where the memory is; the constructors say host.
  [[nodiscard]] MemoryPlace place() const { return place_; }
  [[nodiscard]] bool on_device() const { return place_.on_device(); }
  void set_place(MemoryPlace place) { place_ = place; }
  /// The point of the caller's stream before which the memory must not be touched; null for none.
  [[nodiscard]] const std::shared_ptr<StreamPoint>& after() const { return after_; }
  void set_after(std::shared_ptr<StreamPoint> after) { after_ = std::move(after); }

  /// The address of a range when it lies within one piece, else null. The range must be inside.
  [[nodiscard]] uint8_t* Contiguous(uint64_t offset, uint64_t bytes) const;

  /// Calls `visit(address, done_bytes, bytes)` for each part of a range, which must be inside.
  template <typename Visit>
  void ForRange(uint64_t offset, uint64_t bytes, Visit&& visit) const {
    if (bytes == 0) return;
    uint64_t done = 0;
    for (size_t i = PieceAt(offset); done < bytes; ++i) {
      const uint64_t inside = offset + done - pieces_[i].offset;
      const uint64_t left = pieces_[i].bytes - inside;
      const uint64_t step = bytes - done < left ? bytes - done : left;
      visit(pieces_[i].address + inside, done, step);
      done += step;
    }
  }

  /// Copies a range, which must be inside, out of or into pieces of host memory.
  void Gather(uint64_t offset, uint64_t bytes, uint8_t* destination) const;
  void Scatter(uint64_t offset, uint64_t bytes, const uint8_t* source) const;

 private:
  [[nodiscard]] size_t PieceAt(uint64_t offset) const;

  std::vector<Piece> pieces_;
  uint64_t total_bytes_ = 0;
  MemoryPlace place_;
  std::shared_ptr<StreamPoint> after_;
};

}  // namespace cinch::transfer
