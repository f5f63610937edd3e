// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "container_reader.h"
#include "progress.h"
#include "tensors/tensor_file.h"
#include "units.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch verify model.safetensors.cinch           decode everything and compare the checksums
  cinch verify model.safetensors                 check the header against the format's rules
  cinch verify *.cinch --quiet && echo intact

Exit code 3 means that a file is damaged; the first one found is named.)";

struct Options {
  std::vector<std::string> inputs;
  std::string base;
  uint32_t threads = 0;
  OutputStyle style;
};

/// What was found in one good file.
struct Finding {
  std::string kind;
  uint64_t tensors = 0;
  uint64_t original_bytes = 0;
  std::string digest;
};

Outcome VerifyContainer(std::span<const std::byte> file, const Options& options, Finding* finding) {
  CodecHandle codec;
  container::Reader reader;
  Outcome outcome = CreateCodec(CINCH_BACKEND_CPU, options.threads, &codec);
  if (outcome.ok()) {
    outcome = container::Reader::Open(file, &reader);
  }
  tensors::MappedFile base;
  if (outcome.ok()) {
    outcome = container::OpenBaseOf(reader, options.base, &base);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  Progress progress("verifying", reader.original_bytes(), options.style.chatty());
  outcome = reader.DecodeAll(
      codec.get(), base.bytes(), &progress,
      [](const container::FrameRange&, std::span<const std::byte>) { return Outcome{}; });
  for (const Segment& segment : reader.directory().segments) {
    finding->tensors += segment.is_tensor ? 1 : 0;
  }
  finding->kind = "cinch";
  finding->original_bytes = reader.original_bytes();
  finding->digest = ToHex(reader.digest());
  return outcome;
}

Outcome VerifyFile(const std::string& path, const Options& options, Finding* finding) {
  tensors::TensorFile file;
  std::string message;
  if (const Status status = tensors::TensorFile::Open(path, tensors::TensorFile::Kind::kByName,
                                                      CINCH_DTYPE_BYTES, &file, &message);
      status != CINCH_OK) {
    return FromStatus(status, message);
  }
  if (file.is_safetensors()) {
    finding->kind = "safetensors";
    finding->tensors = file.tensors().size();
    finding->original_bytes = file.bytes().size();
    return {};
  }
  Outcome outcome = VerifyContainer(file.bytes(), options, finding);
  if (!outcome.ok()) {
    outcome.message = fmt::format("'{}': {}", path, outcome.message);
  }
  return outcome;
}

Outcome Summarise(const std::string& path, const Options& options, const Finding& finding,
                  double seconds) {
  if (options.style.quiet) {
    return {};
  }
  if (options.style.json) {
    const nlohmann::json line = {{"file", path},
                                 {"kind", finding.kind},
                                 {"ok", true},
                                 {"tensors", finding.tensors},
                                 {"xxh3_128", finding.digest},
                                 {"bytes", finding.original_bytes},
                                 {"seconds", seconds}};
    return Print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  }
  if (finding.kind == "safetensors") {
    return Print(fmt::format("{}: a valid safetensors header, {} tensors, {}\n", path,
                             finding.tensors, FormatBytes(finding.original_bytes)));
  }
  return Print(fmt::format("{}: intact, {} tensors, {}, xxh3-128 {}, {:.2f} GB/s\n", path,
                           finding.tensors, FormatBytes(finding.original_bytes), finding.digest,
                           GigabytesPerSecond(finding.original_bytes, seconds)));
}

Outcome RunVerify(const Options& options) {
  for (const std::string& path : options.inputs) {
    Finding finding;
    const auto start = std::chrono::steady_clock::now();
    Outcome outcome = VerifyFile(path, options, &finding);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (outcome.ok()) {
      outcome = Summarise(path, options, finding, elapsed.count());
    }
    if (!outcome.ok()) {
      return outcome;
    }
  }
  return {};
}

}  // namespace

void AddVerify(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("verify", "Check that .cinch or safetensors files are intact");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->inputs, "Files to check")->required();
  command->add_option("--base", options->base,
                      "The file that .cinch files were compressed relative to, if they were");
  AddThreadsOption(command, &options->threads);
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunVerify(*options); }; });
}

}  // namespace cinch::cli
