// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "bench/gpu/device_bench.h"

namespace cinch::bench {

/// nvCOMP's batched ANS and Bitcomp coders, each item a chunk. The library is loaded from `library`
/// at run time. Null when it cannot be loaded or has nothing for the dtype.
std::unique_ptr<DeviceCodec> MakeNvcompAns(const std::string& library, const Problem& problem);
std::unique_ptr<DeviceCodec> MakeNvcompBitcomp(const std::string& library, const Problem& problem);

}  // namespace cinch::bench
