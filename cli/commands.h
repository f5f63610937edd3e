// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "outcome.h"

namespace cinch::cli {

/// What the parsed command line asks for. Set by the chosen subcommand, run after parsing.
using Run = std::function<Outcome()>;

/// Each adds its subcommand to `app`; parsing the subcommand sets `run`.
void AddSend(CLI::App* app, Run* run);
void AddRecv(CLI::App* app, Run* run);
void AddCompress(CLI::App* app, Run* run);
void AddDecompress(CLI::App* app, Run* run);
void AddVerify(CLI::App* app, Run* run);
void AddInspect(CLI::App* app, Run* run);
void AddBench(CLI::App* app, Run* run);
void AddInfo(CLI::App* app, Run* run);
void AddPlan(CLI::App* app, Run* run);
void AddNcclCheck(CLI::App* app, Run* run);

/// The two halves of `cinch bench`.
void AddBenchCodec(CLI::App* bench, Run* run);
void AddBenchP2p(CLI::App* bench, Run* run);

/// How results are shown.
struct OutputStyle {
  bool json = false;
  bool quiet = false;

  /// Progress bars and remarks are for persons.
  bool chatty() const { return !json && !quiet; }
};

/// Adds --json and --quiet.
void AddStyleOptions(CLI::App* command, OutputStyle* style);

/// Adds --threads with its range; 0 is all cores.
void AddThreadsOption(CLI::App* command, uint32_t* threads);

/// Prints to standard output and checks that it got there.
Outcome Print(const std::string& text);

}  // namespace cinch::cli
