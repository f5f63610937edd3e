// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>

#include "cinch/version.h"
#include "commands.h"
#include "interrupt.h"

namespace cinch::cli {
namespace {

constexpr const char* kDescription =
    "cinch - lossless compression of floating-point tensors, in files and between processes.";

constexpr const char* kFooter = R"(Examples:
  cinch recv 127.0.0.1:7077 incoming/            wait for one sender and store its files
  cinch send model.safetensors 127.0.0.1:7077    send a file, compressed when that pays
  cinch inspect model.safetensors                what compression would bring, per tensor
  cinch compress model.safetensors               make model.safetensors.cinch
  cinch COMMAND --help                           options and examples of one command

Exit codes: 0 done, 1 the system refused, 2 usage, 3 bad data, 4 the peer or the way to it failed,
5 the output exists, 6 unsupported here, 130 interrupted.)";

/// Prints what CLI11 has to say. Help and version are no errors.
int ExplainParse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    return app.exit(error);
  }
  std::fputs(fmt::format("cinch: {}\nRun `cinch --help` or `cinch COMMAND --help`.\n", error.what())
                 .c_str(),
             stderr);
  return static_cast<int>(ExitCode::kUsage);
}

int Report(const std::string& command, const Outcome& outcome) {
  if (!outcome.ok()) {
    std::string line = "cinch " + command + ": " + outcome.message;
    if (outcome.status != CINCH_OK) {
      line += fmt::format(" ({})", cinch_status_name(outcome.status));
    }
    std::fputs((line + '\n').c_str(), stderr);
  }
  return static_cast<int>(outcome.code);
}

/// A program may be started without some of these. The next file that it opens would take such a
/// number, and what is meant for the terminal would end up in somebody's tensors. What is written
/// to these stand-ins fails, as it does to a closed descriptor.
void OccupyStandardDescriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) == -1) {
      // The lowest free number is this one, as those below it are taken.
      static_cast<void>(open("/dev/null", O_RDONLY));
    }
  }
}

int Main(int argument_count, char** arguments) {
  OccupyStandardDescriptors();
  CLI::App app{kDescription};
  app.name("cinch");
  app.footer(kFooter);
  app.set_version_flag("--version", "cinch " CINCH_VERSION_STRING);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  Run run;
  AddSend(&app, &run);
  AddRecv(&app, &run);
  AddCompress(&app, &run);
  AddDecompress(&app, &run);
  AddVerify(&app, &run);
  AddInspect(&app, &run);
  AddBench(&app, &run);
  AddPlan(&app, &run);
  AddInfo(&app, &run);
  AddNcclCheck(&app, &run);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    return ExplainParse(app, error);
  }
  const std::string command = app.get_subcommands().front()->get_name();
  CatchInterrupts(command);
  // The data path uses statuses; what is left are the containers' own failures.
  try {
    return Report(command, run());
  } catch (const std::bad_alloc&) {
    return Report(command, FromStatus(CINCH_ERROR_OUT_OF_MEMORY, {}));
  } catch (const std::exception& error) {
    return Report(command, FromStatus(CINCH_ERROR_INTERNAL, error.what()));
  }
}

}  // namespace
}  // namespace cinch::cli

int main(int argument_count, char** arguments) {
  return cinch::cli::Main(argument_count, arguments);
}
