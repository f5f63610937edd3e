// SPDX-License-Identifier: Apache-2.0
// How long calls of NCCL take the host, and operations from their call to their end, where cinch
// has nothing to do: two processes on one GPU, and a communicator of one rank beside. Run it plain
// and with the interposer preloaded, in turns, and compare. One JSON line a case, from the first
// rank.
//
//   nccl_call_bench MODE [rows]
//
// MODE is only printed. NCCL takes the processes for hosts of their own (NCCL_HOSTID).
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kLargeBytes = size_t{2} << 20;
constexpr int kCallsInRow = 8;
constexpr int kInt32 = 2;
constexpr int kBf16 = 9;

struct UniqueId {
  char internal[128];
};

/// What the two processes tell each other.
struct Meeting {
  std::atomic<int> has_id{0};
  UniqueId id{};
};

struct Nccl {
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(void**, int, UniqueId, int);
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, cudaStream_t);
  int (*all_gather)(const void*, void*, size_t, int, void*, cudaStream_t);
  int (*send)(const void*, size_t, int, int, void*, cudaStream_t);
  int (*receive)(void*, size_t, int, int, void*, cudaStream_t);
  int (*group_start)();
  int (*group_end)();
  int (*comm_count)(void*, int*);
  int (*destroy)(void*);
};

void Require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "nccl_call_bench: %s failed\n", what);
  std::exit(1);
}

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  Require(*function != nullptr, name);
}

Nccl OpenNccl() {
  // A preloaded interposer answers to this name.
  void* library = dlopen("libnccl.so.2", RTLD_NOW);
  Require(library != nullptr, "opening libnccl.so.2");
  Nccl nccl{};
  Find(library, "ncclGetUniqueId", &nccl.get_unique_id);
  Find(library, "ncclCommInitRank", &nccl.init_rank);
  Find(library, "ncclAllReduce", &nccl.all_reduce);
  Find(library, "ncclAllGather", &nccl.all_gather);
  Find(library, "ncclSend", &nccl.send);
  Find(library, "ncclRecv", &nccl.receive);
  Find(library, "ncclGroupStart", &nccl.group_start);
  Find(library, "ncclGroupEnd", &nccl.group_end);
  Find(library, "ncclCommCount", &nccl.comm_count);
  Find(library, "ncclCommDestroy", &nccl.destroy);
  return nccl;
}

struct Rank {
  Nccl nccl{};
  int rank = 0;
  int ranks = 1;
  void* comm = nullptr;
  cudaStream_t stream = nullptr;
  uint8_t* send = nullptr;
  uint8_t* receive = nullptr;
};

int SmallAllReduce(const Rank& r) {
  return r.nccl.all_reduce(r.send, r.receive, 1024, kBf16, 0, r.comm, r.stream);
}

int IntegerAllGather(const Rank& r) {
  return r.nccl.all_gather(r.send, r.receive, kLargeBytes / 4, kInt32, r.comm, r.stream);
}

int NoiseAllGather(const Rank& r) {
  return r.nccl.all_gather(r.send, r.receive, kLargeBytes / 2, kBf16, r.comm, r.stream);
}

int SmallPair(const Rank& r) {
  const int peer = (r.rank + 1) % r.ranks;
  int result = r.nccl.group_start();
  result |= r.nccl.send(r.send, 1024, kBf16, peer, r.comm, r.stream);
  result |= r.nccl.receive(r.receive, 1024, kBf16, peer, r.comm, r.stream);
  return result | r.nccl.group_end();
}

int Count(const Rank& r) {
  int count = 0;
  return r.nccl.comm_count(r.comm, &count);
}

struct Case {
  const char* name;
  int (*call)(const Rank&);
};

constexpr Case kCases[] = {{"all_reduce of 2 KiB", &SmallAllReduce},
                           {"all_gather of 2 MiB of int32", &IntegerAllGather},
                           {"all_gather of 2 MiB of noise", &NoiseAllGather},
                           {"group of a send and a receive of 2 KiB", &SmallPair},
                           {"comm_count", &Count}};

