// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "cinch/transfer.h"
#include "transfer/piece_list.h"
#include "transfer/wire.h"

namespace cinch::transfer {

/// Memory that peers may access, as one generation of descriptions names it. The engine's lock
/// guards it.
struct RegionEntry {
  uint64_t id = 0;
  uint64_t key = 0;  ///< Random: knowing the id alone opens nothing.
  uint64_t generation = 0;
  std::deque<uint64_t> retired_keys;  ///< Of the generations before, as far as they are remembered.
  uint8_t* address = nullptr;
  uint64_t bytes = 0;
  uint32_t access = 0;
  uint32_t users = 0;  ///< Accesses under way.
  MemoryPlace place;
};

/// Counts as one access under way for as long as it lives.
class RegionUse {
 public:
  explicit RegionUse(std::shared_ptr<RegionEntry> entry) : entry_(std::move(entry)) {
    ++entry_->users;
  }
  RegionUse(RegionUse&& other) noexcept = default;
  RegionUse& operator=(RegionUse&&) = delete;
  RegionUse(const RegionUse&) = delete;
  RegionUse& operator=(const RegionUse&) = delete;
  ~RegionUse() {
    if (entry_) --entry_->users;
  }

 private:
  std::shared_ptr<RegionEntry> entry_;
};

class RegionTable {
 public:
  /// OK, INTERNAL (no randomness).
  [[nodiscard]] Status Register(void* address, uint64_t bytes, uint32_t access, MemoryPlace place,
                                std::shared_ptr<RegionEntry>& entry);
  /// The region gets another key, which older descriptions do not have: `entry` becomes the next
  /// generation's. OK, INTERNAL (no randomness).
  [[nodiscard]] Status Renew(std::shared_ptr<RegionEntry>& entry);
  /// No new access finds the region any more.
  void Unregister(const RegionEntry& entry) { entries_.erase(entry.id); }

  /// Turns what a peer named into local memory. Every piece must lie in a region that it names
  /// with the right key and that allows `access`, and all must be in one place; otherwise nothing
  /// is accessed at all.
  /// OK, REGION, STALE (the key of an earlier generation).
  [[nodiscard]] Status Resolve(const std::vector<WirePiece>& pieces, uint32_t access,
                               PieceList& memory, std::vector<RegionUse>& uses) const;

  /// The same for blocks; an id that is not below its block count is REGION, too.
  [[nodiscard]] Status ResolveBlocks(const std::vector<ParsedBlocks>& runs, uint32_t access,
                                     PieceList& memory, std::vector<RegionUse>& uses) const;

 private:
  [[nodiscard]] Status Find(uint64_t id, uint64_t key, uint32_t access,
                            std::shared_ptr<RegionEntry>& entry) const;

  std::map<uint64_t, std::shared_ptr<RegionEntry>> entries_;
};

/// The contents of a cinch_remote_region.
[[nodiscard]] cinch_remote_region DescribeRegion(const RegionEntry& entry);
/// OK, REGION.
[[nodiscard]] Status ReadGeneration(const cinch_remote_region& region, uint64_t& generation);
/// What a descriptor says. OK, REGION.
[[nodiscard]] Status ReadRegion(const cinch_remote_region& region, uint64_t& id, uint64_t& key,
                                uint64_t& bytes);
/// Turns the caller's list into wire pieces, checking ranges as far as the descriptors tell.
/// OK, INVALID_ARGUMENT, REGION, TOO_LARGE.
[[nodiscard]] Status MakeWirePieces(const cinch_remote_piece* pieces, uint64_t count,
                                    std::vector<WirePiece>& list, uint64_t& total_bytes);

}  // namespace cinch::transfer
