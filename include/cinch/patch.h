// SPDX-License-Identifier: Apache-2.0
/// @file patch.h
/// Patches: what changed between two versions of a tensor of the same size (docs/format.md,
/// section 9). Small where few elements changed, or where all changed by little. C ABI.
///
/// A patch names the contents that it applies to and those that it leads to by their content hash,
/// so that it is never applied to anything else. All functions are thread-safe. Pointers to 0 bytes
/// may be null.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cinch/export.h"
#include "cinch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a patch says of itself. */
typedef struct cinch_patch_info {
  size_t struct_size;      /**< Set by the caller: sizeof(cinch_patch_info). */
  uint64_t original_bytes; /**< Of the tensor, before and after. */
  uint64_t patch_bytes;    /**< Of the whole patch. */
  uint64_t base_hash;      /**< Content hash of what it applies to, */
  uint64_t result_hash;    /**< and of what comes out. */
} cinch_patch_info;

/** The largest patch of a tensor of so many bytes; 0 when that is too large for one. */
CINCH_API uint64_t cinch_patch_bound(uint64_t original_bytes);

/** The content hash of a tensor in host memory: cinch_content_hash() without a codec, on one core.
 *  OK, INVALID_ARGUMENT. */
CINCH_API cinch_status cinch_patch_content_hash(const void* data, uint64_t bytes, uint64_t* hash);

/** Writes the patch that leads from `base` to `data`, both host memory of `bytes`.
 *  OK, INVALID_ARGUMENT, TOO_LARGE, DESTINATION_TOO_SMALL (then nothing useful is in `patch`). */
CINCH_API cinch_status cinch_patch_create(const void* base, const void* data, uint64_t bytes,
                                          void* patch, uint64_t capacity_bytes,
                                          uint64_t* patch_bytes);
/** Reads a patch's header. The patch is untrusted.
 *  OK, INVALID_ARGUMENT, FRAME_TRUNCATED, FRAME_MAGIC, FRAME_VERSION, FRAME_HEADER, FRAME_RESERVED.
 */
CINCH_API cinch_status cinch_patch_get_info(const void* patch, uint64_t patch_bytes,
                                            cinch_patch_info* info);
/** Applies a patch to `base` and writes the result to `data`, both of `bytes`; they may be the same
 *  buffer, which is then undefined after an error. The patch is untrusted.
 *  OK, INVALID_ARGUMENT, what cinch_patch_get_info() says, FRAME_TRAILING, FRAME_INDEX,
 * FRAME_BLOCK, FRAME_BASE_MISSING (the patch is for another size or, as `base_hash` says, other
 * contents), FRAME_CHECKSUM (the result is not what the patch says). `base_hash` is the content
 * hash of `base`, which the caller knows from how it got it. */
CINCH_API cinch_status cinch_patch_apply(const void* base, uint64_t base_hash, const void* patch,
                                         uint64_t patch_bytes, void* data, uint64_t bytes);

/** What became of a call on a device. Valid once the stream has passed the call. */
typedef struct cinch_cuda_patch_result {
  uint64_t patch_bytes; /**< Create: of the patch. */
  uint64_t base_hash;   /**< Create: of the base. */
  uint64_t result_hash; /**< Content hash of the new contents. */
  cinch_status status;  /**< As the calls for host memory say it; also TIMEOUT. */
  uint32_t reserved;
} cinch_cuda_patch_result;

/** Device memory that a call works in, aligned to 256 bytes; one call at a time may use it. */
CINCH_API uint64_t cinch_cuda_patch_scratch_bytes(uint64_t original_bytes);

/** Enqueues cinch_patch_create() for device memory: all buffers and `result` are device-accessible,
 *  `patch` is aligned to 16 bytes. Three launches. Allocates nothing, waits for nothing.
 *  OK (enqueued), INVALID_ARGUMENT, TOO_LARGE, UNSUPPORTED, NO_DEVICE, DEVICE. */
CINCH_API cinch_status cinch_cuda_patch_create(const void* base, const void* data, uint64_t bytes,
                                               void* patch, uint64_t capacity_bytes,
                                               cinch_cuda_patch_result* result, void* scratch,
                                               void* stream);
/** Enqueues cinch_patch_apply() for device memory, as above. `base` and `data` may be the same. */
CINCH_API cinch_status cinch_cuda_patch_apply(const void* base, uint64_t base_hash,
                                              const void* patch, uint64_t patch_bytes, void* data,
                                              uint64_t bytes, cinch_cuda_patch_result* result,
                                              void* scratch, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif
