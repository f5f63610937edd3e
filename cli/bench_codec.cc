// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench_data.h"
#include "cinch/cuda.h"
#include "commands.h"
#include "cuda_devices.h"
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
  cinch bench codec --backend cuda --size 4M,256M --item-bytes 64K --max-ctas 0 --max-ctas 32

GB/s are 10^9 original bytes a second, the median over the repeats. memcpy copies the same bytes in
the same run with one thread. Buffers are touched beforehand and the decoded bytes are compared.
With --backend cuda data are in device memory, copies of them take turns so that none is in a cache,
times are the device's, and memcpy is a copy from device memory to device memory.
Data:
)";

struct Options {
  std::vector<std::string> data = {"gaussian:0.02"};
  std::vector<std::string> dtypes = {"bf16"};
  std::string sizes = "64M";
  std::string backend = "cpu";
  std::vector<uint32_t> threads = {1};
  std::string item_bytes = "0";
  std::vector<uint32_t> max_ctas = {0};
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
  /// Of the CPU's codecs.
  uint32_t threads = 1;
  /// Of the GPU's codec: bytes of an item (0: all is one), thread blocks (0: as many as fit).
  uint64_t item_bytes = 0;
  uint32_t max_ctas = 0;
};

Outcome MeasureOnDevice(const BenchData& data, const Case& what, const Options& options,
                        Measurement* result) {
  cinch_cuda_options cuda_options;
  cinch_cuda_options_init(&cuda_options);
  cuda_options.max_ctas = what.max_ctas;
  cuda_options.checksum = options.without_checksum ? 0 : 1;
  cinch_cuda_speed speed{};
  speed.struct_size = sizeof speed;
  const Status status =
      cinch_cuda_measure(&cuda_options, data.dtype, data.buffer.data(), data.buffer.size_bytes(),
                         what.item_bytes, options.repeat, &speed);
  if (status == CINCH_ERROR_UNSUPPORTED) {
    return FromStatus(status, "this build has no CUDA, or the GPU is not one of those it is for");
  }
  if (status == CINCH_ERROR_NO_DEVICE) {
    const CudaDevices found = FindCudaDevices();
    return FromStatus(status, "no usable GPU" + (found.reason.empty() ? "" : ": " + found.reason));
  }
  if (status != CINCH_OK) {
    return FromStatus(status, {});
  }
  result->frame_bytes = speed.frame_bytes;
  result->encode_seconds = speed.compress_seconds;
  result->decode_seconds = speed.decompress_seconds;
  result->memcpy_seconds = speed.copy_seconds;
  result->encode_to_memcpy = speed.copy_seconds / speed.compress_seconds;
  result->decode_to_memcpy = speed.copy_seconds / speed.decompress_seconds;
  return {};
}

/// What belongs to the backend: its columns in the table ...
std::vector<std::string> BackendHead(bool cuda) {
  return cuda ? std::vector<std::string>{"items", "CTAs"} : std::vector<std::string>{"threads"};
}

std::vector<std::string> BackendCells(bool cuda, const Case& what) {
  if (!cuda) {
    return {std::to_string(what.threads)};
  }
  return {what.item_bytes == 0 ? "one" : FormatBytes(what.item_bytes),
          what.max_ctas == 0 ? "all" : std::to_string(what.max_ctas)};
}

/// ... and its fields in the lines.
nlohmann::json BackendFields(bool cuda, const Case& what) {
  if (!cuda) {
    return {{"simd", cinch_simd_target()}, {"threads", what.threads}};
  }
  const CudaDevices found = FindCudaDevices();
  return {{"device", found.devices.empty() ? "" : found.devices.front().name},
          {"item_bytes", what.item_bytes},
          {"max_ctas", what.max_ctas}};
}

