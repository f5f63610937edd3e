// SPDX-License-Identifier: Apache-2.0
/// @file fused.h
/// Collectives between ranks that reach each other's device memory (NVLink, PCIe peer access, one
/// GPU): one kernel a call, in which the user's buffer is read once, coded, stored into the peers'
/// windows and decoded to its destination. There is no buffer of the message's size in between.
///
/// Ranks are processes (CUDA IPC) or threads of one process; all of them on one host. A call is
/// collective: every rank enqueues the same calls, with matching arguments, in the same order.
/// Calls enqueue work on the caller's stream and return; they never wait for the device and
/// allocate nothing. Calls on one cinch_fused are ordered by their streams: one stream, or events.
/// The kernels of all ranks have to run at the same time: a rank's kernel takes up to max_ctas
/// thread blocks, two a multiprocessor, and spins until its peers have come. Do not enqueue work of
/// one rank behind that of another.
///
/// Calls can be captured into a graph; a replay, by all ranks alike, is a call.
///
/// bf16 is coded, all other types travel as they are. Results have the bits that the uncompressed
/// operation gives.
///
/// No wait is without end. When a peer does not come within the time limit, or cinch_fused_abort is
/// called anywhere, the kernels of all ranks leave, outputs are unspecified, and every later call
/// gives the error; cinch_fused_check says who waited for what. Destroy and create anew then.
///
/// The header needs no CUDA headers: a `stream` is a cudaStream_t or CUstream. Builds without CUDA
/// have these functions too; they return CINCH_ERROR_UNSUPPORTED.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cinch/codec.h"
#include "cinch/export.h"
#include "cinch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CINCH_FUSED_MAX_RANKS 16

/** Gathers `bytes_each` bytes of every rank at `receive`, in the order of the ranks, on all of
 * them; returns 0 for success. May block. */
typedef int (*cinch_fused_all_gather_fn)(void* context, const void* send, void* receive,
                                         size_t bytes_each);

typedef struct cinch_fused_options {
  size_t struct_size; /**< sizeof(cinch_fused_options). */
  uint32_t rank;
  uint32_t ranks; /**< 2 to CINCH_FUSED_MAX_RANKS. */
  /** The most thread blocks a call uses, the same on all ranks; two fit a multiprocessor. */
  uint32_t max_ctas;
  double timeout_seconds; /**< The longest wait without progress. */
  /** What goes to a rank in one call travels as it is when it is shorter: coding adds two
   *  microseconds, which such messages do not win back on a fast link. */
  uint64_t min_coded_bytes;
  int compress; /**< 0: bf16 travels as it is, too. The same on all ranks. */
  cinch_fused_all_gather_fn all_gather; /**< Used by cinch_fused_create only. */
  void* context;                        /**< Of all_gather. */
} cinch_fused_options;

/** What a kernel waited for when it gave up. */
typedef struct cinch_fused_report {
  size_t struct_size; /**< Set by the caller: sizeof(cinch_fused_report). */
  cinch_status
      status;         /**< TIMEOUT, PEER_LOST (a peer gave up first), CANCELLED, PROTOCOL; or OK. */
  uint32_t rank;      /**< This rank. */
  uint32_t peer;      /**< Whom it waited for: */
  int waits_for_data; /**< non-zero for the peer's data, zero for room in the peer's window. */
  uint32_t channel;
  uint64_t step;     /**< The number of the unit of hand-over in its message. */
  uint32_t expected; /**< The counter's value that would have ended the wait (PROTOCOL: bytes), */
  uint32_t seen;     /**< and what it was. */
} cinch_fused_report;

typedef struct cinch_fused cinch_fused;

/** 64 thread blocks, 30 s, compression from 1 MiB on; ranks and bootstrap are the caller's to set.
 */
CINCH_API void cinch_fused_options_init(cinch_fused_options* options);

/** Collective over the bootstrap. Allocates this rank's window on the current device: for 64 thread
 *  blocks 33 MB with two ranks, 17 MB a peer with more.
 *  OK, INVALID_ARGUMENT, UNSUPPORTED (a peer's memory is out of reach), OUT_OF_MEMORY, NO_DEVICE,
 *  DEVICE, PEER_LOST (the bootstrap failed). */
CINCH_API cinch_status cinch_fused_create(const cinch_fused_options* options, cinch_fused** fused);

