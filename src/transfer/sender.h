// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "policy/message_policy.h"
#include "transfer/codec_pool.h"
#include "transfer/device_runtime.h"
#include "transfer/handshake_message.h"
#include "transfer/operation.h"
#include "transfer/pacer.h"
#include "transfer/piece_list.h"
#include "transfer/region_table.h"
#include "transfer/settings.h"
#include "transfer/staging.h"
#include "transfer/wire.h"

namespace cinch::transfer {

class Endpoint;

/// Messages sent and not yet matched by a receive, at most: what the peer must be able to hold.
inline constexpr uint64_t kMaxUnmatchedMessages = 256;
/// Writes and reads under way from one side, at most, and pieces in all of them.
inline constexpr uint64_t kMaxOneSided = 16;
inline constexpr uint64_t kMaxOneSidedPieces = CINCH_MAX_PIECES;

struct Outgoing;

/// The peer's memory that a write or read names, as it travels.
struct RemoteList {
  std::vector<uint8_t> bytes;
  uint64_t pieces = 0;
  bool blocks = false;  ///< A list of blocks instead of pieces.
};

/// A part of an outgoing message on its way.
struct OutgoingSegment {
  enum class State { kCoding, kReady, kCarried, kOnWire };
  std::shared_ptr<Outgoing> owner;
  State state = State::kCoding;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool frame = false;
  bool shared = false;  ///< The payload is left in memory that the peer's device reads.
  const void* payload = nullptr;
  uint64_t payload_bytes = 0;
  Staging::Slot* slot = nullptr;
  TimePoint ready_at{};
  TimePoint through_at{};  // When the pacer lets it through.
};

/// Something that goes to the peer: a message, a write, the reply to a read, or the request of one
/// (which has no data of its own).
struct Outgoing {
  enum class Kind { kMessage, kWrite, kReply, kReadRequest };
  Kind kind = Kind::kMessage;
  uint64_t id = 0;
  std::shared_ptr<Operation> operation;  ///< Null for a reply.
  PieceList pieces;                      ///< The data; for a read request where they go.
  RemoteList remote;                     ///< Of a write or read.
  bool notify = false;                   ///< Of a write: an empty message follows it.
  std::vector<RegionUse> regions;        ///< Of a reply.
  uint64_t read_id = 0;                  ///< Of a reply.
  uint64_t total_bytes = 0;
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  policy::Mode mode = policy::Mode::kAuto;
  std::string name;
  double timeout_seconds = 0;

  bool inline_payload = false;
  std::vector<uint8_t> inline_copy;   ///< When the pieces of an inline message are several.
  bool begun = false;                 ///< The peer knows of it.
  bool ready = false;                 ///< The peer has a place for it,
  bool reaches_shared = false;        ///< which reads our shared device memory.
  bool aborted = false;               ///< The peer was told that nothing more comes.
  Status result = CINCH_IN_PROGRESS;  ///< Decided, though things may still be in flight.
  policy::MessagePlan plan;
  uint64_t next_offset = 0;
  uint64_t sent_bytes = 0;  ///< Original bytes that the peer has fetched.
  std::deque<std::shared_ptr<OutgoingSegment>> queue;  ///< Coded or being coded, in order.
  std::vector<std::shared_ptr<OutgoingSegment>> left;  ///< Shared ones that are not taken yet.
  uint32_t coding = 0;
  uint32_t on_wire = 0;
  TimePoint last_activity{};
};

/// The sending direction of an endpoint. Needs the engine's lock.
class Sender {
 public:
  Sender(Endpoint& endpoint, const Settings& settings, const Hello& peer);

  /// Takes what goes out. A small message may be complete on return.
  /// OK, BUSY.
  [[nodiscard]] Status Start(std::shared_ptr<Outgoing> outgoing);
  /// Whether one more reply, of so many pieces, can be taken: honest peers never ask for more.
  [[nodiscard]] bool MayReply(size_t pieces) const;
  /// A read that was requested has ended.
  void OnReadEnded(uint64_t id);
  /// False: it is not here.
  bool Cancel(const Operation& operation, Status reason);

