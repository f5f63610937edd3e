// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.h"

namespace cinch::cli {

/// Makes SIGINT, SIGTERM and SIGHUP a question that loops ask, so that every temporary file is
/// removed on the way out; the second such signal ends the process at once. SIGPIPE and
/// SIGXFSZ are ignored: a closed pipe and a file over its limit are errors of the write.
void CatchInterrupts();

/// Whether one of these signals came.
bool Interrupted();

/// What a loop returns then.
Outcome InterruptedOutcome();

}  // namespace cinch::cli
