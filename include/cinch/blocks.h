// SPDX-License-Identifier: Apache-2.0
/// @file blocks.h
/// Paged memory, such as the key-value cache of a transformer: blocks of one size, named by tables
/// that differ on the two sides, moved by one operation. C ABI, on top of cinch/transfer.h.
///
/// The blocks of an operation travel one after another as one message: small blocks compress and
/// move like one large tensor. Blocks given by a list of pointers are cinch_writev()'s.
///
/// A table may be out of date: the peer has given its blocks to somebody else meanwhile. A region
/// has a generation for that: its owner calls cinch_region_renew() before blocks change hands, and
/// hands the new description out with the tables that are made from then on. Transfers that come
/// with an older one are refused as a whole. Pools that change hands at different times need a
/// region each; regions may cover the same memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cinch/export.h"
#include "cinch/status.h"
#include "cinch/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A pool of blocks, here and at the peer; a layer of a model, say. */
typedef struct cinch_block_pool {
  void* base;                        /**< Block 0 here. */
  const cinch_remote_region* region; /**< Block 0 at the peer is in this region, */
  uint64_t offset_bytes;             /**< here. */
} cinch_block_pool;

/** Which blocks, in order. */
typedef struct cinch_block_table {
  const uint32_t* ids; /**< Each below `block_count`. */
  uint64_t id_count;
  uint64_t block_count; /**< How many blocks a pool has on this side. */
} cinch_block_table;

/** What is moved between whom. */
typedef struct cinch_block_transfer {
  size_t struct_size;            /**< sizeof(cinch_block_transfer). */
  const cinch_block_pool* pools; /**< The tables hold for each of them. */
  uint64_t pool_count;
  uint64_t block_bytes;     /**< Of a block; blocks follow each other without gaps. */
  cinch_block_table local;  /**< Block local.ids[i] here is */
  cinch_block_table remote; /**< block remote.ids[i] there: as many ids. */
  int notify;               /**< Write only: non-zero: when the data are in the peer's memory, an
                                 empty message with the tag of the options is sent after them. Who
                                 has received it may read them, with kernels too. */
} cinch_block_transfer;

/** Writes local blocks to the peer's. Everything is checked before anything moves: an id that is
 *  out of range, or a block that is written twice, is INVALID_ARGUMENT; a pool that leaves its
 *  region, or whose region is not open any more, is REGION, and one whose region was renewed since
 *  it was described is STALE (these two when it completes: nothing has been written). At most
 * CINCH_MAX_PIECES blocks, those of all pools together, else TOO_LARGE. Otherwise as
 * cinch_writev(). */
CINCH_API cinch_status cinch_write_blocks(cinch_endpoint* endpoint,
                                          const cinch_block_transfer* transfer,
                                          const cinch_transfer_options* options,
                                          cinch_operation** operation);
/** Reads the peer's blocks into local ones; as above. */
CINCH_API cinch_status cinch_read_blocks(cinch_endpoint* endpoint,
                                         const cinch_block_transfer* transfer,
                                         const cinch_transfer_options* options,
                                         cinch_operation** operation);

#ifdef __cplusplus
} /* extern "C" */
#endif
