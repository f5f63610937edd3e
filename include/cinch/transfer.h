// SPDX-License-Identifier: Apache-2.0
/// @file transfer.h
/// Messages and one-sided accesses between two processes, compressed on the way when that pays.
/// C ABI; docs/transfer.md has the protocol, the memory bound and the security notes.
///
/// An *engine* owns the transport, a progress thread and codec threads. A *listener* accepts and
/// cinch_connect() opens *endpoints*, each a connection to one peer. Calls that move data return an
/// *operation* at once; wait for it, poll it, or give it a callback.
///
/// Memory: pointers are host memory (plain, pinned) or, in a build with CUDA, memory of a device
/// (cudaMalloc, cudaMallocAsync, mapped by the driver API, managed); the call finds out which. All
/// pieces of an operation must be host memory or all memory of one device. A buffer given to an
/// operation belongs to the operation until it completes (a state other than CINCH_IN_PROGRESS).
/// Sent buffers are only read. An endpoint uses at most CINCH_ENDPOINT_MEMORY_BYTES of staging,
/// whatever the message's size, and once it moves device memory CINCH_ENDPOINT_PINNED_BYTES of
/// pinned host memory and CINCH_ENDPOINT_DEVICE_BYTES of device memory more.
///
/// Streams: an operation on device memory comes after all work that its stream had when the call
/// was made, and uses streams of its own; nothing else waits and no device is synchronised. When it
/// is complete, any work that is enqueued then, on any stream, sees the data.
///
/// Threads: every function may be called from any thread. A handle must not be used during or
/// after the call that releases it. Callbacks run on the engine's progress thread.
///
/// Processes: after fork() the handles are the parent's alone, which goes on as if nothing had
/// been. In the child every call with one of them returns CINCH_ERROR_UNSUPPORTED, and those that
/// release do nothing. Fork before the first engine is created, or exec, where a child is to have
/// its own.
///
/// Time: every wait is bounded. A peer that dies, stops or restarts is noticed within
/// `peer_timeout_seconds`; all operations pending on it then complete with CINCH_ERROR_PEER_LOST.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cinch/codec.h"
#include "cinch/export.h"
#include "cinch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cinch_engine cinch_engine;
typedef struct cinch_listener cinch_listener;
typedef struct cinch_endpoint cinch_endpoint;
typedef struct cinch_region cinch_region;
typedef struct cinch_operation cinch_operation;

/** Staging memory of one endpoint, both directions together, with the default settings. */
#define CINCH_ENDPOINT_MEMORY_BYTES (UINT64_C(32) << 20)
/** Pinned host memory of one endpoint that moves device memory, both directions together. */
#define CINCH_ENDPOINT_PINNED_BYTES (UINT64_C(112) << 20)
/** Device memory of one endpoint that moves device memory. An engine has CINCH_ENGINE_DEVICE_BYTES
 *  more on each device that it uses. */
#define CINCH_ENDPOINT_DEVICE_BYTES (UINT64_C(56) << 20)
#define CINCH_ENGINE_DEVICE_BYTES (UINT64_C(32) << 20)
/** Pieces of one vectored operation, on either side, at most. */
#define CINCH_MAX_PIECES UINT64_C(131072)
/** Operations pending on one endpoint, at most; more give CINCH_ERROR_BUSY. */
#define CINCH_MAX_PENDING_OPERATIONS 4096
/** A time-out that never runs out while the peer is alive. */
#define CINCH_NO_TIMEOUT (-1.0)

/** Whether messages are compressed. */
typedef enum cinch_policy {
  CINCH_POLICY_DEFAULT = 0,    /**< What the enclosing level says; for an engine: auto. */
  CINCH_POLICY_AUTO = 1,       /**< A cost model decides, per message and again while it runs. */
  CINCH_POLICY_RAW = 2,        /**< Never. */
  CINCH_POLICY_COMPRESSED = 3, /**< Always, but for messages of less than 4 KiB. */
  CINCH_POLICY_ANY_INT = 0x7FFFFFFF /**< Not a policy: lets every int be checked. */
} cinch_policy;

/** How messages of the engine are sent and protected. A zero or null field means: the setting named
 *  here (docs/configuration.md) when there is one, else the default named here. */
