// SPDX-License-Identifier: Apache-2.0
/// @file cuda.h
/// Lossless compression of device memory on a CUDA stream: the frames of cinch/codec.h, byte for
/// byte, by kernels.
///
/// Calls enqueue work and return. They allocate nothing, never wait for the device, use no stream
/// but the caller's, and leave the current device as it was. What a call enqueues can be captured
/// into a graph and replayed, with other data at the same places and other compressed sizes; while
/// a stream is captured, its device must be the current one.
///
/// Memory is the caller's. "Device-accessible" means device memory, mapped pinned host memory
/// (whose device address is given) or a peer's memory that is mapped. Every such buffer stays valid
/// and untouched until the stream has passed the call (for a captured call: any replay of it).
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

/** Original bytes that are coded as a unit; progress counts these. */
#define CINCH_CUDA_BLOCK_BYTES UINT64_C(32768)

/** One item of a batch: a tensor to compress, or a frame to decompress. 40 bytes.
 *
 *  Original bytes may start at any address; from addresses that 16 divides they are coded fastest.
 *  Frames start at addresses that 16 divides (INVALID_ARGUMENT otherwise). Empty items are legal.
 *  Outputs must not overlap each other; an input that overlaps its own output is OVERLAP. */
typedef struct cinch_cuda_item {
  const void* input; /**< Device-accessible; may be null when input_bytes is 0. */
  uint64_t input_bytes;
  void* output;                   /**< Device-accessible. */
  uint64_t output_capacity_bytes; /**< cinch_compress_bound(input_bytes) always suffices. */
  cinch_dtype dtype;              /**< Compression only; auto is allowed. */
  uint32_t reserved;              /**< Must be 0. */
} cinch_cuda_item;

/** What became of an item. 16 bytes. Valid once the stream has passed the call. */
typedef struct cinch_cuda_result {
  uint64_t output_bytes; /**< Bytes of the frame, or original bytes; 0 unless status is OK. */
  cinch_status status;   /**< As cinch_compress_batch and cinch_decompress_batch say it; also
                              TIMEOUT when a kernel waited in vain for another thread block, or for
                              bytes to arrive. */
  uint32_t reserved;     /**< 0. */
} cinch_cuda_result;

/** Device memory that calls work in. One call at a time may use it: calls on one stream, or calls
 *  ordered by events. It carries no data from call to call. */
typedef struct cinch_cuda_scratch {
  size_t struct_size;       /**< sizeof(cinch_cuda_scratch). */
  void* memory;             /**< Device memory, aligned to 256 bytes. */
  uint64_t memory_bytes;    /**< At least cinch_cuda_scratch_bytes(max_items, max_input_bytes). */
  uint64_t max_items;       /**< The largest item_count of a call, 1 or more. */
  uint64_t max_input_bytes; /**< The most original bytes of a call, all items together. */
} cinch_cuda_scratch;

typedef struct cinch_cuda_options {
  size_t struct_size; /**< sizeof(cinch_cuda_options). */
  void* stream;       /**< cudaStream_t; null is the legacy default stream of the current device. */
  uint32_t max_ctas; /**< At most so many thread blocks, to leave multiprocessors to other work; two
                          of them fill a multiprocessor of an H200. 0: as many as fit. */
  int checksum;      /**< Compression only; non-zero: frames carry checksums. */
  int items_on_host; /**< Non-zero: `items` is host memory, read before the call returns (a
                          replay uses what was read then). Zero: device-accessible memory, read
                          by the kernels (a replay reads it again). */
  uint64_t* progress; /**< Null, or device-accessible: a counter for each item, which the caller
                           sets to 0. It grows to the number of the item's blocks: block i's part of
                           the output, and when compressing its entry of the index, are complete for
                           any observer who has seen more than i. Polled by host threads and other
                           kernels while this one runs. On an error it may stay short. */
  const cinch_base* bases; /**< Null, or a base for each item, in the same memory as `items`; base
                                bytes are device-accessible, their hash must be known. One whose
                                bytes are null is none. Compression: the item becomes a delta
                                frame, with checksums whatever `checksum` says. Decompression:
                                what its delta frame is applied to. */
  const uint64_t* available_bytes; /**< Decompression only, null otherwise. Null when all frames are
                                        complete; else device-accessible: a counter for each item,
                                        how many of its frame's first bytes are in place, up to
                                        input_bytes. A host thread or a peer stores it (releasing
                                        what it wrote before, at system scope) while the kernel
                                        runs; each block is decoded as soon as its bytes are there.
                                        Blocks are waited for in the order of items; all headers
                                        are waited for first. */
  uint64_t available_timeout_ns;   /**< An item whose counter has not grown for so long while it was
                                        waited for gets TIMEOUT; 0: 20 s. */
} cinch_cuda_options;

