// SPDX-License-Identifier: Apache-2.0
// What a build without CUDA has of devices.
#include "transfer/device_runtime.h"

namespace cinch::transfer {

std::shared_ptr<DeviceRuntime> CudaDeviceRuntime() { return nullptr; }

}  // namespace cinch::transfer
