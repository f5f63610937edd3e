// SPDX-License-Identifier: Apache-2.0
#include "collectives/ranks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "nccl/interposer/real_library.h"

namespace cinch::testing {
namespace {

struct UniqueId {
  char internal[128];
};

extern "C" int ncclCommInitRank(void**, int, UniqueId, int);
extern "C" int ncclCommInitRankConfig(void**, int, UniqueId, int, void*);
extern "C" int ncclGetUniqueId(UniqueId*);

uint64_t ReadCounter(const char* name) {
  const auto read = reinterpret_cast<uint64_t (*)()>(nccl::FindRealFunction(name));
  return read == nullptr ? 0 : read();
}

}  // namespace

Rig::Rig(PolicyMode policy, uint64_t min_bytes, double patience_seconds,
         collectives::PeerPathMaker peer_path) {
  nccl::SetRealLibraryPath(CINCH_NCCL_DOUBLE);
  nccl::ShimSettings settings;
  settings.options.policy = policy;
  settings.options.min_bytes = min_bytes;
  settings.options.patience_seconds = patience_seconds;
  settings.peer_path = std::move(peer_path);
  shim_ = std::make_unique<nccl::Shim>(nccl::TheRealLibrary().api, &device_, settings);
  nccl::Shim::InstallForTesting(shim_.get());
  (void)TakeWireBytes();
  (void)TakeCalls();
}

Rig::~Rig() { nccl::Shim::InstallForTesting(nullptr); }

uint64_t Rig::TakeWireBytes() {
  const uint64_t before = wire_bytes_;
  wire_bytes_ = ReadCounter("double_wire_bytes");
  return wire_bytes_ - before;
}

uint64_t Rig::TakeCalls() {
  const uint64_t before = calls_;
  calls_ = ReadCounter("double_calls");
  return calls_ - before;
}

uint64_t Rig::violations() { return ReadCounter("double_violations"); }

const collectives::NcclApi& PlainNccl() { return nccl::TheRealLibrary().api; }

void* MakePlainComm(int ranks, int rank, uint64_t id) {
  // Apart from those that the double gives out.
  UniqueId unique{};
  unique.internal[127] = 1;
  std::memcpy(unique.internal, &id, sizeof(id));
  using Init = int (*)(void**, int, UniqueId, int);
  const auto init = reinterpret_cast<Init>(nccl::FindRealFunction("ncclCommInitRank"));
  void* comm = nullptr;
  EXPECT_EQ(init(&comm, ranks, unique, rank), 0);
  return comm;
}

void RunRanks(int ranks, const std::function<void(Rank&)>& body, CommConfig* config) {
  UniqueId id{};
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([=, &body] {
      Rank self;
      self.rank = rank;
      self.ranks = ranks;
      if (config == nullptr) {
        ASSERT_EQ(ncclCommInitRank(&self.comm, ranks, id, rank), 0);
      } else {
        const int result = ncclCommInitRankConfig(&self.comm, ranks, id, rank, config);
        ASSERT_EQ(result,
                  config->blocking != 0 ? collectives::kNcclSuccess : collectives::kNcclInProgress);
      }
      body(self);
      self.stream.Synchronize();
      if (self.comm == nullptr) return;
      EXPECT_EQ(ncclCommDestroy(self.comm), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cinch::testing
