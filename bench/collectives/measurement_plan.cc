// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives/measurement_plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace cinch::bench {
namespace {

constexpr uint32_t kMaxRanks = 16;
/// Two thread blocks fit a multiprocessor of the fused kernels' size, and all ranks' must run at
/// once; a few are left to whatever else runs.
constexpr uint32_t kSharedSms = 128;
constexpr uint64_t kMinBytes = uint64_t{64} << 10;
constexpr uint64_t kMaxBytes = uint64_t{16} << 30;
/// Parts of ranks begin at multiples of this.
constexpr uint64_t kPartAlignment = 256;

constexpr std::array<std::pair<Collective, const char*>, 7> kCollectiveNames{
    {{Collective::kSendReceive, "send-receive"},
     {Collective::kSendOneWay, "send"},
     {Collective::kBroadcast, "broadcast"},
     {Collective::kAllGather, "all-gather"},
     {Collective::kAllToAll, "all-to-all"},
     {Collective::kReduceScatter, "reduce-scatter"},
     {Collective::kAllReduce, "all-reduce"}}};
constexpr std::array<std::pair<Method, const char*>, 6> kMethodNames{
    {{Method::kNccl, "nccl"},
     {Method::kWrapped, "wrapped"},
     {Method::kCopies, "copies"},
     {Method::kFused, "fused"},
     {Method::kFusedDirect, "fused direct"},
     {Method::kFusedRaw, "fused raw"}}};

template <typename Names, typename Value>
const char* Find(const Names& names, Value value) {
  const auto* found = std::ranges::find_if(names, [&](const auto& n) { return n.first == value; });
  return found == names.end() ? "?" : found->second;
}

/// The options as text, and their places.
class Parser {
 public:
  explicit Parser(CompareOptions* options)
      : options_(options),
        app_(
            "Compares the fused collectives with NCCL over the GPUs of one host, in one run.\n"
            "A JSON object a line for each measurement; GB/s are 10^9 original bytes.",
            "fused_bench compare") {
    app_.add_option("--gpus", options->gpus, "Ranks, one a GPU; all visible ones by default")
        ->check(CLI::Range(2U, kMaxRanks));
    app_.add_flag("--share-gpu", options->share_gpu,
                  "All ranks on one GPU (two, or as --gpus says), without NCCL: to try this");
    std::vector<std::string> known;
    known.reserve(kCollectiveNames.size());
    for (const auto& [collective, name] : kCollectiveNames) known.emplace_back(name);
    app_.add_option("--operations", names_, "Some of them only")
        ->delimiter(',')
        ->check(CLI::IsMember(known));
    app_.add_option("--sizes", options->sizes_bytes,
                    "Bytes of a rank's larger buffer, the most important first; K, M, G are binary")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(kMinBytes, kMaxBytes));
    app_.add_option("--sms", options->sms, "Multiprocessors' worth of thread blocks of each GPU")
        ->delimiter(',')
        ->check(CLI::Range(1U, kSharedSms));
    app_.add_option("--dtype", dtype_, "bf16 (coded) or fp32 (travels as it is)")
        ->check(CLI::IsMember({"bf16", "fp32"}))
        ->capture_default_str();
    app_.add_option("--data", options->data, "A kind of data, or file:PATH")->capture_default_str();
    app_.add_option("--nccl", options->nccl, "NCCL's library")->capture_default_str();
    app_.add_option("--wrapped", options->wrapped,
                    "The interposer's path: measures it, too, as its settings say");
    app_.add_option("--seconds", options->budget_seconds, "No measurement begins later")
        ->check(CLI::Range(0.0, 86400.0))
        ->capture_default_str();
    app_.add_flag("--dry", options->dry, "Print what would be measured; needs no GPU");
  }

  Parsed Parse(std::vector<std::string> arguments, std::string* text) {
    std::ranges::reverse(arguments);  // As CLI11 wants them.
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      *text = app_.help();
      return Parsed::kHelp;
    } catch (const CLI::ParseError& error) {
      *text = error.what();
      return Parsed::kWrong;
    }
    Complete();
    return Parsed::kRun;
  }

 private:
  void Complete() {
    for (const auto& [collective, name] : kCollectiveNames) {
      if (names_.empty() || std::ranges::find(names_, name) != names_.end()) {
        options_->collectives.push_back(collective);
      }
    }
    if (options_->sizes_bytes.empty()) {
      for (const uint64_t megabytes : {256, 32, 1024, 1, 512, 64, 4, 4096}) {
        options_->sizes_bytes.push_back(megabytes << 20);
      }
    }
    if (options_->sms.empty()) options_->sms = {64, 48, 32, 16};
    options_->dtype = dtype_ == "fp32" ? CINCH_DTYPE_FP32 : CINCH_DTYPE_BF16;
  }

  CompareOptions* options_;
  CLI::App app_;
  std::vector<std::string> names_;
  std::string dtype_ = "bf16";
};

/// A message of so many bytes, cut down to equal parts for the ranks.
uint64_t WholeParts(uint64_t bytes, uint32_t ranks) {
  return bytes / ranks / kPartAlignment * kPartAlignment * ranks;
}

