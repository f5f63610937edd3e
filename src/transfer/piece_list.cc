// SPDX-License-Identifier: Apache-2.0
#include "transfer/piece_list.h"

#include <algorithm>
#include <cstring>

#include "transfer/wire.h"

namespace cinch::transfer {

Status PieceList::Make(const cinch_piece* pieces, uint64_t count, PieceList& list) {
  if (count > CINCH_MAX_PIECES) return CINCH_ERROR_TOO_LARGE;
  if (pieces == nullptr && count > 0) return CINCH_ERROR_INVALID_ARGUMENT;
  list = PieceList();
  list.pieces_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (pieces[i].address == nullptr && pieces[i].bytes > 0) return CINCH_ERROR_INVALID_ARGUMENT;
    if (pieces[i].bytes > kMaxMessageBytes - list.total_bytes_) return CINCH_ERROR_TOO_LARGE;
    list.Add(pieces[i].address, pieces[i].bytes);
  }
  return CINCH_OK;
}

void PieceList::Add(void* address, uint64_t bytes) {
  if (bytes == 0) return;
  pieces_.push_back({static_cast<uint8_t*>(address), bytes, total_bytes_});
  total_bytes_ += bytes;
}

void PieceList::AddTable(BlockTable table) {
  table_pieces_ += table.ids->size();
  tables_.push_back({std::move(table), total_bytes_});
  total_bytes_ += tables_.back().bytes();
}

size_t PieceList::TableAt(uint64_t offset) const {
  const auto after =
      std::upper_bound(tables_.begin(), tables_.end(), offset,
                       [](uint64_t value, const Placed& each) { return value < each.offset; });
  return static_cast<size_t>(after - tables_.begin()) - 1;
}

size_t PieceList::PieceAt(uint64_t offset) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                       [](uint64_t value, const Piece& piece) { return value < piece.offset; });
  return static_cast<size_t>(after - pieces_.begin()) - 1;
}

uint8_t* PieceList::Contiguous(uint64_t offset, uint64_t bytes) const {
  if (bytes == 0) return nullptr;
  if (!tables_.empty()) {
    const Placed& placed = tables_[TableAt(offset)];
    const uint64_t place = offset - placed.offset;
    const uint64_t within = place % placed.table.block_bytes;
    if (bytes > placed.table.block_bytes - within) return nullptr;
    const uint64_t id = (*placed.table.ids)[place / placed.table.block_bytes];
    return placed.table.base + id * placed.table.block_bytes + within;
  }
  if (pieces_.empty()) return nullptr;
  const Piece& piece = pieces_.size() == 1 ? pieces_.front() : pieces_[PieceAt(offset)];
  const uint64_t inside = offset - piece.offset;
  return bytes <= piece.bytes - inside ? piece.address + inside : nullptr;
}

void PieceList::Gather(uint64_t offset, uint64_t bytes, uint8_t* destination) const {
  ForRange(offset, bytes, [&](const uint8_t* piece, uint64_t done, uint64_t step) {
    std::memcpy(destination + done, piece, step);
  });
}

void PieceList::Scatter(uint64_t offset, uint64_t bytes, const uint8_t* source) const {
  ForRange(offset, bytes, [&](uint8_t* piece, uint64_t done, uint64_t step) {
    std::memcpy(piece, source + done, step);
  });
}

}  // namespace cinch::transfer
