// SPDX-License-Identifier: Apache-2.0
// The messages between a subscriber and a publisher (docs/versions.md).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "cinch/versions.h"

namespace cinch::versions {

inline constexpr uint32_t kVersionsMagic = 0x56434E43;  // "CNCV"

/// Which of our messages a tag names: the low 48 bits are the request's number.
inline constexpr uint64_t kRequestTag = CINCH_VERSIONS_TAG;
inline constexpr uint64_t kAnswerTag = CINCH_VERSIONS_TAG | (uint64_t{1} << 48);
inline constexpr uint64_t kPayloadTag = CINCH_VERSIONS_TAG | (uint64_t{2} << 48);
inline constexpr uint64_t kNumberMask = (uint64_t{1} << 48) - 1;

/// Asks for a version; says what is held.
struct VersionRequest {
  uint32_t magic = kVersionsMagic;
  uint32_t has_version = 0;
  uint64_t number = 0;  ///< Names the answer and its payloads.
  uint64_t wanted = 0;  ///< This version or a newer one; 0: whatever is the newest.
  uint64_t held = 0;
  uint64_t held_hash = 0;
  uint64_t bytes = 0;  ///< Of the tensor, as the subscriber has it.
  char name[CINCH_MAX_TENSOR_NAME + 1] = {};
};
static_assert(sizeof(VersionRequest) == 144);

/// What comes: `payloads` messages with the payload tag follow.
struct VersionAnswer {
  uint32_t magic = kVersionsMagic;
  int32_t status = 0;
  uint32_t source = 0;  ///< A cinch_version_source.
  uint32_t payloads = 0;
  uint64_t version = 0;
  uint64_t content_hash = 0;
  uint64_t bytes = 0;
  uint64_t payload_bytes[CINCH_MAX_PATCH_STEPS] = {};
};
static_assert(sizeof(VersionAnswer) == 104);

/// Whether a message of `arrived_bytes` that was received into `request` is one. Untrusted.
[[nodiscard]] bool IsRequest(const VersionRequest& request, uint64_t arrived_bytes);

/// Whether a message of `arrived_bytes` that was received into `answer` answers `request`, and in a
/// way that it allows. Untrusted. OK, PROTOCOL, or the error that the publisher gives.
[[nodiscard]] Status CheckAnswer(const VersionAnswer& answer, uint64_t arrived_bytes,
                                 const VersionRequest& request);

}  // namespace cinch::versions
