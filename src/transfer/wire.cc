// SPDX-License-Identifier: Apache-2.0
#include "transfer/wire.h"

#include <cstring>
#include <string_view>

#include "transfer/device_runtime.h"
#include "transfer/settings.h"

namespace cinch::transfer {
namespace {

static_assert(sizeof(DeviceExport) == kShareBytes);

// Which fields a type uses; all others must be zero.
struct FieldUse {
  bool dtype = false;
  uint8_t flags = 0;
  bool id = false;
  bool bytes = false;
  bool offset = false;
  bool tag = false;
  bool count = false;
  bool status = false;
};

bool UseOf(const WireHeader& header, FieldUse& use) {
  switch (header.type) {
    case WireType::kGreeting:
    case WireType::kHeartbeat:
    case WireType::kGoodbye:
      return true;
    case WireType::kMessage:
      use.dtype = use.id = use.bytes = use.offset = use.tag = true;
      use.flags = kFlagInline | kFlagConfirm;
      return true;
    case WireType::kWrite:
      use.dtype = use.id = use.bytes = use.count = true;
      use.flags = kFlagBlocks;
      return true;
    case WireType::kRead:
      use.dtype = use.id = use.bytes = use.count = true;
      use.flags = kFlagRaw | kFlagCompressed | kFlagDevice | kFlagBlocks;
      return true;
    case WireType::kReply:
      use.dtype = use.id = use.bytes = use.offset = true;
      return true;
    case WireType::kSegment:
      use.id = use.bytes = use.offset = use.count = true;
      use.tag = (header.flags & kFlagDevice) != 0;
      use.flags = kFlagFrame | kFlagDevice;
      return true;
    case WireType::kReady:
      use.id = true;
      use.flags = kFlagDevice;
      return true;
    case WireType::kShare:
      use.bytes = true;
      return true;
    case WireType::kTaken:
      use.id = use.offset = true;
      return true;
    case WireType::kDone:
      use.id = use.bytes = use.offset = use.status = true;
      return true;
    case WireType::kAbort:
    case WireType::kReadFailed:
      use.id = use.status = true;
      return true;
    case WireType::kCredit:
      use.bytes = true;
      return true;
  }
  return false;
}

bool UnusedFieldsAreZero(const WireHeader& header, const FieldUse& use) {
  return (use.dtype || header.dtype == 0) && (header.flags & ~use.flags) == 0 &&
         (use.id || header.id == 0) && (use.bytes || header.bytes == 0) &&
         (use.offset || header.offset == 0) && (use.tag || header.tag == 0) &&
         (use.count || header.count == 0) && (use.status || header.status == 0);
}

bool PayloadFits(const WireHeader& header, uint64_t payload_bytes) {
  switch (header.type) {
    case WireType::kMessage:
      if ((header.flags & kFlagInline) == 0) return payload_bytes == 0;
      return payload_bytes == header.bytes && payload_bytes <= CINCH_INLINE_BYTES;
    case WireType::kWrite:
    case WireType::kRead:
      if ((header.flags & kFlagBlocks) != 0) {
        return header.count <= CINCH_MAX_PIECES && payload_bytes <= header.count * kMaxBytesOfBlock;
      }
      return header.count <= CINCH_MAX_PIECES &&
             payload_bytes == uint64_t{header.count} * sizeof(WirePiece);
    case WireType::kSegment: {
      if (header.bytes == 0 || header.bytes > kMaxSegmentBytes) return false;
      const bool frame = (header.flags & kFlagFrame) != 0;
      const uint64_t limit = frame ? cinch_compress_bound(header.bytes) : header.bytes;
      const uint64_t least = frame ? 1 : header.bytes;
      const bool elsewhere = (header.flags & kFlagDevice) != 0;
      return payload_bytes == (elsewhere ? 0 : header.count) && header.count >= least &&
             header.count <= limit;
    }
    case WireType::kShare:
      return payload_bytes == kShareBytes && header.bytes > 0;
    default:
      return payload_bytes == 0;
  }
}

}  // namespace

bool IsKnownStatus(int32_t value) {
  constexpr int32_t kLowest = -127;
  if (value < kLowest || value > CINCH_IN_PROGRESS) return false;
  constexpr std::string_view kUnknown = "CINCH_UNKNOWN";
  return cinch_status_name(static_cast<cinch_status>(value)) != kUnknown;
}

Status ParseWireHeader(std::span<const uint8_t> bytes, uint64_t payload_bytes, WireHeader& header) {
  if (bytes.size() != sizeof(WireHeader)) return CINCH_ERROR_PROTOCOL;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kWireMagic) return CINCH_ERROR_PROTOCOL;
  if (header.version != kWireVersion) return CINCH_ERROR_VERSION_MISMATCH;
  FieldUse use;
  if (!UseOf(header, use) || !UnusedFieldsAreZero(header, use)) return CINCH_ERROR_PROTOCOL;
  if (cinch_dtype_size(static_cast<cinch_dtype>(header.dtype)) == 0) return CINCH_ERROR_PROTOCOL;
  constexpr uint8_t kPins = kFlagRaw | kFlagCompressed;
  if ((header.flags & kPins) == kPins) return CINCH_ERROR_PROTOCOL;
  if (use.status && (!IsKnownStatus(header.status) || header.status > 0)) {
    return CINCH_ERROR_PROTOCOL;
  }
  if (header.bytes > kMaxMessageBytes || !PayloadFits(header, payload_bytes)) {
    return CINCH_ERROR_PROTOCOL;
  }
  return CINCH_OK;
}

