// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "outcome.h"

namespace cinch::cli {

/// Makes SIGINT, SIGTERM and SIGHUP a question that loops ask, so that every temporary file is
/// removed on the way out; the second such signal ends the process at once. SIGPIPE and
/// SIGXFSZ are ignored: a closed pipe and a file over its limit are errors of the write. SIGBUS,
/// which a mapped file raises when it shrank, ends the process with a message and kFailed.
/// `command` begins what is said then.
void CatchInterrupts(const std::string& command);

/// While one lives, such a signal ends the process at once, with a message and kInterrupted: for
/// calls of the library that wait long, and where there is nothing to tidy up.
class InterruptsEndAtOnce {
 public:
  InterruptsEndAtOnce();
  ~InterruptsEndAtOnce();
  InterruptsEndAtOnce(const InterruptsEndAtOnce&) = delete;
  InterruptsEndAtOnce& operator=(const InterruptsEndAtOnce&) = delete;
};

/// Whether one of these signals came.
bool Interrupted();

/// What a loop returns then.
Outcome InterruptedOutcome();

}  // namespace cinch::cli