  void OnReady(const WireHeader& header);
  void OnTaken(const WireHeader& header);
  void OnDone(const WireHeader& header);
  void OnCredit(uint64_t matched_messages);

  void Pump();
  void CheckTimeouts(TimePoint now);
  void FailAll(Status reason);
  /// The link is gone: what was on it will not be heard of again.
  void Abandon();
  [[nodiscard]] bool idle() const {
    return active_.empty() && messages_.empty() && one_sided_.empty();
  }

  /// The policy of host or of device memory, whichever was asked last.
  [[nodiscard]] const policy::MessagePolicy& policy() const {
    return last_on_device_ ? device_policy_ : policy_;
  }

 private:
  class EncodeJob;
  class DeviceEncodeJob;

  [[nodiscard]] bool BeginMessages();
  void BeginOneSided();
  void Begin(const std::shared_ptr<Outgoing>& outgoing);
  void LogPlan(const Outgoing& outgoing) const;
  void BeginInline(const std::shared_ptr<Outgoing>& outgoing);
  void OnBegun(const std::shared_ptr<Outgoing>& outgoing, Status status);
  [[nodiscard]] bool StartSegment(const std::shared_ptr<Outgoing>& outgoing);
  [[nodiscard]] bool MayStart(const Outgoing& outgoing);
  [[nodiscard]] Staging& StagingOf(const Outgoing& outgoing);
  [[nodiscard]] policy::MessagePolicy& PolicyOf(const Outgoing& outgoing);
  void SubmitDeviceJob(const std::shared_ptr<OutgoingSegment>& segment, uint8_t* buffer,
                       size_t capacity_bytes);
  void PostShared(const std::shared_ptr<OutgoingSegment>& segment, WireHeader header);
  void OpenDeviceStaging(int device);
  void LearnDeviceSpeed(int device, bool shared);
  void ShareDeviceMemory(int device);
  void OnCoded(const std::shared_ptr<OutgoingSegment>& segment, Status status, uint64_t frame_bytes,
               bool coded, double seconds);
  void PostSegments(const std::shared_ptr<Outgoing>& outgoing);
  [[nodiscard]] bool PassPacer(OutgoingSegment& segment);
  void PostSegment(const std::shared_ptr<OutgoingSegment>& segment);
  void OnSegmentSent(const std::shared_ptr<OutgoingSegment>& segment, Status status);
  void DropQueue(Outgoing& outgoing);
  void Decide(const std::shared_ptr<Outgoing>& outgoing, Status result);
  void SendNotification(const Operation& operation);
  void FinishIfDone(const std::shared_ptr<Outgoing>& outgoing);
  [[nodiscard]] std::shared_ptr<Outgoing> Find(uint64_t id) const;
  void Touch(Outgoing& outgoing) const;

  Endpoint& endpoint_;
  const Settings& settings_;
  Staging staging_;
  std::unique_ptr<Staging> pinned_staging_;  // Of device memory, once it is needed.
  std::unique_ptr<Staging> shared_staging_;  // Null unless the peer may reach it.
  int shared_device_ = -1;
  bool share_tried_ = false;
  bool peer_reaches_shared_ = false;  // As of its last message.
  const bool peer_maps_memory_;
  Pacer pacer_;
  policy::MessagePolicy policy_;
  policy::MessagePolicy device_policy_;
  bool last_on_device_ = false;
  enum class SpeedOf { kNothing, kPinned, kShared } device_speed_ = SpeedOf::kNothing;
  uint64_t next_id_ = 1;
  uint64_t next_sequence_ = 0;     // Of messages begun.
  uint64_t matched_messages_ = 0;  // As the peer reports.
  uint64_t one_sided_running_ = 0;
  uint64_t one_sided_pieces_ = 0;
  std::deque<std::shared_ptr<Outgoing>> messages_;   // Not begun: waiting for credit.
  std::deque<std::shared_ptr<Outgoing>> one_sided_;  // Not begun: waiting for their turn.
  std::vector<std::shared_ptr<Outgoing>> active_;    // Begun, in order.
  TimePoint last_sent_at_{};                         // When the wire last finished something.
};

}  // namespace cinch::transfer
