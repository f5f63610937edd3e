// SPDX-License-Identifier: Apache-2.0
#include "collectives/device.h"

namespace cinch::collectives {

Device* CudaDevice() { return nullptr; }

}  // namespace cinch::collectives
