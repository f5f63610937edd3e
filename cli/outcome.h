// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "cinch/status.h"

namespace cinch::cli {

/// What the process returns to the shell; docs/cli.md lists them and they never change.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,        ///< The system refused: reading, writing, disk space, memory.
  kUsage = 2,         ///< The command line or the environment cannot be meant so.
  kBadData = 3,       ///< A file or stream is broken, or is not what it claims to be.
  kPeer = 4,          ///< The other end, or the way to it, failed.
  kExists = 5,        ///< The output exists and --force was not given.
  kUnsupported = 6,   ///< This build or machine cannot do it.
  kInterrupted = 130  ///< SIGINT or SIGTERM; temporary files are gone.
};

/// How a step of a command went. Statuses cross the library's border, outcomes stay in the tool.
struct [[nodiscard]] Outcome {
  ExitCode code = ExitCode::kOk;
  Status status = CINCH_OK;
  /// What happened and what to do, without the name of the command and without a final stop.
  std::string message;

  bool ok() const { return code == ExitCode::kOk; }
};

/// The exit code that belongs to a status.
ExitCode ExitCodeOf(Status status);

/// OK for CINCH_OK; otherwise the status with `message`, or with the status's own text when
/// `message` is empty.
Outcome FromStatus(Status status, std::string message);

/// A failure without a status of the library.
Outcome Refuse(ExitCode code, std::string message);

}  // namespace cinch::cli
