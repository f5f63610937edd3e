// SPDX-License-Identifier: Apache-2.0
#include "versions/version_wire.h"

#include "cinch/patch.h"
#include "transfer/wire.h"

namespace cinch::versions {
namespace {

/// Whether the payloads that an answer announces are those of its source.
bool PayloadsFit(const VersionAnswer& answer, const VersionRequest& request) {
  const bool held = request.has_version != 0;
  switch (answer.source) {
    case CINCH_VERSION_HELD:
      return held && answer.payloads == 0 && answer.version == request.held &&
             answer.content_hash == request.held_hash;
    case CINCH_VERSION_FULL:
      return answer.payloads == 1 && answer.payload_bytes[0] == request.bytes;
    case CINCH_VERSION_PATCH: {
      // Without one, what is in the other buffer would pass for the version that is held.
      if (!held || answer.payloads == 0 || answer.payloads > CINCH_MAX_PATCH_STEPS) return false;
      const uint64_t most = cinch_patch_bound(request.bytes);
      for (uint32_t i = 0; i < answer.payloads; ++i) {
        if (answer.payload_bytes[i] == 0 || answer.payload_bytes[i] > most) return false;
      }
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

bool IsRequest(const VersionRequest& request, uint64_t arrived_bytes) {
  return arrived_bytes == sizeof(request) && request.magic == kVersionsMagic &&
         request.name[sizeof(request.name) - 1] == 0;
}

Status CheckAnswer(const VersionAnswer& answer, uint64_t arrived_bytes,
                   const VersionRequest& request) {
  if (arrived_bytes != sizeof(answer) || answer.magic != kVersionsMagic) {
    return CINCH_ERROR_PROTOCOL;
  }
  if (answer.status != CINCH_OK) {
    const bool error = answer.status < 0 && transfer::IsKnownStatus(answer.status);
    return error ? static_cast<Status>(answer.status) : CINCH_ERROR_PROTOCOL;
  }
  const bool wanted = answer.version != 0 && answer.version >= request.wanted;
  return wanted && answer.bytes == request.bytes && PayloadsFit(answer, request)
             ? CINCH_OK
             : CINCH_ERROR_PROTOCOL;
}

}  // namespace cinch::versions
