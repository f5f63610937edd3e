// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <span>

#include "byte_sink.h"
#include "commands.h"
#include "engine_handles.h"
#include "file_receiver.h"
#include "interrupt.h"
#include "progress.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch recv 127.0.0.1:7077 incoming/            one sender, then end
  cinch recv 0.0.0.0:7077 incoming/ --keep --key-file key
  cinch recv 127.0.0.1:0 . --address-file where  a free port; the file tells which

A file appears in the directory once its checksum matches, and not before. An address that is not
loopback needs a shared key of at least 16 bytes: head -c 32 /dev/urandom | base64 > key)";

struct Options {
  std::string address;
  ReceiveOptions receive;
  std::string address_file;
  double wait_seconds = 0;
  bool once = false;
  bool keep = false;
  std::string report;
  LinkOptions link;
  OutputStyle style;
};

Outcome CheckDirectory(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Refuse(
        ExitCode::kUsage,
        fmt::format("'{}' is not a directory; create it first: mkdir -p '{}'", path, path));
  }
  return {};
}

Outcome TellAddress(const Options& options, const std::string& address) {
  if (!options.style.quiet) {
    std::fputs(fmt::format("listening on {}\n", address).c_str(), stderr);
  }
  if (options.address_file.empty()) {
    return {};
  }
  std::unique_ptr<ByteSink> sink;
  const std::string line = address + '\n';
  Outcome outcome = FileSink::Create(options.address_file, 0, true, &sink);
  if (outcome.ok()) {
    outcome = sink->Write(std::as_bytes(std::span(line)));
  }
  return outcome.ok() ? sink->Finish() : outcome;
}

Outcome ServeOne(cinch_endpoint* endpoint, const Options& options) {
  FileReceiver receiver(endpoint, options.receive);
  if (Outcome outcome = receiver.TakeManifest(); !outcome.ok()) {
    return outcome;
  }
  Progress progress("receiving", receiver.manifest().total_bytes(), options.style.chatty());
  TransferReport report;
  report.verb = "received";
  Outcome outcome = receiver.Receive(&progress, &report);
  progress.Finish();
  return outcome.ok() ? PrintReport(report, options.style, options.report) : outcome;
}

/// With --keep, a bad sender is reported and the next one is served.
Outcome Serve(cinch_listener* listener, const Options& options) {
  while (true) {
    EndpointHandle endpoint;
    Outcome outcome = Accept(listener, options.wait_seconds, &endpoint);
    if (!outcome.ok()) {
      return outcome;
    }
    outcome = ServeOne(endpoint.get(), options);
    if (!options.keep || outcome.code == ExitCode::kInterrupted) {
      return outcome;
    }
    if (!outcome.ok()) {
      std::fputs(fmt::format("cinch recv: {}\n", outcome.message).c_str(), stderr);
    }
  }
}

Outcome RunRecv(const Options& options) {
  EngineHandle engine;
  ListenerHandle listener;
  std::string bound_address;
  Outcome outcome = CheckDirectory(options.receive.directory);
  if (outcome.ok()) {
    outcome = CreateEngine(options.link, &engine);
  }
  if (outcome.ok()) {
    outcome = Listen(engine.get(), options.address, &listener, &bound_address);
  }
  if (outcome.ok()) {
    outcome = TellAddress(options, bound_address);
  }
  return outcome.ok() ? Serve(listener.get(), options) : outcome;
}

}  // namespace

void AddRecv(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("recv", "Receive files from `cinch send`");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command
      ->add_option("ADDRESS", options->address,
                   "Local HOST:PORT to listen on; port 0 takes a free one")
      ->required();
  command->add_option("DIR", options->receive.directory, "Where to store the files")->required();
  command->add_flag("-f,--force", options->receive.force, "Replace files that exist");
  CLI::Option* once = command->add_flag("--once", options->once, "Serve one sender (the default)");
  command->add_flag("--keep", options->keep, "Serve senders, one after another, until interrupted")
      ->excludes(once);
  command
      ->add_option("--wait", options->wait_seconds,
                   "Seconds to wait for a sender; default: for ever")
      ->check(CLI::Range(0.0, 1e9));
  command->add_option("--address-file", options->address_file,
                      "Write the address that is listened on to this file");
  AddLinkOptions(command, &options->link);
  AddReportOption(command, &options->report);
  AddStyleOptions(command, &options->style);
  command->callback([options, run] {
    options->receive.timeout_seconds = ConnectSeconds(options->link);
    *run = [options] { return RunRecv(*options); };
  });
}

}  // namespace cinch::cli