typedef struct cinch_engine_options {
  size_t struct_size;     /**< sizeof(cinch_engine_options), so that the struct may grow. */
  cinch_policy policy;    /**< CINCH_POLICY. */
  cinch_dtype dtype;      /**< What this engine is for. Bytes and auto: anything. Two engines that
                               each name another dtype refuse to connect. */
  uint64_t segment_bytes; /**< CINCH_SEGMENT_BYTES: original bytes of a segment, 64 KiB to 4 MiB, a
                               multiple of 32 KiB. The sender's value counts. */
  uint32_t codec_threads; /**< CINCH_THREADS; 0 there: one for each core. */
  int without_checksum;   /**< Non-zero: compressed segments carry no checksum. CINCH_CHECKSUM. */
  const void* key;    /**< The shared key, any bytes, at least 16. CINCH_KEY, else the contents */
  uint64_t key_bytes; /**< of CINCH_KEY_FILE without the newline at its end. */
  double link_gbps;   /**< CINCH_LINK_GBPS: slow each endpoint down to so many 10^9 bits a second
                           of wire bytes sent. */
  double peer_timeout_seconds;      /**< A peer silent for so long is lost. Default 10. */
  double operation_timeout_seconds; /**< CINCH_TIMEOUT: an operation of which nothing moved for so
                                         long ends with CINCH_ERROR_TIMEOUT. CINCH_NO_TIMEOUT: only
                                         the peer's silence counts. */
  double handshake_timeout_seconds; /**< Time for a connection to prove itself. Default 5. */
  const char* transports;      /**< UCX_TLS, e.g. "tcp" or "posix,cma,self"; all that UCX finds. */
  const char* network_devices; /**< UCX_NET_DEVICES, e.g. "lo" or "mlx5_0:1,eth0". Default: the
                                    device that carries the first address listened on or connected
                                    from; the transport listens on no other. */
  uint32_t device_max_ctas;    /**< Thread blocks of a kernel on a device, at most, to leave
                                    multiprocessors to other work; see cinch/cuda.h. 0: as many as
                                    fit. */
  int without_shared_device_memory; /**< Non-zero: data in device memory always travel through
                                         pinned host memory and the transport, never through device
                                         memory that the peer's process maps. */
  double device_codec_gbps; /**< CINCH_DEVICE_CODEC_GBPS: what the policy takes the codec of a
                               device for, in 10^9 bits of original data a second; it still learns.
                               0: measured once in a process when a device is first used, beside
                                 what it is used for. */
} cinch_engine_options;

/** Sets every field to "unset" as described above. */
CINCH_API void cinch_engine_options_init(cinch_engine_options* options);

/** Creates an engine. `options` may be null. Nothing is copied lazily: option strings and the key
 *  may be freed on return.
 *  OK, INVALID_ARGUMENT, CONFIG (a variable has no valid value), IO (key file), TRANSPORT,
 *  UNSUPPORTED (a build without UCX), OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_engine_create(const cinch_engine_options* options,
                                           cinch_engine** engine);
/** Closes every endpoint and listener, completes what is pending with CINCH_ERROR_CANCELLED, stops
 *  the threads and frees the engine. Handles that came from it stay valid, closed, until they are
 *  released. Null is allowed. Not from a callback. */
CINCH_API void cinch_engine_destroy(cinch_engine* engine);

/* Connections. An address is "HOST:PORT", "[IPV6]:PORT" or ":PORT" (the host of CINCH_LISTEN, which
   is loopback unless set). */

/** Listens at `address` only; port 0 takes a free one. An address that is not loopback needs a
 *  shared key. Unknown and unauthenticated bytes at the port do no harm.
 *  OK, INVALID_ARGUMENT, ADDRESS, KEY_REQUIRED, TRANSPORT, OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_listen(cinch_engine* engine, const char* address,
                                    cinch_listener** listener);
/** Writes the address that is listened on, e.g. "127.0.0.1:43211", with a final zero.
 *  OK, INVALID_ARGUMENT, DESTINATION_TOO_SMALL (64 bytes are enough). */
CINCH_API cinch_status cinch_listener_address(const cinch_listener* listener, char* address,
                                              size_t capacity_bytes);
