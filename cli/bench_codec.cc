// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench_data.h"
#include "commands.h"
#include "handles.h"
#include "interrupt.h"
#include "progress.h"
#include "table.h"
#include "tensors/entropy.h"
#include "units.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch bench codec --size 256M --threads 1
  cinch bench codec --data file:model.safetensors:lm_head.weight --json
  cinch bench codec --data gaussian:1 --data sparse_relu --dtype fp16 --size 64M,256M

GB/s are 10^9 original bytes a second, the median over the repeats. memcpy copies the same bytes in
the same run with one thread. Buffers are touched beforehand and the decoded bytes are compared.
Data:
)";

struct Options {
  std::vector<std::string> data = {"gaussian:0.02"};
  std::vector<std::string> dtypes = {"bf16"};
  std::string sizes = "64M";
  std::string backend = "cpu";
  std::vector<uint32_t> threads = {1};
  uint32_t repeat = 9;
  uint64_t seed = 1;
  bool without_checksum = false;
  OutputStyle style;
};

struct Measurement {
  uint64_t frame_bytes = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
  double memcpy_seconds = 0;
  /// Speed relative to the memcpy of the same turn: what disturbs the machine disturbs both.
  double encode_to_memcpy = 0;
  double decode_to_memcpy = 0;
};

/// The median of numerator / denominator over turns.
double MedianRatio(const std::vector<double>& numerator, const std::vector<double>& denominator) {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < numerator.size(); ++turn) {
    ratios.push_back(numerator[turn] / denominator[turn]);
  }
  return Median(ratios);
}

