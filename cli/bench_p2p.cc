// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench_data.h"
#include "bench_peer.h"
#include "commands.h"
#include "engine_handles.h"
#include "interrupt.h"
#include "progress.h"
#include "table.h"
#include "units.h"

namespace cinch::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kFooter = R"(Examples:
  cinch bench p2p --link-gbps 2 --size 1M,64M    two processes on this machine, paced
  cinch bench p2p --listen 10.0.0.1:7078 --key-file key      on one machine, and on the other:
  cinch bench p2p --connect 10.0.0.1:7078 --key-file key --shaped-gbps 2 --json

Each size is sent raw, compressed and as the policy decides, in turns; times are medians, from the
start of the send until the receiver has the message. Every message is compared by checksum.)";

/// Small messages are measured more often, until about so much has been sent.
constexpr uint64_t kBytesPerSize = uint64_t{64} << 20;
constexpr uint32_t kMostTurns = 200;

struct Options {
  BenchDataOptions data;
  std::string sizes = "64K,1M,16M,64M";
  uint32_t repeat = 5;
  std::string connect;
  std::string listen;
  double shaped_gbps = 0;
  LinkOptions link;
  OutputStyle style;
};

/// All samples of one size and policy.
struct Series {
  std::vector<MessageSample> samples;

  double seconds() const {
    std::vector<double> values;
    for (const MessageSample& sample : samples) {
      values.push_back(sample.seconds);
    }
    return Median(values);
  }
  uint64_t wire_bytes() const { return samples.empty() ? 0 : samples.back().sender.wire_bytes; }
  double wire_busy_fraction() const {
    std::vector<double> values;
    for (const MessageSample& sample : samples) {
      const double elapsed = sample.sender.elapsed_seconds;
      values.push_back(elapsed > 0 ? std::min(1.0, sample.sender.wire_busy_seconds / elapsed) : 0);
    }
    return Median(values);
  }
  /// Of both ends; negative when nothing was coded.
  double overlap_efficiency() const {
    double busy = 0;
    double hidden = 0;
    for (const MessageSample& sample : samples) {
      busy += sample.sender.codec_busy_seconds + sample.receiver_codec_busy_seconds;
      hidden += sample.sender.hidden_codec_seconds + sample.receiver_hidden_codec_seconds;
    }
    return busy > 0 ? hidden / busy : -1;
  }
};

struct SizeResult {
  Series raw;
  Series compressed;
  Series automatic;
};

/// Ratios of turns, as neighbours in time see the same machine.
double PairwiseRatio(const Series& numerator, const Series& denominator) {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < numerator.samples.size(); ++turn) {
    ratios.push_back(numerator.samples[turn].seconds / denominator.samples[turn].seconds);
  }
  return Median(ratios);
}

double LinkGbps(const Options& options, const SizeResult& result) {
  if (options.shaped_gbps > 0) {
    return options.shaped_gbps;
  }
  return options.link.link_gbps > 0 ? options.link.link_gbps
                                    : result.raw.samples.back().sender.link_gbps_limit;
}

/// The time of that many bytes on a link without any delay; null when the rate is not known.
Json IdealSeconds(uint64_t bytes, double link_gbps) {
  return link_gbps > 0 ? Json(static_cast<double>(bytes) * 8e-9 / link_gbps) : Json();
}

