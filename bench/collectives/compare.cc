// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives/compare.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/collectives/measurement_plan.h"
#include "bench/collectives/nccl_peer.h"
#include "bench/collectives/world.h"
#include "tensors/generators.h"
#include "tensors/tensor_file.h"

namespace cinch::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSampleBytes = size_t{8} << 20;
constexpr size_t kMostFileBytes = size_t{256} << 20;
/// Calls before the first measurement of the interposer, which learns from what it sees.
constexpr int kLearningCalls = 24;

/// The ranks' data: made, or from a file of which every rank begins at another place.
class Samples {
 public:
  Samples(const CompareOptions& options, uint32_t ranks) : samples_(ranks) {
    constexpr const char* kFile = "file:";
    const bool is_file = options.data.starts_with(kFile);
    tensors::TensorFile file;
    tensors::DataSpec spec;
    std::string message;
    const Status status = is_file
                              ? tensors::TensorFile::Open(options.data.substr(std::strlen(kFile)),
                                                          tensors::TensorFile::Kind::kByName,
                                                          options.dtype, &file, &message)
                              : tensors::ParseDataSpec(options.data, &spec, &message);
    Check(status == CINCH_OK, message.c_str());
    std::vector<std::byte> contents;
    for (const tensors::TensorInfo& tensor : file.tensors()) {
      const std::span<const std::byte> bytes = file.bytes(tensor);
      const size_t room = kMostFileBytes - contents.size();
      contents.insert(contents.end(), bytes.begin(), bytes.begin() + std::min(room, bytes.size()));
    }
    contents.resize(contents.size() / 16 * 16);
    Check(!is_file || !contents.empty(), "reading any tensor of the file");
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte>& sample = samples_[rank];
      sample = contents;
      if (is_file) {
        std::ranges::rotate(sample, sample.begin() + sample.size() / 16 * rank / ranks * 16);
      } else {
        sample.resize(kSampleBytes);
        Enqueued(tensors::GenerateData(spec, options.dtype, rank + 1, 0, sample));
      }
    }
  }
  std::span<const std::byte> of(uint32_t rank) const { return samples_[rank]; }

 private:
  std::vector<std::vector<std::byte>> samples_;
};

/// A call of one rank.
struct Call {
  Rank& rank;
  uint32_t own;
  uint32_t ranks;
  uint64_t bytes;
  cinch_dtype dtype;

  uint64_t element_bytes() const { return dtype == CINCH_DTYPE_FP32 ? 4 : 2; }
  uint64_t elements() const { return bytes / element_bytes(); }
  uint64_t part_bytes() const { return bytes / ranks; }
  uint64_t part_elements() const { return elements() / ranks; }
  bool sends() const { return own % 2 == 0; }
  /// One way: whether there is somebody to send to.
  bool has_partner() const { return (own ^ 1U) < ranks; }
};

Status CallFused(Collective collective, const Call& call) {
  Rank& rank = call.rank;
  fused::Communicator& fused = *rank.fused;
  fused::Route routes[fused::kMaxRanks] = {};
  switch (collective) {
    case Collective::kSendReceive: {
      fused::Route& next = routes[(call.own + 1) % call.ranks];
      next.send = rank.send;
      next.send_bytes = call.bytes;
      fused::Route& previous = routes[(call.own + call.ranks - 1) % call.ranks];
      previous.receive = rank.receive;
      previous.receive_bytes = call.bytes;
      return fused.Exchange(routes, call.dtype, rank.stream);
    }
    case Collective::kSendOneWay:
      if (!call.has_partner()) return CINCH_OK;
      return call.sends()
                 ? fused.Send(rank.send, call.bytes, call.own + 1, call.dtype, rank.stream)
                 : fused.Receive(rank.receive, call.bytes, call.own - 1, call.dtype, rank.stream);
    case Collective::kBroadcast:
      return fused.Broadcast(call.own == 0 ? rank.send : rank.receive, call.bytes, 0, call.dtype,
                             rank.stream);
    case Collective::kAllGather:
      return fused.AllGather(rank.send, rank.receive, call.part_bytes(), call.dtype, rank.stream);
    case Collective::kAllToAll:
      for (uint32_t peer = 0; peer < call.ranks; ++peer) {
        const uint64_t at = peer * call.part_bytes();
        routes[peer] = {rank.send + at, call.part_bytes(), rank.receive + at, call.part_bytes()};
      }
      return fused.Exchange(routes, call.dtype, rank.stream);
    case Collective::kReduceScatter:
      return fused.ReduceScatter(rank.send, rank.receive, call.part_elements(), call.dtype,
                                 rank.stream);
    case Collective::kAllReduce:
      return fused.AllReduce(rank.send, rank.receive, call.elements(), call.dtype, rank.stream);
  }
  return CINCH_ERROR_INVALID_ARGUMENT;
}