/** Takes the next peer that finished the handshake. Peers that fail it are never seen here
 *  (cinch_listener_refused() counts them). TIMEOUT when none came. `timeout_seconds` 0 polls.
 *  OK, INVALID_ARGUMENT, TIMEOUT. */
CINCH_API cinch_status cinch_accept(cinch_listener* listener, double timeout_seconds,
                                    cinch_endpoint** endpoint);
/** How many connections were refused so far, and, when `last_reason` is not null, why the last
 *  one was (CINCH_OK when none). */
CINCH_API uint64_t cinch_listener_refused(const cinch_listener* listener,
                                          cinch_status* last_reason);
/** Stops listening; accepted endpoints stay. Null is allowed. */
CINCH_API void cinch_listener_release(cinch_listener* listener);

/** Connects and shakes hands. Tries again while nobody listens, until the time is over.
 *  OK, INVALID_ARGUMENT, ADDRESS, TIMEOUT, KEY_REQUIRED, AUTHENTICATION, VERSION_MISMATCH,
 *  CAPABILITY_MISMATCH, DTYPE_MISMATCH, PROTOCOL, PEER_LOST, TRANSPORT, OUT_OF_MEMORY. */
CINCH_API cinch_status cinch_connect(cinch_engine* engine, const char* address,
                                     double timeout_seconds, cinch_endpoint** endpoint);
/** Closes and frees an endpoint. What is pending completes with CINCH_ERROR_CANCELLED, at the peer
 *  with CINCH_ERROR_PEER_LOST; wait for your operations first. Null is allowed. */
CINCH_API void cinch_endpoint_release(cinch_endpoint* endpoint);
/** CINCH_OK while the peer is connected, else the reason why it is not. */
CINCH_API cinch_status cinch_endpoint_state(const cinch_endpoint* endpoint);

/* Messages. */

/** A piece of local memory. */
typedef struct cinch_piece {
  void* address; /**< Only read when it is a source. May be null when `bytes` is 0. */
  uint64_t bytes;
} cinch_piece;

/** Called once when an operation is complete, on the progress thread, without locks held: it may
 *  start operations and release this one; it must not wait. */
typedef void (*cinch_callback)(cinch_operation* operation, cinch_status status, void* data);

/** For the option `stream`: nothing that is under way touches the memory. */
#define CINCH_NO_STREAM ((void*)UINTPTR_MAX)

/** How one operation is done. Zeroes are the defaults, but for `struct_size` and `tag_mask`. */
typedef struct cinch_transfer_options {
  size_t struct_size;      /**< sizeof(cinch_transfer_options). */
  uint64_t tag;            /**< Sent with a message; a receive takes a message only if */
  uint64_t tag_mask;       /**< (sent tag & mask) == (tag & mask). 0: any message. Default 0. */
  cinch_dtype dtype;       /**< What the data are. Send: default auto. Receive: bytes and auto take
                                anything; a message that names another dtype is an error. */
  cinch_policy policy;     /**< Default: what the engine says. */
  const char* name;        /**< Optional: what the tensor is called, so that the policy remembers
                                how well its like compresses. Copied. */
  int confirm;             /**< Non-zero: even a small send completes only once the receiver has it.
                                Messages above CINCH_INLINE_BYTES are always confirmed. */
  double timeout_seconds;  /**< Ends the operation when nothing moved for so long. 0: what the
                                engine says; CINCH_NO_TIMEOUT: never. */
  cinch_callback callback; /**< Optional. */
  void* callback_data;     /**< Passed to the callback. */
  void* stream; /**< Device memory only: a cudaStream_t after whose work, as of this call, the
                   memory is read or written; null is the legacy default stream of the memory's
                   device. It must not be captured. */
} cinch_transfer_options;

/** Messages up to this size travel with their header, and a send completes when the buffer can be
 *  reused rather than when the receiver has the message. */
#define CINCH_INLINE_BYTES 4096

/** Fills in the defaults. */
CINCH_API void cinch_transfer_options_init(cinch_transfer_options* options);

