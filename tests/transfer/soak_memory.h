// SPDX-License-Identifier: Apache-2.0
// Memory of the soak test: the host's, or a device's where there is one.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#if CINCH_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace cinch::transfer_test {

#if CINCH_HAVE_CUDA
[[nodiscard]] inline bool HasDevice() {
  static const bool has = [] {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  }();
  return has;
}
[[nodiscard]] inline uint64_t DeviceBytesInUse() {
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  if (!HasDevice() || cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) return 0;
  return all_bytes - free_bytes;
}
#else
[[nodiscard]] inline bool HasDevice() { return false; }
[[nodiscard]] inline uint64_t DeviceBytesInUse() { return 0; }
#endif

/// A buffer; in device memory when that is asked for and there is any.
class SoakMemory {
 public:
  SoakMemory() = default;
  SoakMemory(uint64_t bytes, bool on_device)
      : allocated_(true), bytes_(bytes), on_device_(on_device && bytes > 0 && HasDevice()) {
    if (on_device_) {
      Allocate();
    } else {
      host_.resize(bytes + 1);
    }
  }

  [[nodiscard]] bool allocated() const { return allocated_; }
  [[nodiscard]] uint8_t* data() { return on_device_ ? device_.get() : host_.data(); }
  void Write(const std::vector<uint8_t>& from) {
    if (!from.empty()) Copy(data(), from.data(), from.size());
  }
  [[nodiscard]] std::vector<uint8_t> Read() {
    std::vector<uint8_t> to(bytes_);
    if (bytes_ > 0) Copy(to.data(), data(), bytes_);
    return to;
  }

 private:
  struct Free {
    void operator()(uint8_t* memory) const {
#if CINCH_HAVE_CUDA
      cudaFree(memory);
#else
      static_cast<void>(memory);
#endif
    }
  };

  void Allocate() {
#if CINCH_HAVE_CUDA
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes_) == cudaSuccess) {
      device_.reset(static_cast<uint8_t*>(memory));
      return;
    }
    cudaGetLastError();
#endif
    on_device_ = false;
    host_.resize(bytes_ + 1);
  }
  void Copy(uint8_t* to, const uint8_t* from, uint64_t bytes) const {
#if CINCH_HAVE_CUDA
    if (on_device_) {
      cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
      return;
    }
#endif
    std::memcpy(to, from, bytes);
  }

  bool allocated_ = false;
  uint64_t bytes_ = 0;
  bool on_device_ = false;
  std::unique_ptr<uint8_t, Free> device_;
  std::vector<uint8_t> host_;
};

}  // namespace cinch::transfer_test