Outcome PrintLine(const Options& options, const BenchData& data, const SizeResult& result,
                  const std::string& path) {
  const uint64_t bytes = data.buffer.size_bytes();
  const double link_gbps = LinkGbps(options, result);
  const double overlap = result.compressed.overlap_efficiency();
  const char* const pacing = options.shaped_gbps > 0 ? "link" : (link_gbps > 0 ? "engine" : "none");
  const Json line = {{"bench", "p2p"},
                     {"bytes", bytes},
                     {"data", data.label},
                     {"dtype", cinch_dtype_name(data.dtype)},
                     {"path", path},
                     {"link_gbps", link_gbps},
                     {"pacing", pacing},
                     {"repeat", result.raw.samples.size()},
                     {"wire_bytes", result.compressed.wire_bytes()},
                     {"raw_wire_bytes", result.raw.wire_bytes()},
                     {"kept_fraction", static_cast<double>(result.compressed.wire_bytes()) /
                                           static_cast<double>(bytes)},
                     {"raw_seconds", result.raw.seconds()},
                     {"compressed_seconds", result.compressed.seconds()},
                     {"auto_seconds", result.automatic.seconds()},
                     {"raw_ideal_seconds", IdealSeconds(bytes, link_gbps)},
                     {"ideal_seconds", IdealSeconds(result.compressed.wire_bytes(), link_gbps)},
                     {"speedup", PairwiseRatio(result.raw, result.compressed)},
                     {"auto_speedup", PairwiseRatio(result.raw, result.automatic)},
                     {"policy", PolicyName(result.automatic.samples.back().policy)},
                     {"overlap_efficiency", overlap < 0 ? Json() : Json(overlap)},
                     {"wire_busy_fraction", result.compressed.wire_busy_fraction()},
                     {"raw_wire_busy_fraction", result.raw.wire_busy_fraction()},
                     {"verified", true}};
  return Print(line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
}

void AddRow(const BenchData& data, const SizeResult& result, Table* table) {
  const uint64_t bytes = data.buffer.size_bytes();
  const double overlap = result.compressed.overlap_efficiency();
  table->Add({FormatBytes(bytes), FormatBytes(result.compressed.wire_bytes()),
              FormatSeconds(result.raw.seconds()), FormatSeconds(result.compressed.seconds()),
              fmt::format("{:.3f}", PairwiseRatio(result.raw, result.compressed)),
              PolicyName(result.automatic.samples.back().policy),
              fmt::format("{:.3f}", PairwiseRatio(result.raw, result.automatic)),
              overlap < 0 ? "-" : fmt::format("{:.1f} %", 100 * overlap),
              fmt::format("{:.1f} %", 100 * result.compressed.wire_busy_fraction())});
}

Outcome MeasureSize(BenchSender* sender, const BenchData& data, const Options& options,
                    SizeResult* result) {
  const uint64_t bytes = data.buffer.size_bytes();
  const auto more = static_cast<uint32_t>(std::min<uint64_t>(kMostTurns, kBytesPerSize / bytes));
  const uint32_t turns = std::max(options.repeat, options.repeat > 1 ? more : 1);
  Progress progress("measuring " + FormatBytes(bytes), 3 * turns * bytes, options.style.chatty());
  // One turn beforehand: connections and buffers warm up, the policy learns.
  for (uint32_t turn = 0; turn <= turns; ++turn) {
    for (const cinch_policy policy :
         {CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED, CINCH_POLICY_AUTO}) {
      MessageSample sample;
      if (Outcome outcome = sender->Measure(data, policy, &sample); !outcome.ok()) {
        return outcome;
      }
      Series& series = policy == CINCH_POLICY_RAW
                           ? result->raw
                           : (policy == CINCH_POLICY_AUTO ? result->automatic : result->compressed);
      if (turn > 0) {
        series.samples.push_back(sample);
        progress.Advance(bytes);
      }
    }
  }
  return {};
}

Outcome MeasureAll(cinch_endpoint* endpoint, const Options& options) {
  BenchSender sender(endpoint);
  Table table({"size", "on the wire", "raw", "compressed", "speed-up", "policy", "with policy",
               "overlap", "wire busy"});
  for (const uint64_t size_bytes : ParseSizes(options.sizes)) {
    BenchData data;
    SizeResult result;
    Outcome outcome = MakeBenchData(options.data, size_bytes, &data);
    if (outcome.ok()) {
      outcome = MeasureSize(&sender, data, options, &result);
    }
    if (outcome.ok() && options.style.json) {
      outcome = PrintLine(options, data, result, PathOf(endpoint));
    }
    if (!outcome.ok()) {
      return outcome;
    }
    AddRow(data, result, &table);
  }
  Outcome outcome = sender.End();
  if (outcome.ok() && !options.style.json) {
    outcome = Print(fmt::format("path {}\n{}", PathOf(endpoint), table.Format()));
  }
  return outcome;
}

Outcome RunSender(const Options& options, const std::string& address) {
  EngineHandle engine;
  EndpointHandle endpoint;
  Outcome outcome = CreateEngine(options.link, &engine);
  if (outcome.ok()) {
    outcome = Connect(engine.get(), options.link, address, &endpoint);
  }
  return outcome.ok() ? MeasureAll(endpoint.get(), options) : outcome;
}

/// Serves one sender; the address goes to `address_fd`, or to standard error when that is negative.
Outcome RunReceiver(const Options& options, const std::string& address, int address_fd) {
  EngineHandle engine;
  ListenerHandle listener;
  EndpointHandle endpoint;
  std::string bound_address;
  Outcome outcome = CreateEngine(options.link, &engine);
  if (outcome.ok()) {
    outcome = Listen(engine.get(), address, &listener, &bound_address);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  const std::string line = bound_address + '\n';
  if (address_fd < 0) {
    std::fputs(("listening on " + line).c_str(), stderr);
  } else if (write(address_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return FromStatus(CINCH_ERROR_IO, "the measuring process is gone");
  }
  outcome = Accept(listener.get(), 0, &endpoint);
  return outcome.ok() ? ServeBench(endpoint.get()) : outcome;
}

/// The child's whole life. It was forked before this process had any other thread.
[[noreturn]] void ChildMain(const Options& options, int address_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = static_cast<int>(ExitCode::kFailed);
  try {
    const Outcome outcome = RunReceiver(options, "127.0.0.1:0", address_fd);
    code = static_cast<int>(outcome.code);
    if (!outcome.ok()) {
      std::fputs(fmt::format("cinch bench p2p (receiver): {}\n", outcome.message).c_str(), stderr);
    }
  } catch (const std::exception& error) {
    std::fputs(fmt::format("cinch bench p2p (receiver): {}\n", error.what()).c_str(), stderr);
  }
  _exit(code);
}

std::string ReadLine(int descriptor) {
  std::string line;
  char character = 0;
  while (read(descriptor, &character, 1) == 1 && character != '\n') {
    line += character;
  }
  return line;
}

/// Two processes on this machine.
Outcome RunPair(const Options& options) {
  std::array<int, 2> pipe_fds{};
  if (pipe(pipe_fds.data()) != 0) {
    return FromStatus(CINCH_ERROR_IO, "cannot create a pipe");
  }
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_fds[0]);
    ChildMain(options, pipe_fds[1]);
  }
  close(pipe_fds[1]);
  const std::string address = child > 0 ? ReadLine(pipe_fds[0]) : "";
  close(pipe_fds[0]);
  Outcome outcome = address.empty()
                        ? FromStatus(CINCH_ERROR_IO, "the receiving process did not start")
                        : RunSender(options, address);
  if (child > 0) {
    if (!outcome.ok()) {
      kill(child, SIGKILL);
    }
    int wait_status = 0;
    waitpid(child, &wait_status, 0);
    if (outcome.ok() && wait_status != 0) {
      outcome = Refuse(ExitCode::kPeer, "the receiving process failed");
    }
  }
  return outcome;
}

Outcome RunBenchP2p(const Options& options) {
  if (ParseSizes(options.sizes).empty()) {
    return Refuse(
        ExitCode::kUsage,
        fmt::format("'{}' is not a list of sizes; write e.g. 64K,1M,256M", options.sizes));
  }
  if (!options.listen.empty()) {
    return RunReceiver(options, options.listen, -1);
  }
  return options.connect.empty() ? RunPair(options) : RunSender(options, options.connect);
}

}  // namespace

void AddBenchP2p(CLI::App* bench, Run* run) {
  CLI::App* command = bench->add_subcommand("p2p", "Transfers between two processes");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command->add_option("--size", options->sizes, "List of message sizes; K, M and G are binary")
      ->capture_default_str();
  command
      ->add_option("--data", options->data.data,
                   "Generator NAME[:PARAMETER] or file:PATH[:TENSOR]; see cinch bench codec")
      ->capture_default_str();
  command->add_option("--dtype", options->data.dtype, "What the codec is told")
      ->capture_default_str();
  command->add_option("--seed", options->data.seed, "Seed of the generator")->capture_default_str();
  command->add_option("--repeat", options->repeat, "Turns of each size, at least; 1: exactly one")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  CLI::Option* connect =
      command->add_option("--connect", options->connect, "Address of a `cinch bench p2p --listen`");
  command->add_option("--listen", options->listen, "Serve one sender at this address")
      ->excludes(connect);
  command
      ->add_option("--shaped-gbps", options->shaped_gbps,
                   "The link's own rate, for the record; --link-gbps makes the engine pace")
      ->check(CLI::Range(0.0, 100000.0));
  AddLinkOptions(command, &options->link);
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunBenchP2p(*options); }; });
}

}  // namespace cinch::cli
