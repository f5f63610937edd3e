// SPDX-License-Identifier: Apache-2.0
#include "transfer/region_table.h"

#include <cstring>

#include "transfer/secret.h"

namespace cinch::transfer {
namespace {

// The descriptor's layout; what is left of its 64 bytes is zero.
struct Descriptor {
  uint32_t magic = 0x52434E43;  // "CNCR"
  uint32_t version = 1;
  uint64_t id = 0;
  uint64_t key = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(Descriptor) <= sizeof(cinch_remote_region));

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
  entry = std::make_shared<RegionEntry>(
      RegionEntry{names[0], names[1], static_cast<uint8_t*>(address), bytes, access, 0, place});
  entries_[entry->id] = entry;
  return CINCH_OK;
}

Status RegionTable::Resolve(const std::vector<WirePiece>& pieces, uint32_t access,
                            PieceList& memory, std::vector<RegionUse>& uses) const {
  memory = PieceList();
  uses.clear();
  uint64_t used_id = 0;
  for (const WirePiece& piece : pieces) {
    const auto found = entries_.find(piece.region_id);
    if (found == entries_.end()) return CINCH_ERROR_REGION;
    const RegionEntry& entry = *found->second;
    if (entry.key != piece.region_key || (entry.access & access) == 0 ||
        !RangeInside(piece.offset, piece.bytes, entry.bytes)) {
      return CINCH_ERROR_REGION;
    }
    if (uses.empty()) memory.set_place(entry.place);
    if (memory.place() != entry.place) return CINCH_ERROR_REGION;
    memory.Add(entry.address + piece.offset, piece.bytes);
    // Lists mostly stay in one region: one use for each run of pieces is enough.
    if (uses.empty() || used_id != entry.id) uses.emplace_back(found->second);
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
    const auto found = entries_.find(head.region_id);
    if (found == entries_.end()) return CINCH_ERROR_REGION;
    const RegionEntry& entry = *found->second;
    if (entry.key != head.region_key || (entry.access & access) == 0 ||
        !RangeInside(head.offset, head.block_count * head.block_bytes, entry.bytes)) {
      return CINCH_ERROR_REGION;
    }
    for (const uint32_t id : *run.ids) {
      if (id >= head.block_count) return CINCH_ERROR_REGION;
    }
    if (uses.empty()) memory.set_place(entry.place);
    if (memory.place() != entry.place) return CINCH_ERROR_REGION;
    memory.AddTable({entry.address + head.offset, head.block_bytes, head.block_count, run.ids});
    uses.emplace_back(found->second);
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

cinch_remote_region DescribeRegion(const RegionEntry& entry) {
  Descriptor descriptor;
  descriptor.id = entry.id;
  descriptor.key = entry.key;
  descriptor.bytes = entry.bytes;
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
