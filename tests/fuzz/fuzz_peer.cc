// SPDX-License-Identifier: Apache-2.0
// A peer that has shaken hands sends whatever the input says while operations of all kinds are
// under way. Nothing outside the memory that it may reach changes, and when it is gone every
// operation has ended.
#include <algorithm>
#include <vector>

#include "cinch/codec.h"
#include "support/require.h"
#include "transfer/fake_devices.h"
#include "transfer/hostile_peer.h"
#include "transfer/pattern.h"

namespace {

using namespace cinch::transfer;
using namespace cinch::transfer_test;
using cinch::test::FuzzInput;
using cinch::test::Require;
using Memory = std::vector<uint8_t>;

constexpr size_t kMostSteps = 40;
constexpr uint64_t kMostBytes = 150000;
constexpr uint64_t kRegionBytes = 6000;
constexpr uint64_t kDeviceBytes = uint64_t{64} << 20;

/// What the test's helpers expect must hold here, too.
const bool kExpectationsEndTheProcess = [] {
  GTEST_FLAG_SET(break_on_failure, true);
  return true;
}();

Settings FuzzSettings() {
  Settings settings = TestSettings();
  settings.codec_threads = 1;
  settings.segment_bytes = kMinSegmentBytes;
  return settings;
}

class Session {
 public:
  Session(FuzzInput* input, bool with_devices)
      : input_(input),
        devices_(with_devices ? std::make_shared<FakeDevices>(kDeviceBytes) : nullptr),
        peer_(FuzzSettings(), devices_),
        memory_(Pattern(1, kRegionBytes)) {
    cinch_region* region = nullptr;
    Require(cinch_region_register(peer_.engine(), memory_.data(), memory_.size(),
                                  CINCH_REGION_READ | CINCH_REGION_WRITE, &region) == CINCH_OK &&
                cinch_region_describe(region, &remote_) == CINCH_OK,
            "a region can be registered");
    region_.reset(region);
  }

  void Run() {
    for (size_t step = 0; step < kMostSteps && !input_->empty(); ++step) {
      const auto choice = input_->Take<uint8_t>();
      choice % 4 == 0 ? Operate(choice / 4) : SendMessage(choice / 4);
    }
    peer_.Send(peer_.Make(WireType::kGoodbye));
    Require(peer_.End() < 0, "the connection ends with its peer");
    for (const OperationHandle& operation : operations_) {
      const cinch_status status = Wait(operation);
      Require(status != CINCH_IN_PROGRESS, "every operation ends with its peer");
      const cinch_operation_info info = InfoOf(operation);
      Require(info.status == status, "an operation that has ended stays so");
    }
  }

 private:
  struct ReleaseRegion {
    void operator()(cinch_region* region) const {
      Require(cinch_region_release(region, kLongSeconds) == CINCH_OK, "nobody uses the region");
    }
  };

  /// Memory of the caller that an operation may use: exactly so much, so that sanitizers notice.
  void* Buffer(bool on_device, uint64_t bytes) {
    if (on_device && devices_ != nullptr) {
      if (void* memory = devices_->Allocate(0, bytes)) return memory;
    }
    buffers_.push_back(std::make_unique<Memory>(Pattern(bytes, bytes)));
    return buffers_.back()->data();
  }

  void Operate(uint8_t choice) {
    const uint64_t bytes = (input_->Number() << ((choice & 3) * 3)) % kMostBytes;
    void* const buffer = Buffer((choice & 4) != 0, bytes);
    cinch_transfer_options options = TransferOptions();
    options.policy = static_cast<cinch_policy>(input_->Take<uint8_t>() % 4);
    options.stream = CINCH_NO_STREAM;
    options.confirm = choice >> 4 & 1;
    cinch_endpoint* const endpoint = peer_.endpoint.get();
    cinch_operation* made = nullptr;
    switch (input_->Take<uint8_t>() % 6) {
      case 0:
      case 1:
        static_cast<void>(cinch_recv(endpoint, buffer, bytes, &options, &made));
        break;
      case 2:
        static_cast<void>(cinch_send(endpoint, buffer, bytes, &options, &made));
        break;
      case 3:
        static_cast<void>(cinch_write(endpoint, buffer, std::min(bytes, kRegionBytes), &remote_, 0,
                                      &options, &made));
        break;
      case 4:
        reads_.push_back(std::min(bytes, kRegionBytes));
        static_cast<void>(
            cinch_read(endpoint, buffer, reads_.back(), &remote_, 0, &options, &made));
        break;
      default:
        if (operations_.empty()) break;
        Require(cinch_cancel(operations_[bytes % operations_.size()].get()) == CINCH_OK,
                "any operation can be cancelled");
        break;
    }
    if (made != nullptr) operations_.emplace_back(made);
  }

  void SendMessage(uint8_t choice) {
    WireHeader header = peer_.Make(static_cast<WireType>(1 + input_->Take<uint8_t>() % 16));
    Memory payload;
    if ((choice & 1) != 0) {
      FillIn(&header);
      const auto bytes = input_->Take(input_->Number());
      payload.assign(bytes.begin(), bytes.end());
    } else {
      FillInHonestly(&header, &payload);
    }
    const bool large = (choice & 2) != 0 || header.type == WireType::kSegment;
    peer_.Send(header, std::move(payload), large && (choice & 4) == 0);
  }

  void FillIn(WireHeader* header) {
    header->flags = input_->Take<uint8_t>();
    header->dtype = input_->Take<uint8_t>() % 24;
    header->id = input_->Number();
    header->bytes = input_->Number();
    header->offset = input_->Number();
    header->tag = input_->Number();
    header->count = static_cast<uint32_t>(input_->Number());
    header->status = 4 - static_cast<int32_t>(input_->Take<uint8_t>());
  }

  /// Fields that the header alone, and mostly the connection, must believe.
  void FillInHonestly(WireHeader* header, Memory* payload) {
    const uint64_t number = input_->Number();
    const auto flags = input_->Take<uint8_t>();
    switch (header->type) {
      case WireType::kMessage:
        return FillInMessage(header, payload, number, flags);
      case WireType::kWrite:
      case WireType::kRead:
        header->id = ++last_id_;
        header->flags = flags & (header->type == WireType::kRead ? kFlagRaw | kFlagDevice : 0);
        return (flags & 1) != 0 ? FillInBlocks(header, payload) : FillInPieces(header, payload);
      case WireType::kReply:
        header->id = ++last_id_;
        header->offset = 1 + number % 8;
        if (!reads_.empty()) header->bytes = reads_[number % reads_.size()];
        return;
      case WireType::kSegment:
        return FillInSegment(header, payload, number, flags);
      case WireType::kReady:
        header->id = 1 + number % 8;
        header->flags = flags & kFlagDevice;
        return;
      case WireType::kDone:
        header->bytes = number;
        header->offset = input_->Number();
        [[fallthrough]];
      case WireType::kAbort:
      case WireType::kReadFailed:
        header->id = 1 + flags % 8;
        header->status = (flags & 8) != 0 ? CINCH_OK : CINCH_ERROR_CANCELLED;
        return;
      case WireType::kCredit:
        header->bytes = number % 4;
        return;
      case WireType::kShare:
        return FillInShare(header, payload);
      case WireType::kTaken:
        header->id = 1 + flags % 8;
        header->offset = number * 1024;
        return;
      default:
        return;
    }
  }

  void FillInMessage(WireHeader* header, Memory* payload, uint64_t number, uint8_t flags) {
    header->id = ++last_id_;
    header->offset = next_sequence_++;
    header->bytes = number << (flags >> 4) & 0xFFFFF;
    if ((flags & 1) == 0) return;
    header->flags = kFlagInline | (flags & kFlagConfirm);
    *payload = Pattern(number, number % CINCH_INLINE_BYTES);
    header->bytes = payload->size();
  }

