// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transfer/device_runtime.h"

namespace cinch::versions {

using Buffer = std::shared_ptr<transfer::DeviceBuffer>;

/// What a patch call says.
struct PatchOutcome {
  uint64_t patch_bytes = 0;
  uint64_t base_hash = 0;
  uint64_t result_hash = 0;
};

/// What is done with tensors of one place: host memory or one device's. All calls are done when
/// they return. One call at a time.
class TensorMemory {
 public:
  TensorMemory() = default;
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;
  virtual ~TensorMemory() = default;

  [[nodiscard]] virtual Status Allocate(uint64_t bytes, Buffer& buffer) = 0;
  /// Copies after what `stream` has to do now. `null` streams are the legacy default stream.
  [[nodiscard]] virtual Status Copy(void* to, const void* from, uint64_t bytes, void* stream) = 0;
  /// Waits for what `stream` has to do now.
  [[nodiscard]] virtual Status WaitFor(void* stream) = 0;
  [[nodiscard]] virtual Status ContentHash(const void* data, uint64_t bytes, uint64_t& hash) = 0;
  [[nodiscard]] virtual Status CreatePatch(const void* base, const void* data, uint64_t bytes,
                                           void* patch, uint64_t capacity,
                                           PatchOutcome& outcome) = 0;
  /// The patch, untrusted, is in the same place.
  [[nodiscard]] virtual Status ApplyPatch(const void* base, uint64_t base_hash, const void* patch,
                                          uint64_t patch_bytes, void* data, uint64_t bytes,
                                          uint64_t& result_hash) = 0;
};

/// The place of `data`. OK, DEVICE, OUT_OF_MEMORY, NO_DEVICE.
[[nodiscard]] Status OpenTensorMemory(transfer::MemoryPlace place,
                                      std::unique_ptr<TensorMemory>& memory);
[[nodiscard]] transfer::MemoryPlace PlaceOf(const void* data, uint64_t bytes);

[[nodiscard]] std::unique_ptr<TensorMemory> HostTensorMemory();
/// UNSUPPORTED in a build without CUDA.
[[nodiscard]] Status OpenDeviceTensorMemory(int device, std::unique_ptr<TensorMemory>& memory);

}  // namespace cinch::versions
