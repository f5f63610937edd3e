// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "container_writer.h"
#include "handles.h"
#include "progress.h"
#include "segments.h"
#include "units.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch compress model.safetensors               makes model.safetensors.cinch
  cinch compress weights.bin --dtype bf16 -o w.cinch
  cinch compress step2.safetensors --base step1.safetensors
  cinch compress model.safetensors -o - | ssh host 'cat > model.safetensors.cinch'

The output appears complete or not at all. `cinch decompress` gives the same bytes back.)";

struct Options {
  CodecInput input;
  std::string output;
  std::string base;
  bool force = false;
  OutputStyle style;
};

Outcome Summarise(const Options& options, const std::string& output,
                  const container::WriteResult& result, double seconds) {
  const double kept = result.original_bytes == 0 ? 1
                                                 : static_cast<double>(result.container_bytes) /
                                                       static_cast<double>(result.original_bytes);
  const double rate = GigabytesPerSecond(result.original_bytes, seconds);
  // With "-o -", standard output carries the container.
  if (options.style.quiet || output == "-") {
    return {};
  }
  if (options.style.json) {
    const nlohmann::json base =
        options.base.empty() ? nlohmann::json() : nlohmann::json(options.base);
    const nlohmann::json line = {{"input", options.input.path},
                                 {"base", base},
                                 {"output", output},
                                 {"bytes", result.original_bytes},
                                 {"compressed_bytes", result.container_bytes},
                                 {"kept_fraction", kept},
                                 {"frames", result.frame_count},
                                 {"xxh3_128", ToHex(result.digest)},
                                 {"seconds", seconds},
                                 {"gigabytes_per_second", rate}};
    return Print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  }
  return Print(fmt::format("{}: {} -> {} ({:.1f} % kept) in {}, {:.2f} GB/s\n", output,
                           FormatBytes(result.original_bytes), FormatBytes(result.container_bytes),
                           100 * kept, FormatSeconds(seconds), rate));
}

Outcome RunCompress(const Options& options) {
  OpenedInput opened;
  Outcome outcome = OpenInput(options.input, &opened);
  if (!outcome.ok()) {
    return outcome;
  }
  const tensors::TensorFile& file = opened.file;
  const std::string& input = options.input.path;
  if (container::HasMagic(file.bytes())) {
    return Refuse(ExitCode::kUsage,
                  fmt::format("'{}' is a .cinch file already; nothing to gain", input));
  }
  tensors::MappedFile base;
  if (outcome = OpenBase(options.base, file.bytes().size(), &base); !outcome.ok()) {
    return outcome;
  }
  const std::string output = options.output.empty() ? input + ".cinch" : options.output;
  if (!options.base.empty() && output != "-" && tensors::IsSameFile(options.base, output)) {
    return Refuse(
        ExitCode::kUsage,
        fmt::format("'{}' is base and output; without the base nobody can decompress", output));
  }
  std::unique_ptr<ByteSink> sink;
  outcome = OpenSink(input, output, 0, options.force, &sink);
  if (!outcome.ok()) {
    return outcome;
  }
  Progress progress("compressing", file.bytes().size(), options.style.chatty());
  container::WriteResult result;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Segment> segments = SegmentsOf(file, opened.dtype);
  outcome = container::Write({file, segments, base.bytes()}, opened.codec.get(), sink.get(),
                             &progress, &result);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  progress.Finish();
  return outcome.ok() ? Summarise(options, output, result, elapsed.count()) : outcome;
}

}  // namespace

void AddCompress(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("compress", "Compress a file into a .cinch file");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->input.path, "A safetensors file or any other file")
      ->required();
  command->add_option("-o,--output", options->output,
                      "Where to write; default FILE.cinch, '-' for standard output");
  command->add_option("--base", options->base,
                      "An earlier version of FILE, of the same size: only what differs is kept, "
                      "and decompressing needs the same --base");
  command
      ->add_option("--dtype", options->input.dtype,
                   "What the file holds; auto: what a safetensors header says, else each block "
                   "finds out")
      ->capture_default_str();
  command->add_option("--backend", options->input.backend, "cpu, reference or cuda")
      ->capture_default_str();
  AddThreadsOption(command, &options->input.threads);
  command->add_flag("-f,--force", options->force, "Replace an existing output");
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunCompress(*options); }; });
}

}  // namespace cinch::cli
