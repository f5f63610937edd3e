// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <new>

#include "cinch/patch.h"
#include "versions/tensor_memory.h"

namespace cinch::versions {
namespace {

class HostBuffer final : public transfer::DeviceBuffer {
 public:
  explicit HostBuffer(uint64_t bytes)
      : bytes_(bytes),
        memory_(static_cast<uint8_t*>(
            ::operator new (bytes + 1, std::align_val_t{kAlignment}, std::nothrow))) {}
  ~HostBuffer() override { ::operator delete (memory_, std::align_val_t{kAlignment}); }
  [[nodiscard]] uint8_t* data() const override { return memory_; }
  [[nodiscard]] uint64_t bytes() const override { return bytes_; }

 private:
  static constexpr size_t kAlignment = 64;
  uint64_t bytes_;
  uint8_t* memory_;
};

class HostMemory final : public TensorMemory {
 public:
  [[nodiscard]] Status Allocate(uint64_t bytes, Buffer& buffer) override {
    buffer = std::make_shared<HostBuffer>(bytes);
    return buffer->data() == nullptr ? CINCH_ERROR_OUT_OF_MEMORY : CINCH_OK;
  }
  [[nodiscard]] Status Copy(void* to, const void* from, uint64_t bytes, void* /*stream*/) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return CINCH_OK;
  }
  [[nodiscard]] Status WaitFor(void* /*stream*/) override { return CINCH_OK; }
  [[nodiscard]] Status ContentHash(const void* data, uint64_t bytes, uint64_t& hash) override {
    return cinch_patch_content_hash(data, bytes, &hash);
  }
  [[nodiscard]] Status CreatePatch(const void* base, const void* data, uint64_t bytes, void* patch,
                                   uint64_t capacity, PatchOutcome& outcome) override {
    CINCH_RETURN_IF_ERROR(cinch_patch_content_hash(base, bytes, &outcome.base_hash));
    CINCH_RETURN_IF_ERROR(cinch_patch_content_hash(data, bytes, &outcome.result_hash));
    return cinch_patch_create(base, data, bytes, patch, capacity, &outcome.patch_bytes);
  }
  [[nodiscard]] Status ApplyPatch(const void* base, uint64_t base_hash, const void* patch,
                                  uint64_t patch_bytes, void* data, uint64_t bytes,
                                  uint64_t& result_hash) override {
    cinch_patch_info info{};
    info.struct_size = sizeof(info);
    CINCH_RETURN_IF_ERROR(cinch_patch_get_info(patch, patch_bytes, &info));
    CINCH_RETURN_IF_ERROR(cinch_patch_apply(base, base_hash, patch, patch_bytes, data, bytes));
    result_hash = info.result_hash;
    return CINCH_OK;
  }
};

}  // namespace

std::unique_ptr<TensorMemory> HostTensorMemory() { return std::make_unique<HostMemory>(); }

Status OpenTensorMemory(transfer::MemoryPlace place, std::unique_ptr<TensorMemory>& memory) {
  if (place.on_device()) return OpenDeviceTensorMemory(place.device, memory);
  memory = HostTensorMemory();
  return CINCH_OK;
}

transfer::MemoryPlace PlaceOf(const void* data, uint64_t bytes) {
  transfer::PieceList pieces(const_cast<void*>(data), bytes);
  const auto devices = transfer::CudaDeviceRuntime();
  if (devices == nullptr || devices->Locate(pieces) != CINCH_OK) return {};
  return pieces.place();
}

}  // namespace cinch::versions
