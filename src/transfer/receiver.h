// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transfer/backend.h"
#include "transfer/codec_pool.h"
#include "transfer/device_runtime.h"
#include "transfer/operation.h"
#include "transfer/piece_list.h"
#include "transfer/region_table.h"
#include "transfer/sender.h"
#include "transfer/staging.h"
#include "transfer/wire.h"

namespace cinch::transfer {

class Endpoint;

/// A segment that was announced and is still at the peer, or on its way from there.
struct ArrivedSegment {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool frame = false;
  bool shared = false;         ///< It lies in the device memory that the peer shares,
  uint64_t shared_offset = 0;  ///< here.
  Payload payload;
  Staging::Slot* slot = nullptr;
};

/// A message, write or reply that comes in.
struct Incoming {
  enum class State {
    kWaiting,    ///< A message without a receive.
    kResolving,  ///< A write whose list of pieces is being fetched.
    kActive,     ///< Its data have a place.
    kDropping,   ///< It failed here; what still arrives is dropped until the sender stops.
  };
  WireHeader header;
  State state = State::kWaiting;
  std::vector<uint8_t> bytes_here;  ///< An inline message's payload, or a write's list.
  std::shared_ptr<Operation> operation;
  PieceList destination;
  std::vector<RegionUse> regions;
  std::deque<ArrivedSegment> pending;
  uint64_t arrived_bytes = 0;  ///< Where the next segment must begin.
  uint64_t done_bytes = 0;
  uint32_t fetching = 0;
  uint32_t decoding = 0;
  Status status = CINCH_OK;  ///< Why it fails.
  bool aborted = false;      ///< The sender sends nothing more.
  uint64_t decoded_bytes = 0;
  double decode_seconds = 0;
  TimePoint last_activity{};

  [[nodiscard]] bool is_inline() const { return (header.flags & kFlagInline) != 0; }
};

/// The receiving direction of an endpoint. Needs the engine's lock.
class Receiver {
 public:
  Receiver(Endpoint& endpoint, uint64_t peer_segment_bytes);

  /// Posts a receive. Messages that are wholly here can be taken even after the connection ended.
  /// OK, BUSY, or the endpoint's state.
  [[nodiscard]] Status Post(const std::shared_ptr<Operation>& operation, PieceList pieces);
  /// The first message that waits and fits; false when there is none.
  [[nodiscard]] bool Peek(uint64_t tag, uint64_t tag_mask, cinch_message_info& info) const;
  /// False: the operation is not here.
  bool Cancel(const Operation& operation, Status reason);
  /// A read has been asked for; its reply goes where `request` says.
  void ExpectReply(const std::shared_ptr<Outgoing>& request);

  void OnBegin(const WireHeader& header, const Payload& payload);
  void OnReadRequest(const WireHeader& header, const Payload& payload);
  void OnSegment(const WireHeader& header, const Payload& payload);
  void OnAbort(const WireHeader& header);
  void OnShare(const WireHeader& header, const Payload& payload);
  void OnReadFailed(const WireHeader& header);

  void Pump();
  void CheckTimeouts(TimePoint now);
  void FailAll(Status reason);
  /// The link is gone: what was being fetched will not be heard of again.
  void Abandon();
  /// Whether the peer may leave segments for `destination` in the memory that it shares. Maps that
  /// memory when it is asked for the first time.
  [[nodiscard]] bool ReachesShared(const PieceList& destination);
  /// Only messages that are wholly here are left.
  [[nodiscard]] bool idle() const { return incoming_.empty() && reads_.empty(); }

 private:
  class DecodeJob;
  class DeviceDecodeJob;
  using IncomingPointer = std::shared_ptr<Incoming>;

  struct PostedReceive {
    std::shared_ptr<Operation> operation;
    PieceList pieces;
    TimePoint posted_at;
  };

