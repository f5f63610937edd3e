// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "container_reader.h"
#include "progress.h"
#include "tensors/mapped_file.h"
#include "units.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch decompress model.safetensors.cinch       makes model.safetensors
  cinch decompress w.cinch -o weights.bin --force
  cinch decompress w.cinch -o - | sha256sum
  cinch decompress step2.safetensors.cinch --base step1.safetensors

The output is compared with the checksum of the original before it appears under its name.)";

constexpr std::string_view kExtension = ".cinch";

struct Options {
  std::string input;
  std::string output;
  std::string base;
  std::string backend = "cpu";
  uint32_t threads = 0;
  bool force = false;
  OutputStyle style;
};

/// -o, or the input without its extension.
Outcome ChooseOutput(const Options& options, std::string* output) {
  *output = options.output;
  if (!output->empty()) {
    return {};
  }
  if (!options.input.ends_with(kExtension) || options.input.size() == kExtension.size() ||
      options.input[options.input.size() - kExtension.size() - 1] == '/') {
    return Refuse(
        ExitCode::kUsage,
        fmt::format("'{}' does not end in .cinch; name the output with -o", options.input));
  }
  *output = options.input.substr(0, options.input.size() - kExtension.size());
  return {};
}

Outcome Summarise(const Options& options, const std::string& output, uint64_t compressed_bytes,
                  const container::Reader& reader, double seconds) {
  if (options.style.quiet || output == "-") {
    return {};
  }
  const double rate = GigabytesPerSecond(reader.original_bytes(), seconds);
  if (options.style.json) {
    const nlohmann::json line = {{"input", options.input},
                                 {"output", output},
                                 {"bytes", reader.original_bytes()},
                                 {"compressed_bytes", compressed_bytes},
                                 {"xxh3_128", ToHex(reader.digest())},
                                 {"seconds", seconds},
                                 {"gigabytes_per_second", rate}};
    return Print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  }
  return Print(fmt::format("{}: {} -> {} in {}, {:.2f} GB/s, checksum matches\n", output,
                           FormatBytes(compressed_bytes), FormatBytes(reader.original_bytes()),
                           FormatSeconds(seconds), rate));
}

Outcome RunDecompress(const Options& options) {
  cinch_backend backend = CINCH_BACKEND_CPU;
  CodecHandle codec;
  std::string output;
  Outcome outcome = ParseBackend(options.backend, &backend);
  if (outcome.ok()) {
    outcome = CreateCodec(backend, options.threads, &codec);
  }
  if (outcome.ok()) {
    outcome = ChooseOutput(options, &output);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  tensors::MappedFile file;
  std::string message;
  if (const Status status = tensors::MappedFile::Open(options.input, &file, &message);
      status != CINCH_OK) {
    return FromStatus(status, message);
  }
  container::Reader reader;
  tensors::MappedFile base;
  std::unique_ptr<ByteSink> sink;
  outcome = container::Reader::Open(file.bytes(), &reader);
  if (outcome.ok()) {
    outcome = container::OpenBaseOf(reader, options.base, &base);
  }
  if (outcome.ok()) {
    outcome = OpenSink(options.input, output, reader.original_bytes(), options.force, &sink);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  Progress progress("decompressing", reader.original_bytes(), options.style.chatty());
  const auto start = std::chrono::steady_clock::now();
  outcome =
      reader.DecodeAll(codec.get(), base.bytes(), &progress,
                       [&sink](const container::FrameRange&, std::span<const std::byte> chunk) {
                         return sink->Write(chunk);
                       });
  if (outcome.ok()) {
    outcome = sink->Finish();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  progress.Finish();
  return outcome.ok() ? Summarise(options, output, file.bytes().size(), reader, elapsed.count())
                      : outcome;
}

}  // namespace

void AddDecompress(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("decompress", "Restore the file in a .cinch file");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->input, "A .cinch file")->required();
  command->add_option("-o,--output", options->output,
                      "Where to write; default FILE without .cinch, '-' for standard output");
  command->add_option("--base", options->base,
                      "The file that FILE was compressed relative to, if it was");
  command->add_option("--backend", options->backend, "cpu, reference or cuda")
      ->capture_default_str();
  AddThreadsOption(command, &options->threads);
  command->add_flag("-f,--force", options->force, "Replace an existing output");
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunDecompress(*options); }; });
}

}  // namespace cinch::cli
