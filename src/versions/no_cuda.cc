// SPDX-License-Identifier: Apache-2.0
#include "versions/tensor_memory.h"

namespace cinch::versions {

Status OpenDeviceTensorMemory(int /*device*/, std::unique_ptr<TensorMemory>& /*memory*/) {
  return CINCH_ERROR_UNSUPPORTED;
}

}  // namespace cinch::versions
