// SPDX-License-Identifier: Apache-2.0
/// NCCL's operations by a library with NCCL's names, plain or in front of it: ranks are processes
/// on one GPU that NCCL takes for hosts of their own and that reach each other over loopback
/// sockets.
///
///   wrapped_bench LIBRARY LABEL RANKS MB WARMUPS OPERATION...
///
/// MB (2^20 bytes) are of each rank; operations: ag, bcast, rs, ar, f32 (an all-reduce of fp32).
/// Results are compared with sums in the order of the ranks, to the bit for two of them.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace cinch::bench {
namespace {

constexpr uint64_t kSample = uint64_t{1} << 20;
constexpr int kFloat32 = 7;
constexpr int kBfloat16 = 9;
constexpr int kRuns = 5;

void Require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::_Exit(1);
}

struct UniqueId {
  char internal[128];
};

/// What the processes share.
struct Shared {
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> turn;
  UniqueId id;
};

struct Nccl {
  explicit Nccl(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    Require(library != nullptr, "loading the library");
    Find(library, "ncclGetUniqueId", &unique_id);
    Find(library, "ncclCommInitRank", &init);
    Find(library, "ncclCommDestroy", &destroy);
    Find(library, "ncclAllGather", &all_gather);
    Find(library, "ncclBroadcast", &broadcast);
    Find(library, "ncclReduceScatter", &reduce_scatter);
    Find(library, "ncclAllReduce", &all_reduce);
  }
  template <typename Function>
  static void Find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    Require(*function != nullptr, name);
  }
  int (*unique_id)(UniqueId*);
  int (*init)(void**, int, UniqueId, int);
  int (*destroy)(void*);
  int (*all_gather)(const void*, void*, size_t, int, void*, cudaStream_t);
  int (*broadcast)(const void*, void*, size_t, int, int, void*, cudaStream_t);
  int (*reduce_scatter)(const void*, void*, size_t, int, int, void*, cudaStream_t);
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, cudaStream_t);
};

float FromBf16(uint16_t bits) {
  const uint32_t word = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
uint16_t ToBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

/// A rank's sample as numbers that its dtype can hold.
std::vector<float> SampleOf(int rank, int dtype) {
  std::mt19937 random(static_cast<uint32_t>(rank + 1));
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(kSample);
  for (float& value : values) {
    value = normal(random);
    if (dtype == kBfloat16) value = FromBf16(ToBf16(value));
  }
  return values;
}

std::vector<uint8_t> Pack(const std::vector<float>& values, int dtype) {
  const size_t size = dtype == kBfloat16 ? 2 : 4;
  std::vector<uint8_t> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = ToBf16(values[i]);
    const void* from = dtype == kBfloat16 ? static_cast<const void*>(&half) : &values[i];
    std::memcpy(bytes.data() + i * size, from, size);
  }
  return bytes;
}

class Process {
 public:
  Process(Shared* shared, int rank, int ranks, char** argv)
      : shared_(shared), rank_(rank), ranks_(ranks), label_(argv[2]), nccl_(argv[1]) {
    bytes_ = std::strtoull(argv[4], nullptr, 10) << 20;
    warmups_ = std::atoi(argv[5]);
    Require(cudaSetDevice(0) == cudaSuccess, "the device");
    if (rank == 0) Require(nccl_.unique_id(&shared->id) == 0, "an id");
    Meet();
    Require(nccl_.init(&comm_, ranks, shared->id, rank) == 0, "a communicator");
    Require(cudaStreamCreate(&stream_) == cudaSuccess, "a stream");
    Require(cudaMalloc(&send_, bytes_) == cudaSuccess, "memory");
    Require(cudaMalloc(&receive_, bytes_ * static_cast<uint64_t>(ranks)) == cudaSuccess, "memory");
  }

  void Run(const std::string& name) {
    const int dtype = name == "f32" ? kFloat32 : kBfloat16;
    const size_t size = dtype == kBfloat16 ? 2 : 4;
    const uint64_t count = bytes_ / size;
    const auto ranks = static_cast<uint64_t>(ranks_);
    Fill(dtype);
    std::function<int()> call;
    if (name == "ag") {
      call = [=, this] { return nccl_.all_gather(send_, receive_, count, dtype, comm_, stream_); };
    } else if (name == "bcast") {
      call = [=, this] {
        return nccl_.broadcast(send_, receive_, count, dtype, 0, comm_, stream_);
      };
    } else if (name == "rs") {
      call = [=, this] {
        return nccl_.reduce_scatter(send_, receive_, count / ranks, dtype, 0, comm_, stream_);
      };
    } else {
      call = [=, this] {
        return nccl_.all_reduce(send_, receive_, count, dtype, 0, comm_, stream_);
      };
    }
    Time(name, dtype, call);
  }
  void End() { Require(nccl_.destroy(comm_) == 0, "destroying"); }