/** Fills in the defaults: null stream, all multiprocessors, checksum, items on the device, no
 *  progress, complete frames. Calls take a struct_size that ends before `bases` or
 *  `available_bytes`, too. */
CINCH_API void cinch_cuda_options_init(cinch_cuda_options* options);

/** Bytes of scratch memory for calls of up to `max_items` items with up to `max_input_bytes`
 *  original bytes in all: about 0.03 % of these and 220 bytes an item. 0 when out of range. */
CINCH_API uint64_t cinch_cuda_scratch_bytes(uint64_t max_items, uint64_t max_input_bytes);

/** Enqueues the preparation of scratch memory: once, before its first use, or after a failed
 *  launch. Also loads the kernels, so that the first call may be captured.
 *  OK, INVALID_ARGUMENT, UNSUPPORTED, NO_DEVICE, DEVICE. */
CINCH_API cinch_status cinch_cuda_scratch_init(const cinch_cuda_scratch* scratch, void* stream);

/** Enqueues the compression of each item into its own frame. `results` is device-accessible, an
 *  entry for each item. A call is one kernel for up to 16 items; for more, and for frames
 *  that are still arriving, two small kernels come
 *  before it, and for items on the host one more for every 64 of them.
 *
 *  OK means enqueued: items have their own statuses. A bad item does not affect its neighbours.
 *  Items that are more than `scratch` was made for all get TOO_LARGE, and items on scratch that was
 *  not prepared INVALID_ARGUMENT.
 *  OK, INVALID_ARGUMENT, TOO_LARGE (item_count), UNSUPPORTED, NO_DEVICE, DEVICE (a launch failed).
 *  Thread-safe for different scratches. */
CINCH_API cinch_status cinch_cuda_compress_batch(const cinch_cuda_options* options,
                                                 const cinch_cuda_item* items, uint64_t item_count,
                                                 cinch_cuda_result* results,
                                                 const cinch_cuda_scratch* scratch);

/** Enqueues the decompression of each item's frame; as above. Frames are untrusted: any bytes give
 *  the status that cinch_decompress gives, in bounded time, and no access outside the item's own
 *  buffers. On an error the item's output is unspecified. `scratch` must have been made for the
 *  original bytes only when progress is asked for. */
CINCH_API cinch_status cinch_cuda_decompress_batch(const cinch_cuda_options* options,
                                                   const cinch_cuda_item* items,
                                                   uint64_t item_count, cinch_cuda_result* results,
                                                   const cinch_cuda_scratch* scratch);

/** Enqueues the content hash of `size_bytes` device-accessible bytes at `bytes`, as
 *  cinch_content_hash gives it, into `*content_hash`, device-accessible and aligned to 8 bytes.
 *  `bytes` may have any alignment; 16 is fastest.
 *  OK, INVALID_ARGUMENT, TOO_LARGE, UNSUPPORTED, NO_DEVICE, DEVICE. */
CINCH_API cinch_status cinch_cuda_content_hash(void* stream, const void* bytes, uint64_t size_bytes,
                                               uint64_t* content_hash);

/** A batch of one item on the host, whatever options->items_on_host says. */
CINCH_API cinch_status cinch_cuda_compress(const cinch_cuda_options* options,
                                           const cinch_cuda_item* item, cinch_cuda_result* result,
                                           const cinch_cuda_scratch* scratch);
CINCH_API cinch_status cinch_cuda_decompress(const cinch_cuda_options* options,
                                             const cinch_cuda_item* item, cinch_cuda_result* result,
                                             const cinch_cuda_scratch* scratch);

/** What cinch_cuda_measure found. Seconds are medians by the device's clock. */
typedef struct cinch_cuda_speed {
  size_t struct_size;   /**< Set by the caller: sizeof(cinch_cuda_speed). */
  uint64_t frame_bytes; /**< Of all frames together. */
  double compress_seconds;
  double decompress_seconds;
  double copy_seconds; /**< Of a device-to-device copy of the input, for comparison. */
} cinch_cuda_speed;

/** Measures the codec on the current device with data from the host: `input_bytes` at `input`, as
 *  items of `item_bytes` each (0: one item), compressed and decompressed `repeats` times on
 *  options->stream, over so many copies of the data that none is found in a cache. Unlike all other
 *  calls it allocates device memory and waits. options->progress, available_bytes and items_on_host
 *  are ignored.
 *  OK, INVALID_ARGUMENT, UNSUPPORTED, NO_DEVICE, OUT_OF_MEMORY, DEVICE, or an item's status;
 *  INTERNAL when decompression did not give the input back. */
CINCH_API cinch_status cinch_cuda_measure(const cinch_cuda_options* options, cinch_dtype dtype,
                                          const void* input, uint64_t input_bytes,
                                          uint64_t item_bytes, uint32_t repeats,
                                          cinch_cuda_speed* speed);

#ifdef __cplusplus
} /* extern "C" */
#endif