void AddGroup(const CompareOptions& options, uint32_t most_sms, const Measurement& first,
              std::vector<Measurement>* plan) {
  const auto add = [&](Method method, uint32_t sms) {
    plan->push_back({first.collective, method, first.bytes, sms});
  };
  if (!options.share_gpu) {
    add(Method::kNccl, 0);
    if (!options.wrapped.empty()) add(Method::kWrapped, 0);
  }
  if (!AddsUp(first.collective)) add(Method::kCopies, 0);
  std::vector<uint32_t> sms = options.sms;
  std::erase_if(sms, [&](uint32_t count) { return count > most_sms; });
  if (sms.empty()) sms.push_back(most_sms);
  const uint32_t largest = *std::ranges::max_element(sms);
  if (options.dtype == CINCH_DTYPE_BF16) {
    for (const uint32_t count : sms) add(Method::kFused, count);
    add(Method::kFusedDirect, largest);
    add(Method::kFusedRaw, largest);
  } else {
    for (const uint32_t count : sms) add(Method::kFusedRaw, count);
  }
}

}  // namespace

const char* NameOf(Collective collective) { return Find(kCollectiveNames, collective); }
const char* NameOf(Method method) { return Find(kMethodNames, method); }

Parsed ParseCompareOptions(const std::vector<std::string>& arguments, CompareOptions* options,
                           std::string* text) {
  *options = {};
  return Parser(options).Parse(arguments, text);
}

bool ChooseRanks(const CompareOptions& options, uint32_t visible_gpus, uint32_t* ranks,
                 std::string* text) {
  if (options.dry || options.share_gpu) {
    *ranks = options.gpus != 0 ? options.gpus : std::clamp(visible_gpus, 2U, kMaxRanks);
    if (options.share_gpu && options.gpus == 0) *ranks = 2;
    if (options.dry || visible_gpus > 0) return true;
    *text = "no GPU is visible here";
    return false;
  }
  const uint32_t wanted = options.gpus != 0 ? options.gpus : 2;
  if (visible_gpus < wanted) {
    *text = "needs " + std::to_string(wanted) + " GPUs, and " + std::to_string(visible_gpus) +
            " can be seen here; --share-gpu tries the fused kernels with all ranks on one";
    return false;
  }
  *ranks = options.gpus != 0 ? options.gpus : std::min(visible_gpus, kMaxRanks);
  return true;
}

std::vector<Measurement> MakePlan(const CompareOptions& options, uint32_t ranks) {
  const uint32_t most_sms = options.share_gpu ? kSharedSms / ranks : kSharedSms;
  std::vector<Measurement> plan;
  for (const uint64_t bytes : options.sizes_bytes) {
    for (const Collective collective : options.collectives) {
      AddGroup(options, most_sms, {collective, Method::kNccl, WholeParts(bytes, ranks), 0}, &plan);
    }
  }
  return plan;
}

bool HasOneResult(Collective collective, uint32_t ranks) {
  return ranks == 2 || !AddsUp(collective);
}

double TargetOf(Collective collective, uint64_t bytes) {
  constexpr double kMedium = 1.1;
  if (bytes < uint64_t{32} << 20) return 0;
  if (bytes < uint64_t{256} << 20) return kMedium;
  switch (collective) {
    case Collective::kSendReceive:
      return 1.25;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return 1.3;
    case Collective::kReduceScatter:
    case Collective::kAllReduce:
      return 1.15;
    case Collective::kSendOneWay:
    case Collective::kBroadcast:
      return kMedium;
  }
  return 0;
}

uint64_t WireBytes(Collective collective, uint64_t bytes, uint32_t ranks) {
  const uint64_t others = bytes / ranks * (ranks - 1);
  switch (collective) {
    case Collective::kSendReceive:
    case Collective::kSendOneWay:
    case Collective::kBroadcast:
      return bytes;
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kReduceScatter:
      return others;
    case Collective::kAllReduce:
      return 2 * others;
  }
  return bytes;
}

int RepeatsFor(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30) return 3;
  return bytes >= uint64_t{128} << 20 ? 5 : 20;
}

nlohmann::json PlanLine(const CompareOptions& options, uint32_t ranks,
                        const Measurement& measurement) {
  nlohmann::json line = {
      {"bench", "collectives"},
      {"operation", NameOf(measurement.collective)},
      {"method", NameOf(measurement.method)},
      {"ranks", ranks},
      {"data", options.data},
      {"dtype", cinch_dtype_name(options.dtype)},
      {"bytes", measurement.bytes},
      {"wire_bytes", WireBytes(measurement.collective, measurement.bytes, ranks)},
      {"one_way", measurement.collective == Collective::kSendOneWay ||
                      measurement.collective == Collective::kBroadcast}};
  if (IsFused(measurement.method)) line["sms"] = measurement.sms;
  const double target = TargetOf(measurement.collective, measurement.bytes);
  if (target > 0) line["target"] = target;
  return line;
}

nlohmann::json ResultLine(const CompareOptions& options, const RunFacts& facts,
                          const Measurement& measurement, const Measured& measured) {
  nlohmann::json line = PlanLine(options, facts.ranks, measurement);
  line["device"] = facts.device;
  line["shared_gpu"] = facts.share_gpu;
  if (!facts.nccl_version.empty()) line["nccl"] = facts.nccl_version;
  line["seconds"] = measured.seconds;
  line["fastest_seconds"] = measured.fastest_seconds;
  line["gbps"] = 1e-9 * static_cast<double>(measurement.bytes) / measured.seconds;
  line["bus_gbps"] = 1e-9 * line["wire_bytes"].get<double>() / measured.seconds;
  if (measured.same_bits >= 0) line["same_bits"] = measured.same_bits != 0;
  return line;
}

}  // namespace cinch::bench
