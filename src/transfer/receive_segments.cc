// SPDX-License-Identifier: Apache-2.0
// How the data of incoming messages are fetched and decoded, and how messages end.
#include <algorithm>

#include "base/guarded.h"
#include "transfer/endpoint.h"
#include "transfer/receiver.h"

namespace cinch::transfer {
namespace {

// The peer's slots bound what it may offer at once, with any segment size.
constexpr uint64_t kMaxPendingSegments = 4 * Staging::kMaxSlots + 2 * Staging::kMaxDeviceSlots;

// Messages that failed here and whose sender has not confirmed it yet.
constexpr uint64_t kMaxDropping = 4 * kMaxUnmatchedMessages;

}  // namespace

/// Decodes or scatters one fetched segment.
class Receiver::DecodeJob final : public CodecJob {
 public:
  DecodeJob(std::shared_ptr<Endpoint> endpoint, IncomingPointer incoming, ArrivedSegment segment,
            const uint8_t* buffer)
      : endpoint_(std::move(endpoint)),
        incoming_(std::move(incoming)),
        segment_(segment),
        buffer_(buffer) {}

  void Run(CodecThread& thread) override {
    Engine& engine = endpoint_->engine();
    TimePoint begin;
    bool wanted = false;
    {
      const Engine::Guard guard(engine);
      begin = Clock::now();
      wanted = incoming_->status == CINCH_OK;
      if (segment_.frame) Measure([&](Metrics& metrics) { metrics.meter.CodecBegins(begin); });
    }
    const Status status = wanted ? Guarded([&] { return Decode(thread); }) : CINCH_OK;
    const Engine::Guard guard(engine);
    const TimePoint end = Clock::now();
    const double seconds = segment_.frame ? Seconds(end - begin) : 0;
    if (segment_.frame) {
      Measure([&](Metrics& metrics) {
        metrics.meter.CodecEnds(end);
        metrics.decode_seconds += seconds;
      });
    }
    endpoint_->receiver().OnDecoded(incoming_, segment_, status, seconds);
  }

 private:
  template <typename Update>
  void Measure(Update&& update) {
    endpoint_->Measure(incoming_->operation.get(), update);
  }

  [[nodiscard]] Status Decode(CodecThread& thread) {
    const PieceList& destination = incoming_->destination;
    if (!segment_.frame) {
      destination.Scatter(segment_.offset, segment_.bytes, buffer_);
      return CINCH_OK;
    }
    uint8_t* output = destination.Contiguous(segment_.offset, segment_.bytes);
    const bool in_place = output != nullptr;
    if (!in_place) {
      thread.scratch.resize(std::max<size_t>(thread.scratch.size(), segment_.bytes));
      output = thread.scratch.data();
    }
    uint64_t output_bytes = 0;
    CINCH_RETURN_IF_ERROR(thread.codec->Decode(buffer_, segment_.payload.bytes, output,
                                               segment_.bytes, output_bytes));
    if (output_bytes != segment_.bytes) return CINCH_ERROR_FRAME_HEADER;
    if (!in_place) destination.Scatter(segment_.offset, segment_.bytes, output);
    return CINCH_OK;
  }

