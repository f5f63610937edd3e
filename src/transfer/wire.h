// SPDX-License-Identifier: Apache-2.0
// The header of every message between two connected engines. docs/transfer.md describes who sends
// what when; this file owns the layout.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "cinch/codec.h"
#include "cinch/transfer.h"

namespace cinch::transfer {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian, unswapped");

inline constexpr uint32_t kWireMagic = 0x58434E43;  // "CNCX"
inline constexpr uint8_t kWireVersion = 1;

enum class WireType : uint8_t {
  kGreeting = 1,     ///< The path works in this direction.
  kMessage = 2,      ///< A message begins; its payload is here (inline) or follows in segments.
  kWrite = 3,        ///< A write begins; the payload is the list of pieces.
  kRead = 4,         ///< Asks for a reply; the payload is the list of pieces.
  kReply = 5,        ///< The data of a read begin.
  kSegment = 6,      ///< A part of a message, write or reply.
  kReady = 7,        ///< The receiver has a place for the message.
  kDone = 8,         ///< The receiver has everything, or gave up.
  kAbort = 9,        ///< The sender gave up, or confirms that it heard a failed kDone.
  kReadFailed = 10,  ///< There will be no reply.
  kCredit = 11,      ///< So many messages have found their receive.
  kHeartbeat = 12,
  kGoodbye = 13,  ///< The sender closes the connection in good order.
  kShare = 14,    ///< Names device memory that segments may be left in; the payload is its name.
  kTaken = 15,    ///< A segment that was left there has been taken: its place is free.
};

enum WireFlags : uint8_t {
  kFlagInline = 1,   ///< kMessage: the payload is the whole message.
  kFlagConfirm = 2,  ///< kMessage: kDone is wanted even for an inline message.
  kFlagFrame = 4,    ///< kSegment: the payload is a frame; otherwise it is the bytes themselves.
  kFlagRaw = 8,      ///< kRead: the reader pins raw,
  kFlagCompressed = 16,  ///< kRead: or compressed; at most one of them.
  kFlagDevice = 32,      ///< kReady, kRead: segments may be left in the shared device memory.
                         ///< kSegment: the payload was left there, at `tag`.
  kFlagBlocks = 64,      ///< kWrite, kRead: the payload is a list of blocks instead of pieces.
};

/// One layout for all types; a field that a type does not use is zero.
struct WireHeader {
  uint32_t magic = kWireMagic;
  uint8_t version = kWireVersion;
  WireType type{};
  uint8_t dtype = 0;  ///< kMessage, kWrite, kReply.
  uint8_t flags = 0;
  uint64_t session = 0;  ///< The receiver's name for this connection,
  uint64_t token = 0;    ///< and the proof that it was told to the sender in the handshake.
  uint64_t id = 0;       ///< Which message, write, read or reply of this direction.
  uint64_t bytes = 0;  ///< Size of the whole; of the segment; kDone: bytes decoded; kCredit: count.
  uint64_t offset = 0;  ///< kMessage: position in the order; kReply: id of the read;
                        ///< kSegment, kTaken: place in the whole; kDone: nanoseconds of decoding.
  uint64_t tag = 0;     ///< kMessage; kSegment with kFlagDevice: where in the shared memory.
  uint32_t count = 0;   ///< kWrite, kRead: pieces; kSegment: bytes of the payload.
  int32_t status = 0;   ///< kDone, kAbort, kReadFailed.
};
static_assert(sizeof(WireHeader) == 64 && std::is_trivially_copyable_v<WireHeader>);

/// A piece of a peer's region, as in the payload of kWrite and kRead.
struct WirePiece {
  uint64_t region_id = 0;
  uint64_t region_key = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(WirePiece) == 32 && std::is_trivially_copyable_v<WirePiece>);

/// The payload of kShare: a DeviceExport.
inline constexpr uint64_t kShareBytes = 104;

/// Blocks of a peer's region: in a list of blocks, `id_count` u32 ids follow, and zeroes up to a
/// multiple of 8 bytes; then the next run. Each block is a piece.
struct WireBlocks {
  uint64_t region_id = 0;
  uint64_t region_key = 0;
  uint64_t offset = 0;  ///< Of block 0.
  uint64_t block_bytes = 0;
  uint64_t block_count = 0;  ///< All ids are below.
  uint64_t id_count = 0;
};
static_assert(sizeof(WireBlocks) == 48 && std::is_trivially_copyable_v<WireBlocks>);

/// What a list of so many blocks takes at most: a run has at least one.
inline constexpr uint64_t kMaxBytesOfBlock = sizeof(WireBlocks) + 8;

inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 60;

/// Reads and checks a header: everything that can be judged without knowing the connection.
/// `payload_bytes` is what came with it. OK, PROTOCOL, VERSION_MISMATCH.
[[nodiscard]] Status ParseWireHeader(std::span<const uint8_t> bytes, uint64_t payload_bytes,
                                     WireHeader& header);

/// Reads a list of pieces whose sizes must add up to `total_bytes`. OK, PROTOCOL.
[[nodiscard]] Status ParseWirePieces(std::span<const uint8_t> bytes, uint64_t total_bytes,
                                     std::vector<WirePiece>& pieces);

/// One run of a list of blocks.
struct ParsedBlocks {
  WireBlocks head;
  std::shared_ptr<const std::vector<uint32_t>> ids;
};
/// Reads a list of `count` blocks whose sizes must add up to `total_bytes`. OK, PROTOCOL.
[[nodiscard]] Status ParseWireBlocks(std::span<const uint8_t> bytes, uint64_t count,
                                     uint64_t total_bytes, std::vector<ParsedBlocks>& runs);

/// Whether a peer may send this value as a status.
[[nodiscard]] bool IsKnownStatus(int32_t value);

}  // namespace cinch::transfer
