// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cinch/codec.h"
#include "cinch/config.h"
#include "cinch/transfer.h"
#include "cinch/version.h"
#include "commands.h"
#include "container_format.h"
#include "cuda_devices.h"
#include "handles.h"
#include "table.h"
#include "units.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch info
  cinch info --json | python3 -m json.tool

Settings come from the environment; docs/configuration.md describes them. The exit code is 2 when
one of them has a value that it does not take.)";

struct Options {
  OutputStyle style;
};

struct Facts {
  uint32_t format_version = 0;
  std::string simd;
  int cores = 0;
  std::vector<std::string> backends;
  std::string transport;
  std::vector<std::string> transports;
  CudaDevices cuda;
};

/// From the frame of an empty input: the library has no other way to say it.
uint32_t FormatVersion() {
  CodecHandle codec;
  std::array<std::byte, 256> frame{};
  uint64_t frame_bytes = 0;
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  cinch_frame_info info{};
  info.struct_size = sizeof(info);
  if (!CreateCodec(CINCH_BACKEND_REFERENCE, 1, &codec).ok() ||
      cinch_compress(codec.get(), &options, &options, 0, frame.data(), frame.size(),
                     &frame_bytes) != CINCH_OK ||
      cinch_frame_inspect(frame.data(), frame_bytes, &info) != CINCH_OK) {
    return 0;
  }
  return info.format_version;
}

std::vector<std::string> Backends() {
  std::vector<std::string> names;
  for (const cinch_backend backend :
       {CINCH_BACKEND_CPU, CINCH_BACKEND_REFERENCE, CINCH_BACKEND_CUDA}) {
    CodecHandle codec;
    if (CreateCodec(backend, 1, &codec).ok()) {
      names.emplace_back(BackendName(backend));
    }
  }
  return names;
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// The name in a line such as "# resource 1 : md 1 dev 1 flags -- tcp/lo"; empty when the line only
/// decorates.
std::string TransportName(const std::string& line) {
  const size_t mark = line.rfind("-- ");
  if (mark != std::string::npos) {
    return line.substr(mark + 3);
  }
  return line.starts_with('#') ? "" : line;
}

std::vector<std::string> Transports() {
  std::vector<char> text(size_t{64} << 10);
  std::vector<std::string> lines;
  if (cinch_transport_list(text.data(), text.size()) == CINCH_OK) {
    std::istringstream stream(text.data());
    for (std::string line; std::getline(stream, line);) {
      if (std::string name = TransportName(line); !name.empty()) {
        lines.push_back(std::move(name));
      }
    }
  }
  return lines;
}

Facts Collect() {
  return {FormatVersion(),           cinch_simd_target(), UsableCores(),    Backends(),
          cinch_transport_version(), Transports(),        FindCudaDevices()};
}

Outcome PrintJson(const Facts& facts) {
  nlohmann::json devices = nlohmann::json::array();
  for (const CudaDevice& device : facts.cuda.devices) {
    devices.push_back(
        {{"name", device.name},
         {"compute_capability", fmt::format("{}.{}", device.compute_major, device.compute_minor)},
         {"memory_bytes", device.memory_bytes}});
  }
  nlohmann::json settings = nlohmann::json::array();
  for (size_t index = 0; index < cinch_config_count(); ++index) {
    if (const cinch_config_entry* entry = cinch_config_at(index); entry != nullptr) {
      settings.push_back({{"name", entry->name},
                          {"value", entry->value},
                          {"default", entry->default_value},
                          {"source", entry->is_set != 0 ? "environment" : "default"}});
    }
  }
  const nlohmann::json result = {{"version", CINCH_VERSION_STRING},
                                 {"format_version", facts.format_version},
                                 {"container_version", container::kVersion},
                                 {"simd", facts.simd},
                                 {"cores", facts.cores},
                                 {"backends", facts.backends},
                                 {"transport", facts.transport},
                                 {"transports", facts.transports},
                                 {"cuda",
                                  {{"available", facts.cuda.available},
                                   {"driver_version", facts.cuda.driver_version},
                                   {"reason", facts.cuda.reason},
                                   {"devices", std::move(devices)}}},
                                 {"config", std::move(settings)}};
  return Print(result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

std::string CudaText(const CudaDevices& cuda) {
  if (!cuda.available || cuda.devices.empty()) {
    return cuda.reason.empty() ? "no device" : cuda.reason;
  }
  std::string text =
      fmt::format("driver {}.{}", cuda.driver_version / 1000, cuda.driver_version % 1000 / 10);
  for (const CudaDevice& device : cuda.devices) {
    text +=
        fmt::format("\n                  {}, compute capability {}.{}, {}", device.name,
                    device.compute_major, device.compute_minor, FormatBytes(device.memory_bytes));
  }
  return text;
}

Outcome PrintText(const Facts& facts) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<18}{}\n", name, value);
  };
  add("cinch", CINCH_VERSION_STRING);
  add("frame format", std::to_string(facts.format_version));
  add("container format", std::to_string(container::kVersion));
  add("codec backends", fmt::format("{}", fmt::join(facts.backends, ", ")));
  add("SIMD target", facts.simd);
  add("cores", std::to_string(facts.cores));
  add("transport", facts.transport);
  add("", fmt::format("{}", fmt::join(facts.transports, ", ")));
  add("CUDA", CudaText(facts.cuda));
  Table table({"setting", "value", "source"});
  for (size_t index = 0; index < cinch_config_count(); ++index) {
    if (const cinch_config_entry* entry = cinch_config_at(index); entry != nullptr) {
      table.Add({entry->name, entry->value, entry->is_set != 0 ? "environment" : "default"});
    }
  }
  return Print(text + '\n' + table.Format());
}

Outcome RunInfo(const Options& options) {
  const Facts facts = Collect();
  Outcome outcome;
  if (!options.style.quiet) {
    outcome = options.style.json ? PrintJson(facts) : PrintText(facts);
  }
  if (outcome.ok()) {
    outcome = FromStatus(cinch_config_check(),
                         "a CINCH_ variable has a value that it does not take; the warning above "
                         "names it, docs/configuration.md lists the values");
  }
  return outcome;
}

}  // namespace

void AddInfo(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("info", "Show versions, hardware, transports, settings");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunInfo(*options); }; });
}

}  // namespace cinch::cli