/** Sends a message of `bytes` (0 is legal). Messages arrive whole and in the order of the calls;
 *  the receiver's buffer holds exactly the sender's bytes. `options` may be null.
 *  OK (accepted), INVALID_ARGUMENT, BUSY, PEER_LOST or the endpoint's state, OUT_OF_MEMORY.
 *  The operation completes with OK, MESSAGE_TOO_LARGE, DTYPE_MISMATCH, CANCELLED, TIMEOUT,
 *  PEER_LOST, FRAME_* (the receiver could not decode), PROTOCOL, TRANSPORT or INTERNAL. */
CINCH_API cinch_status cinch_send(cinch_endpoint* endpoint, const void* data, uint64_t bytes,
                                  const cinch_transfer_options* options,
                                  cinch_operation** operation);
/** Receives the next message whose tag fits into `capacity_bytes` at `buffer`. Receives that fit
 *  the same message are served in the order of the calls. A message larger than the buffer
 *  (MESSAGE_TOO_LARGE) or of another dtype (DTYPE_MISMATCH) fails the receive and stays queued:
 *  cinch_operation_get_info() and cinch_probe() tell its size, and another receive can take it.
 *  After any other error the buffer's contents are unspecified.
 *  Returns and completes as cinch_send() does. */
CINCH_API cinch_status cinch_recv(cinch_endpoint* endpoint, void* buffer, uint64_t capacity_bytes,
                                  const cinch_transfer_options* options,
                                  cinch_operation** operation);
/** As cinch_send() and cinch_recv(), with the message gathered from or scattered to pieces in
 *  order. The list is copied. The piece lists of the two sides need not match. */
CINCH_API cinch_status cinch_sendv(cinch_endpoint* endpoint, const cinch_piece* pieces,
                                   uint64_t piece_count, const cinch_transfer_options* options,
                                   cinch_operation** operation);
CINCH_API cinch_status cinch_recvv(cinch_endpoint* endpoint, const cinch_piece* pieces,
                                   uint64_t piece_count, const cinch_transfer_options* options,
                                   cinch_operation** operation);

/** What is known of a message before it is received. */
typedef struct cinch_message_info {
  size_t struct_size; /**< Set by the caller: sizeof(cinch_message_info). */
  uint64_t bytes;     /**< Size of the message. */
  uint64_t tag;
  cinch_dtype dtype; /**< What the sender called it. */
} cinch_message_info;

/** Waits until a message whose tag fits has arrived and is not yet taken by a receive, and
 *  describes the first one without taking it. `timeout_seconds` 0 polls.
 *  OK, INVALID_ARGUMENT, TIMEOUT, or the endpoint's state when it is closed. */
CINCH_API cinch_status cinch_probe(cinch_endpoint* endpoint, uint64_t tag, uint64_t tag_mask,
                                   double timeout_seconds, cinch_message_info* info);

/* One-sided accesses. */

#define CINCH_REGION_READ 1  /**< Peers may read. */
#define CINCH_REGION_WRITE 2 /**< Peers may write. */

/** Names a region of a peer: plain bytes that may be copied, stored and shipped. Whoever holds it
 *  and is connected to the region's engine can access the region. */
typedef struct cinch_remote_region {
  unsigned char descriptor[64];
} cinch_remote_region;

/** A piece of a peer's region. */
typedef struct cinch_remote_piece {
  const cinch_remote_region* region;
  uint64_t offset_bytes;
  uint64_t bytes;
} cinch_remote_piece;

/** Opens `bytes` at `address` to the engine's peers; `access` is a combination of
 *  CINCH_REGION_READ and CINCH_REGION_WRITE. The memory stays the caller's and must outlive the
 *  region. OK, INVALID_ARGUMENT, OUT_OF_MEMORY, TRANSPORT. */
CINCH_API cinch_status cinch_region_register(cinch_engine* engine, void* address, uint64_t bytes,
                                             uint32_t access, cinch_region** region);
/** Describes the region for a peer. */
CINCH_API cinch_status cinch_region_describe(const cinch_region* region,
                                             cinch_remote_region* remote);