bool CallNccl(Collective collective, NcclPeer* nccl, const Call& call) {
  Rank& rank = call.rank;
  switch (collective) {
    case Collective::kSendReceive:
      return nccl->SendReceive(call.own, rank.send, rank.receive, call.elements(), rank.stream);
    case Collective::kSendOneWay:
      if (!call.has_partner()) return true;
      return call.sends()
                 ? nccl->Send(call.own, rank.send, call.elements(), call.own + 1, rank.stream)
                 : nccl->Receive(call.own, rank.receive, call.elements(), call.own - 1,
                                 rank.stream);
    case Collective::kBroadcast:
      return nccl->Broadcast(call.own, rank.send, call.own == 0 ? rank.send : rank.receive,
                             call.elements(), rank.stream);
    case Collective::kAllGather:
      return nccl->AllGather(call.own, rank.send, rank.receive, call.part_elements(), rank.stream);
    case Collective::kAllToAll:
      return nccl->AllToAll(call.own, rank.send, rank.receive, call.part_elements(), rank.stream);
    case Collective::kReduceScatter:
      return nccl->ReduceScatter(call.own, rank.send, rank.receive, call.part_elements(),
                                 rank.stream);
    case Collective::kAllReduce:
      return nccl->AllReduce(call.own, rank.send, rank.receive, call.elements(), rank.stream);
  }
  return false;
}

/// The copy engines' way: a rank copies what it has to where it belongs, one peer after another.
cudaError_t CallCopies(Collective collective, World* world, const Call& call) {
  const auto copy = [&](uint32_t peer, uint64_t to, uint64_t from, uint64_t bytes) {
    Rank& other = world->at(peer);
    return cudaMemcpyPeerAsync(other.receive + to, other.device, call.rank.send + from,
                               call.rank.device, bytes, call.rank.stream);
  };
  const auto copy_to_all = [&](uint64_t to, uint64_t from_step, uint64_t bytes, bool self) {
    for (uint32_t i = self ? 0 : 1; i < call.ranks; ++i) {
      const uint32_t peer = (call.own + i) % call.ranks;  // Not all to the same one at a time.
      const cudaError_t error = copy(peer, to, peer * from_step, bytes);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  };
  switch (collective) {
    case Collective::kSendReceive:
      return copy((call.own + 1) % call.ranks, 0, 0, call.bytes);
    case Collective::kSendOneWay:
      return call.sends() && call.has_partner() ? copy(call.own + 1, 0, 0, call.bytes)
                                                : cudaSuccess;
    case Collective::kBroadcast:
      return call.own == 0 ? copy_to_all(0, 0, call.bytes, false) : cudaSuccess;
    case Collective::kAllGather:
      return copy_to_all(call.own * call.part_bytes(), 0, call.part_bytes(), true);
    case Collective::kAllToAll:
      return copy_to_all(call.own * call.part_bytes(), call.part_bytes(), call.part_bytes(), true);
    case Collective::kReduceScatter:
    case Collective::kAllReduce:
      break;
  }
  return cudaErrorInvalidValue;
}

/// Bytes at the start, in the middle and at the end of every rank's result.
std::vector<uint8_t> Probe(World* world, uint64_t result_bytes) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  const uint64_t piece = std::min(kPiece, result_bytes);
  std::vector<uint8_t> found(3 * piece * world->count());
  uint8_t* to = found.data();
  for (uint32_t i = 0; i < world->count(); ++i) {
    Rank& rank = world->at(i);
    Check(cudaSetDevice(rank.device), "choosing a device");
    for (const uint64_t at : {uint64_t{0}, (result_bytes - piece) / 2, result_bytes - piece}) {
      Check(cudaMemcpy(to, rank.receive + at, piece, cudaMemcpyDeviceToHost), "a download");
      to += piece;
    }
  }
  return found;
}

/// So that a result is the measurement's own.
void Overwrite(World* world, uint64_t bytes) {
  for (uint32_t i = 0; i < world->count(); ++i) {
    Rank& rank = world->at(i);
    Check(cudaSetDevice(rank.device), "choosing a device");
    Check(cudaMemset(rank.receive, 0xA5, bytes), "a fill");
    Check(cudaDeviceSynchronize(), "a fill");
  }
}

class Comparison {
 public:
  Comparison(const CompareOptions& options, uint32_t ranks)
      : options_(options),
        samples_(options, ranks),
        world_({ranks, !options.share_gpu, 2 * *std::ranges::max_element(options.sms),
                *std::ranges::max_element(options.sizes_bytes)},
               [this](uint32_t rank) { return samples_.of(rank); }) {
    facts_.ranks = ranks;
    facts_.share_gpu = options.share_gpu;
    cudaDeviceProp properties{};
    Check(cudaGetDeviceProperties(&properties, 0), "asking a device");
    facts_.device = properties.name;
    if (options.share_gpu) return;
    nccl_ = Open(options.nccl);
    facts_.nccl_version = nccl_->Version();
    if (!options.wrapped.empty()) wrapped_ = Open(options.wrapped);
  }

