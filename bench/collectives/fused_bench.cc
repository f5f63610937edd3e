// SPDX-License-Identifier: Apache-2.0
/// Rates of the fused collectives.
///
///   fused_bench one [MB]        one GPU: sender alone, receiver alone, reducer alone; latency
///   fused_bench profile         one GPU: one launch of each kernel, alone
///   fused_bench two [MB...]     two GPUs: against NCCL in the same run
///
/// GB/s count original bytes, 10^9 of them, a direction. An "SM's worth" is two thread blocks, or
/// one of the reduce kernel, wherever they run; "packed" rows confine them to so many SMs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/collectives/nccl_peer.h"
#include "bench/collectives/sm_share.h"
#include "collectives/fused/communicator.h"

namespace cinch::bench {
namespace {

using fused::Communicator;
using fused::CommunicatorOptions;
using fused::Route;

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fused_bench: %s failed\n", what);
  std::exit(1);
}
void Check(cudaError_t error, const char* what) { Check(error == cudaSuccess, what); }

struct Meeting {
  explicit Meeting(uint32_t count) : ranks(count), barrier(count) {}
  uint32_t ranks;
  std::barrier<> barrier;
  std::mutex mutex;
  std::vector<uint8_t> bytes;
};
struct Member {
  Meeting* meeting;
  uint32_t rank;
};
int Gather(void* context, const void* send, void* receive, size_t bytes) {
  const auto* member = static_cast<const Member*>(context);
  Meeting* meeting = member->meeting;
  {
    const std::lock_guard lock(meeting->mutex);
    meeting->bytes.resize(meeting->ranks * bytes);
    std::memcpy(meeting->bytes.data() + member->rank * bytes, send, bytes);
  }
  meeting->barrier.arrive_and_wait();
  std::memcpy(receive, meeting->bytes.data(), meeting->bytes.size());
  meeting->barrier.arrive_and_wait();
  return 0;
}

/// A rank: a device, a stream, buffers and a communicator.
struct Rank {
  int device = 0;
  cudaStream_t stream = nullptr;
  uint8_t* send = nullptr;
  uint8_t* receive = nullptr;
  std::unique_ptr<Communicator> fused;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
};

std::vector<uint16_t> Gaussian(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) {
    const float number = normal(random);
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    value = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
  return values;
}

/// Fills `bytes` bytes with a sample, again and again.
void Fill(uint8_t* to, size_t bytes, uint32_t seed) {
  const std::vector<uint16_t> sample = Gaussian(size_t{4} << 20, seed);
  const size_t sample_bytes = sample.size() * 2;
  for (size_t at = 0; at < bytes; at += sample_bytes) {
    Check(cudaMemcpy(to + at, sample.data(), std::min(sample_bytes, bytes - at),
                     cudaMemcpyHostToDevice),
          "upload");
  }
}

uint8_t* Allocate(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "memory");
  return static_cast<uint8_t*>(memory);
}

