// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace cinch::transfer::ucx {

/// The one active message that carries everything; its header says what it is.
inline constexpr unsigned kActiveMessageId = 0;

/// Logs that UCX failed at `what`. TRANSPORT, OUT_OF_MEMORY.
[[nodiscard]] Status LogFailure(const char* what, ucs_status_t status);

/// What a failure of UCX means to the engine.
[[nodiscard]] Status StatusOf(ucs_status_t status);

/// What a function of UCX prints to a FILE, as text.
[[nodiscard]] std::string PrintedText(const std::function<void(FILE*)>& print);

/// The transport names in the output of ucp_ep_print_info(), e.g. "tcp/lo cma/memory", each once.
[[nodiscard]] std::string PathFromPrint(const std::string& printed);

}  // namespace cinch::transfer::ucx
