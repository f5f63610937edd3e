// SPDX-License-Identifier: Apache-2.0
/// @file shim.h
/// What stands between an application's NCCL calls and NCCL: knows the communicators, collects
/// groups and hands what may be compressed to the collectives.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/dispatcher.h"

namespace cinch::nccl {

/// Whether an ncclConfig_t (null: the default one) leaves a communicator blocking.
[[nodiscard]] bool IsBlocking(const void* config);

/// What the settings say, read when the first communicator is made.
struct ShimSettings {
  collectives::CommunicatorOptions options;
  collectives::PeerPathMaker peer_path;  ///< Empty: no path over peer memory.
  std::string obstacle;                  ///< Why everything passes through; empty: it does not.
  std::string report;                    ///< Empty: none; "stderr", or a file to append to.
};

class Shim {
 public:
  /// `device` may be null: then everything is passed through.
  Shim(const collectives::NcclApi& api, collectives::Device* device, ShimSettings settings);
  Shim(const Shim&) = delete;
  Shim& operator=(const Shim&) = delete;
  ~Shim();

  /// The process's; never destroyed. `InstallForTesting` replaces it while nothing uses it.
  static Shim& Get();
  static void InstallForTesting(Shim* shim);

  [[nodiscard]] const collectives::NcclApi& api() const { return api_; }

  /// After a call that makes communicators, which returned `result`; in a group they are adopted at
  /// its end. `comms` are where the call puts them, `config` is what the call was given.
  /// Non-blocking ones are passed through: NCCL enqueues their operations later, from a thread of
  /// its own, so there is no point of a stream behind which the results could be decoded.
  void AfterInit(collectives::NcclResult result, std::vector<collectives::NcclComm*> comms,
                 const void* config);
  /// Whether children of `parent` are looked at: those of communicators that are passed through are
  /// passed through.
  [[nodiscard]] bool IsKnown(collectives::NcclComm parent);

  /// A data call; `operation` lacks its communicator.
  [[nodiscard]] collectives::NcclResult Call(collectives::NcclComm nccl,
                                             collectives::Operation operation);

  [[nodiscard]] collectives::NcclResult GroupStart();
  [[nodiscard]] collectives::NcclResult GroupEnd();
  /// Before ncclGroupSimulateEnd: hands what the group has collected to NCCL as it is.
  void BeforeSimulatedEnd();

  /// Before calls of NCCL that touch a communicator: returns when no thread of ours will.
  void Settle(collectives::NcclComm nccl);
  /// So with all communicators.
  void SettleAll();
  void BeforeFinalize(collectives::NcclComm nccl);
  void BeforeDestroy(collectives::NcclComm nccl);
  void BeforeAbort(collectives::NcclComm nccl);
  /// What waits is given up, as NCCL stops what is in flight; later calls go to NCCL.
  void BeforeRevoke(collectives::NcclComm nccl, int flags);
  /// An error of ours, for ncclCommGetAsyncError.
  [[nodiscard]] collectives::NcclResult AsyncError(collectives::NcclComm nccl);

  /// What was done so far; see docs/collectives.md.
  [[nodiscard]] std::string Report();

 private:
  using CommunicatorPointer = std::shared_ptr<collectives::Communicator>;

  [[nodiscard]] CommunicatorPointer Find(collectives::NcclComm nccl);
  CommunicatorPointer Remove(collectives::NcclComm nccl);
  void Adopt(const std::vector<collectives::NcclComm>& comms);
  [[nodiscard]] collectives::NcclResult RunGroup(std::vector<collectives::Operation> calls);
  void AddToReport(collectives::Communicator& comm);
  void WriteReport();

  const collectives::NcclApi& api_;
  collectives::Device* device_;
  ShimSettings settings_;
  collectives::Dispatcher dispatcher_;
  std::shared_mutex mutex_;
  std::unordered_map<collectives::NcclComm, CommunicatorPointer> comms_;
  std::atomic<size_t> known_{0};  ///< How many these are.
  std::string finished_;          ///< Report lines of communicators that are gone.
  std::atomic<uint64_t> non_blocking_{0};
  std::atomic<uint64_t> of_one_rank_{0};
  std::atomic<uint64_t> not_split_{0};
};

}  // namespace cinch::nccl
