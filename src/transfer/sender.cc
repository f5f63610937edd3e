// SPDX-License-Identifier: Apache-2.0
// What begins and ends outgoing messages; send_segments.cc moves their data.
#include "transfer/sender.h"

#include <algorithm>

#include "base/log.h"
#include "transfer/endpoint.h"
#include "transfer/segment_plan.h"

namespace cinch::transfer {
namespace {

uint8_t ModeFlags(policy::Mode mode) {
  switch (mode) {
    case policy::Mode::kRaw:
      return kFlagRaw;
    case policy::Mode::kCompressed:
      return kFlagCompressed;
    case policy::Mode::kAuto:
      break;
  }
  return 0;
}

bool IsOneSided(const Outgoing& outgoing) {
  return outgoing.kind == Outgoing::Kind::kWrite || outgoing.kind == Outgoing::Kind::kReadRequest;
}

// All of a device is one codec.
policy::PolicyOptions DevicePolicyOptions(const Settings& settings) {
  constexpr double kBytesOfGigabit = 1e9 / 8;
  policy::PolicyOptions options;
  options.first_segment_bytes = kMinDeviceSegmentBytes;
  options.assumed_bytes_per_second = settings.device_codec_gbps > 0
                                         ? settings.device_codec_gbps * kBytesOfGigabit
                                         : kAssumedDeviceBytesPerSecond;
  options.handoff_seconds = kDeviceHandoffSeconds;
  return options;
}

bool Expired(const Outgoing& outgoing, TimePoint now) {
  return outgoing.timeout_seconds >= 0 &&
         Seconds(now - outgoing.last_activity) > outgoing.timeout_seconds;
}

}  // namespace

Sender::Sender(Endpoint& endpoint, const Settings& settings, const Hello& peer)
    : endpoint_(endpoint),
      settings_(settings),
      staging_(cinch_compress_bound(settings.segment_bytes)),
      peer_maps_memory_((peer.capabilities & kCapabilityShared) != 0),
      pacer_(settings.link_gbps),
      policy_({settings.codec_threads, std::max(peer.codec_threads, 1u), kMinSegmentBytes}),
      device_policy_(DevicePolicyOptions(settings)) {}

void Sender::Touch(Outgoing& outgoing) const {
  outgoing.last_activity = endpoint_.engine().coarse_now();
}

std::shared_ptr<Outgoing> Sender::Find(uint64_t id) const {
  const auto found = std::ranges::find(active_, id, [](const auto& each) { return each->id; });
  return found == active_.end() ? nullptr : *found;
}

Status Sender::Start(std::shared_ptr<Outgoing> outgoing) {
  Touch(*outgoing);
  if (outgoing->kind == Outgoing::Kind::kReply) {
    Begin(outgoing);
    return CINCH_OK;
  }
  if (messages_.size() + one_sided_.size() + active_.size() >= CINCH_MAX_PENDING_OPERATIONS) {
    return CINCH_ERROR_BUSY;
  }
  if (IsOneSided(*outgoing)) {
    one_sided_.push_back(std::move(outgoing));
  } else {
    outgoing->inline_payload =
        outgoing->total_bytes <= CINCH_INLINE_BYTES && !outgoing->pieces.on_device();
    messages_.push_back(std::move(outgoing));
  }
  Pump();
  return CINCH_OK;
}

bool Sender::MayReply(size_t pieces) const {
  // The peer counts its reads until their data are there, which is a little sooner than we know.
  constexpr uint64_t kSlack = 2;
  uint64_t replies = 0;
  for (const auto& each : active_) {
    if (each->kind != Outgoing::Kind::kReply) continue;
    ++replies;
    pieces += each->pieces.piece_count();
  }
  return replies < kSlack * kMaxOneSided && pieces <= kSlack * kMaxOneSidedPieces;
}

void Sender::Pump() {
  while (endpoint_.open() && !messages_.empty() && BeginMessages()) {
  }
  BeginOneSided();
  // A copy: what is posted may complete, and complete operations leave the list.
  const std::vector<std::shared_ptr<Outgoing>> active = active_;
  for (const auto& outgoing : active) {
    PostSegments(outgoing);
    while (StartSegment(outgoing)) {
    }
  }
}

// Begins the first waiting message; false when it has to wait on.
bool Sender::BeginMessages() {
  if (next_sequence_ - matched_messages_ >= kMaxUnmatchedMessages) return false;
  if (pacer_.paces() && pacer_.free_at() > Clock::now()) {
    endpoint_.engine().WakeAt(pacer_.free_at());
    return false;
  }
  const std::shared_ptr<Outgoing> outgoing = messages_.front();
  messages_.pop_front();
  Begin(outgoing);
  return true;
}

void Sender::BeginOneSided() {
  while (endpoint_.open() && !one_sided_.empty()) {
    const std::shared_ptr<Outgoing> outgoing = one_sided_.front();
    const uint64_t pieces = outgoing->remote.pieces;
    if (one_sided_running_ >= kMaxOneSided) return;
    if (one_sided_pieces_ + pieces > kMaxOneSidedPieces) return;
    one_sided_.pop_front();
    ++one_sided_running_;
    one_sided_pieces_ += pieces;
    Begin(outgoing);
  }
}

void Sender::Begin(const std::shared_ptr<Outgoing>& outgoing) {
  outgoing->id = next_id_++;
  outgoing->begun = true;
  if (outgoing->inline_payload) return BeginInline(outgoing);
  active_.push_back(outgoing);

  WireHeader header;
  header.id = outgoing->id;
  header.bytes = outgoing->total_bytes;
  header.dtype = static_cast<uint8_t>(outgoing->dtype);
  switch (outgoing->kind) {
    case Outgoing::Kind::kMessage:
      header.type = WireType::kMessage;
      header.offset = next_sequence_++;
      header.tag = outgoing->operation->options.tag;
      break;
    case Outgoing::Kind::kReply:
      header.type = WireType::kReply;
      header.offset = outgoing->read_id;
      outgoing->ready = true;  // The reader named its place when it asked.
      break;
    case Outgoing::Kind::kWrite:
      header.type = WireType::kWrite;
      break;
    case Outgoing::Kind::kReadRequest:
      header.type = WireType::kRead;
      header.flags = ModeFlags(outgoing->mode);
      if (endpoint_.receiver().ReachesShared(outgoing->pieces)) header.flags |= kFlagDevice;
      endpoint_.receiver().ExpectReply(outgoing);
      break;
  }
  if (outgoing->kind != Outgoing::Kind::kReadRequest) {
    if (outgoing->pieces.on_device()) {
      OpenDeviceStaging(outgoing->pieces.place().device);
      LearnDeviceSpeed(outgoing->pieces.place().device, peer_reaches_shared_);
    }
    last_on_device_ = outgoing->pieces.on_device();
    outgoing->plan = PolicyOf(*outgoing).Begin(
        {outgoing->mode, outgoing->dtype, outgoing->total_bytes, outgoing->name});
    if (outgoing->operation) outgoing->operation->chose_compression = outgoing->plan.compressed;
    LogPlan(*outgoing);
  }
  header.count = static_cast<uint32_t>(outgoing->remote.pieces);
  if (outgoing->remote.blocks) header.flags |= kFlagBlocks;
  const uint64_t list_bytes = outgoing->remote.bytes.size();
  ++outgoing->on_wire;
  const Status status = endpoint_.Post(header, outgoing->remote.bytes.data(), list_bytes,
                                       list_bytes > CINCH_INLINE_BYTES,
                                       [this, self = endpoint_.shared_from_this(),
                                        outgoing](Status done) { OnBegun(outgoing, done); });
  if (status != CINCH_IN_PROGRESS) OnBegun(outgoing, status);
}

void Sender::LogPlan(const Outgoing& outgoing) const {
  const policy::MessagePlan& plan = outgoing.plan;
  Log(LogLevel::kDebug,
      "message {} of {} bytes{}{}: {}; predicted raw {:.3f} ms, compressed {:.3f} ms at {:.3f} "
      "kept; link {:.2f}, encode {:.2f}, decode {:.2f} GB/s",
      outgoing.id, outgoing.total_bytes, outgoing.name.empty() ? "" : ", ", outgoing.name,
      plan.exploring    ? "raw, to see the link"
      : plan.compressed ? "compressed"
                        : "raw",
      plan.estimate.raw_seconds * 1e3, plan.estimate.compressed_seconds * 1e3, plan.kept_fraction,
      policy().link_bytes_per_second() / 1e9, policy().encode_bytes_per_second() / 1e9,
      policy().decode_bytes_per_second() / 1e9);
}

void Sender::BeginInline(const std::shared_ptr<Outgoing>& outgoing) {
  WireHeader header;
  header.type = WireType::kMessage;
  header.flags = kFlagInline;
  if (outgoing->operation->options.confirm) header.flags |= kFlagConfirm;
  header.dtype = static_cast<uint8_t>(outgoing->dtype);
  header.id = outgoing->id;
  header.bytes = outgoing->total_bytes;
  header.offset = next_sequence_++;
  header.tag = outgoing->operation->options.tag;
  const void* payload = outgoing->pieces.Contiguous(0, outgoing->total_bytes);
  if (payload == nullptr && outgoing->total_bytes > 0) {
    outgoing->inline_copy.resize(outgoing->total_bytes);
    outgoing->pieces.Gather(0, outgoing->total_bytes, outgoing->inline_copy.data());
    payload = outgoing->inline_copy.data();
  }
  const uint64_t wire_bytes = sizeof(header) + outgoing->total_bytes;
  if (pacer_.paces()) pacer_.Carry(wire_bytes, Clock::now());
  endpoint_.Measure(outgoing->operation.get(), [&](Metrics& metrics) {
    metrics.payload_bytes += outgoing->total_bytes;
    metrics.wire_bytes += wire_bytes;
    ++metrics.raw_segments;
  });
  outgoing->next_offset = outgoing->sent_bytes = outgoing->total_bytes;
  active_.push_back(outgoing);
  ++outgoing->on_wire;
  const Status status = endpoint_.Post(header, payload, outgoing->total_bytes, false,
                                       [this, self = endpoint_.shared_from_this(),
                                        outgoing](Status done) { OnBegun(outgoing, done); });
  if (status != CINCH_IN_PROGRESS) OnBegun(outgoing, status);
}

// The peer's transport has taken the header.
void Sender::OnBegun(const std::shared_ptr<Outgoing>& outgoing, Status status) {
  if (outgoing->on_wire == 0) return;  // Given up meanwhile.
  --outgoing->on_wire;
  if (status != CINCH_OK) {
    endpoint_.Fail(status);
    return FinishIfDone(outgoing);
  }
  const bool unconfirmed = outgoing->inline_payload && !outgoing->operation->options.confirm;
  if (unconfirmed && outgoing->result == CINCH_IN_PROGRESS) outgoing->result = CINCH_OK;
  FinishIfDone(outgoing);
}

void Sender::OnReady(const WireHeader& header) {
  const auto outgoing = Find(header.id);
  if (!outgoing) return;  // Cancelled meanwhile.
  outgoing->ready = true;
  outgoing->reaches_shared = (header.flags & kFlagDevice) != 0;
  peer_reaches_shared_ = outgoing->reaches_shared;
  Touch(*outgoing);
}

void Sender::OnDone(const WireHeader& header) {
  const auto outgoing = Find(header.id);
  if (!outgoing) return;
  const bool all_posted = outgoing->next_offset == outgoing->total_bytes && outgoing->queue.empty();
  if (outgoing->kind == Outgoing::Kind::kReadRequest ||
      (header.status == CINCH_OK && !all_posted)) {
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  constexpr double kSecondsPerNanosecond = 1e-9;
  if (header.bytes > 0) {
    PolicyOf(*outgoing).OnPeerDecoded(header.bytes,
                                      static_cast<double>(header.offset) * kSecondsPerNanosecond);
  }
  Touch(*outgoing);
  Decide(outgoing, static_cast<Status>(header.status));
}

void Sender::OnCredit(uint64_t matched_messages) {
  if (matched_messages < matched_messages_ || matched_messages > next_sequence_) {
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  matched_messages_ = matched_messages;
}

void Sender::OnReadEnded(uint64_t id) {
  const auto outgoing = Find(id);
  if (!outgoing) return;
  outgoing->result = CINCH_OK;  // The receiver has completed the operation itself.
  outgoing->operation = nullptr;
  FinishIfDone(outgoing);
}

// Nothing that is decided can be changed; what is in flight is waited for.
void Sender::Decide(const std::shared_ptr<Outgoing>& outgoing, Status result) {
  if (outgoing->result == CINCH_IN_PROGRESS) {
    outgoing->result = result;
    Touch(*outgoing);
  }
  if (outgoing->result != CINCH_OK) {
    DropQueue(*outgoing);
    if (outgoing->begun && !outgoing->aborted && endpoint_.open()) {
      outgoing->aborted = true;
      endpoint_.PostControl(WireType::kAbort, outgoing->id, outgoing->result);
    }
  }
  FinishIfDone(outgoing);
}

void Sender::FinishIfDone(const std::shared_ptr<Outgoing>& outgoing) {
  if (outgoing->result == CINCH_IN_PROGRESS || outgoing->on_wire > 0 || outgoing->coding > 0) {
    return;
  }
  if (std::erase(active_, outgoing) == 0) return;
  if (IsOneSided(*outgoing)) {
    --one_sided_running_;
    one_sided_pieces_ -= outgoing->remote.pieces;
  }
  outgoing->regions.clear();
  endpoint_.engine().NotifyWaiters();  // Somebody may wait for a region to be unused.
  if (outgoing->notify && outgoing->result == CINCH_OK) SendNotification(*outgoing->operation);
  if (outgoing->operation) outgoing->operation->Complete(outgoing->result);
  endpoint_.engine().MarkDirty(endpoint_.shared_from_this());
}

// An empty message of its own: nobody waits for it.
void Sender::SendNotification(const Operation& operation) {
  OperationOptions options;
  options.tag = operation.options.tag;
  options.timeout_seconds = operation.options.timeout_seconds;
  auto message = std::make_shared<Outgoing>();
  message->operation = std::make_shared<Operation>(OperationKind::kSend, operation.engine(),
                                                   operation.endpoint(), std::move(options));
  message->timeout_seconds = operation.options.timeout_seconds;
  message->inline_payload = true;
  Touch(*message);
  messages_.push_back(std::move(message));
}

bool Sender::Cancel(const Operation& operation, Status reason) {
  const auto is_it = [&](const auto& each) { return each->operation.get() == &operation; };
  for (auto* waiting : {&messages_, &one_sided_}) {
    const auto found = std::ranges::find_if(*waiting, is_it);
    if (found == waiting->end()) continue;
    const std::shared_ptr<Outgoing> outgoing = *found;
    waiting->erase(found);
    outgoing->operation->Complete(reason);
    return true;
  }
  const auto found = std::ranges::find_if(active_, is_it);
  if (found == active_.end()) return false;
  const std::shared_ptr<Outgoing> outgoing = *found;
  if (outgoing->kind == Outgoing::Kind::kReadRequest) return false;  // The receiver's business.
  Decide(outgoing, reason);
  return true;
}

void Sender::CheckTimeouts(TimePoint now) {
  // A peer that lives, but neither fetches nor refuses what was offered, holds our buffers.
  const auto held = [&](const auto& each) {
    return each->result != CINCH_IN_PROGRESS && each->on_wire > 0 &&
           Seconds(now - each->last_activity) > settings_.peer_timeout_seconds;
  };
  if (std::ranges::any_of(active_, held)) return endpoint_.Fail(CINCH_ERROR_TIMEOUT);
  std::vector<std::shared_ptr<Outgoing>> expired;
  const auto collect = [&](const auto& list) {
    for (const auto& each : list) {
      if (Expired(*each, now) && each->result == CINCH_IN_PROGRESS) expired.push_back(each);
    }
  };
  collect(messages_);
  collect(one_sided_);
  collect(active_);
  for (const auto& outgoing : expired) {
    if (outgoing->operation) {
      static_cast<void>(Cancel(*outgoing->operation, CINCH_ERROR_TIMEOUT));
    } else {
      Decide(outgoing, CINCH_ERROR_TIMEOUT);
    }
  }
}

void Sender::FailAll(Status reason) {
  for (auto* waiting : {&messages_, &one_sided_}) {
    for (const auto& each : *waiting) each->operation->Complete(reason);
    waiting->clear();
  }
  const std::vector<std::shared_ptr<Outgoing>> active = active_;
  for (const auto& each : active) {
    // A read ends in the receiver, which has the memory it goes to.
    if (each->kind != Outgoing::Kind::kReadRequest) Decide(each, reason);
  }
}

void Sender::Abandon() {
  const std::vector<std::shared_ptr<Outgoing>> active = active_;
  for (const auto& each : active) {
    each->on_wire = 0;
    each->left.clear();
    FinishIfDone(each);
  }
}

}  // namespace cinch::transfer
