// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cinch::cli {

struct CudaDevice {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  uint64_t memory_bytes = 0;
};

struct CudaDevices {
  /// The driver is there and works.
  bool available = false;
  /// Highest CUDA version of the driver, e.g. 13000; 0 when there is none.
  int driver_version = 0;
  /// Why not, when not available.
  std::string reason;
  std::vector<CudaDevice> devices;
};

/// Asks the CUDA driver, which is loaded only here: machines without one are normal.
CudaDevices FindCudaDevices();

}  // namespace cinch::cli
