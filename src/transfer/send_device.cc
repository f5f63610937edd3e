// SPDX-License-Identifier: Apache-2.0
// How data that are in device memory leave it.
#include <algorithm>

#include "base/log.h"
#include "transfer/endpoint.h"
#include "transfer/sender.h"

namespace cinch::transfer {

/// Codes or copies one segment of device memory into its slot.
class Sender::DeviceEncodeJob final : public DeviceJob {
 public:
  DeviceEncodeJob(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<OutgoingSegment> segment,
                  uint8_t* buffer, size_t capacity_bytes)
      : endpoint_(std::move(endpoint)), segment_(std::move(segment)) {
    const Outgoing& owner = *segment_->owner;
    task_.kind = segment_->frame ? DeviceTask::Kind::kEncode : DeviceTask::Kind::kGather;
    task_.pieces = &owner.pieces;
    task_.offset = segment_->offset;
    task_.bytes = segment_->bytes;
    task_.wire = buffer;
    task_.wire_bytes = capacity_bytes;
    task_.dtype = owner.dtype;
    task_.checksum = endpoint_->engine().settings().checksum;
  }

  [[nodiscard]] int device() const override { return segment_->owner->pieces.place().device; }
  [[nodiscard]] DeviceTask& task() override { return task_; }

  [[nodiscard]] bool Begin() override {
    const Engine::Guard guard(endpoint_->engine());
    began_ = segment_->frame;
    if (began_) Measure([](Metrics& metrics) { metrics.meter.CodecBegins(Clock::now()); });
    return segment_->owner->result == CINCH_IN_PROGRESS;
  }

  void Finish(bool done, double seconds) override {
    const Engine::Guard guard(endpoint_->engine());
    if (began_) {
      Measure([seconds](Metrics& metrics) {
        metrics.meter.CodecEnds(Clock::now());
        metrics.encode_seconds += seconds;
      });
    }
    endpoint_->sender().OnCoded(segment_, done ? task_.status : CINCH_OK, task_.output_bytes, done,
                                seconds);
  }

 private:
  template <typename Update>
  void Measure(Update&& update) {
    endpoint_->Measure(segment_->owner->operation.get(), update);
  }

  std::shared_ptr<Endpoint> endpoint_;
  std::shared_ptr<OutgoingSegment> segment_;
  DeviceTask task_;
  bool began_ = false;
};

policy::MessagePolicy& Sender::PolicyOf(const Outgoing& outgoing) {
  return outgoing.pieces.on_device() ? device_policy_ : policy_;
}

// Takes over what was measured of the device's codec, for the way that its frames go.
void Sender::LearnDeviceSpeed(int device, bool shared) {
  const SpeedOf way = shared ? SpeedOf::kShared : SpeedOf::kPinned;
  if (device_speed_ == way || settings_.device_codec_gbps > 0) return;
  const auto speeds = endpoint_.engine().device_pool().SpeedsOf(device);
  if (!speeds) return;
  device_speed_ = way;
  const CodecSpeed& speed = shared ? speeds->shared : speeds->pinned;
  device_policy_.OnMeasured(speed.encode_bytes_per_second, speed.decode_bytes_per_second);
}

Staging& Sender::StagingOf(const Outgoing& outgoing) {
  if (!outgoing.pieces.on_device()) return staging_;
  const bool shared = outgoing.reaches_shared && shared_staging_ != nullptr &&
                      outgoing.pieces.place().device == shared_device_;
  return shared ? *shared_staging_ : *pinned_staging_;
}

// Slots are allocated when they are first used.
void Sender::OpenDeviceStaging(int device) {
  const size_t buffer_bytes = cinch_compress_bound(settings_.segment_bytes);
  if (pinned_staging_ == nullptr) {
    DeviceRuntime* runtime = endpoint_.engine().devices();
    pinned_staging_ = std::make_unique<Staging>(buffer_bytes, [runtime, device](size_t bytes) {
      std::unique_ptr<DeviceBuffer> buffer;
      static_cast<void>(runtime->AllocatePinned(device, bytes, buffer));
      return buffer;
    });
  }
  if (!share_tried_ && peer_maps_memory_ && settings_.share_device_memory) {
    share_tried_ = true;
    ShareDeviceMemory(device);
  }
}

// Offers the peer device memory of ours to take segments from. It says with each message whether
// it can.
void Sender::ShareDeviceMemory(int device) {
  const size_t buffer_bytes = cinch_compress_bound(settings_.segment_bytes);
  const auto name = std::make_shared<DeviceExport>();
  std::unique_ptr<DeviceBuffer> whole;
  const Status status = endpoint_.engine().devices()->AllocateShared(
      device, Staging::SharedBytes(buffer_bytes), whole, *name);
  if (status != CINCH_OK) {
    return Log(LogLevel::kDebug, "no device memory to share: {}", cinch_status_text(status));
  }
  shared_staging_ = std::make_unique<Staging>(buffer_bytes, std::move(whole));
  shared_device_ = device;
  WireHeader header;
  header.type = WireType::kShare;
  header.bytes = name->bytes;
  const Status posted =
      endpoint_.Post(header, name.get(), sizeof(*name), false, [name](Status /*ignored*/) {});
  static_cast<void>(posted);  // A failure has failed the endpoint.
}

void Sender::SubmitDeviceJob(const std::shared_ptr<OutgoingSegment>& segment, uint8_t* buffer,
                             size_t capacity_bytes) {
  endpoint_.engine().device_pool().Submit(std::make_unique<DeviceEncodeJob>(
      endpoint_.shared_from_this(), segment, buffer, capacity_bytes));
}

// The segment stays in its slot, on the wire, until the peer has taken it.
void Sender::PostShared(const std::shared_ptr<OutgoingSegment>& segment, WireHeader header) {
  header.flags |= kFlagDevice;
  header.tag = Staging::OffsetOf(*segment->slot);
  segment->owner->left.push_back(segment);
  endpoint_.PostControl(header);
}

void Sender::OnTaken(const WireHeader& header) {
  const std::shared_ptr<Outgoing> outgoing = Find(header.id);
  if (!outgoing) return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  const auto found = std::ranges::find(outgoing->left, header.offset,
                                       [](const auto& each) { return each->offset; });
  if (found == outgoing->left.end()) return endpoint_.Fail(CINCH_ERROR_PROTOCOL);
  const std::shared_ptr<OutgoingSegment> segment = *found;
  outgoing->left.erase(found);
  OnSegmentSent(segment, CINCH_OK);
}

}  // namespace cinch::transfer
