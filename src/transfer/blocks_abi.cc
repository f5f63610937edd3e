// SPDX-License-Identifier: Apache-2.0
// The calls of cinch/blocks.h: from tables to lists of pieces.
#include <limits>
#include <new>
#include <vector>

#include "base/status.h"
#include "cinch/blocks.h"
#include "transfer/launch.h"

namespace {

using cinch::Status;

/// The two lists of a vectored operation.
struct Lists {
  std::vector<cinch_piece> local;
  std::vector<cinch_remote_piece> remote;
};

Status CheckTable(const cinch_block_table& table, uint64_t block_bytes, bool written) {
  if (table.ids == nullptr && table.id_count > 0) return CINCH_ERROR_INVALID_ARGUMENT;
  if (table.block_count > std::numeric_limits<uint64_t>::max() / block_bytes) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  std::vector<bool> seen(written ? table.block_count : 0);
  for (uint64_t i = 0; i < table.id_count; ++i) {
    const uint32_t id = table.ids[i];
    if (id >= table.block_count) return CINCH_ERROR_INVALID_ARGUMENT;
    if (!written) continue;
    if (seen[id]) return CINCH_ERROR_INVALID_ARGUMENT;
    seen[id] = true;
  }
  return CINCH_OK;
}

/// How many ids from `first` on name blocks that follow each other.
uint64_t RunLength(const cinch_block_table& table, uint64_t first) {
  uint64_t length = 1;
  while (first + length < table.id_count && table.ids[first + length] != 0 &&
         table.ids[first + length] - 1 == table.ids[first + length - 1]) {
    ++length;
  }
  return length;
}

Status MakeLists(const cinch_block_transfer& transfer, Lists& lists) {
  const uint64_t bytes = transfer.block_bytes;
  for (uint64_t pool = 0; pool < transfer.pool_count; ++pool) {
    const cinch_block_pool& each = transfer.pools[pool];
    for (uint64_t i = 0; i < transfer.local.id_count;) {
      const uint64_t run = RunLength(transfer.local, i);
      auto* at = static_cast<uint8_t*>(each.base) + transfer.local.ids[i] * bytes;
      lists.local.push_back({at, run * bytes});
      i += run;
    }
    for (uint64_t i = 0; i < transfer.remote.id_count;) {
      const uint64_t run = RunLength(transfer.remote, i);
      const uint64_t offset = transfer.remote.ids[i] * bytes;
      if (each.offset_bytes > std::numeric_limits<uint64_t>::max() - offset) {
        return CINCH_ERROR_REGION;
      }
      lists.remote.push_back({each.region, each.offset_bytes + offset, run * bytes});
      i += run;
    }
    if (lists.local.size() > CINCH_MAX_PIECES || lists.remote.size() > CINCH_MAX_PIECES) {
      return CINCH_ERROR_TOO_LARGE;
    }
  }
  return CINCH_OK;
}

Status Prepare(const cinch_block_transfer* transfer, bool write, Lists& lists) {
  if (transfer == nullptr || transfer->struct_size != sizeof(*transfer) ||
      (transfer->pools == nullptr && transfer->pool_count > 0) || transfer->block_bytes == 0 ||
      transfer->local.id_count != transfer->remote.id_count || (!write && transfer->notify != 0)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  for (uint64_t i = 0; i < transfer->pool_count; ++i) {
    if (transfer->pools[i].base == nullptr || transfer->pools[i].region == nullptr) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
  }
  CINCH_RETURN_IF_ERROR(CheckTable(transfer->local, transfer->block_bytes, !write));
  CINCH_RETURN_IF_ERROR(CheckTable(transfer->remote, transfer->block_bytes, write));
  return MakeLists(*transfer, lists);
}

Status Move(cinch_endpoint* endpoint, const cinch_block_transfer* transfer, bool write,
            const cinch_transfer_options* options, cinch_operation** operation) {
  if (operation == nullptr || endpoint == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  *operation = nullptr;
  try {
    Lists lists;
    CINCH_RETURN_IF_ERROR(Prepare(transfer, write, lists));
    const cinch::transfer::OneSidedLists all{lists.local.data(), lists.local.size(),
                                             lists.remote.data(), lists.remote.size()};
    return cinch::transfer::LaunchOneSided(endpoint, write, all, transfer->notify != 0, options,
                                           operation);
  } catch (const std::bad_alloc&) {
    return CINCH_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace

cinch_status cinch_write_blocks(cinch_endpoint* endpoint, const cinch_block_transfer* transfer,
                                const cinch_transfer_options* options,
                                cinch_operation** operation) {
  return Move(endpoint, transfer, true, options, operation);
}

cinch_status cinch_read_blocks(cinch_endpoint* endpoint, const cinch_block_transfer* transfer,
                               const cinch_transfer_options* options, cinch_operation** operation) {
  return Move(endpoint, transfer, false, options, operation);
}
