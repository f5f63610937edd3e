// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string>
#include <string_view>

namespace cinch::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

volatile std::sig_atomic_t ends_at_once = 0;

constexpr std::string_view kWhatHappened = "interrupted; nothing partial is left behind";

/// Set before there are handlers.
std::string speaker;

/// What a handler may say: nothing that allocates or locks.
void SayLine(std::string_view text) {
  for (const std::string_view part : {std::string_view(speaker), text, std::string_view("\n")}) {
    const ssize_t written = write(STDERR_FILENO, part.data(), part.size());
    static_cast<void>(written);
  }
}

void OnSignal(int) {
  interrupted = 1;
  if (ends_at_once != 0) {
    SayLine(kWhatHappened);
    _exit(static_cast<int>(ExitCode::kInterrupted));
  }
}

/// Reading a mapped file where it ends by now, or where its disk fails, has no other way to say
/// so. Outputs have no name yet, so that nothing partial stays.
void OnLostPage(int) {
  SayLine("a file could not be read: it became shorter meanwhile, or its disk failed");
  _exit(static_cast<int>(ExitCode::kFailed));
}

}  // namespace

void CatchInterrupts(const std::string& command) {
  speaker = "cinch " + command + ": ";
  struct sigaction action {};
  action.sa_handler = OnSignal;
  // One chance to end cleanly; the next signal has its usual, deadly meaning. System calls are not
  // restarted, so that a blocking write ends too.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(signal, &action, nullptr);
  }
  struct sigaction lost_page {};
  lost_page.sa_handler = OnLostPage;
  sigaction(SIGBUS, &lost_page, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

InterruptsEndAtOnce::InterruptsEndAtOnce() {
  ends_at_once = 1;
  if (interrupted != 0) {
    OnSignal(0);
  }
}

InterruptsEndAtOnce::~InterruptsEndAtOnce() { ends_at_once = 0; }

bool Interrupted() { return interrupted != 0; }

Outcome InterruptedOutcome() { return Refuse(ExitCode::kInterrupted, std::string(kWhatHappened)); }

}  // namespace cinch::cli
