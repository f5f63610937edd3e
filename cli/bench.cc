// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch bench codec --size 256M --json
  cinch bench p2p --link-gbps 2 --size 1M,64M --json

Results go to standard output, one line each with --json.)";

}  // namespace

void AddBench(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("bench", "Measure the codec or transfers");
  command->footer(kFooter);
  command->require_subcommand(1);
  AddBenchCodec(command, run);
  AddBenchP2p(command, run);
}

}  // namespace cinch::cli