  void Run(const Measurement& measurement) {
    if (measurement.bytes != group_.bytes || measurement.collective != group_.collective) {
      group_ = measurement;
      reference_.clear();
    }
    const auto call = [&](Rank& rank, uint32_t own) {
      Enqueue(measurement, {rank, own, world_.count(), measurement.bytes, options_.dtype});
    };
    Prepare(measurement);
    Overwrite(&world_, measurement.bytes);
    if (measurement.method == Method::kWrapped) Learn(call);
    const World::Times times = world_.Time(RepeatsFor(measurement.bytes), call);
    const Measured measured{times.median, times.fastest, Compare()};
    if (measured.same_bits == 0) differs_ = true;
    std::printf("%s\n", ResultLine(options_, facts_, measurement, measured).dump().c_str());
    std::fflush(stdout);
  }

  bool differs() const { return differs_; }

 private:
  std::unique_ptr<NcclPeer> Open(const std::string& library) {
    auto peer = std::make_unique<NcclPeer>(library, world_.count(), options_.dtype);
    Check(peer->trouble().empty(), (library + ": " + peer->trouble() + ": using it").c_str());
    world_.Together([&](Rank&, uint32_t rank) {
      Check(peer->Join(rank), (library + ": making a communicator").c_str());
    });
    return peer;
  }

  void Prepare(const Measurement& measurement) {
    if (!IsFused(measurement.method)) return;
    const bool adds_up = AddsUp(measurement.collective);
    world_.ForEach([&](fused::Communicator& fused) {
      fused.SetCtas(adds_up ? measurement.sms : 2 * measurement.sms);
      fused.SetDirect(measurement.method == Method::kFusedDirect);
      fused.SetCompress(measurement.method != Method::kFusedRaw);
    });
  }

  void Enqueue(const Measurement& measurement, const Call& call) {
    if (IsFused(measurement.method)) {
      Enqueued(CallFused(measurement.collective, call));
      return;
    }
    if (measurement.method == Method::kCopies) {
      Check(CallCopies(measurement.collective, &world_, call), "a copy");
      return;
    }
    NcclPeer* nccl = measurement.method == Method::kNccl ? nccl_.get() : wrapped_.get();
    Check(CallNccl(measurement.collective, nccl, call), "a call of NCCL");
  }

  void Learn(const std::function<void(Rank&, uint32_t)>& call) {
    world_.Together([&](Rank& rank, uint32_t own) {
      for (int i = 0; i < kLearningCalls; ++i) {
        call(rank, own);
        Check(cudaStreamSynchronize(rank.stream), "a call");
      }
    });
  }

  /// As Measured::same_bits.
  int Compare() {
    if (!HasOneResult(group_.collective, world_.count())) return -1;
    const bool is_part = group_.collective == Collective::kReduceScatter;
    std::vector<uint8_t> found =
        Probe(&world_, is_part ? group_.bytes / world_.count() : group_.bytes);
    if (reference_.empty()) {
      reference_ = std::move(found);
      return -1;
    }
    return found == reference_ ? 1 : 0;
  }

  CompareOptions options_;
  Samples samples_;
  World world_;
  RunFacts facts_;
  std::unique_ptr<NcclPeer> nccl_;
  std::unique_ptr<NcclPeer> wrapped_;
  Measurement group_{};
  std::vector<uint8_t> reference_;
  bool differs_ = false;
};

void PrintPlan(const CompareOptions& options, uint32_t ranks,
               const std::vector<Measurement>& plan) {
  for (const Measurement& measurement : plan) {
    std::printf("%s\n", PlanLine(options, ranks, measurement).dump().c_str());
  }
}

}  // namespace

int Compare(const std::vector<std::string>& arguments) {
  CompareOptions options;
  std::string text;
  const Parsed parsed = ParseCompareOptions(arguments, &options, &text);
  if (parsed != Parsed::kRun) {
    std::fprintf(parsed == Parsed::kHelp ? stdout : stderr, "%s\n", text.c_str());
    return parsed == Parsed::kHelp ? 0 : 2;
  }
  int visible = 0;
  if (cudaGetDeviceCount(&visible) != cudaSuccess) visible = 0;
  uint32_t ranks = 0;
  if (!ChooseRanks(options, static_cast<uint32_t>(visible), &ranks, &text)) {
    std::fprintf(stderr, "fused_bench compare: %s\n", text.c_str());
    return 3;
  }
  const std::vector<Measurement> plan = MakePlan(options, ranks);
  if (options.dry) {
    PrintPlan(options, ranks, plan);
    return 0;
  }
  const auto start = Clock::now();
  Comparison comparison(options, ranks);
  size_t made = 0;
  for (const Measurement& measurement : plan) {
    const std::chrono::duration<double> took = Clock::now() - start;
    if (took.count() > options.budget_seconds) break;
    comparison.Run(measurement);
    ++made;
  }
  if (made < plan.size()) {
    std::fprintf(stderr, "fused_bench compare: out of time, %zu of %zu measurements left out\n",
                 plan.size() - made, plan.size());
  }
  if (comparison.differs()) {
    std::fprintf(stderr, "fused_bench compare: RESULTS DIFFER, see same_bits\n");
    return 1;
  }
  return 0;
}

}  // namespace cinch::bench
