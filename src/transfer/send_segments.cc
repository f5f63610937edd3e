// SPDX-License-Identifier: Apache-2.0
// How the data of outgoing messages are cut, coded, paced and posted.
#include <algorithm>

#include "base/guarded.h"
#include "transfer/endpoint.h"
#include "transfer/segment_plan.h"
#include "transfer/sender.h"

namespace cinch::transfer {
namespace {

// Before the peer has a place for a message, only its first two segments are coded and offered, so
// that the wire can start at once; more would keep staging from messages that can move.
constexpr uint64_t kEarlyBytes = 3 * kMinSegmentBytes;
constexpr uint64_t kEarlyDeviceBytes = 3 * kMinDeviceSegmentBytes;

// A frame that saves less than this is not worth decoding.
constexpr double kWorthwhileFraction = 0.985;

}  // namespace

/// Codes or gathers one segment into its slot.
class Sender::EncodeJob final : public CodecJob {
 public:
  EncodeJob(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<OutgoingSegment> segment,
            uint8_t* buffer, size_t capacity_bytes)
      : endpoint_(std::move(endpoint)),
        segment_(std::move(segment)),
        buffer_(buffer),
        capacity_bytes_(capacity_bytes) {}

  void Run(CodecThread& thread) override {
    Engine& engine = endpoint_->engine();
    const std::shared_ptr<Outgoing> owner = segment_->owner;
    TimePoint begin;
    bool wanted = false;
    {
      const Engine::Guard guard(engine);
      begin = Clock::now();
      wanted = owner->result == CINCH_IN_PROGRESS;
      if (segment_->frame) Measure([&](Metrics& metrics) { metrics.meter.CodecBegins(begin); });
    }
    uint64_t output_bytes = segment_->bytes;
    // Without memory for pieces that are not in one, the message ends, not the process.
    const Status status =
        wanted ? Guarded([&] { return Code(thread, *owner, output_bytes); }) : CINCH_OK;
    const Engine::Guard guard(engine);
    const TimePoint end = Clock::now();
    if (segment_->frame) {
      Measure([&](Metrics& metrics) {
        metrics.meter.CodecEnds(end);
        metrics.encode_seconds += Seconds(end - begin);
      });
    }
    endpoint_->sender().OnCoded(segment_, status, output_bytes, wanted, Seconds(end - begin));
  }

 private:
  template <typename Update>
  void Measure(Update&& update) {
    endpoint_->Measure(segment_->owner->operation.get(), update);
  }

  [[nodiscard]] Status Code(CodecThread& thread, const Outgoing& owner, uint64_t& output_bytes) {
    const uint64_t offset = segment_->offset;
    const uint64_t bytes = segment_->bytes;
    if (!segment_->frame) {
      owner.pieces.Gather(offset, bytes, buffer_);
      return CINCH_OK;
    }
    const uint8_t* input = owner.pieces.Contiguous(offset, bytes);
    if (input == nullptr) {
      thread.scratch.resize(std::max<size_t>(thread.scratch.size(), bytes));
      owner.pieces.Gather(offset, bytes, thread.scratch.data());
      input = thread.scratch.data();
    }
    return thread.codec->Encode(owner.dtype, endpoint_->engine().settings().checksum, input, bytes,
                                buffer_, capacity_bytes_, output_bytes);
  }

