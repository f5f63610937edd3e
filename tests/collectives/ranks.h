// SPDX-License-Identifier: Apache-2.0
/// @file ranks.h
/// Ranks that are threads of the test, on the doubles of NCCL and of the device, calling the
/// interposer's functions as an application does.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/host_device.h"
#include "collectives/host_stream.h"
#include "nccl/interposer/shim.h"

namespace cinch::testing {

/// The functions under test, by NCCL's names.
extern "C" {
int ncclAllGather(const void*, void*, size_t, int, void*, void*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclAlltoAll(const void*, void*, size_t, int, void*, void*);
int ncclBcast(void*, size_t, int, int, void*, void*);
int ncclBroadcast(const void*, void*, size_t, int, int, void*, void*);
int ncclGather(const void*, void*, size_t, int, int, void*, void*);
int ncclScatter(const void*, void*, size_t, int, int, void*, void*);
int ncclReduce(const void*, void*, size_t, int, int, int, void*, void*);
int ncclReduceScatter(const void*, void*, size_t, int, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclRecv(void*, size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
int ncclGetVersion(int*);
int ncclCommSplit(void*, int, int, void**, void*);
int ncclCommDestroy(void*);
int ncclCommAbort(void*);
int ncclCommFinalize(void*);
int ncclCommGetAsyncError(void*, int*);
int ncclCommCount(void*, int*);
int ncclCommInitAll(void**, int, const int*);
int ncclCommRevoke(void*, int);
int ncclCommShrink(void*, int*, int, void**, void*, int);
int ncclCommWindowDeregister(void*, void*);
int ncclCommWindowRegister(void*, void*, size_t, void**, int);
int ncclCommRegister(void*, void*, size_t, void**);
int ncclCommDeregister(void*, void*);
int ncclGroupSimulateEnd(void*);
int ncclRedOpCreatePreMulSum(int*, void*, int, int, void*);
int ncclRedOpDestroy(int, void*);
}

/// The start of ncclConfig_t, as far as the double and the interposer read it.
struct CommConfig {
  size_t size = 128;
  unsigned int magic = 0xcafebeef;
  unsigned int version = 22809;
  int blocking = 1;
  char rest[128] = {};
};

/// The shim on the doubles, installed for the life of this.
class Rig {
 public:
  /// Without patience, so that hosts which are ahead leave their calls to the dispatcher.
  explicit Rig(PolicyMode policy, uint64_t min_bytes, double patience_seconds = 0,
               collectives::PeerPathMaker peer_path = nullptr);
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  ~Rig();

  [[nodiscard]] HostDevice& device() { return device_; }
  [[nodiscard]] nccl::Shim& shim() { return *shim_; }
  /// Bytes that left ranks since the last call.
  [[nodiscard]] uint64_t TakeWireBytes();
  [[nodiscard]] uint64_t TakeCalls();
  /// Uses of communicators that NCCL forbids: of gone ones, by two threads at once.
  [[nodiscard]] uint64_t violations();

 private:
  HostDevice device_;
  std::unique_ptr<nccl::Shim> shim_;
  uint64_t wire_bytes_ = 0;
  uint64_t calls_ = 0;
};

struct Rank {
  int rank = 0;
  int ranks = 0;
  void* comm = nullptr;
  HostStream stream;
};

/// Runs `body` on so many ranks, with a communicator, which it destroys afterwards unless `body`
/// has set it to null. With `config`, made by ncclCommInitRankConfig.
void RunRanks(int ranks, const std::function<void(Rank&)>& body, CommConfig* config = nullptr);

/// The double's own functions, behind the interposer's back.
[[nodiscard]] const collectives::NcclApi& PlainNccl();
/// A communicator that the interposer does not know. Of a group of `ranks` calls with one `id`.
[[nodiscard]] void* MakePlainComm(int ranks, int rank, uint64_t id);

}  // namespace cinch::testing