Status ParseWirePieces(std::span<const uint8_t> bytes, uint64_t total_bytes,
                       std::vector<WirePiece>& pieces) {
  if (bytes.size() % sizeof(WirePiece) != 0) return CINCH_ERROR_PROTOCOL;
  pieces.resize(bytes.size() / sizeof(WirePiece));
  if (!pieces.empty()) std::memcpy(pieces.data(), bytes.data(), bytes.size());
  uint64_t left = total_bytes;
  for (const WirePiece& piece : pieces) {
    if (piece.bytes > left) return CINCH_ERROR_PROTOCOL;
    left -= piece.bytes;
  }
  return left == 0 ? CINCH_OK : CINCH_ERROR_PROTOCOL;
}

Status ParseWireBlocks(std::span<const uint8_t> bytes, uint64_t count, uint64_t total_bytes,
                       std::vector<ParsedBlocks>& runs) {
  runs.clear();
  constexpr uint64_t kIdsAligned = 2;  // Ids in 8 bytes.
  while (!bytes.empty()) {
    ParsedBlocks run;
    if (bytes.size() < sizeof(run.head)) return CINCH_ERROR_PROTOCOL;
    std::memcpy(&run.head, bytes.data(), sizeof(run.head));
    bytes = bytes.subspan(sizeof(run.head));
    const WireBlocks& head = run.head;
    if (head.id_count == 0 || head.id_count > count ||
        head.id_count > bytes.size() / sizeof(uint32_t) || head.block_bytes == 0 ||
        head.block_bytes > total_bytes / head.id_count ||
        head.block_count > kMaxMessageBytes / head.block_bytes) {
      return CINCH_ERROR_PROTOCOL;
    }
    const uint64_t padded = (head.id_count + kIdsAligned - 1) / kIdsAligned * 8;
    if (bytes.size() < padded) return CINCH_ERROR_PROTOCOL;
    auto ids = std::make_shared<std::vector<uint32_t>>(head.id_count);
    std::memcpy(ids->data(), bytes.data(), head.id_count * sizeof(uint32_t));
    bytes = bytes.subspan(padded);
    count -= head.id_count;
    total_bytes -= head.id_count * head.block_bytes;
    run.ids = std::move(ids);
    runs.push_back(std::move(run));
  }
  return count == 0 && total_bytes == 0 ? CINCH_OK : CINCH_ERROR_PROTOCOL;
}

}  // namespace cinch::transfer
