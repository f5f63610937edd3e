// SPDX-License-Identifier: Apache-2.0
#include "transfer/ucx/ucx_support.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "base/log.h"

namespace cinch::transfer::ucx {

Status LogFailure(const char* what, ucs_status_t status) {
  Log(LogLevel::kError, "UCX: {}: {}", what, ucs_status_string(status));
  return status == UCS_ERR_NO_MEMORY ? CINCH_ERROR_OUT_OF_MEMORY : CINCH_ERROR_TRANSPORT;
}

Status StatusOf(ucs_status_t status) {
  switch (status) {
    case UCS_OK:
      return CINCH_OK;
    case UCS_INPROGRESS:
      return CINCH_IN_PROGRESS;
    case UCS_ERR_NO_MEMORY:
      return CINCH_ERROR_OUT_OF_MEMORY;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CANCELED:  // Only a closing link cancels.
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_REJECTED:
      return CINCH_ERROR_PEER_LOST;
    default:
      Log(LogLevel::kDebug, "UCX: {}", ucs_status_string(status));
      return CINCH_ERROR_TRANSPORT;
  }
}

std::string PrintedText(const std::function<void(FILE*)>& print) {
  char* text = nullptr;
  size_t text_bytes = 0;
  FILE* stream = ::open_memstream(&text, &text_bytes);
  if (stream == nullptr) return {};
  print(stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  return std::string(text, text_bytes);
}

// Lines look like "#  lane[0]:  2:tcp/lo.0 md[1]  -> md[1]/tcp/sysdev[255]  am am_bw#0".
std::string PathFromPrint(const std::string& printed) {
  std::istringstream lines(printed);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const size_t lane = line.find("lane[");
    const size_t slash = line.find('/', lane);
    if (lane == std::string::npos || slash == std::string::npos) continue;
    const size_t colon = line.rfind(':', slash);
    const size_t end = line.find_first_of(" \t", slash);
    if (colon == std::string::npos || end == std::string::npos) continue;
    std::string name = line.substr(colon + 1, end - colon - 1);
    const size_t path_index = name.rfind('.');  // Which of several paths of the device.
    if (path_index != std::string::npos && path_index > name.find('/')) name.resize(path_index);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string path;
  for (const std::string& name : names) path += (path.empty() ? "" : " ") + name;
  return path;
}

}  // namespace cinch::transfer::ucx
