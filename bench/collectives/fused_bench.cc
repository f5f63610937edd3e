// SPDX-License-Identifier: Apache-2.0
/// Rates of the fused collectives.
///
///   fused_bench one [MB]        one GPU: sender alone, receiver alone, reducer alone; latency
///   fused_bench profile         one GPU: one launch of each kernel, alone
///   fused_bench compare ...     several GPUs: against NCCL in the same run; --help says more
///
/// GB/s count original bytes, 10^9 of them, a direction. An "SM's worth" is two thread blocks, or
/// one of the reduce kernel, wherever they run; "packed" rows confine them to so many SMs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/collectives/compare.h"
#include "bench/collectives/sm_share.h"
#include "bench/collectives/world.h"
#include "collectives/fused/communicator.h"

namespace cinch::bench {
namespace {

using fused::Communicator;

/// One rank's kernel alone on `stream`.
double TimeAlone(cudaStream_t stream, const std::function<void()>& call) {
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  Check(cudaEventCreate(&start), "event");
  Check(cudaEventCreate(&stop), "event");
  std::vector<float> times;
  for (int i = 0; i < 8; ++i) {
    Check(cudaEventRecord(start, stream), "event");
    call();
    Check(cudaEventRecord(stop, stream), "event");
    Check(cudaStreamSynchronize(stream), "kernel");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, start, stop), "time");
    if (i >= 2) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e-3;
}

struct AloneCase {
  const char* name;
  bool compress;
  bool direct;
};
constexpr AloneCase kAloneCases[] = {
    {"coded, bulk", true, false}, {"coded, direct", true, true}, {"raw", false, false}};

void SidesAlone(World* world, size_t bytes) {
  Rank& sender = world->at(0);
  Rank& receiver = world->at(1);
  const SmShare share(32);
  std::printf("side            where          32 SMs: GB/s   an SM\n");
  const auto row = [&](const char* side, const char* where, double seconds) {
    const double rate = static_cast<double>(bytes) / seconds * 1e-9;
    std::printf("%-15s %-14s %12.0f %8.1f\n", side, where, rate, rate / 32);
    std::fflush(stdout);
  };
  sender.fused->SetMeasure(fused::kIgnoreCredits);
  receiver.fused->SetMeasure(fused::kIgnoreFlags | fused::kReceiversOnly);
  for (const AloneCase& one : kAloneCases) {
    world->ForEach([&](Communicator& fused) {
      fused.SetCompress(one.compress);
      fused.SetDirect(one.direct);
      fused.SetCtas(64);
    });
    for (const bool packed : {false, true}) {
      cudaStream_t stream = packed ? share.stream() : sender.stream;
      if (stream == nullptr) continue;
      const char* where = packed ? "packed" : "spread";
      std::printf("%s\n", one.name);
      row("send", where, TimeAlone(stream, [&] {
            Enqueued(sender.fused->Send(sender.send, bytes, 1, CINCH_DTYPE_BF16, stream));
          }));
      row("receive", where, TimeAlone(stream, [&] {
            Enqueued(receiver.fused->Receive(receiver.receive, bytes, 0, CINCH_DTYPE_BF16, stream));
          }));
      world->ForEach([](Communicator& fused) { fused.SetCtas(32); });
      // The slots hold units of another message's; all are full.
      Enqueued(sender.fused->Send(sender.send, bytes, 1, CINCH_DTYPE_BF16, stream));
      row("decode-reduce", where, TimeAlone(stream, [&] {
            Enqueued(receiver.fused->ReduceScatter(receiver.send, receiver.receive, bytes / 2,
                                                   CINCH_DTYPE_BF16, stream));
          }));
      world->ForEach([](Communicator& fused) { fused.SetCtas(64); });
    }
  }
}

void LaunchEachAlone(size_t bytes) {
  World world({.bytes = 2 * bytes}, UsualWeights);
  Rank& sender = world.at(0);
  Rank& receiver = world.at(1);
  sender.fused->SetMeasure(fused::kIgnoreCredits);
  receiver.fused->SetMeasure(fused::kIgnoreFlags | fused::kReceiversOnly);
  for (const bool direct : {false, true}) {
    sender.fused->SetDirect(direct);
    receiver.fused->SetDirect(direct);
    Enqueued(sender.fused->Send(sender.send, bytes, 1, CINCH_DTYPE_BF16, sender.stream));
    Enqueued(receiver.fused->Receive(receiver.receive, bytes, 0, CINCH_DTYPE_BF16, sender.stream));
    receiver.fused->SetCtas(32);
    Enqueued(receiver.fused->ReduceScatter(receiver.send, receiver.receive, bytes / 2,
                                           CINCH_DTYPE_BF16, sender.stream));
    receiver.fused->SetCtas(64);
    Check(cudaStreamSynchronize(sender.stream), "kernels");
  }
}

void OneGpu(size_t bytes) {
  {
    World world({.bytes = 2 * bytes}, UsualWeights);
    SidesAlone(&world, bytes);
  }
  World world({.bytes = bytes}, UsualWeights);
  std::printf("two ranks on one GPU         MB    us bulk  us direct     us raw\n");
  for (const size_t message : {size_t{65536}, size_t{1} << 20, size_t{4} << 20, bytes}) {
    std::printf("all-gather (of this in all) %8.2f", static_cast<double>(message) / (1 << 20));
    for (const AloneCase& one : kAloneCases) {
      world.ForEach([&](Communicator& fused) {
        fused.SetCompress(one.compress);
        fused.SetDirect(one.direct);
      });
      std::printf(" %10.1f", 1e6 * world
                                       .Time(20,
                                             [&](Rank& rank, uint32_t) {
                                               Enqueued(rank.fused->AllGather(
                                                   rank.send, rank.receive, message / 2,
                                                   CINCH_DTYPE_BF16, rank.stream));
                                             })
                                       .median);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

int Run(const std::vector<std::string>& arguments) {
  const std::string mode = arguments.empty() ? "one" : arguments[0];
  if (mode == "compare") return Compare({arguments.begin() + 1, arguments.end()});
  if (mode == "profile") {
    LaunchEachAlone(size_t{256} << 20);
    return 0;
  }
  if (mode != "one") {
    std::fprintf(stderr, "fused_bench one [MB] | profile | compare --help\n");
    return 2;
  }
  const size_t megabytes =
      arguments.size() > 1 ? std::strtoul(arguments[1].c_str(), nullptr, 10) : 256;
  OneGpu(megabytes << 20);
  return 0;
}

}  // namespace
}  // namespace cinch::bench

int main(int argc, char** argv) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return cinch::bench::Run({argv + 1, argv + argc});
}