Outcome ShowCase(const BenchData& data, const Case& what, const Options& options,
                 const Measurement& result, Table* table) {
  const uint64_t bytes = data.buffer.size_bytes();
  const double kept = static_cast<double>(result.frame_bytes) / static_cast<double>(bytes);
  const double bound =
      tensors::ComputeEntropyBound(data.true_dtype, {data.buffer.data(), bytes}).bound_fraction;
  const double encode = GigabytesPerSecond(bytes, result.encode_seconds);
  const double decode = GigabytesPerSecond(bytes, result.decode_seconds);
  const double copy = GigabytesPerSecond(bytes, result.memcpy_seconds);
  const bool cuda = options.backend == "cuda";
  if (!options.style.json) {
    std::vector<std::string> row = {data.label, cinch_dtype_name(data.dtype), FormatBytes(bytes)};
    for (std::string& cell : BackendCells(cuda, what)) {
      row.push_back(std::move(cell));
    }
    for (const double fraction : {kept, bound}) {
      row.push_back(fmt::format("{:.4f}", fraction));
    }
    for (const double rate : {encode, decode, copy}) {
      row.push_back(fmt::format("{:.2f} GB/s", rate));
    }
    table->Add(std::move(row));
    return {};
  }
  nlohmann::json line = {{"bench", "codec"},
                         {"backend", options.backend},
                         {"dtype", cinch_dtype_name(data.dtype)},
                         {"data", data.label},
                         {"seed", options.seed},
                         {"bytes", bytes},
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
  line.update(BackendFields(cuda, what));
  return Print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

Outcome RunCase(const Case& what, cinch_backend backend, const Options& options, Table* table) {
  const bool cuda = backend == CINCH_BACKEND_CUDA;
  BenchData data;
  CodecHandle codec;
  Outcome outcome = MakeBenchData({what.data, what.dtype, options.seed}, what.size_bytes, &data);
  if (outcome.ok() && !cuda) {
    outcome = CreateCodec(backend, what.threads, &codec);
  }
  if (!outcome.ok()) {
    return outcome;
  }
  Measurement result;
  if (cuda) {
    outcome = MeasureOnDevice(data, what, options, &result);
  } else {
    Progress progress("measuring " + data.label, options.repeat * data.buffer.size_bytes(),
                      options.style.chatty());
    outcome = Measure(data, codec.get(), options, &progress, &result);
    progress.Finish();
  }
  return outcome.ok() ? ShowCase(data, what, options, result, table) : outcome;
}

/// The settings of the backend.
Outcome BackendCases(const Options& options, std::vector<Case>* cases) {
  std::vector<uint64_t> item_bytes = {0};
  if (options.item_bytes != "0") {
    item_bytes = ParseSizes(options.item_bytes);
  }
  if (item_bytes.empty()) {
    return Refuse(ExitCode::kUsage, fmt::format("'{}' is not a list of sizes; write e.g. 16K,64K",
                                                options.item_bytes));
  }
  const bool cuda = options.backend == "cuda";
  if (!cuda && (options.item_bytes != "0" || options.max_ctas != std::vector<uint32_t>{0})) {
    return Refuse(ExitCode::kUsage, "--item-bytes and --max-ctas are for --backend cuda");
  }
  if (cuda && options.threads != std::vector<uint32_t>{1}) {
    return Refuse(ExitCode::kUsage, "--threads is for the CPU; --backend cuda takes --max-ctas");
  }
  Case what;
  if (!cuda) {
    for (const uint32_t threads : options.threads) {
      what.threads = threads;
      cases->push_back(what);
    }
    return {};
  }
  for (const uint64_t bytes : item_bytes) {
    for (const uint32_t max_ctas : options.max_ctas) {
      what.item_bytes = bytes;
      what.max_ctas = max_ctas;
      cases->push_back(what);
    }
  }
  return {};
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
  std::vector<Case> kinds;
  if (Outcome outcome = BackendCases(options, &kinds); !outcome.ok()) {
    return outcome;
  }
  for (const std::string& data : options.data) {
    for (const std::string& dtype : options.dtypes) {
      for (const uint64_t size_bytes : sizes) {
        if (size_bytes == 0 && !data.starts_with("file:")) {
          return Refuse(ExitCode::kUsage, "--size 0 is for --data file:... only");
        }
        for (Case what : kinds) {
          what.data = data;
          what.dtype = dtype;
          what.size_bytes = size_bytes;
          cases->push_back(std::move(what));
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
  const bool cuda = backend == CINCH_BACKEND_CUDA;
  std::vector<std::string> head = {"data", "dtype", "size"};
  for (std::string& name : BackendHead(cuda)) {
    head.push_back(std::move(name));
  }
  for (const char* name : {"kept", "bound", "encode", "decode", "memcpy"}) {
    head.emplace_back(name);
  }
  Table table(std::move(head));
  for (const Case& what : cases) {
    if (!outcome.ok()) {
      break;
    }
    outcome = RunCase(what, backend, options, &table);
  }
  if (!outcome.ok() || options.style.json) {
    return outcome;
  }
  return Print(fmt::format("backend {}, {}, median of {}\n{}", options.backend,
                           cuda ? "device memory" : fmt::format("SIMD {}", cinch_simd_target()),
                           options.repeat, table.Format()));
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
  command
      ->add_option("--item-bytes", options->item_bytes,
                   "cuda: batches of items of so many bytes, a list with commas; 0: one item")
      ->capture_default_str();
  command
      ->add_option("--max-ctas", options->max_ctas,
                   "cuda: at most so many thread blocks; several are allowed; 0: as many as fit")
      ->allow_extra_args(false)
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