  /// A read that waits for its reply.
  struct ExpectedReply {
    std::shared_ptr<Operation> operation;
    PieceList destination;
    uint64_t total_bytes = 0;
    TimePoint last_activity;
    Status cancelled = CINCH_OK;  // The operation has ended; the reply will be refused.
  };

  // Beginnings.
  [[nodiscard]] bool CheckId(uint64_t id);
  void BeginMessage(const IncomingPointer& incoming, const Payload& payload);
  void BeginWrite(const IncomingPointer& incoming, const Payload& payload);
  [[nodiscard]] Status ResolveList(const WireHeader& header, const std::vector<uint8_t>& list,
                                   uint32_t access, PieceList& memory,
                                   std::vector<RegionUse>& uses);
  void BeginReply(const IncomingPointer& incoming);
  void ResolveWrite(const IncomingPointer& incoming);
  void ServeRead(const WireHeader& header, const std::vector<uint8_t>& list);
  void FetchList(const std::shared_ptr<std::vector<uint8_t>>& list, const Payload& payload,
                 const std::function<void()>& then);

  // Matching.
  [[nodiscard]] bool TryMatch(const std::shared_ptr<Operation>& operation, PieceList& pieces,
                              const IncomingPointer& incoming);
  void Match(const IncomingPointer& incoming);
  void CountMatched();
  void Activate(const IncomingPointer& incoming);

  // Data.
  [[nodiscard]] bool FetchNext(const IncomingPointer& incoming);
  void OnFetched(const IncomingPointer& incoming, const ArrivedSegment& segment, Status status);
  void OnDecoded(const IncomingPointer& incoming, const ArrivedSegment& segment, Status status,
                 double seconds);
  void Advance(const IncomingPointer& incoming, const ArrivedSegment& segment);
  void DropSegment(const Incoming& incoming, const ArrivedSegment& segment);
  void TellTaken(const Incoming& incoming, const ArrivedSegment& segment);
  void SubmitDeviceJob(const IncomingPointer& incoming, const ArrivedSegment& segment);
  [[nodiscard]] bool SharedRangeIsValid(const WireHeader& header) const;
  void SubmitDecode(const IncomingPointer& incoming, const ArrivedSegment& segment);
  void ActivateInline(const IncomingPointer& incoming);
  [[nodiscard]] Staging& StagingOf(const PieceList& destination);

  // Ends.
  void Finish(const IncomingPointer& incoming);
  void FailIncoming(const IncomingPointer& incoming, Status reason, bool tell_peer);
  void FinishIfDrained(const IncomingPointer& incoming);
  void EndOperation(const IncomingPointer& incoming, Status status);
  void DropPending(Incoming& incoming);
  [[nodiscard]] IncomingPointer Find(uint64_t id) const;

  Endpoint& endpoint_;
  const uint64_t peer_segment_bytes_;
  Staging staging_;
  std::unique_ptr<Staging> pinned_staging_;  // For device memory, once it is needed.
  DeviceExport offered_;                     // The peer's device memory; no bytes: none.
  std::unique_ptr<DeviceBuffer> mapped_;     // The same, once it is mapped,
  int mapped_device_ = -1;                   // for this device.
  uint64_t last_id_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t matched_messages_ = 0;
  uint64_t reported_messages_ = 0;
  uint64_t pending_segments_ = 0;
  uint64_t dropping_ = 0;           // Messages in state kDropping.
  uint64_t one_sided_running_ = 0;  // Writes, and reads whose lists are being fetched,
  uint64_t one_sided_pieces_ = 0;   // and the pieces of all of them.
  std::list<PostedReceive> posted_;
  std::deque<IncomingPointer> waiting_;  // Messages without a receive, in order.
  std::vector<IncomingPointer> active_;  // In the order in which they got their place.
  std::unordered_map<uint64_t, IncomingPointer> incoming_;  // All that can still change, by id.
  std::unordered_map<uint64_t, ExpectedReply> reads_;       // By the request's id.
};

}  // namespace cinch::transfer
