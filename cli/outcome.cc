// SPDX-License-Identifier: Apache-2.0
#include "outcome.h"

namespace cinch::cli {

ExitCode ExitCodeOf(Status status) {
  switch (status) {
    case CINCH_OK:
      return ExitCode::kOk;
    case CINCH_ERROR_INVALID_ARGUMENT:
    case CINCH_ERROR_CONFIG:
    case CINCH_ERROR_ADDRESS:
    case CINCH_ERROR_KEY_REQUIRED:
      return ExitCode::kUsage;
    case CINCH_ERROR_UNSUPPORTED:
    case CINCH_ERROR_DEVICE:
    case CINCH_ERROR_NO_DEVICE:
      return ExitCode::kUnsupported;
    case CINCH_ERROR_FILE_FORMAT:
      return ExitCode::kBadData;
    default:
      break;
  }
  const int value = static_cast<int>(status);
  if (value <= CINCH_ERROR_FRAME_TRUNCATED && value > CINCH_ERROR_TIMEOUT) {
    return ExitCode::kBadData;
  }
  if (value <= CINCH_ERROR_TIMEOUT && value > CINCH_ERROR_OUT_OF_MEMORY) {
    return ExitCode::kPeer;
  }
  return ExitCode::kFailed;
}

Outcome FromStatus(Status status, std::string message) {
  if (status == CINCH_OK) {
    return {};
  }
  if (message.empty()) {
    message = cinch_status_text(status);
  }
  return {ExitCodeOf(status), status, std::move(message)};
}

Outcome Refuse(ExitCode code, std::string message) { return {code, CINCH_OK, std::move(message)}; }

}  // namespace cinch::cli
