// SPDX-License-Identifier: Apache-2.0
/// @file versions.h
/// Tensors that change step by step, such as the weights of a model in training, from one publisher
/// to many subscribers: whole, or as a patch (cinch/patch.h) of the version that the subscriber
/// proves to hold. C ABI, on top of cinch/transfer.h.
///
/// A subscriber never shows a version that is not complete and verified: it builds the next one in
/// a buffer of its own, compares its content hash with the publisher's, and only then hands it out.
///
/// After fork(), the child's handles are of no use, as in cinch/transfer.h.
///
/// Answers keep their order among the other messages of their endpoint, of which only so many may
/// be on their way before they are received: who queues messages by the thousand on it holds up
/// fetches, for ever if the receiver fetches first. Use an endpoint of its own then.
///
/// Tensors are host memory or memory of one device, on each side for itself. Publish many small
/// tensors as one: each fetch is a round trip. All functions may be called from any thread.
/// Pointers to 0 bytes may be null.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cinch/codec.h"
#include "cinch/export.h"
#include "cinch/status.h"
#include "cinch/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cinch_publisher cinch_publisher;
typedef struct cinch_subscriber cinch_subscriber;

/** The longest name of a tensor, in bytes, without a final zero. */
#define CINCH_MAX_TENSOR_NAME 95
/** Messages with these bits in their tag are the business of this header; use other tags on
 *  endpoints that are served or subscribed. */
#define CINCH_VERSIONS_TAG UINT64_C(0xC1AC000000000000)
/** How many steps of a tensor a subscriber may lag behind and still get patches. */
#define CINCH_MAX_PATCH_STEPS 8

/** Creates a publisher. It has a thread, and keeps of each tensor a copy of the newest version, the
 *  patches of the last CINCH_MAX_PATCH_STEPS steps and, while it publishes, one copy more and room
 *  for a patch. OK, INVALID_ARGUMENT, OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_publisher_create(cinch_publisher** publisher);
/** Ends the thread; no endpoint is served or used any more. Null is allowed. */
CINCH_API void cinch_publisher_destroy(cinch_publisher* publisher);
/** Answers the fetches that come over an endpoint, until the peer is gone. The endpoint must stay
 *  until it is forgotten or the publisher destroyed.
 *  OK, INVALID_ARGUMENT, the endpoint's state, OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_publisher_serve(cinch_publisher* publisher, cinch_endpoint* endpoint);
/** Serves an endpoint no longer; on return nothing uses it. */
CINCH_API void cinch_publisher_forget(cinch_publisher* publisher, const cinch_endpoint* endpoint);
/** Publishes a version, which must be larger than the last one: copies `bytes` at `data`, as they
 *  are at this place of `stream` (device memory only), and makes the patch from the version before,
 *  once for all subscribers. Returns when that is done: `data` may change then. A tensor's bytes
 *  and place must not change from version to version.
 *  OK, INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE, TIMEOUT. */
CINCH_API cinch_status cinch_publish(cinch_publisher* publisher, const char* name, const void* data,
                                     uint64_t bytes, cinch_dtype dtype, uint64_t version,
                                     void* stream);

/** How a version came. */
typedef enum cinch_version_source {
  CINCH_VERSION_FULL = 0,  /**< Whole. */
  CINCH_VERSION_PATCH = 1, /**< As one or more patches of the version before. */
  CINCH_VERSION_HELD = 2   /**< It was already here. */
} cinch_version_source;

/** A version of a tensor. */
typedef struct cinch_version {
  size_t struct_size; /**< Set by the caller: sizeof(cinch_version). */
  const void* data;   /**< The tensor, in one of the subscriber's two buffers. Unchanged until the
                           fetch after the next one that brings another version. */
  uint64_t bytes;
  uint64_t version;
  uint64_t content_hash;
  cinch_version_source source;
  uint64_t payload_bytes; /**< That travelled: of patches as they are, of a whole tensor after
                               compression. */
} cinch_version;

/** Subscribes to what the peer of `endpoint` publishes, which must stay until the subscriber is
 *  destroyed. OK, INVALID_ARGUMENT, OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_subscriber_create(cinch_endpoint* endpoint,
                                               cinch_subscriber** subscriber);
/** Null is allowed. Buffers stay the caller's. */
CINCH_API void cinch_subscriber_destroy(cinch_subscriber* subscriber);
/** Says where versions of a tensor go: two buffers of `bytes`, which stay the caller's and must not
 *  be written by it. Nothing is known of their contents. OK, INVALID_ARGUMENT. */
CINCH_API cinch_status cinch_subscribe(cinch_subscriber* subscriber, const char* name,
                                       void* first_buffer, void* second_buffer, uint64_t bytes,
                                       cinch_dtype dtype);
/** Brings a tensor to `version` or newer, or to the newest there is (`version` 0), and says what is
 *  there now. Waits until such a version is published. Kernels already enqueued on `stream` (device
 *  memory only) may still read the version before the current one.
 *  OK, INVALID_ARGUMENT (not subscribed, or other bytes), TIMEOUT (the next fetch goes on with the
 *  request), FRAME_* or FRAME_CHECKSUM (what came is wrong: the current version stays), PROTOCOL
 *  (what came is no answer to what was asked), PEER_LOST and what cinch_recv() says. */
CINCH_API cinch_status cinch_fetch(cinch_subscriber* subscriber, const char* name, uint64_t version,
                                   void* stream, double timeout_seconds, cinch_version* fetched);

#ifdef __cplusplus
} /* extern "C" */
#endif
