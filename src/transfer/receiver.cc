// SPDX-License-Identifier: Apache-2.0
// What begins and matches incoming messages; receive_segments.cc moves their data and ends them.
#include "transfer/receiver.h"

#include <algorithm>
#include <cstring>

#include "transfer/endpoint.h"

namespace cinch::transfer {
namespace {

bool TagFits(uint64_t sent, uint64_t tag, uint64_t mask) { return (sent & mask) == (tag & mask); }

bool NamesDtype(cinch_dtype dtype) {
  return dtype != CINCH_DTYPE_BYTES && dtype != CINCH_DTYPE_AUTO;
}

policy::Mode ModeOfFlags(uint8_t flags, policy::Mode otherwise) {
  if ((flags & kFlagRaw) != 0) return policy::Mode::kRaw;
  return (flags & kFlagCompressed) != 0 ? policy::Mode::kCompressed : otherwise;
}

}  // namespace

Receiver::Receiver(Endpoint& endpoint, uint64_t peer_segment_bytes)
    : endpoint_(endpoint),
      peer_segment_bytes_(peer_segment_bytes),
      staging_(cinch_compress_bound(peer_segment_bytes)) {}

Receiver::IncomingPointer Receiver::Find(uint64_t id) const {
  const auto found = incoming_.find(id);
  return found == incoming_.end() ? nullptr : found->second;
}

// Ids only ever grow; anything else would let a peer confuse two messages.
bool Receiver::CheckId(uint64_t id) {
  if (id <= last_id_) return false;
  last_id_ = id;
  return true;
}

void Receiver::OnBegin(const WireHeader& header, const Payload& payload) {
  if (!CheckId(header.id)) {
    if (payload.pending != nullptr) endpoint_.engine().backend().Drop(payload);
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  auto incoming = std::make_shared<Incoming>();
  incoming->header = header;
  incoming->last_activity = endpoint_.engine().coarse_now();
  switch (header.type) {
    case WireType::kMessage:
      return BeginMessage(incoming, payload);
    case WireType::kWrite:
      return BeginWrite(incoming, payload);
    default:
      return BeginReply(incoming);
  }
}

void Receiver::BeginMessage(const IncomingPointer& incoming, const Payload& payload) {
  const WireHeader& header = incoming->header;
  const bool in_order = header.offset == next_sequence_;
  // A payload that comes with the header is small enough to come at once.
  const bool whole = payload.pending == nullptr;
  if (!in_order || !whole || waiting_.size() >= kMaxUnmatchedMessages) {
    if (!whole) endpoint_.engine().backend().Drop(payload);
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  ++next_sequence_;
  if (payload.bytes > 0) {
    incoming->bytes_here.assign(payload.data, payload.data + payload.bytes);
  }
  if (!incoming->is_inline()) incoming_[header.id] = incoming;
  waiting_.push_back(incoming);
  Match(incoming);
  endpoint_.engine().NotifyWaiters();  // Somebody may be probing.
}

void Receiver::BeginWrite(const IncomingPointer& incoming, const Payload& payload) {
  one_sided_pieces_ += incoming->header.count;
  if (++one_sided_running_ > kMaxOneSided || one_sided_pieces_ > kMaxOneSidedPieces) {
    if (payload.pending != nullptr) endpoint_.engine().backend().Drop(payload);
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  incoming->state = Incoming::State::kResolving;
  incoming_[incoming->header.id] = incoming;
  const auto list = std::shared_ptr<std::vector<uint8_t>>(incoming, &incoming->bytes_here);
  FetchList(list, payload, [this, incoming] { ResolveWrite(incoming); });
}

// Reads the list of a write or read and finds the memory that it names. OK, PROTOCOL, REGION.
Status Receiver::ResolveList(const WireHeader& header, const std::vector<uint8_t>& list,
                             uint32_t access, PieceList& memory, std::vector<RegionUse>& uses) {
  const RegionTable& regions = endpoint_.engine().regions();
  if ((header.flags & kFlagBlocks) != 0) {
    std::vector<ParsedBlocks> runs;
    CINCH_RETURN_IF_ERROR(ParseWireBlocks(list, header.count, header.bytes, runs));
    return regions.ResolveBlocks(runs, access, memory, uses);
  }
  std::vector<WirePiece> pieces;
  CINCH_RETURN_IF_ERROR(ParseWirePieces(list, header.bytes, pieces));
  return regions.Resolve(pieces, access, memory, uses);
}

void Receiver::ResolveWrite(const IncomingPointer& incoming) {
  if (!endpoint_.open() || incoming->status != CINCH_OK) return FinishIfDrained(incoming);
  const Status status = ResolveList(incoming->header, incoming->bytes_here, CINCH_REGION_WRITE,
                                    incoming->destination, incoming->regions);
  if (status == CINCH_ERROR_PROTOCOL) return endpoint_.Fail(status);
  incoming->bytes_here = {};
  if (status != CINCH_OK) return FailIncoming(incoming, status, true);
  Activate(incoming);
}

void Receiver::BeginReply(const IncomingPointer& incoming) {
  const auto found = reads_.find(incoming->header.offset);
  if (found == reads_.end() || incoming->header.bytes != found->second.total_bytes) {
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  ExpectedReply reply = std::move(found->second);
  reads_.erase(found);
  incoming_[incoming->header.id] = incoming;
  if (reply.cancelled != CINCH_OK) return FailIncoming(incoming, reply.cancelled, true);
  incoming->operation = std::move(reply.operation);
  incoming->operation->message_bytes = incoming->header.bytes;
  incoming->operation->message_dtype = static_cast<cinch_dtype>(incoming->header.dtype);
  incoming->destination = std::move(reply.destination);
  Activate(incoming);
}

void Receiver::OnReadRequest(const WireHeader& header, const Payload& payload) {
  one_sided_pieces_ += header.count;
  if (!CheckId(header.id) || ++one_sided_running_ > kMaxOneSided ||
      one_sided_pieces_ > kMaxOneSidedPieces) {
    if (payload.pending != nullptr) endpoint_.engine().backend().Drop(payload);
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  const auto list = std::make_shared<std::vector<uint8_t>>();
  FetchList(list, payload, [this, header, list] {
    --one_sided_running_;
    one_sided_pieces_ -= header.count;
    if (endpoint_.open()) ServeRead(header, *list);
  });
}

void Receiver::ServeRead(const WireHeader& header, const std::vector<uint8_t>& list) {
  auto reply = std::make_shared<Outgoing>();
  Engine& engine = endpoint_.engine();
  Status status = ResolveList(header, list, CINCH_REGION_READ, reply->pieces, reply->regions);
  if (status == CINCH_ERROR_PROTOCOL) return endpoint_.Fail(status);
  if (status == CINCH_OK && !endpoint_.sender().MayReply(header.count)) status = CINCH_ERROR_BUSY;
  if (status != CINCH_OK) return endpoint_.PostControl(WireType::kReadFailed, header.id, status);
  reply->kind = Outgoing::Kind::kReply;
  reply->read_id = header.id;
  reply->reaches_shared = (header.flags & kFlagDevice) != 0;
  reply->total_bytes = header.bytes;
  reply->dtype = static_cast<cinch_dtype>(header.dtype);
  reply->mode = ModeOfFlags(header.flags, engine.settings().policy);
  reply->timeout_seconds = engine.settings().operation_timeout_seconds;
  static_cast<void>(endpoint_.sender().Start(std::move(reply)));  // Replies are always taken.
}

// Brings a list of pieces here, then calls `then`; not when that fails, which ends the endpoint.
void Receiver::FetchList(const std::shared_ptr<std::vector<uint8_t>>& list, const Payload& payload,
                         const std::function<void()>& then) {
  if (payload.pending == nullptr) {
    if (payload.bytes > 0) list->assign(payload.data, payload.data + payload.bytes);
    return then();
  }
  list->resize(payload.bytes);
  const auto done = [this, self = endpoint_.shared_from_this(), list, then](Status status) {
    if (status != CINCH_OK) return endpoint_.Fail(status);
    then();
    endpoint_.engine().MarkDirty(self);
  };
  const Status status = endpoint_.engine().backend().Fetch(payload, list->data(), done);
  if (status != CINCH_IN_PROGRESS) done(status);
}

Status Receiver::Post(const std::shared_ptr<Operation>& operation, PieceList pieces) {
  for (const IncomingPointer& incoming : waiting_) {
    if (!TagFits(incoming->header.tag, operation->options.tag, operation->options.tag_mask)) {
      continue;
    }
    if (!endpoint_.open() && !incoming->is_inline()) continue;
    static_cast<void>(TryMatch(operation, pieces, IncomingPointer(incoming)));
    return CINCH_OK;
  }
  if (!endpoint_.open()) return endpoint_.state();
  if (posted_.size() + incoming_.size() >= CINCH_MAX_PENDING_OPERATIONS) return CINCH_ERROR_BUSY;
  posted_.push_back({operation, std::move(pieces), endpoint_.engine().coarse_now()});
  return CINCH_OK;
}

bool Receiver::Peek(uint64_t tag, uint64_t tag_mask, cinch_message_info& info) const {
  for (const IncomingPointer& incoming : waiting_) {
    if (!TagFits(incoming->header.tag, tag, tag_mask)) continue;
    if (!endpoint_.open() && !incoming->is_inline()) continue;
    info.bytes = incoming->header.bytes;
    info.tag = incoming->header.tag;
    info.dtype = static_cast<cinch_dtype>(incoming->header.dtype);
    return true;
  }
  return false;
}

// Gives a waiting message to a receive whose tag fits. False: the receive has failed and the
// message still waits.
bool Receiver::TryMatch(const std::shared_ptr<Operation>& operation, PieceList& pieces,
                        const IncomingPointer& incoming) {
  const WireHeader& header = incoming->header;
  const auto dtype = static_cast<cinch_dtype>(header.dtype);
  operation->message_bytes = header.bytes;
  operation->message_tag = header.tag;
  operation->message_dtype = dtype;
  if (NamesDtype(operation->options.dtype) && NamesDtype(dtype) &&
      operation->options.dtype != dtype) {
    operation->Complete(CINCH_ERROR_DTYPE_MISMATCH);
    return false;
  }
  if (header.bytes > pieces.total_bytes()) {
    operation->Complete(CINCH_ERROR_MESSAGE_TOO_LARGE);
    return false;
  }
  std::erase(waiting_, incoming);
  CountMatched();
  incoming->operation = operation;
  incoming->destination = std::move(pieces);
  incoming->last_activity = endpoint_.engine().coarse_now();
  Activate(incoming);
  return true;
}

// Looks for a receive that was posted before the message came.
void Receiver::Match(const IncomingPointer& incoming) {
  const auto fits = [&](const PostedReceive& each) {
    return TagFits(incoming->header.tag, each.operation->options.tag,
                   each.operation->options.tag_mask);
  };
  while (true) {
    const auto found = std::ranges::find_if(posted_, fits);
    if (found == posted_.end()) return;
    PostedReceive receive = std::move(*found);
    posted_.erase(found);
    if (TryMatch(receive.operation, receive.pieces, incoming)) return;
  }
}

void Receiver::CountMatched() {
  ++matched_messages_;
  if (matched_messages_ - reported_messages_ < kMaxUnmatchedMessages / 4) return;
  reported_messages_ = matched_messages_;
  WireHeader header;
  header.type = WireType::kCredit;
  header.bytes = matched_messages_;
  if (endpoint_.open()) endpoint_.PostControl(header);
}

// The data have a place now.
void Receiver::Activate(const IncomingPointer& incoming) {
  incoming->state = Incoming::State::kActive;
  if (incoming->is_inline()) return ActivateInline(incoming);
  active_.push_back(incoming);
  if (incoming->header.bytes == 0) return Finish(incoming);
  if (incoming->header.type != WireType::kReply) {
    WireHeader header;
    header.type = WireType::kReady;
    header.id = incoming->header.id;
    if (ReachesShared(incoming->destination)) header.flags = kFlagDevice;
    endpoint_.PostControl(header);
  }
  endpoint_.engine().MarkDirty(endpoint_.shared_from_this());
}

void Receiver::ActivateInline(const IncomingPointer& incoming) {
  const uint64_t bytes = incoming->bytes_here.size();
  endpoint_.Measure(incoming->operation.get(), [&](Metrics& metrics) {
    metrics.wire_bytes += bytes + sizeof(WireHeader);
    ++metrics.raw_segments;
  });
  ArrivedSegment whole;
  whole.bytes = bytes;
  whole.payload.data = incoming->bytes_here.data();
  whole.payload.bytes = bytes;
  if (bytes > 0 && incoming->destination.on_device()) {
    active_.push_back(incoming);
    incoming_[incoming->header.id] = incoming;
    return SubmitDecode(incoming, whole);
  }
  incoming->destination.Scatter(0, bytes, incoming->bytes_here.data());
  Advance(incoming, whole);
}

void Receiver::ExpectReply(const std::shared_ptr<Outgoing>& request) {
  reads_[request->id] = {request->operation, request->pieces, request->total_bytes,
                         endpoint_.engine().coarse_now(), CINCH_OK};
}

}  // namespace cinch::transfer
