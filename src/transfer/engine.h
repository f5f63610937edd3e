// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "base/fork_count.h"
#include "base/unique_fd.h"
#include "transfer/backend.h"
#include "transfer/codec_pool.h"
#include "transfer/device_pool.h"
#include "transfer/handshake.h"
#include "transfer/operation.h"
#include "transfer/progress_loop.h"
#include "transfer/region_table.h"
#include "transfer/settings.h"

namespace cinch::transfer {

class Endpoint;

/// What an engine is built on; tests put other things here.
struct EngineParts {
  BackendFactory backend;
  SegmentCodecFactory codec;
  std::shared_ptr<DeviceRuntime> devices;  ///< Null: all memory is host memory.
};

/// One transport, its progress thread, its codec threads, and everything connected to it.
///
/// One lock guards all of it. Who holds the lock may make the transport progress; a thread that
/// waits does so itself for a short while (so that small messages need no change of thread) and
/// then leaves it to the progress thread. Coding and the caller's callbacks run without the lock.
class Engine final : public BackendEvents, public std::enable_shared_from_this<Engine> {
 public:
  [[nodiscard]] static Status Create(Settings settings, EngineParts parts,
                                     std::shared_ptr<Engine>& engine);
  Engine(Settings settings, EngineParts parts);
  ~Engine() override;

  /// OK, or UNSUPPORTED in a child of the process that made the engine: nothing of it may be
  /// touched there, as its threads are missing and its lock may be held for ever.
  [[nodiscard]] Status InThisProcess() const {
    return ForkCount() == forks_ ? CINCH_OK : CINCH_ERROR_UNSUPPORTED;
  }

  /// Closes everything and ends the threads. Safe to call twice; not from a callback.
  void Shutdown();

  /// Holds the lock. At its end, what became possible meanwhile is started, and who waits for a
  /// completion is woken.
  class Guard {
   public:
    explicit Guard(Engine& engine);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Engine& engine_;
  };

  /// Makes progress and waits until `ready`, which is called with the lock held, returns true.
  /// False: the deadline passed first. Not from a callback.
  [[nodiscard]] bool WaitFor(const std::function<bool()>& ready, Deadline deadline);
  /// Makes whatever progress is possible now.
  void Poll();
  /// Whether the calling thread is the one that runs callbacks.
  [[nodiscard]] bool on_progress_thread() const;

  /// How long closing a connection waits for the peer to have everything that was sent.
  [[nodiscard]] double goodbye_seconds() const;

  [[nodiscard]] const Settings& settings() const { return settings_; }

  /// Creates the transport unless it exists. `local_devices` are what it uses when the settings
  /// name no devices. OK, TRANSPORT, OUT_OF_MEMORY, CANCELLED (shut down).
  [[nodiscard]] Status EnsureBackend(const std::string& local_devices);
  /// The transport's address for any peer; EnsureBackend() must have succeeded.
  [[nodiscard]] Bytes BackendAddress();
  /// The transport's address for the peer of one connection, for which a port may be opened: it
  /// stays until AddEndpoint() takes it or ClosePort() gives it up. EnsureBackend() must have
  /// succeeded. OK, TRANSPORT, OUT_OF_MEMORY, CANCELLED (shut down).
  [[nodiscard]] Status OpenPort(uint64_t session, bool same_host, Bytes& address);
  void ClosePort(uint64_t session);

  /// Opens the connection that a handshake agreed on. `liveness` is its socket: from now on it
  /// only shows whether the peer lives. `greeted`, if any, is called with the lock held once the
  /// peer has answered over the transport.
  [[nodiscard]] Status AddEndpoint(const HandshakeLocal& local, const HandshakePeer& peer,
                                   UniqueFd liveness, std::function<void(Endpoint&)> greeted,
                                   std::shared_ptr<Endpoint>& endpoint);

  /// Null when this build knows no devices. Thread-safe.
  [[nodiscard]] DeviceRuntime* devices() const { return device_pool_.runtime(); }

  // All that follows needs the lock.
  [[nodiscard]] DevicePool& device_pool() { return device_pool_; }
  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] CodecPool& codec_pool() { return codec_pool_; }
  [[nodiscard]] RegionTable& regions() { return regions_; }
  [[nodiscard]] Metrics& metrics() { return metrics_; }
  [[nodiscard]] bool shut_down() const { return shut_down_; }
  /// `endpoint` has something to do before the lock is given back.
  void MarkDirty(const std::shared_ptr<Endpoint>& endpoint);
  /// The endpoint and its link are gone.
  void RemoveEndpoint(uint64_t session);
  /// The time as of the last progress: good enough for time-outs, and free.
  [[nodiscard]] TimePoint coarse_now() const { return coarse_now_; }
  /// Somebody may be waiting for what just happened.
  void NotifyWaiters() { notify_ = true; }
  void QueueCallback(std::shared_ptr<Operation> operation);
  /// The progress thread must look again at `time` at the latest.
  void WakeAt(TimePoint time);
  /// Something was left in flight that only the progress thread will see.
  void WakeProgress() { wake_ = true; }

  void OnArrival(std::span<const uint8_t> header, Payload payload) override;
  void OnLinkFailed(Link* link, Status reason) override;

 private:
  void Lock();
  void LetOthersLock();
  void Leave();
  bool ProgressLocked(TimePoint now);
  void RunDirty();
  void OnLivenessEvents(const std::vector<uint64_t>& sessions);
  bool RunCallbacks();
  void RunProgressThread();

  const uint32_t forks_ = ForkCount();
  const Settings settings_;
  const EngineParts parts_;

  std::mutex mutex_;
  std::atomic<int> lock_waiters_{0};  // So that the progress thread does not starve others.
  std::condition_variable completed_;

  std::unique_ptr<Backend> backend_;
  CodecPool codec_pool_;
  DevicePool device_pool_;
  RegionTable regions_;
  Metrics metrics_;
  std::unordered_map<uint64_t, std::unique_ptr<Port>> ports_;  // Of handshakes under way.
  std::unordered_map<uint64_t, std::shared_ptr<Endpoint>> endpoints_;
  std::vector<std::shared_ptr<Endpoint>> dirty_;
  std::vector<std::shared_ptr<Operation>> callbacks_;
  bool notify_ = false;
  bool wake_ = false;
  bool shut_down_ = false;
  int sleeping_waiters_ = 0;
  TimePoint wake_at_ = TimePoint::max();
  TimePoint next_tick_{};
  TimePoint coarse_now_ = Clock::now();

  std::atomic<int64_t> polled_until_{0};  // Until when waiting threads make the progress.
  std::atomic<bool> stopping_{false};
  ProgressLoop loop_;
  std::thread progress_thread_;
};

}  // namespace cinch::transfer