class World {
 public:
  World(uint32_t ranks, bool many_devices, uint32_t max_ctas, size_t bytes) : ranks_(ranks) {
    Meeting meeting(ranks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        Rank& own = ranks_[rank];
        own.device = many_devices ? static_cast<int>(rank) : 0;
        Check(cudaSetDevice(own.device), "device");
        Check(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking), "stream");
        own.send = Allocate(bytes);
        own.receive = Allocate(bytes);
        Check(cudaEventCreate(&own.start), "event");
        Check(cudaEventCreate(&own.stop), "event");
        Fill(own.send, bytes, rank);
        Member member{&meeting, rank};
        CommunicatorOptions options;
        options.rank = rank;
        options.ranks = ranks;
        options.max_ctas = max_ctas;
        options.timeout_seconds = 5;
        options.bootstrap = {&Gather, &member};
        Check(Communicator::Create(options, &own.fused) == CINCH_OK, "communicator");
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Rank& at(uint32_t rank) { return ranks_[rank]; }
  uint32_t count() const { return static_cast<uint32_t>(ranks_.size()); }

  /// Seconds of one call by all ranks, from the slowest rank's events over `repeats` calls.
  double Time(int repeats, const std::function<void(Rank&, uint32_t)>& call) {
    std::vector<double> times;
    for (int round = 0; round < 4; ++round) {
      for (Rank& rank : ranks_) {
        Check(cudaSetDevice(rank.device), "device");
        Check(cudaStreamSynchronize(rank.stream), "wait");
      }
      std::barrier<> together(static_cast<std::ptrdiff_t>(ranks_.size()));
      std::vector<std::thread> threads;
      for (uint32_t i = 0; i < count(); ++i) {
        threads.emplace_back([&, i] {
          Rank& rank = ranks_[i];
          Check(cudaSetDevice(rank.device), "device");
          together.arrive_and_wait();
          call(rank, i);  // Brings the ranks together.
          Check(cudaEventRecord(rank.start, rank.stream), "event");
          for (int repeat = 0; repeat < repeats; ++repeat) call(rank, i);
          Check(cudaEventRecord(rank.stop, rank.stream), "event");
          Check(cudaStreamSynchronize(rank.stream), "wait");
        });
      }
      for (std::thread& thread : threads) thread.join();
      float longest = 0;
      for (Rank& rank : ranks_) {
        float milliseconds = 0;
        Check(cudaEventElapsedTime(&milliseconds, rank.start, rank.stop), "time");
        longest = std::max(longest, milliseconds);
        fused::Report report;
        const Status status = rank.fused->Check(&report);
        if (status != CINCH_OK) {
          std::printf(
              "rank %u gave up: %s, peer %u data %u channel %u step %llu expected %u seen %u\n",
              rank.fused->rank(), cinch_status_name(status), report.peer, report.waits_for_data,
              report.channel, static_cast<unsigned long long>(report.step), report.expected,
              report.seen);
          std::exit(1);
        }
      }
      if (round > 0) times.push_back(longest * 1e-3 / repeats);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void ForEach(const std::function<void(Communicator&)>& change) {
    for (Rank& rank : ranks_) change(*rank.fused);
  }

 private:
  std::vector<Rank> ranks_;
};

void Enqueued(Status status) { Check(status == CINCH_OK, cinch_status_name(status)); }

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
  World world(2, false, 64, 2 * bytes);
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
    World world(2, false, 64, 2 * bytes);
    SidesAlone(&world, bytes);
  }
  World world(2, false, 64, bytes);
  std::printf("two ranks on one GPU         MB    us bulk  us direct     us raw\n");
  for (const size_t message : {size_t{65536}, size_t{1} << 20, size_t{4} << 20, bytes}) {
    std::printf("all-gather (of this in all) %8.2f", static_cast<double>(message) / (1 << 20));
    for (const AloneCase& one : kAloneCases) {
      world.ForEach([&](Communicator& fused) {
        fused.SetCompress(one.compress);
        fused.SetDirect(one.direct);
      });
      std::printf(" %10.1f", 1e6 * world.Time(20, [&](Rank& rank, uint32_t) {
        Enqueued(rank.fused->AllGather(rank.send, rank.receive, message / 2, CINCH_DTYPE_BF16,
                                       rank.stream));
      }));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

struct Operation {
  const char* name;
  /// Bytes that GB/s count, of a message of `bytes`.
  double (*counted)(double bytes);
  Status (*fused)(Rank&, uint32_t rank, size_t bytes);
  bool (*nccl)(NcclPeer&, Rank&, uint32_t rank, size_t bytes);
};

double All(double bytes) { return bytes; }

const Operation kOperations[] = {
    {"send/recv both ways", &All,
     [](Rank& rank, uint32_t own, size_t bytes) {
       Route routes[fused::kMaxRanks] = {};
       routes[1 - own] = {rank.send, bytes, rank.receive, bytes};
       return rank.fused->Exchange(routes, CINCH_DTYPE_BF16, rank.stream);
     },
     [](NcclPeer& nccl, Rank& rank, uint32_t own, size_t bytes) {
       return nccl.SendReceive(own, rank.send, rank.receive, bytes / 2, 1 - static_cast<int>(own),
                               rank.stream);
     }},
    {"send one way", &All,
     [](Rank& rank, uint32_t own, size_t bytes) {
       return own == 0 ? rank.fused->Send(rank.send, bytes, 1, CINCH_DTYPE_BF16, rank.stream)
                       : rank.fused->Receive(rank.receive, bytes, 0, CINCH_DTYPE_BF16, rank.stream);
     },
     [](NcclPeer& nccl, Rank& rank, uint32_t own, size_t bytes) {
       return nccl.OneWay(own, rank.send, rank.receive, bytes / 2, rank.stream);
     }},
    {"all-gather", &All,
     [](Rank& rank, uint32_t, size_t bytes) {
       return rank.fused->AllGather(rank.send, rank.receive, bytes / 2, CINCH_DTYPE_BF16,
                                    rank.stream);
     },
     [](NcclPeer& nccl, Rank& rank, uint32_t own, size_t bytes) {
       return nccl.AllGather(own, rank.send, rank.receive, bytes / 4, rank.stream);
     }},
    {"all-to-all", &All,
     [](Rank& rank, uint32_t own, size_t bytes) {
       Route routes[fused::kMaxRanks] = {};
       for (uint32_t peer = 0; peer < 2; ++peer) {
         routes[peer] = {rank.send + peer * bytes / 2, bytes / 2, rank.receive + peer * bytes / 2,
                         bytes / 2};
       }
       (void)own;
       return rank.fused->Exchange(routes, CINCH_DTYPE_BF16, rank.stream);
     },
     [](NcclPeer& nccl, Rank& rank, uint32_t own, size_t bytes) {
       return nccl.AllToAll(own, rank.send, rank.receive, bytes / 4, rank.stream);
     }},
    {"reduce-scatter", &All,
     [](Rank& rank, uint32_t, size_t bytes) {
       return rank.fused->ReduceScatter(rank.send, rank.receive, bytes / 4, CINCH_DTYPE_BF16,
                                        rank.stream);
     },
     [](NcclPeer& nccl, Rank& rank, uint32_t own, size_t bytes) {
       return nccl.ReduceScatter(own, rank.send, rank.receive, bytes / 4, rank.stream);
     }},
    {"all-reduce", &All,
     [](Rank& rank, uint32_t, size_t bytes) {
       return rank.fused->AllReduce(rank.send, rank.receive, bytes / 2, CINCH_DTYPE_BF16,
                                    rank.stream);
     },
     [](NcclPeer& nccl, Rank& rank, uint32_t own, size_t bytes) {
       return nccl.AllReduce(own, rank.send, rank.receive, bytes / 2, rank.stream);
     }},
};

int RepeatsFor(size_t bytes) { return bytes >= (size_t{256} << 20) ? 5 : 20; }

void CompareWithNccl(World* world, NcclPeer* nccl, const std::vector<size_t>& sizes) {
  std::printf(
      "GB/s of %-14s MB   nccl | 64 SMs   48     32     24     16 | direct 64    32 | raw 64 | "
      "best/nccl at 64\n",
      "");
  for (const Operation& operation : kOperations) {
    for (const size_t bytes : sizes) {
      const double counted = operation.counted(static_cast<double>(bytes)) * 1e-9;
      const int repeats = RepeatsFor(bytes);
      const double plain = counted / world->Time(repeats, [&](Rank& rank, uint32_t own) {
        Check(operation.nccl(*nccl, rank, own, bytes), "NCCL");
      });
      std::printf("%-20s %6.0f %6.0f |", operation.name, static_cast<double>(bytes) / (1 << 20),
                  plain);
      const bool reduces = std::strstr(operation.name, "reduce") != nullptr;
      double best = 0;
      const auto time = [&](uint32_t sms) {
        world->ForEach([&](Communicator& fused) { fused.SetCtas(reduces ? sms : 2 * sms); });
        return counted / world->Time(repeats, [&](Rank& rank, uint32_t own) {
          Enqueued(operation.fused(rank, own, bytes));
        });
      };
      for (const uint32_t sms : {64U, 48U, 32U, 24U, 16U}) {
        const double rate = time(sms);
        if (sms == 64) best = rate;
        std::printf(" %6.0f", rate);
      }
      world->ForEach([](Communicator& fused) { fused.SetDirect(true); });
      std::printf(" |");
      for (const uint32_t sms : {64U, 32U}) {
        const double rate = time(sms);
        if (sms == 64) best = std::max(best, rate);
        std::printf(" %6.0f", rate);
      }
      world->ForEach([](Communicator& fused) {
        fused.SetDirect(false);
        fused.SetCompress(false);
      });
      std::printf(" | %6.0f | %.2f\n", time(64), best / plain);
      world->ForEach([](Communicator& fused) { fused.SetCompress(true); });
      std::fflush(stdout);
    }
  }
}

int Run(const std::vector<std::string>& arguments) {
  const bool two = !arguments.empty() && arguments[0] == "two";
  std::vector<size_t> sizes;
  for (size_t i = 1; i < arguments.size(); ++i) {
    sizes.push_back(static_cast<size_t>(std::strtoul(arguments[i].c_str(), nullptr, 10)) << 20);
  }
  if (!arguments.empty() && arguments[0] == "profile") {
    LaunchEachAlone(size_t{256} << 20);
    return 0;
  }
  if (!two) {
    OneGpu(sizes.empty() ? size_t{256} << 20 : sizes[0]);
    return 0;
  }
  if (sizes.empty())
    sizes = {size_t{1} << 20, size_t{32} << 20, size_t{256} << 20, size_t{1} << 30};
  int devices = 0;
  Check(cudaGetDeviceCount(&devices), "count");
  World world(2, devices > 1, 128, *std::max_element(sizes.begin(), sizes.end()) * 2);
  NcclPeer nccl(devices > 1 ? 2 : 1);
  if (!nccl.Usable()) {
    std::printf("NCCL is not usable here\n");
    return 1;
  }
  CompareWithNccl(&world, &nccl, sizes);
  return 0;
}

}  // namespace
}  // namespace cinch::bench

int main(int argc, char** argv) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return cinch::bench::Run({argv + 1, argv + argc});
}
