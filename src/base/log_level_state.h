// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/log.h"

namespace cinch {

/// Sets the level that the configuration asks for, unless SetLogLevel() was called before. For the
/// configuration only, which calls it before it logs anything itself.
void InitializeLogLevel(LogLevel level);

}  // namespace cinch
