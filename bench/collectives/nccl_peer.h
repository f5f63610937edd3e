// SPDX-License-Identifier: Apache-2.0
/// @file nccl_peer.h
/// NCCL with its defaults, found at run time: one communicator a device of this process.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <vector>

namespace cinch::bench {

class NcclPeer {
 public:
  explicit NcclPeer(int devices) : communicators_(static_cast<size_t>(devices)) {
    library_ = dlopen("libnccl.so.2", RTLD_NOW);
    if (library_ == nullptr) return;
    const auto init = Find<int (*)(void**, int, const int*)>("ncclCommInitAll");
    group_start_ = Find<int (*)()>("ncclGroupStart");
    group_end_ = Find<int (*)()>("ncclGroupEnd");
    send_ = Find<SendCall>("ncclSend");
    receive_ = Find<ReceiveCall>("ncclRecv");
    all_gather_ = Find<GatherCall>("ncclAllGather");
    reduce_scatter_ = Find<ReduceCall>("ncclReduceScatter");
    all_reduce_ = Find<ReduceCall>("ncclAllReduce");
    if (!found_all_) return;
    usable_ = init(communicators_.data(), devices, nullptr) == 0;
  }
  bool Usable() const { return usable_; }

  // Counts are elements of bf16. Each rank calls from a thread of its own.
  bool SendReceive(uint32_t rank, const void* send, void* receive, size_t count, int peer,
                   cudaStream_t stream) {
    if (IsIdle(rank)) return true;
    void* own = Own(rank);
    if (communicators_.size() == 1) peer = 0;
    return group_start_() == 0 && send_(send, count, kBf16, peer, own, stream) == 0 &&
           receive_(receive, count, kBf16, peer, own, stream) == 0 && group_end_() == 0;
  }
  bool OneWay(uint32_t rank, const void* send, void* receive, size_t count, cudaStream_t stream) {
    if (IsIdle(rank)) return true;
    if (communicators_.size() == 1) return SendReceive(rank, send, receive, count, 0, stream);
    return rank == 0 ? send_(send, count, kBf16, 1, Own(rank), stream) == 0
                     : receive_(receive, count, kBf16, 0, Own(rank), stream) == 0;
  }
  bool AllGather(uint32_t rank, const void* send, void* receive, size_t count,
                 cudaStream_t stream) {
    if (IsIdle(rank)) return true;
    return all_gather_(send, receive, count, kBf16, Own(rank), stream) == 0;
  }
  /// `count` elements to each of two ranks.
  bool AllToAll(uint32_t rank, const void* send, void* receive, size_t count, cudaStream_t stream) {
    if (IsIdle(rank)) return true;
    void* own = Own(rank);
    bool good = group_start_() == 0;
    for (size_t peer = 0; good && peer < communicators_.size(); ++peer) {
      const auto* from = static_cast<const uint8_t*>(send) + 2 * peer * count;
      auto* to = static_cast<uint8_t*>(receive) + 2 * peer * count;
      good = send_(from, count, kBf16, static_cast<int>(peer), own, stream) == 0 &&
             receive_(to, count, kBf16, static_cast<int>(peer), own, stream) == 0;
    }
    return group_end_() == 0 && good;
  }
  bool ReduceScatter(uint32_t rank, const void* send, void* receive, size_t count,
                     cudaStream_t stream) {
    if (IsIdle(rank)) return true;
    return reduce_scatter_(send, receive, count, kBf16, kSum, Own(rank), stream) == 0;
  }
  bool AllReduce(uint32_t rank, const void* send, void* receive, size_t count,
                 cudaStream_t stream) {
    if (IsIdle(rank)) return true;
    return all_reduce_(send, receive, count, kBf16, kSum, Own(rank), stream) == 0;
  }

 private:
  static constexpr int kBf16 = 9;
  static constexpr int kSum = 0;
  using SendCall = int (*)(const void*, size_t, int, int, void*, cudaStream_t);
  using ReceiveCall = int (*)(void*, size_t, int, int, void*, cudaStream_t);
  using GatherCall = int (*)(const void*, void*, size_t, int, void*, cudaStream_t);
  using ReduceCall = int (*)(const void*, void*, size_t, int, int, void*, cudaStream_t);

  template <typename Call>
  Call Find(const char* name) {
    const auto call = reinterpret_cast<Call>(dlsym(library_, name));
    found_all_ = found_all_ && call != nullptr;
    return call;
  }
  void* Own(uint32_t rank) { return communicators_[rank]; }
  /// With one device, where only this program is tried, rank 0 alone calls NCCL.
  bool IsIdle(uint32_t rank) const { return rank >= communicators_.size(); }

  std::vector<void*> communicators_;
  void* library_ = nullptr;
  bool found_all_ = true;
  bool usable_ = false;
  int (*group_start_)() = nullptr;
  int (*group_end_)() = nullptr;
  SendCall send_ = nullptr;
  ReceiveCall receive_ = nullptr;
  GatherCall all_gather_ = nullptr;
  ReduceCall reduce_scatter_ = nullptr;
  ReduceCall all_reduce_ = nullptr;
};

}  // namespace cinch::bench
