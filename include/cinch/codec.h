// SPDX-License-Identifier: Apache-2.0
/// @file codec.h
/// Lossless compression of tensors into self-contained frames (docs/format.md). C ABI; the C++
/// wrapper is cinch/codec.hpp.
///
/// All sizes are bytes in 64-bit integers. All pointers are host memory, or null with 0 bytes.
/// Calls are synchronous: on return the output is complete and no input is referenced any longer.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cinch/export.h"
#include "cinch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Element types. Values are stored in frames and never change. A wrong dtype costs compression,
 *  never correctness: every dtype codes every bit pattern and every length. */
typedef enum cinch_dtype {
  CINCH_DTYPE_BYTES = 0, /**< Raw bytes. */
  CINCH_DTYPE_AUTO = 1,  /**< Every block finds out by itself; mixed content is normal. */
  CINCH_DTYPE_BF16 = 2,
  CINCH_DTYPE_FP16 = 3,
  CINCH_DTYPE_FP32 = 4,
  CINCH_DTYPE_FP64 = 5,
  CINCH_DTYPE_FP8_E4M3FN = 6,
  CINCH_DTYPE_FP8_E4M3FNUZ = 7,
  CINCH_DTYPE_FP8_E5M2 = 8,
  CINCH_DTYPE_FP8_E5M2FNUZ = 9,
  CINCH_DTYPE_INT8 = 16,
  CINCH_DTYPE_UINT8 = 17,
  CINCH_DTYPE_INT16 = 18,
  CINCH_DTYPE_UINT16 = 19,
  CINCH_DTYPE_INT32 = 20,
  CINCH_DTYPE_UINT32 = 21,
  CINCH_DTYPE_INT64 = 22,
  CINCH_DTYPE_UINT64 = 23,
  CINCH_DTYPE_ANY_INT = 0x7FFFFFFF /**< Not a dtype: lets every int be checked. */
} cinch_dtype;

/** The dtype's lower-case name, e.g. "bf16", "fp8_e4m3fn"; "unknown" for any other value. */
CINCH_API const char* cinch_dtype_name(cinch_dtype dtype);
/** Parses such a name (also safetensors' "BF16", "F16", "F8_E4M3" ...).
 *  CINCH_ERROR_INVALID_ARGUMENT when there is none. */
CINCH_API cinch_status cinch_dtype_parse(const char* name, cinch_dtype* dtype);
/** Bytes per element; 1 for bytes and auto; 0 for an unknown value. */
CINCH_API uint64_t cinch_dtype_size(cinch_dtype dtype);

typedef enum cinch_backend {
  CINCH_BACKEND_CPU = 0,             /**< SIMD, chosen at run time, multi-threaded. */
  CINCH_BACKEND_REFERENCE = 1,       /**< Plain scalar code written from the format document. */
  CINCH_BACKEND_CUDA = 2,            /**< Device memory; see cinch/cuda.h. */
  CINCH_BACKEND_ANY_INT = 0x7FFFFFFF /**< Not a backend: lets every int be checked. */
} cinch_backend;

/** The largest input of one frame: 63 GiB. */
#define CINCH_MAX_FRAME_INPUT_BYTES (UINT64_C(63) << 30)

/** A codec owns its worker threads and scratch memory (a constant, about 260 KiB a thread).
 *  One call at a time per handle, a second one gets CINCH_ERROR_BUSY; different handles are
 *  independent. */
typedef struct cinch_codec cinch_codec;

typedef struct cinch_codec_options {
  size_t struct_size;    /**< sizeof(cinch_codec_options), so that the struct may grow. */
  cinch_backend backend; /**< Default CPU. */
  uint32_t threads;      /**< Threads of one call, the caller's included; 0: what CINCH_THREADS
                              says, else all cores. */
} cinch_codec_options;

typedef struct cinch_compress_options {
  size_t struct_size; /**< sizeof(cinch_compress_options). */
  cinch_dtype dtype;  /**< What the input holds. */
  int checksum;       /**< Non-zero: the frame carries checksums of the original bytes. */
} cinch_compress_options;

