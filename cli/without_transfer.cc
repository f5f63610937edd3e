// SPDX-License-Identifier: Apache-2.0
// Stands in for the commands that transfer until the engine is part of the build.
#include "cinch/transfer.h"
#include "commands.h"

extern "C" const char* cinch_transport_version(void) { return "none"; }
extern "C" cinch_status cinch_transport_list(char*, size_t) { return CINCH_ERROR_UNSUPPORTED; }
extern "C" __attribute__((weak)) const char* cinch_simd_target(void) { return "unknown"; }

namespace cinch::cli {
void AddSend(CLI::App*, Run*) {}
void AddRecv(CLI::App*, Run*) {}
void AddBenchP2p(CLI::App*, Run*) {}
}  // namespace cinch::cli
