// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "collectives/nccl_api.h"
#include "collectives/operation.h"
#include "collectives/peer_path.h"
#include "collectives/pinned_pages.h"

namespace cinch::collectives {

/// Why an operation travels plain; what is decided by history is kNone.
enum class Plain : uint8_t {
  kNone,
  kSmall,      ///< Too short, or its parts are.
  kDtype,      ///< Integers of more than a byte.
  kReduction,  ///< Reduce; reductions other than sums and averages of fp32, fp16 and bf16.
  kRanks,      ///< A reduction over more ranks than one launch takes.
  kCaptured,   ///< Into a graph.
  kOwnRank,    ///< To or from the rank itself.
  kOff,        ///< By the policy, or since the communicator has no stream of its own.
  kCount
};

/// What a communicator has done; for the summary.
struct Counters {
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> compressed_operations{0};
  std::atomic<uint64_t> original_bytes{0};  ///< Of what was sent compressed.
  std::atomic<uint64_t> wire_bytes{0};      ///< What was sent in its place.
  std::atomic<uint64_t> overflows{0};
  std::atomic<uint64_t> delegated{0};
  std::atomic<uint64_t> over_peers{0};  ///< Operations that took the path over peer memory.
  std::atomic<uint64_t> plain[static_cast<size_t>(Plain::kCount)] = {};  ///< By reason.

