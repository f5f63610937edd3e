// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <csignal>

namespace cinch::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int) { interrupted = 1; }

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  // One chance to end cleanly; the next signal has its usual, deadly meaning. System calls are not
  // restarted, so that a blocking write ends too.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool Interrupted() { return interrupted != 0; }

Outcome InterruptedOutcome() {
  return Refuse(ExitCode::kInterrupted, "interrupted; nothing partial is left behind");
}

}  // namespace cinch::cli
