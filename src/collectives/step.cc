// SPDX-License-Identifier: Apache-2.0
#include "collectives/step.h"

#include <algorithm>

namespace cinch::collectives {

std::vector<OutSlot> ResolveOut(const Step& step, uint8_t* staging) {
  std::vector<OutSlot> slots;
  for (const Outgoing& out : step.out) {
    slots.push_back({out.source.In(staging), out.bytes, out.slot.In(staging), out.wire_bytes,
                     out.dtype, out.use, out.sampled});
  }
  return slots;
}

std::vector<InSlot> ResolveIn(const Step& step, uint8_t* staging) {
  std::vector<InSlot> slots;
  for (const Incoming& in : step.in) {
    slots.push_back({in.slot.In(staging), in.wire_bytes,
                     in.header_only ? nullptr : in.destination.In(staging), in.bytes, in.use});
  }
  return slots;
}

std::vector<SlotUse> ResolveUses(const Step& step) {
  std::vector<SlotUse> uses;
  for (const Use& use : step.uses) {
    uses.push_back({use.key->raw_nanoseconds(), use.key->compressed_nanoseconds(), use.record});
  }
  return uses;
}

bool MovesFrames(const Step& step) {
  const auto is_frame = [](const auto& slot) { return slot.wire_bytes > sizeof(SlotHeader); };
  return std::ranges::any_of(step.out, is_frame) || std::ranges::any_of(step.in, is_frame);
}

uint64_t InputBytes(const Step& step) {
  uint64_t out = 0;
  uint64_t in = 0;
  for (const Outgoing& slot : step.out) out += slot.bytes;
  for (const Incoming& slot : step.in) in += slot.bytes;
  return std::max(out, in);
}

uint64_t Items(const Step& step) {
  uint64_t out = 0;
  for (const Outgoing& slot : step.out) out += slot.sampled ? kSampleSlices : 1;
  return std::max<uint64_t>(out, step.in.size());
}

}  // namespace cinch::collectives