/** Local. The caller says that the calls of all ranks have ended (or failed). Null is ignored. */
CINCH_API void cinch_fused_destroy(cinch_fused* fused);

/** Makes the kernels of all ranks leave, and later calls fail. From any thread. */
CINCH_API void cinch_fused_abort(cinch_fused* fused);

/** OK, or why the kernels gave up; never waits: ask once the stream has passed the call. `report`
 *  may be null. From any thread. */
CINCH_API cinch_status cinch_fused_check(cinch_fused* fused, cinch_fused_report* report);

/* All of these: OK (enqueued), INVALID_ARGUMENT, UNSUPPORTED, DEVICE (the launch failed), or the
 * status of an earlier call's failure. Buffers are device memory of any alignment, and may be null
 * where nothing is to be sent or received. Sizes are bytes, and need not be whole elements unless
 * something is added up. */

/** Every rank's `bytes` bytes at `send` to all: to receive + r * bytes for rank r. In place when
 *  send is receive + rank * bytes. */
CINCH_API cinch_status cinch_fused_all_gather(cinch_fused* fused, const void* send, void* receive,
                                              uint64_t bytes, cinch_dtype dtype, void* stream);

/** The root's bytes at `buffer` to everybody's. */
CINCH_API cinch_status cinch_fused_broadcast(cinch_fused* fused, void* buffer, uint64_t bytes,
                                             uint32_t root, cinch_dtype dtype, void* stream);

/** send + r * bytes to rank r; what rank r sends comes to receive + r * bytes. Not in place. */
CINCH_API cinch_status cinch_fused_all_to_all(cinch_fused* fused, const void* send, void* receive,
                                              uint64_t bytes, cinch_dtype dtype, void* stream);

/** The same with parts of any size and place: an entry a rank, read before the call returns. What a
 *  rank sends to another has the size that the other expects. */
typedef struct cinch_fused_part {
  const void* send;
  uint64_t send_bytes;
  void* receive;
  uint64_t receive_bytes;
} cinch_fused_part;
CINCH_API cinch_status cinch_fused_exchange(cinch_fused* fused, const cinch_fused_part* parts,
                                            cinch_dtype dtype, void* stream);

/** One way: called by the sender and the receiver only. */
CINCH_API cinch_status cinch_fused_send(cinch_fused* fused, const void* send, uint64_t bytes,
                                        uint32_t peer, cinch_dtype dtype, void* stream);
CINCH_API cinch_status cinch_fused_receive(cinch_fused* fused, void* receive, uint64_t bytes,
                                           uint32_t peer, cinch_dtype dtype, void* stream);

/** The sum over the ranks of `elements` elements at send + rank * elements: added up in fp32, rank
 * 0 first, and rounded once. bf16, fp16 and fp32. In place when receive is that address. */
CINCH_API cinch_status cinch_fused_reduce_scatter(cinch_fused* fused, const void* send,
                                                  void* receive, uint64_t elements,
                                                  cinch_dtype dtype, void* stream);

/** The same sum of `elements` elements, at every rank's `receive`: the same bits everywhere. In
 *  place when send is receive. Two launches. */
CINCH_API cinch_status cinch_fused_all_reduce(cinch_fused* fused, const void* send, void* receive,
                                              uint64_t elements, cinch_dtype dtype, void* stream);

typedef enum cinch_fused_operation {
  CINCH_FUSED_SEND = 0,     /**< One way. */
  CINCH_FUSED_EXCHANGE = 1, /**< Between two ranks, both ways at once. */
  CINCH_FUSED_ALL_GATHER = 2,
  CINCH_FUSED_ALL_TO_ALL = 3,
  CINCH_FUSED_BROADCAST = 4,
  CINCH_FUSED_REDUCE_SCATTER = 5,
  CINCH_FUSED_ALL_REDUCE = 6
} cinch_fused_operation;

/** Whether a fused operation on bf16 data is worth it: 1 when it was measured to be at least as
 * fast as NCCL over NVLink 4 (docs/benchmarks.md), 0 when it was slower or was not measured.
 * `bytes` is the larger of the send and the receive buffer. The same on all ranks; never fails. */
CINCH_API int cinch_fused_pays(cinch_fused_operation operation, uint64_t bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif
