// SPDX-License-Identifier: Apache-2.0
// How data that go to device memory get there.
#include <cstring>

#include "base/log.h"
#include "transfer/endpoint.h"
#include "transfer/receiver.h"

namespace cinch::transfer {

/// Decodes or copies one segment to device memory.
class Receiver::DeviceDecodeJob final : public DeviceJob {
 public:
  DeviceDecodeJob(std::shared_ptr<Endpoint> endpoint, IncomingPointer incoming,
                  const ArrivedSegment& segment, uint8_t* wire)
      : endpoint_(std::move(endpoint)), incoming_(std::move(incoming)), segment_(segment) {
    task_.kind = segment.frame ? DeviceTask::Kind::kDecode : DeviceTask::Kind::kScatter;
    task_.pieces = &incoming_->destination;
    task_.offset = segment.offset;
    task_.bytes = segment.bytes;
    task_.wire = wire;
    task_.wire_bytes = segment.payload.bytes;
    task_.wire_is_plain = segment.payload.data != nullptr;
  }

  [[nodiscard]] int device() const override { return incoming_->destination.place().device; }
  [[nodiscard]] DeviceTask& task() override { return task_; }

  [[nodiscard]] bool Begin() override {
    const Engine::Guard guard(endpoint_->engine());
    began_ = segment_.frame;
    if (began_) Measure([](Metrics& metrics) { metrics.meter.CodecBegins(Clock::now()); });
    return incoming_->status == CINCH_OK;
  }

  void Finish(bool done, double seconds) override {
    const Engine::Guard guard(endpoint_->engine());
    if (began_) {
      Measure([seconds](Metrics& metrics) {
        metrics.meter.CodecEnds(Clock::now());
        metrics.decode_seconds += seconds;
      });
    }
    Status status = done ? task_.status : CINCH_OK;
    if (done && status == CINCH_OK && task_.output_bytes != segment_.bytes) {
      status = CINCH_ERROR_FRAME_HEADER;
    }
    endpoint_->receiver().OnDecoded(incoming_, segment_, status, seconds);
  }

 private:
  template <typename Update>
  void Measure(Update&& update) {
    endpoint_->Measure(incoming_->operation.get(), update);
  }

  std::shared_ptr<Endpoint> endpoint_;
  IncomingPointer incoming_;
  ArrivedSegment segment_;
  DeviceTask task_;
  bool began_ = false;
};

Staging& Receiver::StagingOf(const PieceList& destination) {
  if (!destination.on_device()) return staging_;
  if (pinned_staging_ == nullptr) {
    DeviceRuntime* runtime = endpoint_.engine().devices();
    const int device = destination.place().device;
    pinned_staging_ =
        std::make_unique<Staging>(staging_.buffer_bytes(), [runtime, device](size_t bytes) {
          std::unique_ptr<DeviceBuffer> buffer;
          static_cast<void>(runtime->AllocatePinned(device, bytes, buffer));
          return buffer;
        });
  }
  return *pinned_staging_;
}

void Receiver::OnShare(const WireHeader& header, const Payload& payload) {
  DeviceExport name;
  if (payload.data == nullptr || payload.bytes != sizeof(name) || offered_.bytes != 0) {
    if (payload.pending != nullptr) endpoint_.engine().backend().Drop(payload);
    return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  }
  std::memcpy(&name, payload.data, sizeof(name));
  if (name.bytes != header.bytes) return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  offered_ = name;
}

bool Receiver::ReachesShared(const PieceList& destination) {
  Engine& engine = endpoint_.engine();
  if (!destination.on_device() || offered_.bytes == 0 || !engine.settings().share_device_memory) {
    return false;
  }
  if (mapped_device_ < 0) {
    mapped_device_ = destination.place().device;
    const Status status = engine.devices()->Import(mapped_device_, offered_, mapped_);
    Log(LogLevel::kDebug, "mapping the peer's device memory: {}", cinch_status_text(status));
  }
  return mapped_ != nullptr && mapped_device_ == destination.place().device;
}

bool Receiver::SharedRangeIsValid(const WireHeader& header) const {
  constexpr uint64_t kAlignment = 16;
  return mapped_ != nullptr && header.tag % kAlignment == 0 && header.tag <= mapped_->bytes() &&
         header.count <= mapped_->bytes() - header.tag;
}

void Receiver::SubmitDeviceJob(const IncomingPointer& incoming, const ArrivedSegment& segment) {
  uint8_t* wire = nullptr;
  if (segment.shared) {
    wire = mapped_->data() + segment.shared_offset;
  } else if (segment.slot != nullptr) {
    wire = segment.slot->Buffer(pinned_staging_->buffer_bytes());
  } else {
    wire = const_cast<uint8_t*>(segment.payload.data);  // An inline message; only read.
  }
  ++incoming->decoding;
  endpoint_.engine().device_pool().Submit(
      std::make_unique<DeviceDecodeJob>(endpoint_.shared_from_this(), incoming, segment, wire));
}

// The segment's place at the peer is free again.
void Receiver::TellTaken(const Incoming& incoming, const ArrivedSegment& segment) {
  if (!segment.shared || !endpoint_.open()) return;
  WireHeader header;
  header.type = WireType::kTaken;
  header.id = incoming.header.id;
  header.offset = segment.offset;
  endpoint_.PostControl(header);
}

}  // namespace cinch::transfer
