// SPDX-License-Identifier: Apache-2.0
/// @file status.h
/// The one status type of cinch. Values are part of the ABI and never change their meaning.
///
/// Zero is success, positive values are states, negative values are errors, in families with gaps:
/// -1.. caller's arguments, -20.. frames, -40.. transfer, -60.. the system, -80.. devices.
#pragma once

#include "cinch/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum CINCH_NODISCARD cinch_status {
  CINCH_OK = 0,
  CINCH_IN_PROGRESS = 1, /**< The operation was accepted and has not completed yet. */

  /* The caller's arguments. */
  CINCH_ERROR_INVALID_ARGUMENT = -1, /**< A null pointer, unknown enum value or bad option. */
  CINCH_ERROR_DESTINATION_TOO_SMALL =
      -2,                       /**< The output does not fit; nothing usable was written. */
  CINCH_ERROR_TOO_LARGE = -3,   /**< The input exceeds a documented limit. */
  CINCH_ERROR_UNSUPPORTED = -4, /**< Valid, but this build or machine cannot do it. */
  CINCH_ERROR_OVERLAP = -5,     /**< Input and output overlap. */
  CINCH_ERROR_BUSY = -6,        /**< The handle is in use, or its queue is full. */
  CINCH_ERROR_CONFIG = -7,      /**< A setting has no valid value; the log names it. */

  /* Frames: what a decoder says of bytes that are not a valid frame. */
  CINCH_ERROR_FRAME_TRUNCATED = -20, /**< The frame ends before its header says it does. */
  CINCH_ERROR_FRAME_MAGIC = -21,     /**< Not a cinch frame. */
  CINCH_ERROR_FRAME_VERSION = -22,   /**< A version of the format that this library cannot read. */
  CINCH_ERROR_FRAME_HEADER = -23,    /**< A header field is out of range or inconsistent. */
  CINCH_ERROR_FRAME_INDEX = -24,     /**< The index is not ascending or leaves the frame. */
  CINCH_ERROR_FRAME_BLOCK = -25,     /**< A block's contents are inconsistent. */
  CINCH_ERROR_FRAME_CHECKSUM = -26,  /**< Decoded data do not match the frame's checksum. */
  CINCH_ERROR_FRAME_TRAILING = -27,  /**< Bytes follow the frame's end. */
  CINCH_ERROR_FRAME_RESERVED = -28,  /**< A reserved bit or byte is set. */
  CINCH_ERROR_FRAME_BASE_MISSING = -29, /**< A delta frame's base version is not here. */
  CINCH_ERROR_FRAME_BASE_MISMATCH =
      -30, /**< The base at hand is not the one that the delta frame was made from. */

  /* Transfer. */
  CINCH_ERROR_TIMEOUT = -40,             /**< A bounded wait ran out. */
  CINCH_ERROR_PEER_LOST = -41,           /**< The peer died, closed or restarted. */
  CINCH_ERROR_CANCELLED = -42,           /**< The operation was cancelled by its owner. */
  CINCH_ERROR_VERSION_MISMATCH = -43,    /**< The peers speak different protocol versions. */
  CINCH_ERROR_CAPABILITY_MISMATCH = -44, /**< The peers' settings cannot work together. */
  CINCH_ERROR_AUTHENTICATION = -45,      /**< The peer did not prove the shared key. */
  CINCH_ERROR_KEY_REQUIRED = -46,        /**< A non-loopback address needs a shared key. */
  CINCH_ERROR_MESSAGE_TOO_LARGE = -47,   /**< The message does not fit the posted buffer. */
  CINCH_ERROR_DTYPE_MISMATCH = -48,      /**< Sender and receiver named different dtypes. */
  CINCH_ERROR_PROTOCOL = -49,            /**< The peer sent something that the protocol forbids. */
  CINCH_ERROR_ADDRESS = -50,             /**< An address cannot be parsed, resolved or bound. */
  CINCH_ERROR_REGION = -51,    /**< A remote region is unknown, or the access leaves it. */
  CINCH_ERROR_TRANSPORT = -52, /**< The transport library failed; the log has its words. */
  CINCH_ERROR_STALE = -53,     /**< A remote region was renewed since it was described. */

  /* The system. */
  CINCH_ERROR_OUT_OF_MEMORY = -60,
  CINCH_ERROR_IO = -61,          /**< Reading or writing a file failed; errno has the reason. */
  CINCH_ERROR_FILE_FORMAT = -62, /**< A file is not what its name or header claims. */
  CINCH_ERROR_NO_SPACE = -63,    /**< The disk is full. */
  CINCH_ERROR_INTERNAL = -64,    /**< A bug in cinch; please report it. */

  /* Devices. */
  CINCH_ERROR_DEVICE = -80,   /**< The device runtime reported an error. */
  CINCH_ERROR_NO_DEVICE = -81 /**< No usable device. */
} cinch_status;

/** The enumerator's name, e.g. "CINCH_ERROR_TIMEOUT"; "CINCH_UNKNOWN" for any other value.
 *  Static storage; never null; thread-safe. */
CINCH_API const char* cinch_status_name(cinch_status status);

/** One sentence for a person, e.g. "a bounded wait ran out". Static storage; never null;
 *  thread-safe. */
CINCH_API const char* cinch_status_text(cinch_status status);

#ifdef __cplusplus
} /* extern "C" */

namespace cinch {
using Status = cinch_status;
}
#endif
