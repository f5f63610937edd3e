// SPDX-License-Identifier: Apache-2.0
// The calls of cinch/blocks.h: from tables to lists of pieces.
#include <memory>
#include <vector>

#include "base/guarded.h"
#include "base/status.h"
#include "cinch/blocks.h"
#include "transfer/launch.h"
#include "transfer/region_table.h"
#include "transfer/wire.h"

namespace {

using namespace cinch::transfer;
using cinch::Guarded;
using cinch::Status;

Status CheckTable(const cinch_block_table& table, uint64_t block_bytes, bool written) {
  if (table.ids == nullptr && table.id_count > 0) return CINCH_ERROR_INVALID_ARGUMENT;
  if (table.block_count > kMaxMessageBytes / block_bytes) {
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

template <typename Value>
void Append(std::vector<uint8_t>& bytes, const Value* values, size_t count) {
  const auto* first = reinterpret_cast<const uint8_t*>(values);
  bytes.insert(bytes.end(), first, first + count * sizeof(Value));
}

Status AddRemote(const cinch_block_transfer& transfer, const cinch_block_pool& pool,
                 RemoteList& remote) {
  const cinch_block_table& table = transfer.remote;
  WireBlocks run;
  uint64_t region_bytes = 0;
  CINCH_RETURN_IF_ERROR(ReadRegion(*pool.region, run.region_id, run.region_key, region_bytes));
  run.offset = pool.offset_bytes;
  run.block_bytes = transfer.block_bytes;
  run.block_count = table.block_count;
  run.id_count = table.id_count;
  const uint64_t pool_bytes = table.block_count * transfer.block_bytes;
  if (pool.offset_bytes > region_bytes || pool_bytes > region_bytes - pool.offset_bytes) {
    return CINCH_ERROR_REGION;
  }
  Append(remote.bytes, &run, 1);
  Append(remote.bytes, table.ids, table.id_count);
  constexpr uint32_t kPadding = 0;
  if (table.id_count % 2 != 0) Append(remote.bytes, &kPadding, 1);
  remote.pieces += table.id_count;
  return CINCH_OK;
}

Status MakeLists(const cinch_block_transfer& transfer, OneSided& access) {
  const uint64_t count = transfer.local.id_count;
  if (count == 0 || transfer.pool_count == 0) return CINCH_OK;
  if (count > CINCH_MAX_PIECES / transfer.pool_count) return CINCH_ERROR_TOO_LARGE;
  if (transfer.block_bytes > kMaxMessageBytes / (count * transfer.pool_count)) {
    return CINCH_ERROR_TOO_LARGE;
  }
  const auto ids =
      std::make_shared<const std::vector<uint32_t>>(transfer.local.ids, transfer.local.ids + count);
  access.remote.blocks = true;
  access.remote.bytes.reserve(transfer.pool_count * (sizeof(WireBlocks) + 4 * count + 8));
  for (uint64_t i = 0; i < transfer.pool_count; ++i) {
    const cinch_block_pool& pool = transfer.pools[i];
    access.pieces.AddTable(
        {static_cast<uint8_t*>(pool.base), transfer.block_bytes, transfer.local.block_count, ids});
    CINCH_RETURN_IF_ERROR(AddRemote(transfer, pool, access.remote));
  }
  return CINCH_OK;
}

Status Prepare(const cinch_block_transfer* transfer, bool write, OneSided& access) {
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
  return MakeLists(*transfer, access);
}

Status Move(cinch_endpoint* endpoint, const cinch_block_transfer* transfer, bool write,
            const cinch_transfer_options* options, cinch_operation** operation) {
  if (operation == nullptr || endpoint == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  *operation = nullptr;
  OneSided access;
  access.write = write;
  CINCH_RETURN_IF_ERROR(Prepare(transfer, write, access));
  access.notify = transfer->notify != 0;
  return LaunchOneSided(endpoint, std::move(access), options, operation);
}

}  // namespace

cinch_status cinch_write_blocks(cinch_endpoint* endpoint, const cinch_block_transfer* transfer,
                                const cinch_transfer_options* options,
                                cinch_operation** operation) {
  return Guarded([&] { return Move(endpoint, transfer, true, options, operation); });
}

cinch_status cinch_read_blocks(cinch_endpoint* endpoint, const cinch_block_transfer* transfer,
                               const cinch_transfer_options* options, cinch_operation** operation) {
  return Guarded([&] { return Move(endpoint, transfer, false, options, operation); });
}
