// SPDX-License-Identifier: Apache-2.0
// Reads arbitrary bytes as what a subscriber and a publisher of versions say to each other. What a
// subscriber accepts must be safe to act on; what a publisher finds for a request must lead there.
#include <algorithm>
#include <cstring>

#include "cinch/patch.h"
#include "support/require.h"
#include "versions/publisher.h"
#include "versions/version_wire.h"

namespace {

using namespace cinch::versions;
using cinch::test::FuzzInput;
using cinch::test::Require;

/// Arbitrary, but for what chance never finds.
template <typename Message>
Message Plausible(FuzzInput* input) {
  const auto choice = input->Take<uint8_t>();
  auto message = input->Take<Message>();
  if ((choice & 1) != 0) message.magic = kVersionsMagic;
  return message;
}

void CheckAcceptedAnswer(const VersionAnswer& answer, const VersionRequest& request) {
  Require(answer.bytes == request.bytes, "the tensor has the size that was asked for");
  Require(answer.version >= request.wanted, "no version is older than wanted");
  Require(answer.payloads <= CINCH_MAX_PATCH_STEPS, "payloads are bounded");
  for (uint32_t i = 0; i < answer.payloads; ++i) {
    const uint64_t most =
        answer.source == CINCH_VERSION_FULL ? request.bytes : cinch_patch_bound(request.bytes);
    Require(answer.payload_bytes[i] <= most, "a payload takes no more than it can need");
  }
  if (answer.source == CINCH_VERSION_HELD) {
    Require(request.has_version != 0 && answer.version == request.held &&
                answer.content_hash == request.held_hash && answer.payloads == 0,
            "only what is held passes for held");
  } else {
    Require(answer.payloads > 0, "a new version does not come from nothing");
    Require(answer.source == CINCH_VERSION_FULL || request.has_version != 0,
            "patches need what they apply to");
  }
}

void FuzzAnswer(FuzzInput* input) {
  const auto choice = input->Take<uint8_t>();
  const auto request = Plausible<VersionRequest>(input);
  auto answer = Plausible<VersionAnswer>(input);
  // What an honest publisher copies.
  if ((choice & 1) != 0) answer.bytes = request.bytes;
  if ((choice & 2) != 0) answer.status = CINCH_OK;
  if ((choice & 4) != 0) answer.payload_bytes[0] = answer.bytes;
  if ((choice & 8) != 0) answer.version = request.held;
  if ((choice & 16) != 0) answer.content_hash = request.held_hash;
  if ((choice & 32) != 0) answer.source %= 3;
  if ((choice & 64) != 0) answer.payloads %= CINCH_MAX_PATCH_STEPS + 1;
  Require(CheckAnswer(answer, sizeof(answer) - 1, request) == CINCH_ERROR_PROTOCOL,
          "an answer is whole");
  const cinch::Status status = CheckAnswer(answer, sizeof(answer), request);
  Require(status <= 0, "an answer is an answer or an error");
  if (status == CINCH_OK) CheckAcceptedAnswer(answer, request);
}

void FuzzRequest(FuzzInput* input) {
  const auto request = Plausible<VersionRequest>(input);
  Require(!IsRequest(request, sizeof(request) - 1), "a request is whole");
  if (!IsRequest(request, sizeof(request))) return;
  Require(std::memchr(request.name, 0, sizeof(request.name)) != nullptr, "a name ends");
  PublishedVersion newest;
  newest.bytes = input->Number();
  const auto steps = input->Take<uint8_t>() % (CINCH_MAX_PATCH_STEPS + 1);
  for (int i = 0; i < steps; ++i) {
    auto step = std::make_shared<PatchStep>();
    const auto choice = input->Take<uint8_t>();
    step->from_version = (choice & 1) != 0 ? request.held : input->Number();
    step->base_hash = (choice & 2) != 0 ? request.held_hash : input->Number();
    step->bytes = input->Take<uint16_t>();
    newest.steps.push_back(std::move(step));
  }
  const auto found = StepsFor(request, newest);
  if (found.empty()) return;
  Require(request.has_version != 0 && found.front()->from_version == request.held &&
              found.front()->base_hash == request.held_hash,
          "patches start at what is held");
  Require(found.back() == newest.steps.back() && found.size() <= newest.steps.size(),
          "patches lead to the newest version");
  uint64_t bytes = 0;
  for (const auto& step : found) bytes += step->bytes;
  Require(bytes <= newest.bytes, "patches are smaller than the tensor");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const auto choice = input.Take<uint8_t>();
  (choice & 1) != 0 ? FuzzAnswer(&input) : FuzzRequest(&input);
  return 0;
}
