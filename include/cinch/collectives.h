// SPDX-License-Identifier: Apache-2.0
/// @file collectives.h
/// NCCL's collectives, compressed on the way, for programs that ask for them. Programs that should
/// stay as they are use the interposer instead (docs/collectives.md), which does the same.
///
/// The program brings NCCL (2.28 or later) and a communicator. This library does not link NCCL: it
/// finds the one that the process has loaded, by its pnccl names. Every function has the meaning of
/// its NCCL twin: it enqueues on the stream and returns, buffers stay the caller's until the stream
/// has passed, and all ranks call the same functions in the same order with equal counts and
/// dtypes. What is too small, of another dtype or not worth it travels plain. Results are bit for
/// bit those of NCCL, but for the order in which reductions add up (docs/collectives.md).
///
/// A handle takes one call at a time, as its communicator does; while it lives, calls on the
/// communicator itself are ordered with it only by their streams. A stream that is captured gets
/// NCCL's plain operations. Needs a build with CUDA; UNSUPPORTED otherwise.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cinch/export.h"
#include "cinch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cinch_collectives cinch_collectives;

typedef struct cinch_collectives_options {
  size_t struct_size; /**< sizeof(cinch_collectives_options). */
  uint64_t
      min_bytes; /**< Calls with fewer bytes travel plain. Default CINCH_COLLECTIVES_MIN_BYTES. */
  int always_compress; /**< Non-zero: do not weigh costs. Default 0, unless CINCH_POLICY=compressed.
                        */
  uint32_t reserved;   /**< Must be 0. */
} cinch_collectives_options;

/** What a handle has done so far on this rank. */
typedef struct cinch_collectives_counters {
  size_t struct_size;             /**< Set by the caller. */
  uint64_t operations;            /**< That could have been compressed. */
  uint64_t compressed_operations; /**< That were. */
  uint64_t original_bytes;        /**< Of what these sent. */
  uint64_t wire_bytes;            /**< What they sent in its place. */
  uint64_t repairs;               /**< Steps in which a frame did not fit its slot. */
} cinch_collectives_counters;

/** Fills in the defaults. */
CINCH_API void cinch_collectives_options_init(cinch_collectives_options* options);

/** Makes a handle for `nccl_comm`, an ncclComm_t that is blocking and stays the caller's.
 *  Collective: all ranks call it, with equal options; it splits the communicator and waits for
 * that. `options` may be null. OK, INVALID_ARGUMENT, UNSUPPORTED (no CUDA or no NCCL), CONFIG,
 * TRANSPORT (NCCL failed), OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_collectives_create(void* nccl_comm,
                                                const cinch_collectives_options* options,
                                                cinch_collectives** handle);

/** Waits until nothing of the handle is left to be enqueued and frees it; null is allowed.
 *  Collective. Before the communicator is destroyed. */
CINCH_API void cinch_collectives_destroy(cinch_collectives* handle);

/** `dtype` is an ncclDataType_t, `reduction` an ncclRedOp_t, `stream` a cudaStream_t. Counts are in
 *  elements, as in NCCL. OK, INVALID_ARGUMENT, TRANSPORT (NCCL refused; its log says why), DEVICE.
 */
CINCH_API cinch_status cinch_all_gather(cinch_collectives* handle, const void* send, void* receive,
                                        size_t send_count, int dtype, void* stream);
CINCH_API cinch_status cinch_all_reduce(cinch_collectives* handle, const void* send, void* receive,
                                        size_t count, int dtype, int reduction, void* stream);
CINCH_API cinch_status cinch_reduce_scatter(cinch_collectives* handle, const void* send,
                                            void* receive, size_t receive_count, int dtype,
                                            int reduction, void* stream);
CINCH_API cinch_status cinch_broadcast(cinch_collectives* handle, const void* send, void* receive,
                                       size_t count, int dtype, int root, void* stream);
CINCH_API cinch_status cinch_all_to_all(cinch_collectives* handle, const void* send, void* receive,
                                        size_t count, int dtype, void* stream);

/** Point-to-point in the manner of ncclSend and ncclRecv: `count` elements to or from `peer`.
 *  Statuses as above. */
CINCH_API cinch_status cinch_collectives_send(cinch_collectives* handle, const void* buffer,
                                              size_t count, int dtype, int peer, void* stream);
CINCH_API cinch_status cinch_collectives_recv(cinch_collectives* handle, void* buffer, size_t count,
                                              int dtype, int peer, void* stream);

/** Calls of this thread between the two are enqueued together by the outermost end, as NCCL's
 *  groups are; sends and receives that wait for each other need it. OK, INVALID_ARGUMENT (an end
 *  without a start), TRANSPORT, DEVICE. */
CINCH_API cinch_status cinch_collectives_group_start(void);
CINCH_API cinch_status cinch_collectives_group_end(void);

/** OK, or what went wrong with something that was enqueued: INTERNAL (a frame arrived damaged),
 * DEVICE or TRANSPORT. Thread-safe. */
CINCH_API cinch_status cinch_collectives_error(const cinch_collectives* handle);

/** OK or INVALID_ARGUMENT. Thread-safe. */
CINCH_API cinch_status cinch_collectives_counters_get(const cinch_collectives* handle,
                                                      cinch_collectives_counters* counters);

#ifdef __cplusplus
} /* extern "C" */
#endif