/** Makes all descriptions of the region so far out of date: from the call on, an access that names
 *  the region by one of them is refused with CINCH_ERROR_STALE before anything moves. Then waits up
 *  to `timeout_seconds` for the accesses that began before. For memory that gets other users, such
 *  as blocks of a cache: who may go on gets a new description. Not from a callback.
 *  OK, INVALID_ARGUMENT, TIMEOUT (descriptions are out of date, but earlier accesses still run: a
 *  call of this or of cinch_region_release() waits for them, too), INTERNAL (no randomness; nothing
 *  has changed). */
CINCH_API cinch_status cinch_region_renew(cinch_region* region, double timeout_seconds);
/** How often the region had been renewed when it was described.
 *  OK, INVALID_ARGUMENT, REGION (not a description). */
CINCH_API cinch_status cinch_remote_region_generation(const cinch_remote_region* remote,
                                                      uint64_t* generation);
/** Refuses further accesses, waits up to `timeout_seconds` for running ones, and frees the region.
 *  OK, TIMEOUT (closed to new accesses, but not freed: call again). Null is allowed. */
CINCH_API cinch_status cinch_region_release(cinch_region* region, double timeout_seconds);

/** Writes `bytes` from `data` into a peer's region at `offset_bytes`; the peer's program takes no
 *  part. On completion with OK the data are in the peer's memory. After an error the range's
 *  contents are unspecified. `tag` is not used. Nothing outside the region is ever touched:
 *  a range that leaves it is refused as a whole with CINCH_ERROR_REGION.
 *  Returns and completes as cinch_send() does, and REGION or STALE. */
CINCH_API cinch_status cinch_write(cinch_endpoint* endpoint, const void* data, uint64_t bytes,
                                   const cinch_remote_region* region, uint64_t offset_bytes,
                                   const cinch_transfer_options* options,
                                   cinch_operation** operation);
/** Reads `bytes` of a peer's region at `offset_bytes` into `buffer`; otherwise as cinch_write(). */
CINCH_API cinch_status cinch_read(cinch_endpoint* endpoint, void* buffer, uint64_t bytes,
                                  const cinch_remote_region* region, uint64_t offset_bytes,
                                  const cinch_transfer_options* options,
                                  cinch_operation** operation);
/** Vectored forms: the local pieces, one after another, are the remote pieces, one after another;
 *  both must have the same total size. The lists are copied. */
CINCH_API cinch_status cinch_writev(cinch_endpoint* endpoint, const cinch_piece* pieces,
                                    uint64_t piece_count, const cinch_remote_piece* remote_pieces,
                                    uint64_t remote_piece_count,
                                    const cinch_transfer_options* options,
                                    cinch_operation** operation);
CINCH_API cinch_status cinch_readv(cinch_endpoint* endpoint, const cinch_piece* pieces,
                                   uint64_t piece_count, const cinch_remote_piece* remote_pieces,
                                   uint64_t remote_piece_count,
                                   const cinch_transfer_options* options,
                                   cinch_operation** operation);

/* Operations. */

/** The operation's state now: CINCH_IN_PROGRESS, CINCH_OK or how it failed. Does not block; makes
 *  progress. */
CINCH_API cinch_status cinch_test(cinch_operation* operation);
/** Waits until the operation is complete and returns its status, or CINCH_IN_PROGRESS when
 *  `timeout_seconds` are over first: the operation then goes on. Not from a callback. */
CINCH_API cinch_status cinch_wait(cinch_operation* operation, double timeout_seconds);
/** Asks for an early end. The operation completes soon, with CINCH_ERROR_CANCELLED unless it was
 *  faster; only then is its buffer free. The other side of a message that was matched completes
 *  with CINCH_ERROR_CANCELLED too; a receive that is cancelled before its message came leaves the
 *  message to other receives. OK, INVALID_ARGUMENT. */
CINCH_API cinch_status cinch_cancel(cinch_operation* operation);
/** Frees the handle, complete or not: an operation that is pending goes on without it (its
 *  callback still comes, and its buffer stays in use until then). Null is allowed. */
CINCH_API void cinch_operation_release(cinch_operation* operation);

/* Statistics. */

/** What went over an endpoint or was done by one operation. Sums of an engine or endpoint count
 *  both directions of data: `payload_bytes` of sends and writes and of receives and reads. */
