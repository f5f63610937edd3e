// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include <unistd.h>

#include <cstdio>
#include <span>

#include "byte_sink.h"

namespace cinch::cli {

void AddStyleOptions(CLI::App* command, OutputStyle* style) {
  command->add_flag("--json", style->json, "Print one JSON object (a line) instead of a table");
  command->add_flag("-q,--quiet", style->quiet, "Print nothing but errors; no progress bar");
}

void AddThreadsOption(CLI::App* command, uint32_t* threads) {
  command->add_option("--threads", *threads, "Codec threads; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

Outcome Print(const std::string& text) {
  std::fflush(stdout);
  return DescriptorSink(STDOUT_FILENO).Write(std::as_bytes(std::span(text)));
}

}  // namespace cinch::cli
