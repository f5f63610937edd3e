// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <array>

namespace {

struct StatusEntry {
  cinch_status status;
  const char* name;
  const char* text;
};

// One row a status; the unit test checks that the table covers every enumerator of the header.
constexpr std::array kStatusTable = {
    StatusEntry{CINCH_OK, "CINCH_OK", "success"},
    StatusEntry{CINCH_IN_PROGRESS, "CINCH_IN_PROGRESS", "the operation has not completed yet"},

    StatusEntry{CINCH_ERROR_INVALID_ARGUMENT, "CINCH_ERROR_INVALID_ARGUMENT",
                "an argument is null, out of range or not a known value"},
    StatusEntry{CINCH_ERROR_DESTINATION_TOO_SMALL, "CINCH_ERROR_DESTINATION_TOO_SMALL",
                "the output does not fit the destination buffer"},
    StatusEntry{CINCH_ERROR_TOO_LARGE, "CINCH_ERROR_TOO_LARGE",
                "the input exceeds a documented limit"},
    StatusEntry{CINCH_ERROR_UNSUPPORTED, "CINCH_ERROR_UNSUPPORTED",
                "this build or machine cannot do it"},
    StatusEntry{CINCH_ERROR_OVERLAP, "CINCH_ERROR_OVERLAP", "input and output overlap"},
    StatusEntry{CINCH_ERROR_BUSY, "CINCH_ERROR_BUSY", "the handle is in use or its queue is full"},
    StatusEntry{CINCH_ERROR_CONFIG, "CINCH_ERROR_CONFIG", "a setting has no valid value"},

    StatusEntry{CINCH_ERROR_FRAME_TRUNCATED, "CINCH_ERROR_FRAME_TRUNCATED",
                "the frame ends before its header says it does"},
    StatusEntry{CINCH_ERROR_FRAME_MAGIC, "CINCH_ERROR_FRAME_MAGIC", "this is not a cinch frame"},
    StatusEntry{CINCH_ERROR_FRAME_VERSION, "CINCH_ERROR_FRAME_VERSION",
                "the frame has a format version that this library cannot read"},
    StatusEntry{CINCH_ERROR_FRAME_HEADER, "CINCH_ERROR_FRAME_HEADER",
                "a field of the frame header is out of range or inconsistent"},
    StatusEntry{CINCH_ERROR_FRAME_INDEX, "CINCH_ERROR_FRAME_INDEX",
                "the frame's block index is not ascending or leaves the frame"},
    StatusEntry{CINCH_ERROR_FRAME_BLOCK, "CINCH_ERROR_FRAME_BLOCK",
                "the contents of a block are inconsistent"},
    StatusEntry{CINCH_ERROR_FRAME_CHECKSUM, "CINCH_ERROR_FRAME_CHECKSUM",
                "the decoded data do not match the frame's checksum"},
    StatusEntry{CINCH_ERROR_FRAME_TRAILING, "CINCH_ERROR_FRAME_TRAILING",
                "bytes follow the end of the frame"},
    StatusEntry{CINCH_ERROR_FRAME_RESERVED, "CINCH_ERROR_FRAME_RESERVED",
                "a reserved bit or byte of the frame is set"},
    StatusEntry{CINCH_ERROR_FRAME_BASE_MISSING, "CINCH_ERROR_FRAME_BASE_MISSING",
                "the base version of a delta frame is not available"},
    StatusEntry{CINCH_ERROR_FRAME_BASE_MISMATCH, "CINCH_ERROR_FRAME_BASE_MISMATCH",
                "the base is not the one that the delta frame was made from"},

    StatusEntry{CINCH_ERROR_TIMEOUT, "CINCH_ERROR_TIMEOUT", "a bounded wait ran out"},
    StatusEntry{CINCH_ERROR_PEER_LOST, "CINCH_ERROR_PEER_LOST",
                "the peer died, closed the connection or restarted"},
    StatusEntry{CINCH_ERROR_CANCELLED, "CINCH_ERROR_CANCELLED",
                "the operation was cancelled by its owner"},
    StatusEntry{CINCH_ERROR_VERSION_MISMATCH, "CINCH_ERROR_VERSION_MISMATCH",
                "the peers speak different protocol versions"},
    StatusEntry{CINCH_ERROR_CAPABILITY_MISMATCH, "CINCH_ERROR_CAPABILITY_MISMATCH",
                "the settings of the peers cannot work together"},
    StatusEntry{CINCH_ERROR_AUTHENTICATION, "CINCH_ERROR_AUTHENTICATION",
                "the peer did not prove the shared key"},
    StatusEntry{CINCH_ERROR_KEY_REQUIRED, "CINCH_ERROR_KEY_REQUIRED",
                "a non-loopback address needs a shared key: set CINCH_KEY or CINCH_KEY_FILE"},
    StatusEntry{CINCH_ERROR_MESSAGE_TOO_LARGE, "CINCH_ERROR_MESSAGE_TOO_LARGE",
                "the message does not fit the posted receive buffer"},
    StatusEntry{CINCH_ERROR_DTYPE_MISMATCH, "CINCH_ERROR_DTYPE_MISMATCH",
                "sender and receiver named different dtypes"},
    StatusEntry{CINCH_ERROR_PROTOCOL, "CINCH_ERROR_PROTOCOL",
                "the peer sent something that the protocol forbids"},
    StatusEntry{CINCH_ERROR_ADDRESS, "CINCH_ERROR_ADDRESS",
                "an address cannot be parsed, resolved or bound"},
    StatusEntry{CINCH_ERROR_REGION, "CINCH_ERROR_REGION",
                "a remote region is unknown or the access leaves it"},
    StatusEntry{CINCH_ERROR_TRANSPORT, "CINCH_ERROR_TRANSPORT", "the transport library failed"},
    StatusEntry{CINCH_ERROR_STALE, "CINCH_ERROR_STALE",
                "a remote region was renewed since it was described: ask its owner again"},

    StatusEntry{CINCH_ERROR_OUT_OF_MEMORY, "CINCH_ERROR_OUT_OF_MEMORY", "out of memory"},
    StatusEntry{CINCH_ERROR_IO, "CINCH_ERROR_IO", "reading or writing a file failed"},
    StatusEntry{CINCH_ERROR_FILE_FORMAT, "CINCH_ERROR_FILE_FORMAT",
                "a file is not what its name or header claims"},
    StatusEntry{CINCH_ERROR_NO_SPACE, "CINCH_ERROR_NO_SPACE", "the disk is full"},
    StatusEntry{CINCH_ERROR_INTERNAL, "CINCH_ERROR_INTERNAL", "a bug in cinch; please report it"},

    StatusEntry{CINCH_ERROR_DEVICE, "CINCH_ERROR_DEVICE", "the device runtime reported an error"},
    StatusEntry{CINCH_ERROR_NO_DEVICE, "CINCH_ERROR_NO_DEVICE", "there is no usable device"},
};

constexpr StatusEntry kUnknownStatus = {CINCH_OK, "CINCH_UNKNOWN", "unknown status"};

constexpr const StatusEntry& FindStatus(cinch_status status) noexcept {
  for (const StatusEntry& entry : kStatusTable) {
    if (entry.status == status) return entry;
  }
  return kUnknownStatus;
}

}  // namespace

extern "C" const char* cinch_status_name(cinch_status status) { return FindStatus(status).name; }

extern "C" const char* cinch_status_text(cinch_status status) { return FindStatus(status).text; }
