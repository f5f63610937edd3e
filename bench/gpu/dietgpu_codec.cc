// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/dietgpu_codec.h"

// Its headers want it and do not include it.
#include <cassert>

#include <dietgpu/float/GpuFloatCodec.h>
#include <dietgpu/utils/StackDeviceMemory.h>

namespace cinch::bench {
namespace {

class DietGpuCodec : public DeviceCodec {
 public:
  DietGpuCodec(dietgpu::FloatType type, const Problem& problem)
      : problem_(problem),
        count_(static_cast<uint32_t>(problem.item_count())),
        config_(type, dietgpu::ANSCodecConfig(dietgpu::kANSDefaultProbBits), true),
        room_bytes_(dietgpu::getMaxFloatCompressedSize(
            type, static_cast<uint32_t>(problem.item_bytes / cinch_dtype_size(problem.dtype)))),
        memory_(0, 3 * problem.data.size() + (uint64_t{256} << 20)),
        sizes_(Allocate(count_ * sizeof(uint32_t))) {
    room_bytes_ = (room_bytes_ + 255) / 256 * 256;
    for (uint64_t i = 0; i < count_; ++i) {
      elements_.push_back(
          static_cast<uint32_t>(problem.item_size_bytes(i) / cinch_dtype_size(problem.dtype)));
    }
    copies_.resize(problem.copies());
    for (Copy& copy : copies_) {
      Prepare(&copy);
    }
  }

  void Compress(uint32_t index) override {
    Copy& copy = copies_[index];
    dietgpu::floatCompress(memory_, config_, count_, copy.inputs.data(), elements_.data(),
                           copy.frame_targets.data(), reinterpret_cast<uint32_t*>(sizes_.get()),
                           nullptr);
  }

  void Decompress(uint32_t index) override {
    Copy& copy = copies_[index];
    dietgpu::floatDecompress(memory_, config_, count_, copy.frame_sources.data(),
                             copy.outputs.data(), elements_.data(), nullptr, nullptr, nullptr);
  }

  uint64_t CompressedBytes(uint32_t index) override {
    Compress(index);
    std::vector<uint32_t> sizes(count_);
    Check(cudaMemcpy(sizes.data(), sizes_.get(), count_ * sizeof(uint32_t), cudaMemcpyDeviceToHost),
          "sizes");
    uint64_t total_bytes = 0;
    for (const uint32_t size_bytes : sizes) {
      total_bytes += size_bytes;
    }
    return total_bytes;
  }

  const std::byte* Output(uint32_t index) const override { return copies_[index].output.get(); }

 private:
  struct Copy {
    DeviceMemory input;
    DeviceMemory frames;
    DeviceMemory output;
    std::vector<const void*> inputs;
    std::vector<void*> frame_targets;
    std::vector<const void*> frame_sources;
    std::vector<void*> outputs;
  };

  void Prepare(Copy* copy) {
    copy->input = Allocate(problem_.data.size());
    Check(cudaMemcpy(copy->input.get(), problem_.data.data(), problem_.data.size(),
                     cudaMemcpyHostToDevice),
          "upload");
    copy->output = Allocate(problem_.data.size());
    copy->frames = Allocate(count_ * room_bytes_);
    for (uint64_t i = 0; i < count_; ++i) {
      copy->inputs.push_back(copy->input.get() + i * problem_.item_bytes);
      copy->frame_targets.push_back(copy->frames.get() + i * room_bytes_);
      copy->frame_sources.push_back(copy->frames.get() + i * room_bytes_);
      copy->outputs.push_back(copy->output.get() + i * problem_.item_bytes);
    }
  }

  Problem problem_;
  uint32_t count_;
  dietgpu::FloatCodecConfig config_;
  uint64_t room_bytes_;
  dietgpu::StackDeviceMemory memory_;
  DeviceMemory sizes_;
  std::vector<uint32_t> elements_;
  std::vector<Copy> copies_;
};

}  // namespace

std::unique_ptr<DeviceCodec> MakeDietGpu(const Problem& problem) {
  switch (problem.dtype) {
    case CINCH_DTYPE_BF16:
      return std::make_unique<DietGpuCodec>(dietgpu::FloatType::kBFloat16, problem);
    case CINCH_DTYPE_FP16:
      return std::make_unique<DietGpuCodec>(dietgpu::FloatType::kFloat16, problem);
    case CINCH_DTYPE_FP32:
      return std::make_unique<DietGpuCodec>(dietgpu::FloatType::kFloat32, problem);
    default:
      return nullptr;
  }
}

}  // namespace cinch::bench
