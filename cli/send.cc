// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <set>

#include "commands.h"
#include "engine_handles.h"
#include "exchange.h"
#include "file_sender.h"
#include "handles.h"
#include "progress.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch send model.safetensors 127.0.0.1:7077
  cinch send *.safetensors tokenizer.json 10.0.0.2:7077 --key-file key
  cinch send weights.bin 127.0.0.1:7077 --dtype bf16 --policy compressed --json

Ends with 0 only when the receiver has checked and stored every file.)";

struct Options {
  /// The files, and last the address.
  std::vector<std::string> arguments;
  std::string dtype = "auto";
  std::string report;
  LinkOptions link;
  OutputStyle style;
};

std::string BaseName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

Outcome OpenFiles(const std::vector<std::string>& paths, cinch_dtype dtype,
                  std::vector<OutgoingFile>* files) {
  std::set<std::string> names;
  for (const std::string& path : paths) {
    OutgoingFile outgoing;
    outgoing.name = BaseName(path);
    std::string message;
    const Status status = tensors::TensorFile::Open(path, tensors::TensorFile::Kind::kByName, dtype,
                                                    &outgoing.file, &message);
    if (status != CINCH_OK) {
      return FromStatus(status, message);
    }
    if (Outcome outcome = exchange::CheckName(outgoing.name); !outcome.ok()) {
      return Refuse(ExitCode::kUsage, outcome.message);
    }
    if (!names.insert(outgoing.name).second) {
      return Refuse(
          ExitCode::kUsage,
          fmt::format("two files are named '{}'; send them one after another", outgoing.name));
    }
    outgoing.segments = SegmentsOf(outgoing.file, dtype);
    outgoing.chunks = ChunksOf(outgoing.segments, kChunkBytes);
    files->push_back(std::move(outgoing));
  }
  return {};
}

Outcome RunSend(const Options& options) {
  if (options.arguments.size() < 2) {
    return Refuse(ExitCode::kUsage, "name at least one file and then HOST:PORT");
  }
  const std::string& address = options.arguments.back();
  const std::vector<std::string> paths(options.arguments.begin(), options.arguments.end() - 1);
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  std::vector<OutgoingFile> files;
  EngineHandle engine;
  EndpointHandle endpoint;
  Outcome outcome = ParseDtype(options.dtype, &dtype);
  if (outcome.ok()) {
    outcome = OpenFiles(paths, dtype, &files);
  }
  if (outcome.ok()) {
    outcome = CreateEngine(options.link, &engine);
  }
  if (outcome.ok()) {
    outcome = Connect(engine.get(), options.link, address, &endpoint);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  uint64_t total_bytes = 0;
  for (const OutgoingFile& outgoing : files) {
    total_bytes += outgoing.file.bytes().size();
  }
  Progress progress("sending", total_bytes, options.style.chatty());
  TransferReport report;
  report.verb = "sent";
  outcome =
      FileSender(endpoint.get(), &progress, ConnectSeconds(options.link)).Send(files, &report);
  // Files stay mapped until the engine has let go of them.
  endpoint.reset();
  engine.reset();
  progress.Finish();
  return outcome.ok() ? PrintReport(report, options.style, options.report) : outcome;
}

}  // namespace

void AddSend(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("send", "Send files to a `cinch recv`");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command
      ->add_option("FILE... HOST:PORT", options->arguments,
                   "Files (safetensors or any other), and last the receiver's address")
      ->required();
  command
      ->add_option("--dtype", options->dtype,
                   "What the files hold; auto: what a safetensors header says, else each block "
                   "finds out")
      ->capture_default_str();
  AddLinkOptions(command, &options->link);
  AddReportOption(command, &options->report);
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunSend(*options); }; });
}

}  // namespace cinch::cli