  std::shared_ptr<Endpoint> endpoint_;
  IncomingPointer incoming_;
  ArrivedSegment segment_;
  const uint8_t* buffer_;
};

void Receiver::OnSegment(const WireHeader& header, const Payload& payload) {
  const bool shared = (header.flags & kFlagDevice) != 0;
  const IncomingPointer incoming = Find(header.id);
  const bool valid = incoming != nullptr && !incoming->is_inline() &&
                     (shared ? SharedRangeIsValid(header) && incoming->destination.on_device()
                             : payload.pending != nullptr) &&
                     !incoming->aborted && header.offset == incoming->arrived_bytes &&
                     header.bytes <= incoming->header.bytes - incoming->arrived_bytes &&
                     header.bytes <= peer_segment_bytes_ && pending_segments_ < kMaxPendingSegments;
  if (!valid) {
    if (payload.pending != nullptr) endpoint_.engine().backend().Drop(payload);
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  incoming->arrived_bytes += header.bytes;
  incoming->last_activity = endpoint_.engine().coarse_now();
  ArrivedSegment segment{header.offset, header.bytes, (header.flags & kFlagFrame) != 0,
                         shared,        header.tag,   payload,
                         nullptr};
  segment.payload.bytes = header.count;
  if (incoming->status != CINCH_OK) return DropSegment(*incoming, segment);
  ++pending_segments_;
  incoming->pending.push_back(segment);
}

void Receiver::Pump() {
  // A copy: what is fetched may complete, and complete messages leave the list.
  const std::vector<IncomingPointer> active = active_;
  for (const IncomingPointer& incoming : active) {
    while (endpoint_.open() && FetchNext(incoming)) {
    }
  }
}

// Brings the next segment of a message; false when there is none or no slot is free.
bool Receiver::FetchNext(const IncomingPointer& incoming) {
  if (incoming->pending.empty() || incoming->status != CINCH_OK) return false;
  ArrivedSegment segment = incoming->pending.front();
  const PieceList& destination = incoming->destination;
  uint8_t* target = nullptr;
  if (!segment.frame && !destination.on_device()) {
    target = destination.Contiguous(segment.offset, segment.bytes);
  }
  if (target == nullptr && !segment.shared) {
    Staging& staging = StagingOf(destination);
    segment.slot = staging.Take();
    if (segment.slot == nullptr) return false;
    target = segment.slot->Buffer(staging.buffer_bytes());
    if (target == nullptr) {
      Staging::Return(segment.slot);
      FailIncoming(incoming, CINCH_ERROR_OUT_OF_MEMORY, true);
      return false;
    }
  }
  incoming->pending.pop_front();
  --pending_segments_;
  ++incoming->fetching;
  const TimePoint now = Clock::now();
  endpoint_.Measure(incoming->operation.get(),
                    [&](Metrics& metrics) { metrics.meter.WireBegins(now); });
  if (segment.shared) {
    OnFetched(incoming, segment, CINCH_OK);  // It is where the device reads it.
    return true;
  }
  const Status status = endpoint_.engine().backend().Fetch(
      segment.payload, target,
      [this, self = endpoint_.shared_from_this(), incoming, segment](Status done) {
        OnFetched(incoming, segment, done);
      });
  if (status == CINCH_IN_PROGRESS) {
    endpoint_.engine().WakeProgress();
  } else {
    OnFetched(incoming, segment, status);
  }
  return true;
}

void Receiver::OnFetched(const IncomingPointer& incoming, const ArrivedSegment& segment,
                         Status status) {
  if (incoming->fetching == 0) return;  // Given up meanwhile.
  --incoming->fetching;
  const TimePoint now = Clock::now();
  endpoint_.Measure(incoming->operation.get(), [&](Metrics& metrics) {
    metrics.meter.WireEnds(now);
    if (status != CINCH_OK) return;
    metrics.wire_bytes += segment.payload.bytes + sizeof(WireHeader);
    ++(segment.frame ? metrics.compressed_segments : metrics.raw_segments);
    metrics.CountDevice(incoming->destination.on_device(), segment.shared);
  });
  if (status != CINCH_OK) {
    endpoint_.Fail(status);
  } else {
    endpoint_.HeardPeer();
  }
  if (incoming->status != CINCH_OK || status != CINCH_OK) {
    Staging::Return(segment.slot);
    TellTaken(*incoming, segment);
    return FinishIfDrained(incoming);
  }
  incoming->last_activity = now;
  if (segment.slot == nullptr && !segment.shared) return Advance(incoming, segment);
  SubmitDecode(incoming, segment);
}

void Receiver::SubmitDecode(const IncomingPointer& incoming, const ArrivedSegment& segment) {
  if (incoming->destination.on_device()) return SubmitDeviceJob(incoming, segment);
  ++incoming->decoding;
  endpoint_.engine().codec_pool().Submit(
      std::make_unique<DecodeJob>(endpoint_.shared_from_this(), incoming, segment,
                                  segment.slot->Buffer(staging_.buffer_bytes())));
}

void Receiver::OnDecoded(const IncomingPointer& incoming, const ArrivedSegment& segment,
                         Status status, double seconds) {
  --incoming->decoding;
  Staging::Return(segment.slot);
  TellTaken(*incoming, segment);
  endpoint_.engine().MarkDirty(endpoint_.shared_from_this());
  if (status != CINCH_OK) FailIncoming(incoming, status, true);
  if (incoming->status != CINCH_OK) return FinishIfDrained(incoming);
  if (segment.frame) {
    incoming->decoded_bytes += segment.bytes;
    incoming->decode_seconds += seconds;
  }
  Advance(incoming, segment);
}

// A segment's bytes are where they belong.
void Receiver::Advance(const IncomingPointer& incoming, const ArrivedSegment& segment) {
  incoming->done_bytes += segment.bytes;
  incoming->last_activity = endpoint_.engine().coarse_now();
  endpoint_.Measure(incoming->operation.get(),
                    [&](Metrics& metrics) { metrics.payload_bytes += segment.bytes; });
  if (incoming->done_bytes == incoming->header.bytes) Finish(incoming);
}

void Receiver::Finish(const IncomingPointer& incoming) {
  const bool silent = incoming->is_inline() && (incoming->header.flags & kFlagConfirm) == 0;
  if (!silent && endpoint_.open()) {
    constexpr double kNanoseconds = 1e9;
    WireHeader header;
    header.type = WireType::kDone;
    header.id = incoming->header.id;
    header.bytes = incoming->decoded_bytes;
    header.offset = static_cast<uint64_t>(incoming->decode_seconds * kNanoseconds);
    endpoint_.PostControl(header);
  }
  std::erase(active_, incoming);
  incoming_.erase(incoming->header.id);
  EndOperation(incoming, CINCH_OK);
}

// What ends for the caller and for the regions; the message itself may live on to be dropped.
void Receiver::EndOperation(const IncomingPointer& incoming, Status status) {
  incoming->regions.clear();
  endpoint_.engine().NotifyWaiters();  // Somebody may wait for a region to be unused.
  if (incoming->operation) {
    const std::shared_ptr<Operation> operation = std::move(incoming->operation);
    incoming->operation = nullptr;
    operation->Complete(status);
  }
  if (incoming->header.type == WireType::kReply) {
    endpoint_.sender().OnReadEnded(incoming->header.offset);
  }
  if (incoming->header.type == WireType::kWrite) {
    --one_sided_running_;
    one_sided_pieces_ -= incoming->header.count;
  }
}

void Receiver::FailIncoming(const IncomingPointer& incoming, Status reason, bool tell_peer) {
  if (incoming->status != CINCH_OK) return;
  incoming->status = reason;
  incoming->last_activity = endpoint_.engine().coarse_now();
  DropPending(*incoming);
  if (tell_peer && endpoint_.open()) {
    endpoint_.PostControl(WireType::kDone, incoming->header.id, reason);
  }
  FinishIfDrained(incoming);
}

void Receiver::FinishIfDrained(const IncomingPointer& incoming) {
  if (incoming->status == CINCH_OK || incoming->fetching > 0 || incoming->decoding > 0) return;
  const bool over = incoming->aborted || !endpoint_.open();
  if (incoming->state != Incoming::State::kDropping) {
    std::erase(active_, incoming);
    incoming->state = Incoming::State::kDropping;
    ++dropping_;
    EndOperation(incoming, incoming->status);
  }
  if (!over && dropping_ <= kMaxDropping) return;
  if (incoming_.erase(incoming->header.id) > 0) --dropping_;
  if (!over) endpoint_.Fail(CINCH_ERROR_PROTOCOL);
}

void Receiver::DropPending(Incoming& incoming) {
  for (const ArrivedSegment& segment : incoming.pending) {
    DropSegment(incoming, segment);
  }
  pending_segments_ -= incoming.pending.size();
  incoming.pending.clear();
}

void Receiver::DropSegment(const Incoming& incoming, const ArrivedSegment& segment) {
  if (segment.shared) return TellTaken(incoming, segment);
  endpoint_.engine().backend().Drop(segment.payload);
}

void Receiver::OnAbort(const WireHeader& header) {
  const IncomingPointer incoming = Find(header.id);
  if (!incoming) return;  // It was complete before the sender knew.
  incoming->aborted = true;
  if (incoming->state == Incoming::State::kWaiting) {
    std::erase(waiting_, incoming);
    CountMatched();
  }
  const auto reason = static_cast<Status>(header.status);
  FailIncoming(incoming, reason < 0 ? reason : CINCH_ERROR_CANCELLED, false);
  FinishIfDrained(incoming);
}

void Receiver::OnReadFailed(const WireHeader& header) {
  const auto found = reads_.find(header.id);
  if (found == reads_.end()) return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  const std::shared_ptr<Operation> operation = found->second.operation;
  reads_.erase(found);
  const auto reason = static_cast<Status>(header.status);
  if (operation) operation->Complete(reason < 0 ? reason : CINCH_ERROR_PROTOCOL);
  endpoint_.sender().OnReadEnded(header.id);
}

bool Receiver::Cancel(const Operation& operation, Status reason) {
  const auto is_it = [&](const auto& each) { return each.operation.get() == &operation; };
  const auto posted = std::ranges::find_if(posted_, is_it);
  if (posted != posted_.end()) {
    const std::shared_ptr<Operation> ended = posted->operation;
    posted_.erase(posted);
    ended->Complete(reason);
    return true;
  }
  for (auto& [id, reply] : reads_) {
    if (!is_it(reply)) continue;
    reply.cancelled = reason;
    const std::shared_ptr<Operation> ended = std::move(reply.operation);
    reply.operation = nullptr;
    ended->Complete(reason);
    return true;
  }
  const auto active = std::ranges::find_if(
      active_, [&](const IncomingPointer& each) { return each->operation.get() == &operation; });
  if (active == active_.end()) return false;
  FailIncoming(IncomingPointer(*active), reason, true);
  return true;
}

void Receiver::CheckTimeouts(TimePoint now) {
  const auto late = [now](double limit_seconds, TimePoint since) {
    return limit_seconds >= 0 && Seconds(now - since) > limit_seconds;
  };
  // A peer that lives, but does not deliver what it offered, holds our buffers.
  const double held_seconds = endpoint_.engine().settings().peer_timeout_seconds;
  for (const auto& [id, incoming] : incoming_) {
    const bool failed = incoming->status != CINCH_OK && incoming->fetching > 0;
    if (failed && late(held_seconds, incoming->last_activity)) {
      return endpoint_.Fail(CINCH_ERROR_TIMEOUT);
    }
  }
  std::vector<std::shared_ptr<Operation>> expired;
  for (const PostedReceive& each : posted_) {
    if (late(each.operation->options.timeout_seconds, each.posted_at)) {
      expired.push_back(each.operation);
    }
  }
  for (const auto& [id, reply] : reads_) {
    if (reply.operation && late(reply.operation->options.timeout_seconds, reply.last_activity)) {
      expired.push_back(reply.operation);
    }
  }
  for (const auto& operation : expired) static_cast<void>(Cancel(*operation, CINCH_ERROR_TIMEOUT));
  const double otherwise = endpoint_.engine().settings().operation_timeout_seconds;
  const std::vector<IncomingPointer> active = active_;
  for (const IncomingPointer& each : active) {
    const double limit = each->operation ? each->operation->options.timeout_seconds : otherwise;
    if (late(limit, each->last_activity)) FailIncoming(each, CINCH_ERROR_TIMEOUT, true);
  }
}

void Receiver::FailAll(Status reason) {
  for (const PostedReceive& each : posted_) each.operation->Complete(reason);
  posted_.clear();
  std::erase_if(waiting_, [](const IncomingPointer& each) { return !each->is_inline(); });
  const auto reads = std::move(reads_);
  reads_.clear();
  for (const auto& [id, reply] : reads) {
    if (reply.operation) reply.operation->Complete(reason);
    endpoint_.sender().OnReadEnded(id);
  }
  std::vector<IncomingPointer> all;
  for (const auto& [id, incoming] : incoming_) all.push_back(incoming);
  for (const IncomingPointer& incoming : all) {
    FailIncoming(incoming, reason, false);
    FinishIfDrained(incoming);
  }
}

void Receiver::Abandon() {
  std::vector<IncomingPointer> all;
  for (const auto& [id, incoming] : incoming_) all.push_back(incoming);
  for (const IncomingPointer& incoming : all) {
    incoming->fetching = 0;
    FinishIfDrained(incoming);
  }
}

}  // namespace cinch::transfer
