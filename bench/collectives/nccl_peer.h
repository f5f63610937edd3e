// SPDX-License-Identifier: Apache-2.0
/// @file nccl_peer.h
/// NCCL, or what stands in front of it, found at run time: a communicator a rank, ranks being
/// threads of this process.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cinch/codec.h"

namespace cinch::bench {

class NcclPeer {
 public:
  /// `library` is a path, or a name that the loader finds.
  NcclPeer(const std::string& library, uint32_t ranks, cinch_dtype dtype)
      : communicators_(ranks), dtype_(dtype == CINCH_DTYPE_FP32 ? kFloat32 : kBfloat16) {
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      trouble_ = dlerror();
      return;
    }
    unique_id_ = Find<int (*)(UniqueId*)>("ncclGetUniqueId");
    init_ = Find<int (*)(void**, int, UniqueId, int)>("ncclCommInitRank");
    version_ = Find<int (*)(int*)>("ncclGetVersion");
    group_start_ = Find<int (*)()>("ncclGroupStart");
    group_end_ = Find<int (*)()>("ncclGroupEnd");
    send_ = Find<SendCall>("ncclSend");
    receive_ = Find<ReceiveCall>("ncclRecv");
    broadcast_ = Find<BroadcastCall>("ncclBroadcast");
    all_gather_ = Find<GatherCall>("ncclAllGather");
    reduce_scatter_ = Find<ReduceCall>("ncclReduceScatter");
    all_reduce_ = Find<ReduceCall>("ncclAllReduce");
    if (trouble_.empty() && unique_id_(&id_) != 0) trouble_ = "ncclGetUniqueId failed";
  }

  /// Why it cannot be used; empty when it can.
  const std::string& trouble() const { return trouble_; }
  std::string Version() const {
    int number = 0;
    if (!trouble_.empty() || version_(&number) != 0) return {};
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
           std::to_string(number % 100);
  }
  /// By all ranks at once, each from a thread of its own with its device set.
  bool Join(uint32_t rank) {
    const auto ranks = static_cast<int>(communicators_.size());
    return init_(&communicators_[rank], ranks, id_, static_cast<int>(rank)) == 0;
  }

  // Counts are elements. Each rank calls from a thread of its own; true for success.
  bool SendReceive(uint32_t rank, const void* send, void* receive, size_t count,
                   cudaStream_t stream) {
    const auto ranks = static_cast<uint32_t>(communicators_.size());
    const auto next = static_cast<int>((rank + 1) % ranks);
    const auto previous = static_cast<int>((rank + ranks - 1) % ranks);
    void* own = communicators_[rank];
    const bool good = group_start_() == 0 && send_(send, count, dtype_, next, own, stream) == 0 &&
                      receive_(receive, count, dtype_, previous, own, stream) == 0;
    return group_end_() == 0 && good;
  }
  bool Send(uint32_t rank, const void* send, size_t count, uint32_t peer, cudaStream_t stream) {
    return send_(send, count, dtype_, static_cast<int>(peer), communicators_[rank], stream) == 0;
  }
  bool Receive(uint32_t rank, void* receive, size_t count, uint32_t peer, cudaStream_t stream) {
    return receive_(receive, count, dtype_, static_cast<int>(peer), communicators_[rank], stream) ==
           0;
  }
  /// From rank 0.
  bool Broadcast(uint32_t rank, const void* send, void* receive, size_t count,
                 cudaStream_t stream) {
    return broadcast_(send, receive, count, dtype_, 0, communicators_[rank], stream) == 0;
  }
  /// `count` elements of each rank.
  bool AllGather(uint32_t rank, const void* send, void* receive, size_t count,
                 cudaStream_t stream) {
    return all_gather_(send, receive, count, dtype_, communicators_[rank], stream) == 0;
  }
  /// `count` elements to each rank.
  bool AllToAll(uint32_t rank, const void* send, void* receive, size_t count, cudaStream_t stream) {
    void* own = communicators_[rank];
    const size_t part_bytes = count * (dtype_ == kFloat32 ? 4 : 2);
    bool good = group_start_() == 0;
    for (size_t peer = 0; good && peer < communicators_.size(); ++peer) {
      const auto* from = static_cast<const uint8_t*>(send) + peer * part_bytes;
      auto* to = static_cast<uint8_t*>(receive) + peer * part_bytes;
      good = send_(from, count, dtype_, static_cast<int>(peer), own, stream) == 0 &&
             receive_(to, count, dtype_, static_cast<int>(peer), own, stream) == 0;
    }
    return group_end_() == 0 && good;
  }
  /// `count` elements of the sum to each rank.
  bool ReduceScatter(uint32_t rank, const void* send, void* receive, size_t count,
                     cudaStream_t stream) {
    return reduce_scatter_(send, receive, count, dtype_, kSum, communicators_[rank], stream) == 0;
  }
  bool AllReduce(uint32_t rank, const void* send, void* receive, size_t count,
                 cudaStream_t stream) {
    return all_reduce_(send, receive, count, dtype_, kSum, communicators_[rank], stream) == 0;
  }

 private:
  static constexpr int kFloat32 = 7;
  static constexpr int kBfloat16 = 9;
  static constexpr int kSum = 0;
  struct UniqueId {
    char internal[128];
  };
  using SendCall = int (*)(const void*, size_t, int, int, void*, cudaStream_t);
  using ReceiveCall = int (*)(void*, size_t, int, int, void*, cudaStream_t);
  using BroadcastCall = int (*)(const void*, void*, size_t, int, int, void*, cudaStream_t);
  using GatherCall = int (*)(const void*, void*, size_t, int, void*, cudaStream_t);
  using ReduceCall = int (*)(const void*, void*, size_t, int, int, void*, cudaStream_t);

  template <typename Call>
  Call Find(const char* name) {
    const auto call = reinterpret_cast<Call>(dlsym(library_, name));
    if (call == nullptr && trouble_.empty()) trouble_ = std::string("it has no ") + name;
    return call;
  }

  std::vector<void*> communicators_;
  int dtype_;
  void* library_ = nullptr;
  std::string trouble_;
  UniqueId id_{};
  int (*unique_id_)(UniqueId*) = nullptr;
  int (*init_)(void**, int, UniqueId, int) = nullptr;
  int (*version_)(int*) = nullptr;
  int (*group_start_)() = nullptr;
  int (*group_end_)() = nullptr;
  SendCall send_ = nullptr;
  ReceiveCall receive_ = nullptr;
  BroadcastCall broadcast_ = nullptr;
  GatherCall all_gather_ = nullptr;
  ReduceCall reduce_scatter_ = nullptr;
  ReduceCall all_reduce_ = nullptr;
};

}  // namespace cinch::bench