typedef struct cinch_transfer_stats {
  size_t struct_size;     /**< Set by the caller: sizeof(cinch_transfer_stats). */
  uint64_t payload_bytes; /**< Original bytes of completed segments. */
  uint64_t wire_bytes;    /**< Bytes that travelled for them, headers of segments included. */
  uint64_t operations;    /**< Operations completed with CINCH_OK. */
  uint64_t failed_operations;
  uint64_t raw_segments;
  uint64_t compressed_segments;
  double encode_seconds; /**< Codec threads' time, summed over threads. */
  double decode_seconds;
  double codec_busy_seconds;   /**< Time in which at least one segment was being coded. */
  double wire_busy_seconds;    /**< Time in which at least one segment was on the wire. */
  double hidden_codec_seconds; /**< The part of codec_busy_seconds in which the wire was busy too:
                                    overlap efficiency is hidden_codec / codec_busy. */
  double elapsed_seconds;      /**< From the first byte's start to the last one's end. */
  double link_gbps_limit;      /**< The engine's own pacing; 0: none. */
  uint64_t pinned_segments; /**< Segments of device memory that went through pinned host memory, */
  uint64_t shared_segments; /**< and through device memory that both processes reach. */
} cinch_transfer_stats;

/** What the policy knows and did on an endpoint (as a sender). */
typedef struct cinch_policy_stats {
  size_t struct_size;    /**< Set by the caller: sizeof(cinch_policy_stats). */
  uint64_t raw_messages; /**< Messages for which raw was chosen (at their start). */
  uint64_t compressed_messages;
  uint64_t small_messages; /**< Too small to be asked about. */
  uint64_t changes;        /**< Times it changed its mind within a message. */
  double link_gbps;        /**< Estimated goodput of the link; 0: not known yet. */
  double encode_gbps;      /**< Estimated, in original bytes; 0: not known yet. */
  double decode_gbps;
  double predicted_kept_fraction; /**< For the last message: wire bytes / original bytes. */
  double predicted_raw_seconds;   /**< For the last message. */
  double predicted_compressed_seconds;
} cinch_policy_stats;

/** What an operation did, and, for a receive, what it got. */
typedef struct cinch_operation_info {
  size_t struct_size;     /**< Set by the caller: sizeof(cinch_operation_info). */
  cinch_status status;    /**< As cinch_test(), without making progress. */
  cinch_policy policy;    /**< For a send: what was chosen at its start (raw or compressed). */
  cinch_dtype dtype;      /**< As named by the sender. */
  uint64_t message_bytes; /**< Size of the message; also after MESSAGE_TOO_LARGE. */
  uint64_t tag;           /**< The message's tag. */
  uint64_t bytes_done;    /**< Original bytes that are through: for progress bars. */
} cinch_operation_info;

/** OK, INVALID_ARGUMENT. */
CINCH_API cinch_status cinch_operation_get_info(const cinch_operation* operation,
                                                cinch_operation_info* info);
CINCH_API cinch_status cinch_operation_get_stats(const cinch_operation* operation,
                                                 cinch_transfer_stats* stats);
CINCH_API cinch_status cinch_endpoint_get_stats(const cinch_endpoint* endpoint,
                                                cinch_transfer_stats* stats);
CINCH_API cinch_status cinch_engine_get_stats(const cinch_engine* engine,
                                              cinch_transfer_stats* stats);
CINCH_API cinch_status cinch_endpoint_get_policy_stats(const cinch_endpoint* endpoint,
                                                       cinch_policy_stats* stats);
/** The path that the transport chose, e.g. "tcp/lo" or "posix/memory cma/memory", as text with a
 *  final zero. OK, INVALID_ARGUMENT, DESTINATION_TOO_SMALL (256 bytes are enough). */
CINCH_API cinch_status cinch_endpoint_path(const cinch_endpoint* endpoint, char* path,
                                           size_t capacity_bytes);
/** The transport library and its version, e.g. "UCX 1.13.1", or "none". Static storage. */
CINCH_API const char* cinch_transport_version(void);
/** The transports found on this machine, one a line, as text with a final zero.
 *  OK, INVALID_ARGUMENT, DESTINATION_TOO_SMALL, TRANSPORT, UNSUPPORTED. */
CINCH_API cinch_status cinch_transport_list(char* text, size_t capacity_bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif
