// SPDX-License-Identifier: Apache-2.0
// What the interposer costs where it does nothing: calls of an NCCL that returns at once, with and
// without the interposer in front of it, in turns. One JSON line a case, nanoseconds a call.
//
//   nccl_off_bench [batches]
//
// The first cases go through the library that is preloaded, with CINCH_POLICY=raw. The others have
// communicators that are compressed, and calls that are not; their device is the host, so what the
// CUDA driver would take is not in them.
#include <dlfcn.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "collectives/host_device.h"
#include "collectives/host_stream.h"
#include "nccl/interposer/real_library.h"
#include "nccl/interposer/shim.h"

extern "C" {
// The interposer's, linked into this program.
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclAllGather(const void*, void*, size_t, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclRecv(void*, size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
int ncclCommGetAsyncError(void*, int*);
int ncclCommCount(void*, int*);
int ncclCommInitAll(void**, int, const int*);
int ncclCommDestroy(void*);
}

namespace cinch::bench {
namespace {

constexpr int kCallsInBatch = 2000;
// Between which the stream is waited for, untimed: a host that is far ahead waits by design.
constexpr int kCallsInRow = 16;
constexpr size_t kLargeBytes = size_t{2} << 20;
constexpr int kInt32 = collectives::kNcclInt32;
constexpr int kBf16 = collectives::kNcclBfloat16;

/// NCCL's functions as a program that is linked with it has them.
struct Functions {
  decltype(&ncclAllReduce) all_reduce = &ncclAllReduce;
  decltype(&ncclAllGather) all_gather = &ncclAllGather;
  decltype(&ncclSend) send = &ncclSend;
  decltype(&ncclRecv) receive = &ncclRecv;
  decltype(&ncclGroupStart) group_start = &ncclGroupStart;
  decltype(&ncclGroupEnd) group_end = &ncclGroupEnd;
  decltype(&ncclCommGetAsyncError) get_async_error = &ncclCommGetAsyncError;
  decltype(&ncclCommCount) comm_count = &ncclCommCount;
  decltype(&ncclCommInitAll) init_all = &ncclCommInitAll;
  decltype(&ncclCommDestroy) destroy = &ncclCommDestroy;
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

/// As a program that is linked with `library` has them.
Functions FunctionsOf(void* library) {
  Functions functions;
  Find(library, "ncclAllReduce", &functions.all_reduce);
  Find(library, "ncclAllGather", &functions.all_gather);
  Find(library, "ncclSend", &functions.send);
  Find(library, "ncclRecv", &functions.receive);
  Find(library, "ncclGroupStart", &functions.group_start);
  Find(library, "ncclGroupEnd", &functions.group_end);
  Find(library, "ncclCommGetAsyncError", &functions.get_async_error);
  Find(library, "ncclCommCount", &functions.comm_count);
  Find(library, "ncclCommInitAll", &functions.init_all);
  Find(library, "ncclCommDestroy", &functions.destroy);
  return functions;
}

struct Arguments {
  void* comm = nullptr;
  testing::HostStream* stream = nullptr;
  std::vector<uint8_t>* send = nullptr;
  std::vector<uint8_t>* receive = nullptr;
};

struct Case {
  const char* name;
  int (*call)(const Functions&, const Arguments&);
};

int SmallAllReduce(const Functions& nccl, const Arguments& with) {
  return nccl.all_reduce(with.send->data(), with.receive->data(), 1024, kBf16, 0, with.comm,
                         with.stream);
}

int IntegerAllGather(const Functions& nccl, const Arguments& with) {
  return nccl.all_gather(with.send->data(), with.receive->data(), kLargeBytes / 4, kInt32,
                         with.comm, with.stream);
}

int NoiseAllGather(const Functions& nccl, const Arguments& with) {
  return nccl.all_gather(with.send->data(), with.receive->data(), kLargeBytes / 2, kBf16, with.comm,
                         with.stream);
}

int SmallPair(const Functions& nccl, const Arguments& with) {
  int result = nccl.group_start();
  result |= nccl.send(with.send->data(), 1024, kBf16, 1, with.comm, with.stream);
  result |= nccl.receive(with.receive->data(), 1024, kBf16, 1, with.comm, with.stream);
  return result | nccl.group_end();
}

int AsyncError(const Functions& nccl, const Arguments& with) {
  int error = 0;
  return nccl.get_async_error(with.comm, &error) | error;
}

int Count(const Functions& nccl, const Arguments& with) {
  int count = 0;
  return nccl.comm_count(with.comm, &count);
}

double BatchNanoseconds(const Case& one, const Functions& nccl, const Arguments& with) {
  int failures = 0;
  std::chrono::duration<double, std::nano> took{};
  for (int row = 0; row < kCallsInBatch / kCallsInRow; ++row) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCallsInRow; ++i) failures |= one.call(nccl, with);
    took += std::chrono::steady_clock::now() - start;
    with.stream->Synchronize();
  }
  if (failures != 0) {
    fmt::print(stderr, "{}: a call failed\n", one.name);
    std::exit(1);
  }
  return took.count() / kCallsInBatch;
}

void PrintLine(const char* mode, const char* name, double direct, double through, int batches,
               int calls) {
  fmt::print(
      "{{\"bench\": \"nccl_off\", \"mode\": \"{}\", \"case\": \"{}\", \"direct_ns\": {:.1f}, "
      "\"through_ns\": {:.1f}, \"added_ns\": {:.1f}, \"batches\": {}, \"calls\": {}}}\n",
      mode, name, direct, through, through - direct, batches, calls);
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(int batches) : batches_(batches), send_(kLargeBytes), receive_(2 * kLargeBytes) {
    std::mt19937 random(1);
    for (uint8_t& byte : send_) byte = static_cast<uint8_t>(random());
  }

  void Run(const char* mode, const Case& one, const Functions& plain, const Functions& through) {
    void* comms[2] = {};
    Arguments with{nullptr, &stream_, &send_, &receive_};
    Arguments with_plain = with;
    (void)through.init_all(&comms[0], 1, nullptr);
    (void)plain.init_all(&comms[1], 1, nullptr);
    with.comm = comms[0];
    with_plain.comm = comms[1];
    std::vector<double> direct;
    std::vector<double> interposed;
    // The first batch is what histories and caches need.
    for (int i = 0; i <= batches_; ++i) {
      const double alone = BatchNanoseconds(one, plain, with_plain);
      const double behind = BatchNanoseconds(one, through, with);
      if (i == 0) continue;
      direct.push_back(alone);
      interposed.push_back(behind);
    }
    (void)through.destroy(with.comm);
    PrintLine(mode, one.name, Median(direct), Median(interposed), batches_, kCallsInBatch);
  }

 private:
  int batches_;
  testing::HostStream stream_;
  std::vector<uint8_t> send_;
  std::vector<uint8_t> receive_;
};

void* Open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  fmt::print(stderr, "{}\n", dlerror());
  std::exit(1);
}

/// Of a process that does nothing, from its start to its end; with a variable of the environment.
double ProcessNanoseconds(const std::string& variable) {
  std::string program = "/bin/true";
  std::string setting = variable;
  char* arguments[] = {program.data(), nullptr};
  char* environment[] = {setting.data(), nullptr};
  pid_t child = 0;
  const auto start = std::chrono::steady_clock::now();
  int status = posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment);
  if (status != 0 || waitpid(child, &status, 0) != child || status != 0) {
    fmt::print(stderr, "{} could not be run\n", program);
    std::exit(1);
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

void RunProcesses(int batches) {
  std::vector<double> direct;
  std::vector<double> preloaded;
  for (int i = 0; i < 4 * batches; ++i) {
    direct.push_back(ProcessNanoseconds("CINCH=1"));
    preloaded.push_back(ProcessNanoseconds(std::string("LD_PRELOAD=") + CINCH_INTERPOSER));
  }
  PrintLine("loaded", "a process without NCCL", Median(direct), Median(preloaded), 4 * batches, 1);
}

void RunAll(int batches) {
  constexpr Case kSmall = {"all_reduce of 2 KiB", &SmallAllReduce};
  constexpr Case kIntegers = {"all_gather of 2 MiB of int32", &IntegerAllGather};
  constexpr Case kNoise = {"all_gather of 2 MiB of noise", &NoiseAllGather};
  constexpr Case kPair = {"group of a send and a receive of 2 KiB", &SmallPair};
  constexpr Case kError = {"get_async_error", &AsyncError};
  constexpr Case kCount = {"comm_count", &Count};
  const Functions plain = FunctionsOf(Open(CINCH_NULL_NCCL));

  // By its settings, as in a process that it is preloaded into.
  setenv("CINCH_NCCL_LIB", CINCH_NULL_NCCL, 1);
  setenv("CINCH_POLICY", "raw", 1);
  const Functions preloaded = FunctionsOf(Open(CINCH_INTERPOSER));
  Bench bench(batches);
  for (const Case& one : {kSmall, kIntegers, kNoise, kPair, kError, kCount}) {
    bench.Run("raw", one, plain, preloaded);
  }

  nccl::SetRealLibraryPath(CINCH_NULL_NCCL);
  testing::HostDevice device;
  nccl::Shim shim(nccl::TheRealLibrary().api, &device, {});
  nccl::Shim::InstallForTesting(&shim);
  const Functions linked;
  for (const Case& one : {kSmall, kIntegers, kNoise, kPair, kError, kCount}) {
    bench.Run("auto", one, plain, linked);
  }
  nccl::Shim::InstallForTesting(nullptr);
  RunProcesses(batches);
}

}  // namespace
}  // namespace cinch::bench

int main(int argc, char** argv) {
  cinch::bench::RunAll(argc > 1 ? std::max(1, std::atoi(argv[1])) : 51);
  return 0;
}