  void FillInPieces(WireHeader* header, Memory* payload) {
    uint64_t key = 0;
    uint64_t id = 0;
    uint64_t region_bytes = 0;
    Require(ReadRegion(remote_, id, key, region_bytes) == CINCH_OK, "a descriptor can be read");
    header->count = input_->Take<uint8_t>() % 8;
    for (uint32_t i = 0; i < header->count; ++i) {
      const WirePiece piece{id, key, input_->Number() * 16, input_->Number() * 4};
      header->bytes += piece.bytes;
      Append(payload, piece);
    }
  }

  void FillInBlocks(WireHeader* header, Memory* payload) {
    WireBlocks run;
    uint64_t region_bytes = 0;
    Require(ReadRegion(remote_, run.region_id, run.region_key, region_bytes) == CINCH_OK,
            "a descriptor can be read");
    header->flags |= kFlagBlocks;
    run.offset = input_->Number();
    run.block_bytes = 1 + input_->Number();
    run.block_count = input_->Number();
    run.id_count = 1 + input_->Take<uint8_t>() % 8;
    header->count = static_cast<uint32_t>(run.id_count);
    header->bytes = run.id_count * run.block_bytes;
    Append(payload, run);
    for (uint64_t i = 0; i < run.id_count; ++i) Append(payload, uint32_t{input_->Take<uint8_t>()});
    if (run.id_count % 2 != 0) Append(payload, uint32_t{0});
  }

  /// The next part of the message that began last.
  void FillInSegment(WireHeader* header, Memory* payload, uint64_t number, uint8_t flags) {
    header->id = last_id_;
    if (segments_of_ != last_id_) segment_at_ = 0;
    segments_of_ = last_id_;
    header->offset = segment_at_;
    header->bytes = 1 + (number << (flags >> 4)) % kMinSegmentBytes;
    segment_at_ += header->bytes;
    *payload = Pattern(number, header->bytes);
    if ((flags & 1) != 0) {
      header->flags = kFlagFrame;
      *payload = Frame(*payload, input_->Number());
    }
    header->count = static_cast<uint32_t>(payload->size());
    if ((flags & 2) == 0 || devices_ == nullptr) return;
    header->flags |= kFlagDevice;
    header->tag = input_->Number() * 16;
    payload->clear();
  }

  /// A frame, with a bit flipped now and then.
  static Memory Frame(const Memory& data, uint64_t damage) {
    cinch_codec* codec = nullptr;
    Require(cinch_codec_create(nullptr, &codec) == CINCH_OK, "a codec can be created");
    Memory frame(cinch_compress_bound(data.size()));
    uint64_t frame_bytes = 0;
    Require(cinch_compress(codec, nullptr, data.data(), data.size(), frame.data(), frame.size(),
                           &frame_bytes) == CINCH_OK,
            "data can be compressed");
    cinch_codec_destroy(codec);
    frame.resize(frame_bytes);
    if (damage % 4 == 1) frame[damage / 4 % frame_bytes] ^= 1;
    return frame;
  }

  void FillInShare(WireHeader* header, Memory* payload) {
    DeviceExport name;
    name.bytes = 4096 + input_->Number();
    header->bytes = name.bytes;
    uint8_t* const memory = devices_ == nullptr ? nullptr : devices_->Allocate(1, 4096);
    std::memcpy(name.handle.data(), &memory, sizeof(memory));
    Append(payload, name);
  }

  template <typename Value>
  static void Append(Memory* bytes, const Value& value) {
    const auto* first = reinterpret_cast<const uint8_t*>(&value);
    bytes->insert(bytes->end(), first, first + sizeof(value));
  }

  FuzzInput* input_;
  std::shared_ptr<FakeDevices> devices_;
  std::vector<std::unique_ptr<Memory>> buffers_;  // Outlive the engine, which is the peer's.
  Hostile peer_;
  Memory memory_;
  cinch_remote_region remote_{};
  std::unique_ptr<cinch_region, ReleaseRegion> region_;
  std::vector<OperationHandle> operations_;
  std::vector<uint64_t> reads_;
  uint64_t last_id_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t segments_of_ = 0;
  uint64_t segment_at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool with_devices = (input.Take<uint8_t>() & 1) != 0;
  Session(&input, with_devices).Run();
  return 0;
}