/** Fills in the defaults: CPU, one thread. */
CINCH_API void cinch_codec_options_init(cinch_codec_options* options);
/** Fills in the defaults: auto, with checksum unless CINCH_CHECKSUM=off. */
CINCH_API void cinch_compress_options_init(cinch_compress_options* options);

/** Creates a codec. `options` may be null (defaults).
 *  OK, INVALID_ARGUMENT, UNSUPPORTED (backend not in this build), CONFIG (a CINCH_ variable has no
 *  valid value), OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_codec_create(const cinch_codec_options* options, cinch_codec** codec);
/** Destroys a codec; null is allowed. No call may be running on it. */
CINCH_API void cinch_codec_destroy(cinch_codec* codec);

/** The largest frame that `input_bytes` can become: below input + 0.5 % + 128 bytes.
 *  Zero when the input is larger than CINCH_MAX_FRAME_INPUT_BYTES. */
CINCH_API uint64_t cinch_compress_bound(uint64_t input_bytes);

/** Compresses `input_bytes` at `input` into one frame at `output`. `options` may be null
 * (defaults). `output_bytes` receives the frame's size. The same input, dtype and checksum choice
 * give the same frame on every backend, thread count and machine. OK, INVALID_ARGUMENT, TOO_LARGE,
 * DESTINATION_TOO_SMALL (never when the capacity is the bound), OVERLAP. */
CINCH_API cinch_status cinch_compress(cinch_codec* codec, const cinch_compress_options* options,
                                      const void* input, uint64_t input_bytes, void* output,
                                      uint64_t output_capacity_bytes, uint64_t* output_bytes);

/** Decompresses the frame that fills `frame_bytes` at `frame` exactly. The input is untrusted:
 *  any bytes give OK or a status, in time and memory bounded by `frame_bytes` and
 *  `output_capacity_bytes`. On an error the output's contents are unspecified.
 *  OK, INVALID_ARGUMENT, DESTINATION_TOO_SMALL, OVERLAP, FRAME_*. */
CINCH_API cinch_status cinch_decompress(cinch_codec* codec, const void* frame, uint64_t frame_bytes,
                                        void* output, uint64_t output_capacity_bytes,
                                        uint64_t* output_bytes);

/** What a delta frame is relative to: bytes that both sides hold, as many as the original has. */
typedef struct cinch_base {
  const void* bytes; /**< Null when size_bytes is 0. */
  uint64_t size_bytes;
  uint64_t content_hash; /**< cinch_content_hash of the bytes, if hash_known. A frame that decodes
                            to them says it, too: cinch_frame_info. */
  int hash_known;        /**< Zero: the call finds the hash out, reading the bytes once more.
                              Non-zero: content_hash is taken for true. Of a decoder that means
                              that a base other than claimed is noticed by its checksums only, when
                              output has been written. */
} cinch_base;

/** The content hash of `size_bytes` bytes (docs/format.md, section 6): what a frame of them carries
 *  and what a delta frame knows its base by. Detects faults, proves nothing against an adversary.
 *  OK, INVALID_ARGUMENT, TOO_LARGE, BUSY. */
CINCH_API cinch_status cinch_content_hash(cinch_codec* codec, const void* bytes,
                                          uint64_t size_bytes, uint64_t* content_hash);

/** Compresses as cinch_compress does, relative to `base`, which has input_bytes bytes: a delta
 *  frame, always with checksums. Elements that have not changed cost 1/8 to 1 1/8 bits. `base` may
 *  be the input. OK, INVALID_ARGUMENT (also a base of another size), and as cinch_compress. */
CINCH_API cinch_status cinch_compress_delta(cinch_codec* codec,
                                            const cinch_compress_options* options,
                                            const void* input, uint64_t input_bytes,
                                            const cinch_base* base, void* output,
                                            uint64_t output_capacity_bytes, uint64_t* output_bytes);

