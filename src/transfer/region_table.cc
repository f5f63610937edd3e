// SPDX-License-Identifier: Apache-2.0
#include "transfer/region_table.h"

#include <algorithm>
#include <cstring>

#include "transfer/secret.h"

namespace cinch::transfer {
namespace {

// The descriptor's layout; what is left of its 64 bytes is zero.
struct Descriptor {
  uint32_t magic = 0x52434E43;  // "CNCR"
  uint32_t version = 2;
  uint64_t id = 0;
  uint64_t key = 0;
  uint64_t bytes = 0;
  uint64_t generation = 0;
};
static_assert(sizeof(Descriptor) <= sizeof(cinch_remote_region));

// An access by an older key than these is told that there is no such region.
constexpr size_t kMaxRetiredKeys = 64;

bool RangeInside(uint64_t offset, uint64_t bytes, uint64_t whole_bytes) {
  return offset <= whole_bytes && bytes <= whole_bytes - offset;
}

Status ReadDescriptor(const cinch_remote_region& region, Descriptor& descriptor) {
  const Descriptor expected;
  std::memcpy(&descriptor, region.descriptor, sizeof(descriptor));
  if (descriptor.magic != expected.magic || descriptor.version != expected.version) {
    return CINCH_ERROR_REGION;
  }
  return CINCH_OK;
}

}  // namespace

Status RegionTable::Register(void* address, uint64_t bytes, uint32_t access, MemoryPlace place,
                             std::shared_ptr<RegionEntry>& entry) {
  uint64_t names[2] = {};
  CINCH_RETURN_IF_ERROR(RandomBytes({reinterpret_cast<uint8_t*>(names), sizeof(names)}));
  entry = std::make_shared<RegionEntry>();
  entry->id = names[0];
  entry->key = names[1];
  entry->address = static_cast<uint8_t*>(address);
  entry->bytes = bytes;
  entry->access = access;
  entry->place = place;
  entries_[entry->id] = entry;
  return CINCH_OK;
}

Status RegionTable::Renew(std::shared_ptr<RegionEntry>& entry) {
  auto renewed = std::make_shared<RegionEntry>(*entry);
  CINCH_RETURN_IF_ERROR(
      RandomBytes({reinterpret_cast<uint8_t*>(&renewed->key), sizeof(renewed->key)}));
  renewed->retired_keys.push_back(entry->key);
  if (renewed->retired_keys.size() > kMaxRetiredKeys) renewed->retired_keys.pop_front();
  ++renewed->generation;
  renewed->users = 0;  // Those of the entry before stay its own.
  entries_[renewed->id] = renewed;
  entry = std::move(renewed);
  return CINCH_OK;
}

Status RegionTable::Find(uint64_t id, uint64_t key, uint32_t access,
                         std::shared_ptr<RegionEntry>& entry) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return CINCH_ERROR_REGION;
  entry = found->second;
  if (entry->key != key) {
    const bool was_one = std::ranges::find(entry->retired_keys, key) != entry->retired_keys.end();
    return was_one ? CINCH_ERROR_STALE : CINCH_ERROR_REGION;
  }
  return (entry->access & access) != 0 ? CINCH_OK : CINCH_ERROR_REGION;
}

Status RegionTable::Resolve(const std::vector<WirePiece>& pieces, uint32_t access,
                            PieceList& memory, std::vector<RegionUse>& uses) const {
  memory = PieceList();
  uses.clear();
  uint64_t used_id = 0;
  for (const WirePiece& piece : pieces) {
    std::shared_ptr<RegionEntry> found;
    CINCH_RETURN_IF_ERROR(Find(piece.region_id, piece.region_key, access, found));
    const RegionEntry& entry = *found;
    if (!RangeInside(piece.offset, piece.bytes, entry.bytes)) return CINCH_ERROR_REGION;
    if (uses.empty()) memory.set_place(entry.place);
    if (memory.place() != entry.place) return CINCH_ERROR_REGION;
    memory.Add(entry.address + piece.offset, piece.bytes);
    // Lists mostly stay in one region: one use for each run of pieces is enough.
    if (uses.empty() || used_id != entry.id) uses.emplace_back(found);
    used_id = entry.id;
  }
  return CINCH_OK;
}

Status RegionTable::ResolveBlocks(const std::vector<ParsedBlocks>& runs, uint32_t access,
                                  PieceList& memory, std::vector<RegionUse>& uses) const {
  memory = PieceList();
  uses.clear();
  for (const ParsedBlocks& run : runs) {
    const WireBlocks& head = run.head;
    std::shared_ptr<RegionEntry> found;
    CINCH_RETURN_IF_ERROR(Find(head.region_id, head.region_key, access, found));
    const RegionEntry& entry = *found;
    if (!RangeInside(head.offset, head.block_count * head.block_bytes, entry.bytes)) {
      return CINCH_ERROR_REGION;
    }
    for (const uint32_t id : *run.ids) {
      if (id >= head.block_count) return CINCH_ERROR_REGION;
    }
    if (uses.empty()) memory.set_place(entry.place);
    if (memory.place() != entry.place) return CINCH_ERROR_REGION;
    memory.AddTable({entry.address + head.offset, head.block_bytes, head.block_count, run.ids});
    uses.emplace_back(found);
  }
  return CINCH_OK;
}

Status ReadRegion(const cinch_remote_region& region, uint64_t& id, uint64_t& key, uint64_t& bytes) {
  Descriptor descriptor;
  CINCH_RETURN_IF_ERROR(ReadDescriptor(region, descriptor));
  id = descriptor.id;
  key = descriptor.key;
  bytes = descriptor.bytes;
  return CINCH_OK;
}

Status ReadGeneration(const cinch_remote_region& region, uint64_t& generation) {
  Descriptor descriptor;
  CINCH_RETURN_IF_ERROR(ReadDescriptor(region, descriptor));
  generation = descriptor.generation;
  return CINCH_OK;
}

cinch_remote_region DescribeRegion(const RegionEntry& entry) {
  Descriptor descriptor;
  descriptor.id = entry.id;
  descriptor.key = entry.key;
  descriptor.bytes = entry.bytes;
  descriptor.generation = entry.generation;
  cinch_remote_region region{};
  std::memcpy(region.descriptor, &descriptor, sizeof(descriptor));
  return region;
}

Status MakeWirePieces(const cinch_remote_piece* pieces, uint64_t count,
                      std::vector<WirePiece>& list, uint64_t& total_bytes) {
  if (pieces == nullptr && count > 0) return CINCH_ERROR_INVALID_ARGUMENT;
  if (count > CINCH_MAX_PIECES) return CINCH_ERROR_TOO_LARGE;
  list.clear();
  list.reserve(count);
  total_bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (pieces[i].region == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    Descriptor descriptor;
    CINCH_RETURN_IF_ERROR(ReadDescriptor(*pieces[i].region, descriptor));
    if (!RangeInside(pieces[i].offset_bytes, pieces[i].bytes, descriptor.bytes)) {
      return CINCH_ERROR_REGION;
    }
    if (pieces[i].bytes > kMaxMessageBytes - total_bytes) return CINCH_ERROR_TOO_LARGE;
    total_bytes += pieces[i].bytes;
    list.push_back({descriptor.id, descriptor.key, pieces[i].offset_bytes, pieces[i].bytes});
  }
  return CINCH_OK;
}

}  // namespace cinch::transfer
