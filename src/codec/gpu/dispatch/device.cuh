// SPDX-License-Identifier: Apache-2.0
/// @file device.cuh
/// The device of a stream, and what has to be known of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cinch/status.h"

namespace cinch::codec::gpu {

/// Makes a stream's device current for as long as it lives.
class StreamDevice {
 public:
  explicit StreamDevice(cudaStream_t stream);
  StreamDevice(const StreamDevice&) = delete;
  StreamDevice& operator=(const StreamDevice&) = delete;
  ~StreamDevice();

  /// OK, NO_DEVICE, INVALID_ARGUMENT (not a stream), DEVICE.
  Status status() const { return status_; }
  int device() const { return device_; }

 private:
  Status status_ = CINCH_OK;
  int device_ = 0;
  int previous_ = 0;
  bool switched_ = false;
};

/// How many thread blocks of each coding kernel a device runs at once.
struct DeviceCapacity {
  uint32_t encode_ctas;
  uint32_t decode_ctas;
};

/// Loads the kernels for the current device, `device`, the first time; thread-safe.
Status PrepareDevice(int device, DeviceCapacity* capacity);

/// The status of a runtime call. Clears the runtime's last error, which is the caller's to see only
/// when it is sticky.
Status StatusOf(cudaError_t error);

}  // namespace cinch::codec::gpu