/** Decompresses as cinch_decompress does, delta frames by `base`, which the output must not
 *  overlap. With other frames, `base` is not used. cinch_decompress, or a null base, says
 *  FRAME_BASE_MISSING of a delta frame. That and FRAME_BASE_MISMATCH leave the output untouched.
 *  OK, FRAME_BASE_MISSING, FRAME_BASE_MISMATCH, and as cinch_decompress. */
CINCH_API cinch_status cinch_decompress_delta(cinch_codec* codec, const void* frame,
                                              uint64_t frame_bytes, const cinch_base* base,
                                              void* output, uint64_t output_capacity_bytes,
                                              uint64_t* output_bytes);

/** What a frame's header and index say, without decoding it. */
typedef struct cinch_frame_info {
  size_t struct_size; /**< Set by the caller: sizeof(cinch_frame_info). */
  uint32_t format_version;
  cinch_dtype dtype;       /**< The dtype the encoder was given. */
  uint64_t original_bytes; /**< Size of the decoded data. */
  uint64_t frame_bytes;    /**< Size of the whole frame. */
  uint64_t block_count;
  int has_checksum;
  uint64_t content_hash;  /**< Hash of the original bytes; 0 without checksum. */
  uint64_t stored_blocks; /**< Blocks by mode. */
  uint64_t constant_blocks;
  uint64_t cascade_blocks;
  uint64_t plain_bytes; /**< Bytes that are not entropy coded: residues, level-0 codes, stored. */
  uint64_t coded_bytes; /**< Bytes whose size depends on the data: escapes, bitmaps. */
  uint64_t sparse_blocks;
  int is_delta;       /**< Decoding needs a base of original_bytes bytes with base_hash. */
  uint64_t base_hash; /**< The base's content hash; 0 when is_delta is. */
} cinch_frame_info;

/** Inspects a frame of which at least the header and index are at `frame`; block counts need the
 *  whole frame and are zero otherwise. `frame_bytes` is what is there, not what is claimed.
 *  OK, INVALID_ARGUMENT, FRAME_*. */
CINCH_API cinch_status cinch_frame_inspect(const void* frame, uint64_t frame_bytes,
                                           cinch_frame_info* info);

/** One item of a batch. Items must not overlap each other's outputs. Empty items are legal. */
typedef struct cinch_batch_item {
  const void* input;
  uint64_t input_bytes;
  void* output;
  uint64_t output_capacity_bytes;
  uint64_t output_bytes; /**< Out. */
  cinch_dtype dtype;     /**< Compression only. */
  cinch_status status;   /**< Out: this item's own result. */
} cinch_batch_item;

/** Compresses each item into its own frame, items in parallel over the codec's threads. Options'
 *  dtype is ignored in favour of the items'. Returns OK when every item is, else the status of the
 *  first item (in order) that is not; the other items are complete all the same. */
CINCH_API cinch_status cinch_compress_batch(cinch_codec* codec,
                                            const cinch_compress_options* options,
                                            cinch_batch_item* items, uint64_t item_count);
/** Decompresses each item's frame; as above. A bad item does not affect its neighbours. */
CINCH_API cinch_status cinch_decompress_batch(cinch_codec* codec, cinch_batch_item* items,
                                              uint64_t item_count);

/** The same with a base for each item: bases[i] is item i's. One whose bytes are null is none: that
 *  item becomes a plain frame, or must be one. */
CINCH_API cinch_status cinch_compress_delta_batch(cinch_codec* codec,
                                                  const cinch_compress_options* options,
                                                  cinch_batch_item* items, const cinch_base* bases,
                                                  uint64_t item_count);
CINCH_API cinch_status cinch_decompress_delta_batch(cinch_codec* codec, cinch_batch_item* items,
                                                    const cinch_base* bases, uint64_t item_count);

/** The SIMD target that the CPU backend uses here: "avx512", "avx2", "neon" or "scalar". Static
 *  storage; never null; thread-safe. */
CINCH_API const char* cinch_simd_target(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