  std::shared_ptr<Endpoint> endpoint_;
  std::shared_ptr<OutgoingSegment> segment_;
  uint8_t* buffer_;
  size_t capacity_bytes_;
};

bool Sender::MayStart(const Outgoing& outgoing) {
  if (!endpoint_.open() || outgoing.result != CINCH_IN_PROGRESS ||
      outgoing.kind == Outgoing::Kind::kReadRequest || outgoing.inline_payload ||
      outgoing.next_offset >= outgoing.total_bytes) {
    return false;
  }
  if (outgoing.ready) return true;
  // Where segments are left in shared memory, the answer comes sooner than a detour would.
  if (outgoing.pieces.on_device() && peer_reaches_shared_) return false;
  const Staging& staging = StagingOf(outgoing);
  const uint64_t early_bytes = outgoing.pieces.on_device() ? kEarlyDeviceBytes : kEarlyBytes;
  return outgoing.next_offset < early_bytes && staging.free_count() > staging.count() / 2;
}

// Starts the next segment of a message; false when there is none or it has to wait.
bool Sender::StartSegment(const std::shared_ptr<Outgoing>& outgoing) {
  if (!MayStart(*outgoing)) return false;
  Staging& staging = StagingOf(*outgoing);
  Staging::Slot* slot = staging.Take();
  if (slot == nullptr) return false;
  const bool on_device = outgoing->pieces.on_device();
  auto segment = std::make_shared<OutgoingSegment>();
  segment->owner = outgoing;
  segment->slot = slot;
  segment->shared = &staging == shared_staging_.get();
  if (on_device) LearnDeviceSpeed(outgoing->pieces.place().device, segment->shared);
  segment->offset = outgoing->next_offset;
  segment->bytes = SegmentBytesAt(segment->offset, outgoing->total_bytes, settings_.segment_bytes,
                                  on_device ? kMinDeviceSegmentBytes : kMinSegmentBytes);
  segment->frame = PolicyOf(*outgoing).CompressNext(outgoing->plan, segment->bytes,
                                                    outgoing->total_bytes - segment->offset);
  outgoing->next_offset += segment->bytes;
  outgoing->queue.push_back(segment);
  const uint8_t* data =
      on_device ? nullptr : outgoing->pieces.Contiguous(segment->offset, segment->bytes);
  if (!segment->frame && data != nullptr) {
    segment->state = OutgoingSegment::State::kReady;
    segment->ready_at = Clock::now();
    segment->payload = data;
    segment->payload_bytes = segment->bytes;
    PostSegments(outgoing);
    return true;
  }
  uint8_t* buffer = slot->Buffer(staging.buffer_bytes());
  if (buffer == nullptr) {
    Staging::Return(slot);
    outgoing->queue.pop_back();
    Decide(outgoing, CINCH_ERROR_OUT_OF_MEMORY);
    return false;
  }
  segment->payload = buffer;
  ++outgoing->coding;
  if (on_device) {
    SubmitDeviceJob(segment, buffer, staging.buffer_bytes());
  } else {
    endpoint_.engine().codec_pool().Submit(std::make_unique<EncodeJob>(
        endpoint_.shared_from_this(), segment, buffer, staging.buffer_bytes()));
  }
  return true;
}

void Sender::OnCoded(const std::shared_ptr<OutgoingSegment>& segment, Status status,
                     uint64_t output_bytes, bool coded, double seconds) {
  const std::shared_ptr<Outgoing> outgoing = segment->owner;
  --outgoing->coding;
  if (status != CINCH_OK) Decide(outgoing, status);
  if (outgoing->result != CINCH_IN_PROGRESS) {
    Staging::Return(segment->slot);
    std::erase(outgoing->queue, segment);
    return FinishIfDone(outgoing);
  }
  if (segment->frame && coded) {
    PolicyOf(*outgoing).OnEncoded(outgoing->plan, segment->bytes,
                                  std::min(output_bytes, segment->bytes), seconds);
    const uint8_t* data = outgoing->pieces.on_device()
                              ? nullptr
                              : outgoing->pieces.Contiguous(segment->offset, segment->bytes);
    const double kept = static_cast<double>(output_bytes) / static_cast<double>(segment->bytes);
    if (kept > kWorthwhileFraction && data != nullptr) {
      segment->frame = false;
      segment->payload = data;
      output_bytes = segment->bytes;
    }
  }
  segment->payload_bytes = output_bytes;
  segment->state = OutgoingSegment::State::kReady;
  segment->ready_at = Clock::now();
  Touch(*outgoing);
  PostSegments(outgoing);
  endpoint_.engine().MarkDirty(endpoint_.shared_from_this());
}

// Posts what is ready, in order.
void Sender::PostSegments(const std::shared_ptr<Outgoing>& outgoing) {
  while (endpoint_.open() && !outgoing->queue.empty()) {
    const std::shared_ptr<OutgoingSegment> segment = outgoing->queue.front();
    if (segment->state == OutgoingSegment::State::kCoding || !PassPacer(*segment)) return;
    outgoing->queue.pop_front();
    PostSegment(segment);
  }
}

bool Sender::PassPacer(OutgoingSegment& segment) {
  if (!pacer_.paces()) return true;
  if (segment.state == OutgoingSegment::State::kReady) {
    segment.through_at = pacer_.Carry(segment.payload_bytes + sizeof(WireHeader), segment.ready_at);
    segment.state = OutgoingSegment::State::kCarried;
    const TimePoint now = Clock::now();
    endpoint_.Measure(segment.owner->operation.get(),
                      [&](Metrics& metrics) { metrics.meter.WireBegins(now); });
  }
  if (Clock::now() >= segment.through_at) return true;
  endpoint_.engine().WakeAt(segment.through_at);
  return false;
}

void Sender::PostSegment(const std::shared_ptr<OutgoingSegment>& segment) {
  const std::shared_ptr<Outgoing> outgoing = segment->owner;
  const TimePoint now = Clock::now();
  if (segment->state != OutgoingSegment::State::kCarried) {
    endpoint_.Measure(outgoing->operation.get(),
                      [&](Metrics& metrics) { metrics.meter.WireBegins(now); });
  }
  segment->state = OutgoingSegment::State::kOnWire;
  ++outgoing->on_wire;
  WireHeader header;
  header.type = WireType::kSegment;
  header.flags = segment->frame ? kFlagFrame : 0;
  header.id = outgoing->id;
  header.bytes = segment->bytes;
  header.offset = segment->offset;
  header.count = static_cast<uint32_t>(segment->payload_bytes);
  if (segment->shared) return PostShared(segment, header);
  const Status status = endpoint_.Post(header, segment->payload, segment->payload_bytes, true,
                                       [this, self = endpoint_.shared_from_this(),
                                        segment](Status done) { OnSegmentSent(segment, done); });
  if (status != CINCH_IN_PROGRESS) OnSegmentSent(segment, status);
}

void Sender::OnSegmentSent(const std::shared_ptr<OutgoingSegment>& segment, Status status) {
  const std::shared_ptr<Outgoing> outgoing = segment->owner;
  if (outgoing->on_wire == 0) return;  // Given up meanwhile.
  --outgoing->on_wire;
  Staging::Return(segment->slot);
  const TimePoint now = Clock::now();
  const uint64_t wire_bytes = segment->payload_bytes + sizeof(WireHeader);
  endpoint_.Measure(outgoing->operation.get(), [&](Metrics& metrics) {
    metrics.meter.WireEnds(now);
    if (status != CINCH_OK) return;
    metrics.payload_bytes += segment->bytes;
    metrics.wire_bytes += wire_bytes;
    ++(segment->frame ? metrics.compressed_segments : metrics.raw_segments);
    metrics.CountDevice(outgoing->pieces.on_device(), segment->shared);
  });
  if (status != CINCH_OK) {
    endpoint_.Fail(status);
    return FinishIfDone(outgoing);
  }
  endpoint_.HeardPeer();
  // The link served this segment from when it could: after the one before it, and once there was
  // something to carry. While the peer had no place for it, it was not the link that was slow.
  if (outgoing->ready) {
    const TimePoint since = std::max(segment->ready_at, last_sent_at_);
    PolicyOf(*outgoing).OnSent(segment->frame, wire_bytes, Seconds(now - since));
  }
  last_sent_at_ = now;
  outgoing->sent_bytes += segment->bytes;
  Touch(*outgoing);
  FinishIfDone(outgoing);
  endpoint_.engine().MarkDirty(endpoint_.shared_from_this());
}

// Coding segments are left to their jobs, which find the message decided.
void Sender::DropQueue(Outgoing& outgoing) {
  std::erase_if(outgoing.queue, [&](const std::shared_ptr<OutgoingSegment>& segment) {
    if (segment->state == OutgoingSegment::State::kCoding) return false;
    if (segment->state == OutgoingSegment::State::kCarried) {
      const TimePoint now = Clock::now();
      endpoint_.Measure(outgoing.operation.get(),
                        [&](Metrics& metrics) { metrics.meter.WireEnds(now); });
    }
    Staging::Return(segment->slot);
    return true;
  });
}

}  // namespace cinch::transfer