using Microseconds = std::chrono::duration<double, std::micro>;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Measure(const Rank& rank, const Case& one, const char* mode, int rows) {
  std::vector<double> calls;
  std::vector<double> whole;
  // The first rows are what connections and histories need.
  const int warm_up = 4;
  for (int row = 0; row < rows + warm_up; ++row) {
    int failures = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCallsInRow; ++i) failures |= one.call(rank);
    const Microseconds called = std::chrono::steady_clock::now() - start;
    Require(cudaStreamSynchronize(rank.stream) == cudaSuccess && failures == 0, one.name);
    const Microseconds ended = std::chrono::steady_clock::now() - start;
    if (row < warm_up) continue;
    calls.push_back(called.count() / kCallsInRow);
    whole.push_back(ended.count() / kCallsInRow);
  }
  if (rank.rank != 0) return;
  std::printf(
      "{\"bench\": \"nccl_call\", \"mode\": \"%s\", \"ranks\": %d, \"case\": \"%s\", "
      "\"call_us\": %.3f, \"whole_us\": %.2f, \"rows\": %d}\n",
      mode, rank.ranks, one.name, Median(calls), Median(whole), rows);
  std::fflush(stdout);
}

void MakeBuffers(Rank* rank) {
  void* send = nullptr;
  void* receive = nullptr;
  Require(cudaSetDevice(0) == cudaSuccess && cudaStreamCreate(&rank->stream) == cudaSuccess &&
              cudaMalloc(&send, kLargeBytes) == cudaSuccess &&
              cudaMalloc(&receive, 2 * kLargeBytes) == cudaSuccess,
          "getting device memory");
  std::vector<uint32_t> noise(kLargeBytes / 4);
  std::mt19937 random(static_cast<uint32_t>(rank->rank));
  for (uint32_t& word : noise) word = static_cast<uint32_t>(random());
  Require(cudaMemcpy(send, noise.data(), kLargeBytes, cudaMemcpyHostToDevice) == cudaSuccess,
          "copying to the device");
  rank->send = static_cast<uint8_t*>(send);
  rank->receive = static_cast<uint8_t*>(receive);
}

int RunRank(int number, Meeting* meeting, const char* mode, int rows) {
  setenv("NCCL_HOSTID", number == 0 ? "cinch-bench-0" : "cinch-bench-1", 1);
  Rank rank;
  rank.rank = number;
  MakeBuffers(&rank);
  rank.nccl = OpenNccl();
  UniqueId own{};
  Require(rank.nccl.get_unique_id(&own) == 0, "ncclGetUniqueId");
  if (number == 0) {
    Require(rank.nccl.get_unique_id(&meeting->id) == 0, "ncclGetUniqueId");
    meeting->has_id.store(1);
  }
  while (meeting->has_id.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // Alone: what is left is the host's work.
  Require(rank.nccl.init_rank(&rank.comm, 1, own, 0) == 0, "ncclCommInitRank");
  rank.rank = 0;
  if (number == 0) {
    for (const Case& one : {kCases[0], kCases[1], kCases[4]}) Measure(rank, one, mode, 8 * rows);
  }
  Require(rank.nccl.destroy(rank.comm) == 0, "ncclCommDestroy");
  rank.rank = number;
  rank.ranks = 2;
  Require(rank.nccl.init_rank(&rank.comm, 2, meeting->id, number) == 0, "ncclCommInitRank");
  for (const Case& one : kCases) Measure(rank, one, mode, rows);
  return rank.nccl.destroy(rank.comm) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "plain";
  const int rows = argc > 2 ? std::max(1, std::atoi(argv[2])) : 25;
  void* shared =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Require(shared != MAP_FAILED, "mmap");
  auto* meeting = new (shared) Meeting;
  // Before anything of CUDA exists.
  const pid_t child = fork();
  Require(child >= 0, "fork");
  if (child == 0) return RunRank(1, meeting, mode, rows);
  const int result = RunRank(0, meeting, mode, rows);
  int status = 0;
  Require(waitpid(child, &status, 0) == child, "waitpid");
  return result != 0 ? result : WEXITSTATUS(status);
}
