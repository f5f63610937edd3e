// SPDX-License-Identifier: Apache-2.0
/// @file communicator.h
/// The host's side of the fused collectives: what cinch/fused.h documents, without the C ABI.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "cinch/codec.h"
#include "cinch/status.h"
#include "collectives/fused/parameters.h"
#include "collectives/windows/peer_windows.h"

namespace cinch::fused {

struct CommunicatorOptions {
  uint32_t rank = 0;
  uint32_t ranks = 0;
  uint32_t max_ctas = 64;
  double timeout_seconds = 30;
  uint64_t min_coded_bytes = 0;  ///< Shorter messages travel as they are.
  bool compress = true;
  /// Coded tiles go from registers to the peers rather than by bulk copies from shared memory.
  bool direct = false;
  Bootstrap bootstrap{};
};

/// How a thread block's warps are used.
struct Roles {
  uint32_t sends;
  uint32_t receiver_teams;
};

class Communicator {
 public:
  static Status Create(const CommunicatorOptions& options, std::unique_ptr<Communicator>* made);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  uint32_t rank() const { return options_.rank; }
  uint32_t ranks() const { return options_.ranks; }

  Status AllGather(const void* send, void* receive, uint64_t bytes, cinch_dtype dtype,
                   cudaStream_t stream);
  Status Broadcast(void* buffer, uint64_t bytes, uint32_t root, cinch_dtype dtype,
                   cudaStream_t stream);
  /// An entry of `routes` for each rank.
  Status Exchange(const Route* routes, cinch_dtype dtype, cudaStream_t stream);
  Status Send(const void* send, uint64_t bytes, uint32_t peer, cinch_dtype dtype,
              cudaStream_t stream);
  Status Receive(void* receive, uint64_t bytes, uint32_t peer, cinch_dtype dtype,
                 cudaStream_t stream);
  Status ReduceScatter(const void* send, void* receive, uint64_t elements, cinch_dtype dtype,
                       cudaStream_t stream);
  Status AllReduce(const void* send, void* receive, uint64_t elements, cinch_dtype dtype,
                   cudaStream_t stream);

  void Abort();
  /// OK, or why the kernels gave up; `report` may be null.
  Status Check(Report* report) const;

  /// What later launches leave out (MeasureBits), and how many thread blocks they use; for benches.
  void SetMeasure(uint32_t bits) { measure_ = bits; }
  void SetDirect(bool direct) { options_.direct = direct; }
  void SetCompress(bool compress) { options_.compress = compress; }
  /// Sets the numbers of all channels, as if 2^32 - 1 units had passed; for tests, on all ranks.
  Status SetNumbersBeforeWrap();
  void SetCtas(uint32_t ctas) { ctas_ = ctas < options_.max_ctas ? ctas : options_.max_ctas; }

 private:
  explicit Communicator(const CommunicatorOptions& options)
      : options_(options), ctas_(options.max_ctas) {}
  Status Prepare();
  WindowLayout Layout() const;
  Parameters MakeParameters(const Roles& roles, cinch_dtype dtype) const;
  Status LaunchExchange(const Parameters& parameters, cudaStream_t stream);
  Status LaunchReduce(const Parameters& parameters, cinch_dtype dtype, cudaStream_t stream);
  Status ReduceParts(const Parameters& parameters, cinch_dtype dtype, cudaStream_t stream);

  CommunicatorOptions options_;
  uint32_t ctas_;
  uint32_t measure_ = 0;
  std::unique_ptr<PeerWindows> windows_;
  /// Mapped host memory; `stop` is what host_stop of the launches points to.
  struct HostWords {
    Report report;
    uint32_t stop;
    uint32_t mark;  ///< rank + 1, to be copied to the peers' stop words.
  };
  HostWords* words_ = nullptr;
  cudaStream_t abort_stream_ = nullptr;
  std::atomic<bool> aborted_{false};
};

}  // namespace cinch::fused
