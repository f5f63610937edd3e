// SPDX-License-Identifier: Apache-2.0
// The GPU codec and its peers with the same data in one run: a line of JSON each.
//
//   gpu_comparison [--nvcomp LIBRARY] [--file BF16_FILE]... [--only CODEC]
//
// A file is raw bf16 values or a safetensors file of bf16 tensors.
//
// Peers are there when the build has them (docs/benchmarks.md); each coder gets batches of chunks
// as it wants them: nvCOMP 64 KiB, DietGPU and cinch one item, unless the case says otherwise.
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/gpu/device_bench.h"
#include "bench/gpu/host_output.h"
#include "cinch/cuda.h"
#include "tensors/generators.h"
#include "tensors/tensor_file.h"
#if CINCH_BENCH_NVCOMP
#include "bench/gpu/nvcomp_codec.h"
#endif
#if CINCH_BENCH_DIETGPU
#include "bench/gpu/dietgpu_codec.h"
#endif

namespace cinch::bench {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;
constexpr uint64_t kNvcompChunkBytes = 65536;
constexpr uint32_t kRepeats = 20;

struct Options {
  std::string nvcomp;
  std::string only;
  std::vector<std::string> files;
};

/// A problem and what becomes of it in the lines.
struct Case {
  std::string data = "gaussian:0.02";
  cinch_dtype dtype = CINCH_DTYPE_BF16;
  /// What cinch is told; peers are told the dtype.
  cinch_dtype told = CINCH_DTYPE_BF16;
  uint64_t bytes = 0;
  /// 0: one item.
  uint64_t item_bytes = 0;
  uint32_t max_ctas = 0;
  bool checksum = true;
  bool peers = true;
};

const std::string& DeviceName() {
  static const std::string name = [] {
    cudaDeviceProp properties{};
    Check(cudaGetDeviceProperties(&properties, 0), "properties");
    return std::string(properties.name);
  }();
  return name;
}

std::vector<std::byte> Gaussian(cinch_dtype dtype, uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  std::atomic<uint64_t> next{0};
  const auto work = [&] {
    for (uint64_t begin = 0; (begin = kMegabyte * next.fetch_add(1)) < bytes;) {
      const std::span<std::byte> part(data.data() + begin, std::min(kMegabyte, bytes - begin));
      Require(tensors::GenerateData({}, dtype, 1, begin, part) == CINCH_OK, "GenerateData");
    }
  };
  std::vector<std::thread> threads(std::max(1U, std::thread::hardware_concurrency()));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  return data;
}

/// A raw file, or all tensors of a safetensors file one after another.
std::vector<std::byte> ReadFile(const std::string& path) {
  tensors::TensorFile file;
  std::string message;
  const Status status = tensors::TensorFile::Open(path, tensors::TensorFile::Kind::kByName,
                                                  CINCH_DTYPE_BF16, &file, &message);
  Require(status == CINCH_OK, message.c_str());
  std::vector<std::byte> data;
  for (const tensors::TensorInfo& tensor : file.tensors()) {
    const std::span<const std::byte> bytes = file.bytes(tensor);
    data.insert(data.end(), bytes.begin(), bytes.end());
  }
  Require(data.size() >= 16, "an empty file");
  data.resize(data.size() / 16 * 16);
  return data;
}

void PrintLine(const Case& one, const char* codec, const Speed& speed, const nlohmann::json& more) {
  nlohmann::json line = {
      {"bench", "gpu_codec"},
      {"codec", codec},
      {"device", DeviceName()},
      {"data", one.data},
      {"dtype", cinch_dtype_name(one.dtype)},
      {"bytes", one.bytes},
      {"item_bytes", one.item_bytes},
      {"compressed_bytes", speed.compressed_bytes},
      {"kept_fraction",
       static_cast<double>(speed.compressed_bytes) / static_cast<double>(one.bytes)},
      {"encode_seconds", speed.compress_seconds},
      {"decode_seconds", speed.decompress_seconds},
      {"encode_gbps", 1e-9 * static_cast<double>(one.bytes) / speed.compress_seconds},
      {"decode_gbps", 1e-9 * static_cast<double>(one.bytes) / speed.decompress_seconds}};
  line.update(more);
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void MeasureCinch(const Case& one, const Problem& problem) {
  cinch_cuda_options options;
  cinch_cuda_options_init(&options);
  options.max_ctas = one.max_ctas;
  options.checksum = one.checksum ? 1 : 0;
  cinch_cuda_speed found{};
  found.struct_size = sizeof found;
  const Status status = cinch_cuda_measure(&options, one.told, problem.data.data(), one.bytes,
                                           one.item_bytes, kRepeats, &found);
  if (status != CINCH_OK) {
    std::fprintf(stderr, "cinch: %s\n", cinch_status_text(status));
    return;
  }
  PrintLine(one, "cinch", {found.frame_bytes, found.compress_seconds, found.decompress_seconds},
            {{"told", cinch_dtype_name(one.told)},
             {"max_ctas", one.max_ctas},
             {"checksum", one.checksum},
             {"copy_seconds", found.copy_seconds},
             {"copy_gbps", 1e-9 * static_cast<double>(one.bytes) / found.copy_seconds}});
}

void MeasurePeers([[maybe_unused]] const Case& one, [[maybe_unused]] Problem problem,
                  [[maybe_unused]] const Options& options) {
  const auto wanted = [&](const char* name) {
    return options.only.empty() || options.only == name;
  };
  const auto measure = [&](const char* name, const std::unique_ptr<DeviceCodec>& codec) {
    if (codec) PrintLine(one, name, MeasureCodec(problem, codec.get()), nlohmann::json::object());
  };
#if CINCH_BENCH_DIETGPU
  if (wanted("DietGPU")) measure("DietGPU", MakeDietGpu(problem));
#endif
  problem.item_bytes = one.item_bytes == 0 ? kNvcompChunkBytes : one.item_bytes;
#if CINCH_BENCH_NVCOMP
  if (options.nvcomp.empty()) return;
  if (wanted("nvCOMP ANS")) measure("nvCOMP ANS", MakeNvcompAns(options.nvcomp, problem));
  if (wanted("nvCOMP Bitcomp")) {
    measure("nvCOMP Bitcomp", MakeNvcompBitcomp(options.nvcomp, problem));
  }
#endif
  static_cast<void>(wanted);
  static_cast<void>(measure);
}

void MeasureCase(const Case& one, std::span<const std::byte> data, const Options& options) {
  const Problem problem{one.dtype, data.first(one.bytes),
                        one.item_bytes == 0 ? one.bytes : one.item_bytes};
  if (options.only.empty() || options.only == "cinch") MeasureCinch(one, problem);
  if (one.peers) MeasurePeers(one, problem, options);
}

void MeasureHost(std::span<const std::byte> data) {
  const HostOutput found = MeasureHostOutput({CINCH_DTYPE_BF16, data, data.size()});
  const auto compressed = static_cast<double>(found.compressed_bytes);
  const nlohmann::json line = {{"bench", "gpu_host_output"},
                               {"codec", "cinch"},
                               {"device", DeviceName()},
                               {"dtype", "bf16"},
                               {"bytes", data.size()},
                               {"compressed_bytes", found.compressed_bytes},
                               {"encode_seconds", found.compress_seconds},
                               {"decode_seconds", found.decompress_seconds},
                               {"wire_write_gbps", 1e-9 * compressed / found.compress_seconds},
                               {"plain_write_gbps", 1e-9 * compressed / found.write_seconds},
                               {"write_fraction", found.write_seconds / found.compress_seconds},
                               {"wire_read_gbps", 1e-9 * compressed / found.decompress_seconds},
                               {"plain_read_gbps", 1e-9 * compressed / found.read_seconds},
                               {"read_fraction", found.read_seconds / found.decompress_seconds}};
  std::printf("%s\n", line.dump().c_str());
}

std::vector<Case> Bf16Cases() {
  std::vector<Case> cases;
  for (const uint64_t megabytes : {4, 16, 64, 256, 1024}) {
    cases.push_back({.bytes = megabytes * kMegabyte});
  }
  const Case large{.bytes = 256 * kMegabyte, .peers = false};
  Case one = large;
  one.checksum = false;
  cases.push_back(one);
  one.bytes = 64 * kMegabyte;
  cases.push_back(one);
  one = large;
  one.told = CINCH_DTYPE_AUTO;
  cases.push_back(one);
  for (const uint32_t max_ctas : {16, 32, 64}) {
    one = large;
    one.max_ctas = max_ctas;
    cases.push_back(one);
  }
  for (const uint64_t item_bytes : {16384, 65536}) {
    cases.push_back({.bytes = 1024 * kMegabyte, .item_bytes = item_bytes, .peers = false});
    cases.push_back({.bytes = 256 * kMegabyte, .item_bytes = item_bytes});
  }
  cases.push_back({.bytes = 256 * kMegabyte, .item_bytes = 4096, .peers = false});
  return cases;
}

void RunAll(const Options& options) {
  {
    const std::vector<std::byte> data = Gaussian(CINCH_DTYPE_BF16, 1024 * kMegabyte);
    for (const Case& one : Bf16Cases()) MeasureCase(one, data, options);
    if (options.only.empty() || options.only == "cinch") {
      MeasureHost(std::span(data).first(256 * kMegabyte));
    }
  }
  for (const cinch_dtype dtype : {CINCH_DTYPE_FP16, CINCH_DTYPE_FP32, CINCH_DTYPE_FP64,
                                  CINCH_DTYPE_FP8_E4M3FN, CINCH_DTYPE_FP8_E5M2}) {
    const std::vector<std::byte> data = Gaussian(dtype, 256 * kMegabyte);
    MeasureCase({.dtype = dtype, .told = dtype, .bytes = data.size()}, data, options);
  }
  for (const std::string& path : options.files) {
    const std::vector<std::byte> data = ReadFile(path);
    const std::string name = path.substr(path.rfind('/') + 1);
    MeasureCase({.data = "file:" + name, .bytes = data.size()}, data, options);
    MeasureCase(
        {.data = "file:" + name, .told = CINCH_DTYPE_AUTO, .bytes = data.size(), .peers = false},
        data, options);
  }
}

}  // namespace
}  // namespace cinch::bench

int main(int argc, char** argv) {
  cinch::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    cinch::bench::Require(i + 1 < argc,
                          "gpu_comparison [--nvcomp LIBRARY] [--file FILE]... [--only CODEC]");
    if (argument == "--nvcomp") {
      options.nvcomp = argv[++i];
    } else if (argument == "--file") {
      options.files.emplace_back(argv[++i]);
    } else if (argument == "--only") {
      options.only = argv[++i];
    } else {
      cinch::bench::Require(false, ("unknown option " + argument).c_str());
    }
  }
  int devices = 0;
  cinch::bench::Check(cudaGetDeviceCount(&devices), "looking for a GPU");
  cinch::bench::Require(devices > 0, "no GPU");
  cinch::bench::RunAll(options);
  return 0;
}
