// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cinch/transfer.h"

namespace cinch::transfer {

/// Local memory in pieces, addressed as one run of bytes.
class PieceList {
 public:
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

  /// The address of a range when it lies within one piece, else null. The range must be inside.
  [[nodiscard]] uint8_t* Contiguous(uint64_t offset, uint64_t bytes) const;

  /// Copies a range, which must be inside, out of or into the pieces.
  void Gather(uint64_t offset, uint64_t bytes, uint8_t* destination) const;
  void Scatter(uint64_t offset, uint64_t bytes, const uint8_t* source) const;

 private:
  struct Piece {
    uint8_t* address;
    uint64_t bytes;
    uint64_t offset;  // Of its first byte in the whole.
  };

  template <typename Copy>
  void ForRange(uint64_t offset, uint64_t bytes, Copy&& copy) const;
  [[nodiscard]] size_t PieceAt(uint64_t offset) const;

  std::vector<Piece> pieces_;
  uint64_t total_bytes_ = 0;
};

}  // namespace cinch::transfer
