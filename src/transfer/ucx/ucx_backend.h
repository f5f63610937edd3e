// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "transfer/backend.h"

namespace cinch::transfer {

/// Makes a backend on UCX: one context, and workers for its peers. Peers reach it through active
/// messages. OK, TRANSPORT (the log has UCX's words), OUT_OF_MEMORY.
[[nodiscard]] Status CreateUcxBackend(const BackendOptions& options, BackendEvents& events,
                                      std::unique_ptr<Backend>& backend);

/// "UCX 1.13.1".
[[nodiscard]] const char* UcxVersion();

/// The transports that UCX finds here, one a line. OK, TRANSPORT.
[[nodiscard]] Status ListUcxTransports(std::string& text);

}  // namespace cinch::transfer
