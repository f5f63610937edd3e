// SPDX-License-Identifier: Apache-2.0
#include "collectives/host_device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cinch/codec.h"
#include "collectives/float_math.h"
#include "collectives/host_stream.h"

namespace cinch::testing {

using namespace collectives;  // NOLINT(google-build-using-namespace)

namespace {

using Clock = std::chrono::steady_clock;

/// What RecordEvent makes anew each time, so that an event can be destroyed or recorded again while
/// streams still wait for what it was.
struct EventState {
  std::atomic<bool> passed{false};
  Clock::time_point when;
};
struct HostEvent {
  std::shared_ptr<EventState> state;
};

HostStream* Host(Stream stream) { return static_cast<HostStream*>(stream); }

void Pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

cinch_codec* Codec() {
  thread_local const std::unique_ptr<cinch_codec, void (*)(cinch_codec*)> codec(
      [] {
        cinch_codec_options options;
        cinch_codec_options_init(&options);
        options.threads = 1;
        cinch_codec* made = nullptr;
        return cinch_codec_create(&options, &made) == CINCH_OK ? made : nullptr;
      }(),
      cinch_codec_destroy);
  return codec.get();
}

uint64_t EncodeFrame(const void* source, uint64_t bytes, cinch_dtype dtype, uint8_t* frame) {
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  options.dtype = dtype;
  uint64_t frame_bytes = 0;
  const Status status = cinch_compress(Codec(), &options, source, bytes, frame,
                                       cinch_compress_bound(bytes), &frame_bytes);
  return status == CINCH_OK ? frame_bytes : 0;
}

bool DecodeFrame(const uint8_t* frame, uint64_t frame_bytes, void* destination, uint64_t bytes) {
  uint64_t decoded = 0;
  return cinch_decompress(Codec(), frame, frame_bytes, destination, bytes, &decoded) == CINCH_OK &&
         decoded == bytes;
}

uint64_t EncodeSlot(const OutSlot& out) {
  const uint64_t parts = out.sampled ? SampleSlices(out.bytes) : 1;
  const uint64_t length = out.sampled ? SampleSliceLength(out.bytes) : out.bytes;
  const uint64_t capacity = AlignUp(cinch_compress_bound(length), 256);
  uint64_t total = 0;
  for (uint64_t i = 0; i < parts; ++i) {
    const auto* source =
        static_cast<const uint8_t*>(out.source) + i * (out.bytes / parts / 256 * 256);
    total += EncodeFrame(source, length, out.dtype, out.slot + sizeof(SlotHeader) + i * capacity);
  }
  SlotHeader header{};
  header.magic = kSlotMagic;
  header.version = kSlotVersion;
  header.original_bytes = out.bytes;
  header.frame_bytes = out.sampled ? 0 : total;
  header.ratio = (total * kRatioOne + parts * length - 1) / (parts * length);
  std::memcpy(out.slot, &header, sizeof(header));
  return header.ratio;
}

void Write(StepRecord* record, uint32_t target, Outcome outcome) {
  record->outcome = static_cast<uint32_t>(outcome);
  if (outcome == Outcome::kGood) __atomic_store_n(&record->flag, target, __ATOMIC_RELEASE);
  __atomic_store_n(&record->outcome_target, target, __ATOMIC_RELEASE);
}

Outcome DecodeSlot(const InSlot& in) {
  SlotHeader header{};
  std::memcpy(&header, in.slot, sizeof(header));
  if (header.magic != kSlotMagic || header.original_bytes != in.bytes) return Outcome::kCorrupt;
  if (header.frame_bytes > in.wire_bytes - sizeof(SlotHeader)) return Outcome::kOverflow;
  const bool good =
      DecodeFrame(in.slot + sizeof(SlotHeader), header.frame_bytes, in.destination, in.bytes);
  return good ? Outcome::kGood : Outcome::kCorrupt;
}

void Combine(const uint8_t* slot, SlotHeader* sum) {
  SlotHeader header{};
  std::memcpy(&header, slot, sizeof(header));
  sum->ratio = std::max(sum->ratio, header.ratio);
  sum->raw_nanoseconds = std::max(sum->raw_nanoseconds, header.raw_nanoseconds);
  sum->compressed_nanoseconds =
      std::max(sum->compressed_nanoseconds, header.compressed_nanoseconds);
}

void WriteKeyRecord(const SlotHeader& sum, KeyRecord* record) {
  record->ratio = sum.ratio;
  record->raw_nanoseconds = sum.raw_nanoseconds;
  record->compressed_nanoseconds = sum.compressed_nanoseconds;
  __atomic_store_n(&record->ready, 1U, __ATOMIC_RELEASE);
}

Outcome OutcomeOf(const std::vector<OutSlot>& out, const std::vector<InSlot>& in) {
  Outcome worst = Outcome::kGood;
  for (const OutSlot& slot : out) {
    SlotHeader header{};
    std::memcpy(&header, slot.slot, sizeof(header));
    if (!slot.sampled && header.frame_bytes > slot.wire_bytes - sizeof(SlotHeader)) {
      worst = std::max(worst, Outcome::kOverflow);
    }
  }
  for (const InSlot& slot : in) {
    if (slot.wire_bytes > sizeof(SlotHeader)) worst = std::max(worst, DecodeSlot(slot));
  }
  return worst;
}

}  // namespace

HostDevice::HostDevice() = default;
HostDevice::~HostDevice() = default;

int HostDevice::Select(int device) { return device; }
bool HostDevice::IsCapturing(Stream /*stream*/) { return capturing; }

Status HostDevice::Allocate(Stream /*stream*/, uint64_t bytes, void** memory) {
  *memory = std::aligned_alloc(256, AlignUp(bytes, 256));
  live_allocations.fetch_add(1);
  return *memory == nullptr ? CINCH_ERROR_OUT_OF_MEMORY : CINCH_OK;
}
void HostDevice::Free(Stream stream, void* memory) {
  live_allocations.fetch_sub(1);
  Host(stream)->Enqueue([memory] { std::free(memory); });
}
Status HostDevice::AllocatePinned(uint64_t bytes, void** memory) {
  *memory = std::calloc(1, bytes);
  return CINCH_OK;
}
void HostDevice::FreePinned(void* memory) { std::free(memory); }

Status HostDevice::CreateStream(Stream* stream) {
  *stream = new HostStream;
  return CINCH_OK;
}
void HostDevice::DestroyStream(Stream stream) { delete Host(stream); }
Status HostDevice::CreateEvent(Event* event) {
  *event = new HostEvent;
  return CINCH_OK;
}
void HostDevice::DestroyEvent(Event event) { delete static_cast<HostEvent*>(event); }

Status HostDevice::RecordEvent(Event event, Stream stream) {
  auto state = std::make_shared<EventState>();
  static_cast<HostEvent*>(event)->state = state;
  Host(stream)->Enqueue([state] {
    state->when = Clock::now();
    state->passed.store(true, std::memory_order_release);
  });
  return CINCH_OK;
}
Status HostDevice::WaitEvent(Stream stream, Event event) {
  Host(stream)->Enqueue([state = static_cast<HostEvent*>(event)->state] {
    while (!state->passed.load(std::memory_order_acquire)) Pause();
  });
  return CINCH_OK;
}
Status HostDevice::QueryEvent(Event event) {
  const auto& state = static_cast<HostEvent*>(event)->state;
  return state->passed.load(std::memory_order_acquire) ? CINCH_OK : CINCH_IN_PROGRESS;
}
double HostDevice::SecondsBetween(Event start, Event stop) {
  const auto& from = static_cast<HostEvent*>(start)->state;
  const auto& to = static_cast<HostEvent*>(stop)->state;
  return std::chrono::duration<double>(to->when - from->when).count();
}

Status HostDevice::Copy(Stream stream, void* destination, const void* source, uint64_t bytes) {
  Host(stream)->Enqueue([=] { std::memmove(destination, source, bytes); });
  return CINCH_OK;
}
Status HostDevice::WaitFlag(Stream stream, uint32_t* flag, uint32_t value) {
  Host(stream)->Enqueue([=] {
    while (static_cast<int32_t>(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - value) < 0) Pause();
  });
  return CINCH_OK;
}
Status HostDevice::SetFlag(Stream stream, uint32_t* flag, uint32_t value) {
  Host(stream)->Enqueue([=] { __atomic_store_n(flag, value, __ATOMIC_RELEASE); });
  return CINCH_OK;
}

uint64_t HostDevice::WorkspaceBytes(uint64_t max_items, uint64_t /*max_input_bytes*/) {
  return max_items;
}
Status HostDevice::PrepareWorkspace(Stream /*stream*/, const Workspace& /*workspace*/) {
  return CINCH_OK;
}

Status HostDevice::Encode(Stream stream, const Workspace& /*workspace*/,
                          std::span<const OutSlot> out, std::span<const SlotUse> uses) {
  const std::vector<OutSlot> slots(out.begin(), out.end());
  const std::vector<SlotUse> all(uses.begin(), uses.end());
  Host(stream)->Enqueue([slots, all] {
    std::vector<uint64_t> ratios(all.size(), 0);
    for (const OutSlot& slot : slots) {
      ratios[slot.use] = std::max(ratios[slot.use], EncodeSlot(slot));
    }
    for (const OutSlot& slot : slots) {
      auto* header = reinterpret_cast<SlotHeader*>(slot.slot);
      header->ratio = ratios[slot.use];
      header->raw_nanoseconds = all[slot.use].raw_nanoseconds;
      header->compressed_nanoseconds = all[slot.use].compressed_nanoseconds;
    }
  });
  return CINCH_OK;
}

Status HostDevice::Decode(Stream stream, const Workspace& /*workspace*/,
                          std::span<const OutSlot> out, std::span<const InSlot> in,
                          std::span<const SlotUse> uses, StepRecord* record) {
  const std::vector<OutSlot> sent(out.begin(), out.end());
  const std::vector<InSlot> arrived(in.begin(), in.end());
  const std::vector<SlotUse> all(uses.begin(), uses.end());
  const uint32_t target = record == nullptr ? 0 : record->target;
  Host(stream)->Enqueue([=] {
    std::vector<SlotHeader> sums(all.size());
    for (const OutSlot& slot : sent) Combine(slot.slot, &sums[slot.use]);
    for (const InSlot& slot : arrived) Combine(slot.slot, &sums[slot.use]);
    const Outcome outcome = OutcomeOf(sent, arrived);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].record != nullptr) WriteKeyRecord(sums[i], all[i].record);
    }
    if (record != nullptr) Write(record, target, outcome);
  });
  return CINCH_OK;
}

Status HostDevice::DecodeWhole(Stream stream, const Workspace& /*workspace*/,
                               std::span<const WholeFrame> frames, StepRecord* record) {
  const std::vector<WholeFrame> all(frames.begin(), frames.end());
  const uint32_t target = record->target;
  Host(stream)->Enqueue([=] {
    bool good = true;
    for (const WholeFrame& frame : all) {
      good = good && DecodeFrame(frame.frame, frame.frame_bytes, frame.destination, frame.bytes);
    }
    Write(record, target, good ? Outcome::kGood : Outcome::kCorrupt);
  });
  return CINCH_OK;
}

Status HostDevice::Reduce(Stream stream, const Reduction& reduction) {
  const std::vector<const void*> sources(reduction.sources,
                                         reduction.sources + reduction.source_count);
  const Reduction copy = reduction;
  Host(stream)->Enqueue([sources, copy] {
    ReduceInOrder(sources.data(), sources.size(), copy.output, copy.elements, copy.dtype,
                  copy.scale);
  });
  return CINCH_OK;
}

}  // namespace cinch::testing
