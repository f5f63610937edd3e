// SPDX-License-Identifier: Apache-2.0
// Device memory between two processes on one GPU (or between two engines of one process): goodput
// by path, pacing, size and policy, raw beside compressed in the same run. Pacing imitates a NIC;
// it is no NIC. Kernels of two processes take turns on a GPU unless MPS runs.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cinch/transfer.h"
#include "gpu_transfer_data.h"

namespace {

using cinch::bench::AddHash;
using Seconds = std::chrono::duration<double>;

constexpr double kWaitSeconds = 20;
constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

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
  bool quick = false;
  std::string only;
};

const Path kPaths[] = {
    {"tcp", "tcp", false, 0, 1 << 20},
    {"shm", "posix,cma,self", false, 0, 1 << 20},
    {"shared", "posix,cma,self", true, 0, 1 << 20},
    {"shared 4M", "posix,cma,self", true, 0, 4 << 20},
    {"shared@100", "posix,cma,self", true, 100, 1 << 20},
    {"shared@200", "posix,cma,self", true, 200, 1 << 20},
    {"shared@400", "posix,cma,self", true, 400, 1 << 20},
    {"shared@400 4M", "posix,cma,self", true, 400, 4 << 20},
};

const Point kPoints[] = {{uint64_t{64} << 10, 50},
                         {uint64_t{1} << 20, 30},
                         {uint64_t{8} << 20, 20},
                         {uint64_t{64} << 20, 6},
                         {kMaxBytes, 4}};

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
  explicit Side(uint64_t seed) {
    CheckCuda("device memory", cudaMalloc(&data_, kMaxBytes));
    CheckCuda("hash", cudaMalloc(reinterpret_cast<void**>(&hash_), sizeof(uint64_t)));
    CheckCuda("stream", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (seed != 0) {
      CheckCuda("fill", cinch::bench::FillNormalBf16(data_, kMaxBytes, seed, stream_));
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

void Receiver(cinch_endpoint* endpoint, Side& side) {
  for (const Point& point : kPoints) {
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

void Sender(cinch_endpoint* endpoint, Side& side, const Path& path) {
  for (const Point& point : kPoints) {
    const auto size = static_cast<double>(point.bytes);
    Result results[3];
    for (int policy = 0; policy < 3; ++policy) {
      results[policy] = MeasureOne(endpoint, side, point, policy);
    }
    const double link = path.link_gbps / 8 * 1e9;
    const double bound = link > 0 ? link / results[1].wire_fraction : 0;
    std::printf(
        "%-14s %6llu KB raw %7.2f compressed %7.2f auto %7.2f GB/s x%.2f kept %.3f auto "
        "%.3f of bound %.2f hidden %.2f seg %llu/%llu\n",
        path.name, static_cast<unsigned long long>(point.bytes >> 10),
        size / results[0].seconds * 1e-9, size / results[1].seconds * 1e-9,
        size / results[2].seconds * 1e-9, results[0].seconds / results[1].seconds,
        results[1].wire_fraction, results[2].wire_fraction,
        bound > 0 ? size / results[1].seconds / bound : 0, results[1].overlap,
        static_cast<unsigned long long>(results[1].shared),
        static_cast<unsigned long long>(results[1].pinned));
    std::fflush(stdout);
  }
}

std::string AddressOf(int index) { return "127.0.0.1:" + std::to_string(47310 + index); }

void RunPath(int index, bool sends, Side& side) {
  const Path& path = kPaths[index];
  cinch_engine* engine = MakeEngine(path);
  cinch_endpoint* endpoint = nullptr;
  if (sends) {
    Check("connect", cinch_connect(engine, AddressOf(index).c_str(), kWaitSeconds, &endpoint));
    Sender(endpoint, side, path);
  } else {
    cinch_listener* listener = nullptr;
    Check("listen", cinch_listen(engine, AddressOf(index).c_str(), &listener));
    Check("accept", cinch_accept(listener, kWaitSeconds, &endpoint));
    Receiver(endpoint, side);
    cinch_listener_release(listener);
  }
  cinch_endpoint_release(endpoint);
  cinch_engine_destroy(engine);
}

void RunSide(bool sends, const Options& options) {
  Side side(sends ? 7 : 0);
  for (size_t i = 0; i < std::size(kPaths); ++i) {
    if (!options.only.empty() && std::strstr(kPaths[i].name, options.only.c_str()) == nullptr) {
      continue;
    }
    RunPath(static_cast<int>(i), sends, side);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--one-process") == 0) options.one_process = true;
    if (std::strncmp(argv[i], "--only=", 7) == 0) options.only = argv[i] + 7;
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