  void AddPlain(Plain why) {
    plain[static_cast<size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }
};

struct CommunicatorOptions {
  PolicyMode policy = PolicyMode::kAuto;
  uint64_t min_bytes = uint64_t{1} << 20;
  /// How long a call waits for what decides it, before it is left to the dispatcher.
  double patience_seconds = 1;
  double timeout_seconds = 30;  ///< After which a repair that cannot go on becomes an error.
};

/// An NCCL communicator and what compression needs beside it. As NCCL's own, it takes one call at a
/// time; the dispatcher's thread shares it under mutex().
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// Collective: every rank of `nccl` makes one. Null when there is nothing to do (one rank) or
  /// something failed, which is logged.
  static std::shared_ptr<Communicator> Create(const NcclApi& api, Device* device, NcclComm nccl,
                                              const CommunicatorOptions& options);
  /// Adopts `shadow`, a communicator of the same ranks.
  Communicator(const NcclApi& api, Device* device, NcclComm nccl, NcclComm shadow,
               const CommunicatorOptions& options);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  [[nodiscard]] const NcclApi& api() const { return api_; }
  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] NcclComm nccl() const { return nccl_; }
  /// For repairs: a repair must not queue up behind what waits for it. Used in the order of errands
  /// (errand.h) alone, and on the repair stream.
  [[nodiscard]] NcclComm shadow() const { return shadow_; }
  /// Held while calls of the shadow communicator are made, which then must not be aborted already
  /// (look at `aborted`), and while it is aborted.
  [[nodiscard]] std::mutex& shadow_mutex() { return shadow_mutex_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] std::mutex& mutex() { return mutex_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  /// The stream of everything that no stream of the application can be used for.
  [[nodiscard]] Stream helper_stream() const { return helper_stream_; }
  /// The stream of repairs and what prepares them. Nothing on it ever waits for a flag.
  [[nodiscard]] Stream repair_stream() const { return repair_stream_; }
  [[nodiscard]] double patience_seconds() const { return options_.patience_seconds; }
  [[nodiscard]] double timeout_seconds() const { return options_.timeout_seconds; }
  [[nodiscard]] bool usable() const {
    return helper_stream_ != nullptr && repair_stream_ != nullptr;
  }

  /// Jobs of this communicator that wait for the dispatcher. While there are any, everything
  /// queues.
  std::atomic<uint32_t> queued{0};
  /// Errands that are not done yet: steps whose outcome is not known, and preparations.
  std::atomic<uint32_t> watched{0};
  /// While positive, calls wait until what they enqueued is settled, if they are patient: frames
  /// that do not fit are to be expected, and repairing them while the application's thread is here
  /// cannot collide with what that thread asks of the driver.
  std::atomic<int32_t> caution{0};
  /// Set by a job that is to be waited for; under mutex().
  bool wait_wanted = false;
  /// An error that ncclCommGetAsyncError reports from now on.
  std::atomic<NcclResult> error{kNcclSuccess};
  /// Aborted or revoked: nothing of it goes on, and what is called goes to NCCL, which refuses it.
  std::atomic<bool> aborted{false};
  /// Destroyed or aborted by the application.
  std::atomic<bool> gone{false};

  /// Before anything is enqueued.
  void SetPeerPath(std::unique_ptr<PeerPath> path) { peer_path_ = std::move(path); }
  /// Whether an operation goes over peer memory. Depends on nothing but what all participants know.
  [[nodiscard]] bool TakesPeerPath(const Operation& operation) const {
    return peer_path_ != nullptr && peer_path_->Takes(operation);
  }
  /// Enqueues an operation that does. Under mutex().
  [[nodiscard]] NcclResult RunOverPeers(const Operation& operation);
  /// An error of a kernel that gave up becomes the communicator's. From any thread.
  void CheckPeerPath();
  void AbortPeerPath() {
    if (peer_path_ != nullptr) peer_path_->Abort();
  }

  /// kNone when an operation is large enough, and of a kind and dtype, to be compressed at all.
  /// Depends on nothing but what all participants know.
  [[nodiscard]] Plain WhyPlain(const Operation& operation) const;
  [[nodiscard]] bool IsEligible(const Operation& operation) const {
    return WhyPlain(operation) == Plain::kNone;
  }
  /// Gives an eligible operation its place in its key's history. Under mutex().
  void Admit(Operation* operation);

  /// Staging memory and workspace for a step on `stream`, which waits for whoever used them before.
  /// Under mutex(), as are all below.
  Status Reserve(Stream stream, uint64_t staging_bytes, uint64_t items, uint64_t input_bytes,
                 uint8_t** staging);
  /// Ends what Reserve began.
  Status Release(Stream stream);
  [[nodiscard]] const Workspace& workspace() const { return workspace_; }

  /// Null when there is no memory. Thread-safe, without mutex(); so is Recycle.
  [[nodiscard]] KeyRecord* NewKeyRecord();
  [[nodiscard]] StepRecord* NewStepRecord();
  void Recycle(KeyRecord* record);
  void Recycle(StepRecord* record);
  /// When its flag has reached its target, which the device is still to do.
  void RecycleLater(StepRecord* record);

  /// Times what is on `stream` between the two calls, for these keys.
  [[nodiscard]] Event StartTiming(Stream stream);
  /// Instead of StopTiming, when nothing was enqueued.
  void CancelTiming(Event start) { free_events_.push_back(start); }
  void StopTiming(Stream stream, Event start, KeyHistory* key, bool compressed, uint64_t bytes);

 private:
  /// Kind, size class, peer or root.
  using KeyId = std::tuple<Kind, int, int>;
  struct Timing {
    Event start;
    Event stop;
    KeyHistory* key;
    bool compressed;
    uint64_t bytes;
  };

  [[nodiscard]] Plain WhyPlainReduction(const Operation& operation, uint64_t bytes) const;
  void CollectTimings();
  [[nodiscard]] Event NewEvent();
  /// Adds a page to the records that are free.
  [[nodiscard]] bool AddRecords(PageUse use, std::vector<void*>* pages, std::vector<void*>* free);

  const NcclApi& api_;
  Device* device_;
  NcclComm nccl_;
  NcclComm shadow_;
  CommunicatorOptions options_;
  int rank_ = 0;
  int ranks_ = 0;
  int ordinal_ = 0;
  Stream helper_stream_ = nullptr;
  Stream repair_stream_ = nullptr;
  Event last_use_ = nullptr;
  Stream last_stream_ = nullptr;
  bool used_ = false;

  std::mutex mutex_;
  Counters counters_;
  std::map<KeyId, std::unique_ptr<KeyHistory>> keys_;
  void* staging_ = nullptr;
  uint64_t staging_bytes_ = 0;
  Workspace workspace_;
  std::vector<void*> key_pages_;
  std::vector<void*> step_pages_;
  std::vector<void*> free_key_records_;
  std::vector<void*> free_step_records_;
  std::deque<StepRecord*> later_step_records_;
  std::mutex shadow_mutex_;
  std::mutex records_mutex_;
  std::unique_ptr<PeerPath> peer_path_;
  Event last_peer_use_ = nullptr;
  Stream last_peer_stream_ = nullptr;
  bool peer_path_used_ = false;
  std::deque<Timing> timings_;
  std::vector<Event> free_events_;
};

}  // namespace cinch::collectives