 private:
  /// A barrier of the processes.
  void Meet() {
    const uint32_t turn = shared_->turn.load();
    if (shared_->arrived.fetch_add(1) + 1 == static_cast<uint32_t>(ranks_)) {
      shared_->arrived.store(0);
      shared_->turn.store(turn + 1);
    }
    while (shared_->turn.load() == turn) usleep(20);
  }
  void Fill(int dtype) {
    const std::vector<uint8_t> sample = Pack(SampleOf(rank_, dtype), dtype);
    for (uint64_t at = 0; at < bytes_; at += sample.size()) {
      Require(cudaMemcpy(static_cast<uint8_t*>(send_) + at, sample.data(), sample.size(),
                         cudaMemcpyHostToDevice) == cudaSuccess,
              "an upload");
    }
  }
  /// Elements of a sample's length at the result's end that are wrong.
  uint64_t Wrong(const std::string& name, int dtype) {
    const size_t size = dtype == kBfloat16 ? 2 : 4;
    const auto ranks = static_cast<uint64_t>(ranks_);
    const uint64_t result = name == "ag" ? bytes_ * ranks : name == "rs" ? bytes_ / ranks : bytes_;
    std::vector<float> expected = SampleOf(name == "ag" ? ranks_ - 1 : 0, dtype);
    const bool sums = name != "ag" && name != "bcast";
    for (int rank = 1; sums && rank < ranks_; ++rank) {
      const std::vector<float> part = SampleOf(rank, dtype);
      for (uint64_t i = 0; i < kSample; ++i) expected[i] += part[i];
    }
    const std::vector<uint8_t> good = Pack(expected, dtype);
    std::vector<uint8_t> got(good.size());
    Require(cudaMemcpy(got.data(), static_cast<uint8_t*>(receive_) + result - got.size(),
                       got.size(), cudaMemcpyDeviceToHost) == cudaSuccess,
            "a download");
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kSample; ++i) {
      if (std::memcmp(got.data() + i * size, good.data() + i * size, size) == 0) continue;
      // NCCL adds more than two numbers in orders of its own.
      uint16_t half = 0;
      float value = 0;
      std::memcpy(size == 2 ? static_cast<void*>(&half) : &value, got.data() + i * size, size);
      if (size == 2) value = FromBf16(half);
      const float most = ranks_ == 2 ? 0 : 0.02F * (std::fabs(expected[i]) + 0.02F);
      if (!(std::fabs(value - expected[i]) <= most)) ++wrong;
    }
    return wrong;
  }
  void Time(const std::string& name, int dtype, const std::function<int()>& call) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point start) {
      return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    };
    const auto synchronize = [&] {
      Require(cudaStreamSynchronize(stream_) == cudaSuccess, "a run");
    };
    Require(cudaMemset(receive_, 0xFF, bytes_) == cudaSuccess, "a fill");
    for (int i = 0; i < warmups_; ++i) {
      Require(call() == 0, "a call");
      synchronize();
    }
    Meet();
    auto start = Clock::now();
    for (int i = 0; i < kRuns; ++i) Require(call() == 0, "a call");
    synchronize();
    const double loop = since(start) / kRuns;
    std::vector<double> times;
    for (int i = 0; i < kRuns; ++i) {
      Meet();
      start = Clock::now();
      Require(call() == 0, "a call");
      synchronize();
      times.push_back(since(start));
    }
    std::sort(times.begin(), times.end());
    const uint64_t wrong = Wrong(name, dtype);
    if (rank_ == 0 || wrong != 0) {
      std::printf(
          "%-6s %d ranks %4lu MB %-5s | back to back %8.2f | alone min %8.2f med %8.2f ms%s\n",
          label_, ranks_, static_cast<unsigned long>(bytes_ >> 20), name.c_str(), loop,
          times.front(), times[times.size() / 2], wrong == 0 ? "" : " WRONG");
      std::fflush(stdout);
    }
    Meet();
  }

  Shared* shared_;
  int rank_;
  int ranks_;
  const char* label_;
  Nccl nccl_;
  uint64_t bytes_ = 0;
  int warmups_ = 0;
  void* comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

void RunRank(Shared* shared, int rank, int ranks, int argc, char** argv) {
  setenv("NCCL_HOSTID", ("h" + std::to_string(rank)).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_IB_DISABLE", "1", 1);
  Process process(shared, rank, ranks, argv);
  for (int i = 6; i < argc; ++i) process.Run(argv[i]);
  process.End();
}

int Run(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "wrapped_bench LIBRARY LABEL RANKS MB WARMUPS OPERATION...\n");
    return 2;
  }
  const int ranks = std::atoi(argv[3]);
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Require(memory != MAP_FAILED && ranks >= 2, "the start");
  auto* shared = new (memory) Shared{};
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    Require(child >= 0, "a fork");
    if (child == 0) {
      RunRank(shared, rank, ranks, argc, argv);
      std::fflush(stdout);
      std::exit(0);
    }
    children.push_back(child);
  }
  bool failed = false;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = wait(&status);
    std::erase(children, ended);
    if (status == 0 || failed) continue;
    failed = true;
    // The others would wait for this rank without end.
    for (const pid_t child : children) kill(child, SIGKILL);
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace cinch::bench

int main(int argc, char** argv) { return cinch::bench::Run(argc, argv); }