template <typename Function>
double Seconds(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Takes turns, so that a machine that slows down slows all three.
Outcome Measure(const BenchData& data, cinch_codec* codec, const Options& options,
                Progress* progress, Measurement* result) {
  const uint64_t bytes = data.buffer.size_bytes();
  TouchedBuffer frame(cinch_compress_bound(bytes));
  TouchedBuffer output(bytes);
  cinch_compress_options compress_options;
  cinch_compress_options_init(&compress_options);
  compress_options.dtype = data.dtype;
  compress_options.checksum = options.without_checksum ? 0 : 1;
  std::vector<double> encode_seconds;
  std::vector<double> decode_seconds;
  std::vector<double> memcpy_seconds;
  for (uint32_t turn = 0; turn < options.repeat; ++turn) {
    if (Interrupted()) {
      return InterruptedOutcome();
    }
    Status status = CINCH_OK;
    uint64_t decoded_bytes = 0;
    memcpy_seconds.push_back(
        Seconds([&] { std::memcpy(output.data(), data.buffer.data(), bytes); }));
    encode_seconds.push_back(Seconds([&] {
      status = cinch_compress(codec, &compress_options, data.buffer.data(), bytes, frame.data(),
                              frame.size_bytes(), &result->frame_bytes);
    }));
    if (status != CINCH_OK) {
      return FromStatus(status, {});
    }
    // The copy above left the right bytes in the output.
    std::memset(output.data(), 0xA5, bytes);
    decode_seconds.push_back(Seconds([&] {
      status = cinch_decompress(codec, frame.data(), result->frame_bytes, output.data(), bytes,
                                &decoded_bytes);
    }));
    if (status != CINCH_OK) {
      return FromStatus(status, {});
    }
    if (decoded_bytes != bytes || std::memcmp(output.data(), data.buffer.data(), bytes) != 0) {
      return FromStatus(CINCH_ERROR_INTERNAL, "the decoded bytes differ; please report it");
    }
    progress->Advance(bytes);
  }
  result->encode_seconds = Median(encode_seconds);
  result->decode_seconds = Median(decode_seconds);
  result->memcpy_seconds = Median(memcpy_seconds);
  result->encode_to_memcpy = MedianRatio(memcpy_seconds, encode_seconds);
  result->decode_to_memcpy = MedianRatio(memcpy_seconds, decode_seconds);
  return {};
}

/// One setting of the grid.
struct Case {
  std::string data;
  std::string dtype;
  uint64_t size_bytes = 0;
  uint32_t threads = 1;
};

Outcome ShowCase(const BenchData& data, const Case& what, const Options& options,
                 const Measurement& result, Table* table) {
  const uint64_t bytes = data.buffer.size_bytes();
  const double kept = static_cast<double>(result.frame_bytes) / static_cast<double>(bytes);
  const double bound =
      tensors::ComputeEntropyBound(data.true_dtype, {data.buffer.data(), bytes}).bound_fraction;
  const double encode = GigabytesPerSecond(bytes, result.encode_seconds);
  const double decode = GigabytesPerSecond(bytes, result.decode_seconds);
  const double copy = GigabytesPerSecond(bytes, result.memcpy_seconds);
  if (!options.style.json) {
    table->Add({data.label, cinch_dtype_name(data.dtype), FormatBytes(bytes),
                std::to_string(what.threads), fmt::format("{:.4f}", kept),
                fmt::format("{:.4f}", bound), fmt::format("{:.2f} GB/s", encode),
                fmt::format("{:.2f} GB/s", decode), fmt::format("{:.2f} GB/s", copy)});
    return {};
  }
  const nlohmann::json line = {{"bench", "codec"},
                               {"backend", options.backend},
                               {"simd", cinch_simd_target()},
                               {"dtype", cinch_dtype_name(data.dtype)},
                               {"data", data.label},
                               {"seed", options.seed},
                               {"bytes", bytes},
                               {"threads", what.threads},
                               {"repeat", options.repeat},
                               {"checksum", !options.without_checksum},
                               {"compressed_bytes", result.frame_bytes},
                               {"kept_fraction", kept},
                               {"bound_fraction", bound},
                               {"encode_seconds", result.encode_seconds},
                               {"decode_seconds", result.decode_seconds},
                               {"memcpy_seconds", result.memcpy_seconds},
                               {"encode_gbps", encode},
                               {"decode_gbps", decode},
                               {"memcpy_gbps", copy},
                               {"encode_to_memcpy", result.encode_to_memcpy},
                               {"decode_to_memcpy", result.decode_to_memcpy},
                               {"verified", true}};
  return Print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

Outcome RunCase(const Case& what, cinch_backend backend, const Options& options, Table* table) {
  BenchData data;
  CodecHandle codec;
  Outcome outcome = MakeBenchData({what.data, what.dtype, options.seed}, what.size_bytes, &data);
  if (outcome.ok()) {
    outcome = CreateCodec(backend, what.threads, &codec);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  Measurement result;
  Progress progress("measuring " + data.label, options.repeat * data.buffer.size_bytes(),
                    options.style.chatty());
  outcome = Measure(data, codec.get(), options, &progress, &result);
  progress.Finish();
  return outcome.ok() ? ShowCase(data, what, options, result, table) : outcome;
}

/// The grid, file data without a size as they are.
Outcome CasesOf(const Options& options, std::vector<Case>* cases) {
  std::vector<uint64_t> sizes = {0};
  if (options.sizes != "0") {
    sizes = ParseSizes(options.sizes);
  }
  if (sizes.empty()) {
    return Refuse(
        ExitCode::kUsage,
        fmt::format("'{}' is not a list of sizes; write e.g. 64K,1M,256M", options.sizes));
  }
  for (const std::string& data : options.data) {
    for (const std::string& dtype : options.dtypes) {
      for (const uint64_t size_bytes : sizes) {
        for (const uint32_t threads : options.threads) {
          if (size_bytes == 0 && !data.starts_with("file:")) {
            return Refuse(ExitCode::kUsage, "--size 0 is for --data file:... only");
          }
          cases->push_back({data, dtype, size_bytes, threads});
        }
      }
    }
  }
  return {};
}

Outcome RunBenchCodec(const Options& options) {
  cinch_backend backend = CINCH_BACKEND_CPU;
  std::vector<Case> cases;
  Outcome outcome = ParseBackend(options.backend, &backend);
  if (outcome.ok()) {
    outcome = CasesOf(options, &cases);
  }
  Table table({"data", "dtype", "size", "threads", "kept", "bound", "encode", "decode", "memcpy"});
  for (const Case& what : cases) {
    if (!outcome.ok()) {
      break;
    }
    outcome = RunCase(what, backend, options, &table);
  }
  if (!outcome.ok() || options.style.json) {
    return outcome;
  }
  return Print(fmt::format("backend {}, SIMD {}, median of {}\n{}", options.backend,
                           cinch_simd_target(), options.repeat, table.Format()));
}

}  // namespace

void AddBenchCodec(CLI::App* bench, Run* run) {
  CLI::App* command = bench->add_subcommand("codec", "Speed and ratio of the codec");
  command->footer(kFooter + DescribeGenerators());
  const auto options = std::make_shared<Options>();
  command->add_option("--backend", options->backend, "cpu, reference or cuda")
      ->capture_default_str();
  command->add_option("--dtype", options->dtypes, "What the codec is told; several are allowed")
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option("--data", options->data,
                   "Generator NAME[:PARAMETER] or file:PATH[:TENSOR]; several are allowed")
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option("--size", options->sizes,
                   "Bytes, or a list with commas; K, M and G are binary; 0: a file's tensor as "
                   "it is")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Codec threads; several are allowed")
      ->allow_extra_args(false)
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--repeat", options->repeat, "Measurements, of which the median counts")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the generator")->capture_default_str();
  command->add_flag("--no-checksum", options->without_checksum,
                    "Frames without checksums of the original bytes");
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunBenchCodec(*options); }; });
}

}  // namespace cinch::cli
