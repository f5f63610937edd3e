// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "bench/gpu/device_bench.h"

namespace cinch::bench {

/// DietGPU's float codec with its default of 10 bits of probability, without checksums. Null when
/// it has nothing for the dtype.
std::unique_ptr<DeviceCodec> MakeDietGpu(const Problem& problem);

}  // namespace cinch::bench
