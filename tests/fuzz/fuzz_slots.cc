// SPDX-License-Identifier: Apache-2.0
// Peers' slot headers, as hosts use them: what a collective learns from them, the size of slots
// that follows, and what a repair fetches. Whatever they say, ranks that saw the same decide the
// same, and no slot or frame is larger than the memory that it has.
#include <deque>

#include "collectives/algorithms.h"
#include "collectives/key_history.h"
#include "collectives/slot_check.h"
#include "support/require.h"

namespace {

using namespace cinch::collectives;
using cinch::PolicyMode;
using cinch::test::FuzzInput;
using cinch::test::Require;

constexpr uint64_t kMostBytes = uint64_t{1} << 40;

void RequireSlotFits(uint64_t bytes, uint64_t ratio) {
  const uint64_t wire_bytes = WireBytes(bytes, ratio);
  Require(wire_bytes > sizeof(SlotHeader), "a slot has room for a frame");
  Step step;
  step.Stage(OutSlotBytes(bytes, false));
  Require(wire_bytes <= step.staging_bytes, "what is sent of a slot is its own memory");
}

void FuzzHistory(PolicyMode mode, FuzzInput* input) {
  KeyHistory left(mode);
  KeyHistory right(mode);
  std::deque<KeyRecord> records;
  while (!input->empty()) {
    const Ticket ticket = left.Take();
    Require(right.Take().index == ticket.index, "tickets count");
    Require(left.Ready(ticket.index) && right.Ready(ticket.index), "all records are there");
    const Decision decision = left.decision(ticket.index);
    Require(decision.compressed == right.decision(ticket.index).compressed &&
                decision.ratio == right.decision(ticket.index).ratio,
            "ranks that saw the same decide the same");
    Require(left.IsCarrier(ticket.index) == right.IsCarrier(ticket.index), "and carry the same");
    RequireSlotFits(input->Number() % kMostBytes, decision.ratio);
    const auto choice = input->Take<uint8_t>();
    if ((choice & 1) != 0) left.AddTiming((choice & 2) != 0, 1e-6 * (choice >> 2), 1 << 20);
    if (!left.IsCarrier(ticket.index)) continue;
    const auto record = [&] {
      return &records.emplace_back(
          KeyRecord{1, 0, input->Number(), input->Number(), input->Number()});
    };
    KeyRecord* first = record();
    KeyRecord* second = (choice & 4) != 0 ? record() : nullptr;
    left.Attach(ticket, first, second);
    right.Attach(ticket, first, second);
    while (left.TakeUsedRecord() != nullptr) continue;
    while (right.TakeUsedRecord() != nullptr) continue;
  }
}

void FuzzHeader(FuzzInput* input) {
  const auto choice = input->Take<uint8_t>();
  const uint64_t bytes = input->Number() % kMostBytes;
  const uint64_t ratio = input->Number() % (kMaxRatio + 1);
  auto header = input->Take<SlotHeader>();
  if ((choice & 1) != 0) {
    header.magic = kSlotMagic;
    header.version = kSlotVersion;
  }
  if ((choice & 2) != 0) header.original_bytes = bytes;
  if ((choice & 4) != 0) header.frame_bytes %= cinch::format::FrameBound(bytes) + 1;
  RequireSlotFits(bytes, ratio);
  if (!IsSane(header, bytes)) return;
  const uint64_t wire_bytes = WireBytes(bytes, ratio);
  const uint64_t missing = MissingBytes(header, wire_bytes);
  Require(missing <= header.frame_bytes, "nothing more is missing than a frame has");
  if (missing == 0) return;
  Require(wire_bytes - sizeof(SlotHeader) + missing == header.frame_bytes,
          "what came and what is missing are the frame");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  switch (input.Take<uint8_t>() % 4) {
    case 0:
      FuzzHistory(PolicyMode::kAuto, &input);
      break;
    case 1:
      FuzzHistory(PolicyMode::kCompressed, &input);
      break;
    default:
      FuzzHeader(&input);
      break;
  }
  return 0;
}
