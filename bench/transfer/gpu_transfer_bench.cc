// SPDX-License-Identifier: Apache-2.0
// Device memory between two processes on one GPU or two (or between two engines of one process):
// goodput by path, pacing, size and policy, raw beside compressed in the same run. Pacing imitates
// a NIC; it is no NIC. Kernels of two processes take turns on a GPU unless MPS runs.
//
//   gpu_transfer_bench [--gpus=SENDER,RECEIVER] [--one-process] [--random] [--small] [--only=PATH]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cinch/blocks.h"
#include "cinch/transfer.h"
#include "support/gpu_data.h"

namespace {

using cinch::bench::AddHash;
using Seconds = std::chrono::duration<double>;

constexpr double kWaitSeconds = 20;
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr uint64_t kBlockBytes = uint64_t{16} << 10;
constexpr uint64_t kBlocks = kMaxBytes / kBlockBytes;

/// How two engines talk.
struct Path {
  const char* name;
  const char* transports;
  bool shared;       ///< Device memory that both processes map.
  double link_gbps;  ///< Pacing.
  uint64_t segment_bytes;
};

struct Point {
  uint64_t bytes;
  int repeats;
};

struct Options {
  bool one_process = false;
  bool random = false;  ///< Data that do not compress.
  bool small = false;   ///< Small messages only, and no blocks.
  int sender_gpu = 0;
  int receiver_gpu = 0;
  std::string only;
};

const Path kPaths[] = {
    {"tcp", "tcp", false, 0, 1 << 20},
    {"shm", "posix,cma,self", false, 0, 1 << 20},
    {"shared 4M", "posix,cma,self", true, 0, 4 << 20},
    {"shared@100 4M", "posix,cma,self", true, 100, 4 << 20},
    {"shared@200 4M", "posix,cma,self", true, 200, 4 << 20},
    {"shared@400 1M", "posix,cma,self", true, 400, 1 << 20},
    {"shared@400 4M", "posix,cma,self", true, 400, 4 << 20},
};

const Point kPoints[] = {{uint64_t{64} << 10, 50}, {uint64_t{1} << 20, 30}, {uint64_t{2} << 20, 30},
                         {uint64_t{8} << 20, 20},  {uint64_t{32} << 20, 8}, {uint64_t{64} << 20, 6},
                         {uint64_t{256} << 20, 5}};

const Point kSmallPoints[] = {{uint64_t{1} << 10, 400},
                              {uint64_t{4} << 10, 400},
                              {uint64_t{16} << 10, 400},
                              {uint64_t{64} << 10, 400}};

[[nodiscard]] std::span<const Point> PointsOf(const Options& options) {
  return options.small ? std::span<const Point>(kSmallPoints) : std::span<const Point>(kPoints);
}

[[noreturn]] void Die(const char* what, int status) {
  std::fprintf(stderr, "%s: %s\n", what, cinch_status_text(static_cast<cinch_status>(status)));
  std::_Exit(1);
}

void Check(const char* what, cinch_status status) {
  if (status != CINCH_OK) Die(what, status);
}

void CheckCuda(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::_Exit(1);
}

cinch_engine* MakeEngine(const Path& path) {
  cinch_engine_options options;
  cinch_engine_options_init(&options);
  options.transports = path.transports;
  options.link_gbps = path.link_gbps;
  options.segment_bytes = path.segment_bytes;
  options.codec_threads = 2;
  options.without_shared_device_memory = path.shared ? 0 : 1;
  cinch_engine* engine = nullptr;
  Check("engine", cinch_engine_create(&options, &engine));
  return engine;
}

cinch_policy PolicyOf(int index) {
  constexpr cinch_policy kPolicies[] = {CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED,
                                        CINCH_POLICY_AUTO};
  return kPolicies[index];
}

void Finish(cinch_operation* operation, const char* what) {
  Check(what, cinch_wait(operation, kWaitSeconds));
  cinch_operation_release(operation);
}

/// One end of the benchmark.
class Side {
 public:
  Side(uint64_t seed, bool random) {
    CheckCuda("device memory", cudaMalloc(&data_, kMaxBytes));
    CheckCuda("hash", cudaMalloc(reinterpret_cast<void**>(&hash_), sizeof(uint64_t)));
    CheckCuda("stream", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (seed != 0) {
      CheckCuda("fill", random ? cinch::bench::FillRandom(data_, kMaxBytes, seed, stream_)
                               : cinch::bench::FillNormalBf16(data_, kMaxBytes, seed, stream_));
    }
    CheckCuda("fill", cudaStreamSynchronize(stream_));
  }

  [[nodiscard]] uint64_t Hash(uint64_t bytes) {
    uint64_t hash = 0;
    CheckCuda("hash", cudaMemsetAsync(hash_, 0, sizeof(hash), stream_));
    CheckCuda("hash", AddHash(data_, bytes, hash_, stream_));
    CheckCuda("hash", cudaMemcpyAsync(&hash, hash_, sizeof(hash), cudaMemcpyDeviceToHost, stream_));
    CheckCuda("hash", cudaStreamSynchronize(stream_));
    return hash;
  }
  void Clear(uint64_t bytes) { CheckCuda("clear", cudaMemsetAsync(data_, 0, bytes, stream_)); }

  void* data_ = nullptr;
  uint64_t* hash_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

cinch_transfer_options OptionsFor(int policy, cudaStream_t stream) {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.dtype = CINCH_DTYPE_BF16;
  options.policy = PolicyOf(policy);
  options.stream = stream;
  return options;
}

void Receiver(cinch_endpoint* endpoint, Side& side, std::span<const Point> points) {
  for (const Point& point : points) {
    for (int policy = 0; policy < 3; ++policy) {
      side.Clear(point.bytes);
      const cinch_transfer_options options = OptionsFor(policy, side.stream_);
      cinch_operation* operation = nullptr;
      for (int i = 0; i < point.repeats + 2; ++i) {
        Check("recv", cinch_recv(endpoint, side.data_, point.bytes, &options, &operation));
        Finish(operation, "recv");
      }
      const uint64_t hash = side.Hash(point.bytes);
      Check("hash", cinch_send(endpoint, &hash, sizeof(hash), nullptr, &operation));
      Finish(operation, "hash");
    }
  }
}

struct Result {
  double seconds = 0;
  double wire_fraction = 0;
  double overlap = 0;
  double over_ideal = 0;  ///< Of the last repeat: time / max(wire busy, codec busy).
  uint64_t shared = 0;
  uint64_t pinned = 0;
};

Result MeasureOne(cinch_endpoint* endpoint, Side& side, const Point& point, int policy) {
  const cinch_transfer_options options = OptionsFor(policy, side.stream_);
  std::vector<double> seconds;
  Result result;
  for (int i = 0; i < point.repeats + 2; ++i) {
    cinch_operation* operation = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    Check("send", cinch_send(endpoint, side.data_, point.bytes, &options, &operation));
    Check("send", cinch_wait(operation, kWaitSeconds));
    const double took = Seconds(std::chrono::steady_clock::now() - begin).count();
    if (i >= 2) seconds.push_back(took);
    cinch_transfer_stats stats{};
    stats.struct_size = sizeof(stats);
    Check("stats", cinch_operation_get_stats(operation, &stats));
    result.wire_fraction = static_cast<double>(stats.wire_bytes) / static_cast<double>(point.bytes);
    result.overlap =
        stats.codec_busy_seconds > 0 ? stats.hidden_codec_seconds / stats.codec_busy_seconds : 0;
    const double busy = std::max(stats.wire_busy_seconds, stats.codec_busy_seconds);
    result.over_ideal = busy > 0 ? took / busy : 0;
    result.shared = stats.shared_segments;
    result.pinned = stats.pinned_segments;
    cinch_operation_release(operation);
  }
  std::sort(seconds.begin(), seconds.end());
  result.seconds = seconds[seconds.size() / 2];
  uint64_t hash = 0;
  cinch_operation* operation = nullptr;
  Check("hash", cinch_recv(endpoint, &hash, sizeof(hash), nullptr, &operation));
  Finish(operation, "hash");
  if (hash != side.Hash(point.bytes)) std::printf("DATA DIFFER\n");
  return result;
}

/// A gigabyte in 65,536 blocks whose tables differ, against a gigabyte in one piece.
void SendBlocks(cinch_endpoint* endpoint, Side& side, const Path& path) {
  cinch_remote_region region{};
  cinch_operation* operation = nullptr;
  Check("region", cinch_recv(endpoint, &region, sizeof(region), nullptr, &operation));
  Finish(operation, "region");
  std::vector<uint32_t> here(kBlocks);
  std::iota(here.begin(), here.end(), 0);
  std::vector<uint32_t> there = here;
  std::mt19937_64 random(3);
  std::shuffle(here.begin(), here.end(), random);
  std::shuffle(there.begin(), there.end(), random);
  const cinch_block_pool pool{side.data_, &region, 0};
  cinch_block_transfer transfer{};
  transfer.struct_size = sizeof(transfer);
  transfer.pools = &pool;
  transfer.pool_count = 1;
  transfer.block_bytes = kBlockBytes;
  transfer.local = {here.data(), kBlocks, kBlocks};
  transfer.remote = {there.data(), kBlocks, kBlocks};
  const cinch_transfer_options options = OptionsFor(1, side.stream_);
  double best[2] = {1e9, 1e9};
  for (int i = 0; i < 6; ++i) {
    const bool paged = i % 2 == 0;
    const auto begin = std::chrono::steady_clock::now();
    if (paged) {
      Check("blocks", cinch_write_blocks(endpoint, &transfer, &options, &operation));
    } else {
      Check("whole",
            cinch_write(endpoint, side.data_, kMaxBytes, &region, 0, &options, &operation));
    }
    Finish(operation, "blocks");
    const double took = Seconds(std::chrono::steady_clock::now() - begin).count();
    best[i % 2] = std::min(best[i % 2], took);
  }
  const auto size = static_cast<double>(kMaxBytes);
  std::printf("%-14s 65536 blocks of 16 KB %7.2f one tensor %7.2f GB/s: %.3f\n", path.name,
              size / best[0] * 1e-9, size / best[1] * 1e-9, best[1] / best[0]);
  Check("end", cinch_send(endpoint, nullptr, 0, nullptr, &operation));
  Finish(operation, "end");
}

void ServeBlocks(cinch_engine* engine, cinch_endpoint* endpoint, Side& side) {
  cinch_region* region = nullptr;
  Check("region", cinch_region_register(engine, side.data_, kMaxBytes,
                                        CINCH_REGION_READ | CINCH_REGION_WRITE, &region));
  cinch_remote_region remote{};
  Check("region", cinch_region_describe(region, &remote));
  cinch_operation* operation = nullptr;
  Check("region", cinch_send(endpoint, &remote, sizeof(remote), nullptr, &operation));
  Finish(operation, "region");
  Check("end", cinch_recv(endpoint, nullptr, 0, nullptr, &operation));
  Finish(operation, "end");
  Check("region", cinch_region_release(region, kWaitSeconds));
}

void Sender(cinch_endpoint* endpoint, Side& side, const Path& path, std::span<const Point> points) {
  for (const Point& point : points) {
    const auto size = static_cast<double>(point.bytes);
    Result results[3];
    for (int policy = 0; policy < 3; ++policy) {
      results[policy] = MeasureOne(endpoint, side, point, policy);
    }
    const double link = path.link_gbps / 8 * 1e9;
    const double bound = link > 0 ? link / results[1].wire_fraction : 0;
    std::printf(
        "%-14s %6llu KB raw %7.2f compressed %7.2f auto %7.2f GB/s x%.2f auto x%.2f kept %.3f auto "
        "%.3f of bound %.2f hidden %.2f over %.2f seg %llu/%llu\n",
        path.name, static_cast<unsigned long long>(point.bytes >> 10),
        size / results[0].seconds * 1e-9, size / results[1].seconds * 1e-9,
        size / results[2].seconds * 1e-9, results[0].seconds / results[1].seconds,
        results[0].seconds / results[2].seconds, results[1].wire_fraction, results[2].wire_fraction,
        bound > 0 ? size / results[1].seconds / bound : 0, results[1].overlap,
        results[1].over_ideal, static_cast<unsigned long long>(results[1].shared),
        static_cast<unsigned long long>(results[1].pinned));
    std::fflush(stdout);
  }
}

std::string AddressOf(int index) { return "127.0.0.1:" + std::to_string(47310 + index); }

void RunPath(int index, bool sends, Side& side, const Options& options) {
  const Path& path = kPaths[index];
  cinch_engine* engine = MakeEngine(path);
  cinch_endpoint* endpoint = nullptr;
  if (sends) {
    Check("connect", cinch_connect(engine, AddressOf(index).c_str(), kWaitSeconds, &endpoint));
    Sender(endpoint, side, path, PointsOf(options));
    if (!options.small) SendBlocks(endpoint, side, path);
  } else {
    cinch_listener* listener = nullptr;
    Check("listen", cinch_listen(engine, AddressOf(index).c_str(), &listener));
    Check("accept", cinch_accept(listener, kWaitSeconds, &endpoint));
    Receiver(endpoint, side, PointsOf(options));
    if (!options.small) ServeBlocks(engine, endpoint, side);
    cinch_listener_release(listener);
  }
  cinch_endpoint_release(endpoint);
  cinch_engine_destroy(engine);
}

void RunSide(bool sends, const Options& options) {
  CheckCuda("GPU", cudaSetDevice(sends ? options.sender_gpu : options.receiver_gpu));
  Side side(sends ? 7 : 0, options.random);
  for (size_t i = 0; i < std::size(kPaths); ++i) {
    if (!options.only.empty() && std::strstr(kPaths[i].name, options.only.c_str()) == nullptr) {
      continue;
    }
    RunPath(static_cast<int>(i), sends, side, options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--one-process") == 0) options.one_process = true;
    if (std::strcmp(argv[i], "--random") == 0) options.random = true;
    if (std::strcmp(argv[i], "--small") == 0) options.small = true;
    if (std::strncmp(argv[i], "--only=", 7) == 0) options.only = argv[i] + 7;
    if (std::sscanf(argv[i], "--gpus=%d,%d", &options.sender_gpu, &options.receiver_gpu) == 1) {
      Die("--gpus takes two", CINCH_ERROR_INVALID_ARGUMENT);
    }
  }
  if (options.one_process) {
    std::thread receiver([&] { RunSide(false, options); });
    RunSide(true, options);
    receiver.join();
    return 0;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    RunSide(false, options);
    std::_Exit(0);
  }
  RunSide(true, options);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
