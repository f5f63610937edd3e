// SPDX-License-Identifier: Apache-2.0
#include "transfer/device_probe.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

#include "base/log.h"

namespace cinch::transfer {
namespace {

// bf16 values as weights have them. What is repeated is longer than a block of a frame.
std::vector<uint8_t> MakeSample(uint64_t bytes) {
  constexpr size_t kValues = size_t{1} << 16;
  constexpr double kScale = 0.02;
  constexpr uint32_t kHighHalf = 16;
  std::mt19937 random(1);
  std::vector<uint16_t> values(kValues);
  const double unit = 1.0 / (static_cast<double>(std::mt19937::max()) + 2);
  for (uint16_t& value : values) {
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(random()) + 1) * unit));
    const double angle = 2 * std::numbers::pi * static_cast<double>(random()) * unit;
    const auto wide = static_cast<float>(kScale * radius * std::cos(angle));
    value = static_cast<uint16_t>(std::bit_cast<uint32_t>(wide) >> kHighHalf);
  }
  std::vector<uint8_t> sample(bytes);
  for (uint64_t at = 0; at < bytes; at += kValues * sizeof(uint16_t)) {
    std::memcpy(&sample[at], values.data(),
                std::min<uint64_t>(bytes - at, kValues * sizeof(uint16_t)));
  }
  return sample;
}

}  // namespace

class DeviceProbe::Job final : public DeviceJob {
 public:
  Job(std::shared_ptr<DeviceProbe> probe, size_t slot)
      : probe_(std::move(probe)), slot_(slot), task_(probe_->MakeTask(probe_->slots_[slot])) {}

  [[nodiscard]] int device() const override { return probe_->device_; }
  [[nodiscard]] DeviceTask& task() override { return task_; }
  [[nodiscard]] bool Begin() override { return true; }
  void Finish(bool /*done*/, double seconds) override { probe_->OnFinished(slot_, task_, seconds); }

 private:
  std::shared_ptr<DeviceProbe> probe_;
  size_t slot_;
  DeviceTask task_;
};

DeviceProbe::DeviceProbe(DeviceRuntime& runtime, int device, uint32_t max_ctas, SubmitJob submit)
    : runtime_(runtime), device_(device), max_ctas_(max_ctas), submit_(std::move(submit)) {}

Status DeviceProbe::Allocate() {
  const uint64_t frame_bytes = cinch_compress_bound(kJobBytes);
  for (Slot& slot : slots_) {
    CINCH_RETURN_IF_ERROR(runtime_.AllocateDevice(device_, kJobBytes, slot.original));
    CINCH_RETURN_IF_ERROR(runtime_.AllocateDevice(device_, frame_bytes, slot.shared_frame));
    CINCH_RETURN_IF_ERROR(runtime_.AllocatePinned(device_, frame_bytes, slot.pinned_frame));
    slot.pieces = PieceList(slot.original->data(), kJobBytes);
    slot.pieces.set_place({device_});
  }
  sample_ = MakeSample(kJobBytes);
  return CINCH_OK;
}

void DeviceProbe::Start() {
  const Status status = Allocate();
  if (status == CINCH_OK) return BeginStage(Stage::kFill);
  Log(LogLevel::kDebug, "the codec of device {} is not measured: {}", device_,
      cinch_status_text(status));
}

void DeviceProbe::BeginStage(Stage stage) {
  stage_ = stage;
  started_ = finished_ = 0;
  counted_seconds_ = 0;
  for (size_t slot = 0; slot < kSlots; ++slot) SubmitNext(slot);
}

void DeviceProbe::SubmitNext(size_t slot) {
  ++started_;
  submit_(std::make_unique<Job>(shared_from_this(), slot));
}

DeviceTask DeviceProbe::MakeTask(const Slot& slot) const {
  const bool pinned = stage_ == Stage::kEncodePinned || stage_ == Stage::kDecodePinned;
  const bool encode = stage_ == Stage::kEncodePinned || stage_ == Stage::kEncodeShared;
  const DeviceBuffer& frame = pinned ? *slot.pinned_frame : *slot.shared_frame;
  DeviceTask task;
  task.pieces = &slot.pieces;
  task.bytes = kJobBytes;
  task.dtype = CINCH_DTYPE_BF16;
  if (stage_ == Stage::kFill) {
    task.kind = DeviceTask::Kind::kScatter;
    task.wire = const_cast<uint8_t*>(sample_.data());  // Only read.
    task.wire_bytes = kJobBytes;
    task.wire_is_plain = true;
  } else {
    task.kind = encode ? DeviceTask::Kind::kEncode : DeviceTask::Kind::kDecode;
    task.wire = frame.data();
    task.wire_bytes = encode ? frame.bytes() : slot.frame_bytes;
  }
  return task;
}

void DeviceProbe::OnFinished(size_t slot, const DeviceTask& task, double seconds) {
  if (stage_ == Stage::kEnd) return;  // A job beside this one failed.
  if (task.status != CINCH_OK) {
    stage_ = Stage::kEnd;
    return Log(LogLevel::kDebug, "the codec of device {} cannot be measured: {}", device_,
               cinch_status_text(task.status));
  }
  if (task.kind == DeviceTask::Kind::kEncode) slots_[slot].frame_bytes = task.output_bytes;
  if (++finished_ > kSlots) counted_seconds_ += seconds;
  const size_t jobs = stage_ == Stage::kFill ? kSlots : kJobs;
  if (started_ < jobs) return SubmitNext(slot);
  if (finished_ < jobs) return;
  const double speed =
      static_cast<double>((kJobs - kSlots) * kJobBytes) / std::max(counted_seconds_, 1e-9);
  switch (stage_) {
    case Stage::kFill:
      sample_ = {};
      return BeginStage(Stage::kEncodePinned);
    case Stage::kEncodePinned:
      speeds_.pinned.encode_bytes_per_second = speed;
      return BeginStage(Stage::kDecodePinned);
    case Stage::kDecodePinned:
      speeds_.pinned.decode_bytes_per_second = speed;
      return BeginStage(Stage::kEncodeShared);
    case Stage::kEncodeShared:
      speeds_.shared.encode_bytes_per_second = speed;
      return BeginStage(Stage::kDecodeShared);
    case Stage::kDecodeShared:
      speeds_.shared.decode_bytes_per_second = speed;
      break;
    case Stage::kEnd:
      return;
  }
  stage_ = Stage::kEnd;
  runtime_.speeds().Set(device_, max_ctas_, speeds_);
  Log(LogLevel::kDebug,
      "codec of device {}, GB/s of original bytes: {:.1f} into and {:.1f} from pinned memory, "
      "{:.1f} and {:.1f} of device memory",
      device_, speeds_.pinned.encode_bytes_per_second / 1e9,
      speeds_.pinned.decode_bytes_per_second / 1e9, speeds_.shared.encode_bytes_per_second / 1e9,
      speeds_.shared.decode_bytes_per_second / 1e9);
}

}  // namespace cinch::transfer
