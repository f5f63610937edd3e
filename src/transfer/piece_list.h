// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "cinch/transfer.h"
#include "transfer/memory_place.h"

namespace cinch::transfer {

/// Blocks of one size in one array, in the order of a table of ids.
struct BlockTable {
  uint8_t* base = nullptr;  ///< Block 0.
  uint64_t block_bytes = 0;
  uint64_t block_count = 0;  ///< All ids are below.
  std::shared_ptr<const std::vector<uint32_t>> ids;
};

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

  /// Appends a piece; empty ones are left out. Not to a list of tables.
  void Add(void* address, uint64_t bytes);
  /// Appends the blocks of a table, each a piece, which must not be empty. Not to a list of pieces.
  void AddTable(BlockTable table);

  [[nodiscard]] uint64_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] size_t piece_count() const { return pieces_.size() + table_pieces_; }
  /// Calls `visit(address, bytes)` for stretches of memory that all pieces lie in, until one gives
  /// false. Returns whether none did.
  template <typename Visit>
  bool AllExtents(Visit&& visit) const {
    for (const Piece& piece : pieces_) {
      if (!visit(piece.address, piece.bytes)) return false;
    }
    for (const Placed& each : tables_) {
      if (!visit(each.table.base, each.table.block_bytes * each.table.block_count)) return false;
    }
    return true;
  }

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
    if (!tables_.empty()) return ForBlocks(offset, bytes, visit);
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
  /// A table and where its first block is in the whole.
  struct Placed {
    BlockTable table;
    uint64_t offset = 0;

    [[nodiscard]] uint64_t bytes() const { return table.ids->size() * table.block_bytes; }
  };

  [[nodiscard]] size_t PieceAt(uint64_t offset) const;
  [[nodiscard]] size_t TableAt(uint64_t offset) const;

  template <typename Visit>
  void ForBlocks(uint64_t offset, uint64_t bytes, Visit& visit) const {
    uint64_t done = 0;
    for (size_t i = TableAt(offset); done < bytes; ++i) {
      const Placed& placed = tables_[i];
      const BlockTable& table = placed.table;
      const uint64_t begin = offset + done - placed.offset;
      uint64_t inside = begin % table.block_bytes;
      for (uint64_t k = begin / table.block_bytes; k < table.ids->size() && done < bytes; ++k) {
        const uint64_t left = table.block_bytes - inside;
        const uint64_t step = bytes - done < left ? bytes - done : left;
        visit(table.base + (*table.ids)[k] * table.block_bytes + inside, done, step);
        done += step;
        inside = 0;
      }
    }
  }

  std::vector<Piece> pieces_;
  std::vector<Placed> tables_;
  size_t table_pieces_ = 0;
  uint64_t total_bytes_ = 0;
  MemoryPlace place_;
  std::shared_ptr<StreamPoint> after_;
};

}  // namespace cinch::transfer
