// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "versions/tensor_memory.h"
#include "versions/version_wire.h"

namespace cinch::versions {

/// From one version to the next.
struct PatchStep {
  uint64_t from_version = 0;
  uint64_t base_hash = 0;
  Buffer patch;
  uint64_t bytes = 0;
};

/// What subscribers get: never changes once it is there.
struct PublishedVersion {
  uint64_t version = 0;
  uint64_t content_hash = 0;
  Buffer data;
  uint64_t bytes = 0;
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  std::deque<std::shared_ptr<const PatchStep>> steps;  ///< The last one leads here.
};

/// The steps that lead from what a request says is held to `newest`; empty: none do, or they would
/// be larger than the tensor.
[[nodiscard]] std::vector<std::shared_ptr<const PatchStep>> StepsFor(
    const VersionRequest& request, const PublishedVersion& newest);

class Publisher : public std::enable_shared_from_this<Publisher> {
 public:
  Publisher() = default;
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  ~Publisher() = default;

  [[nodiscard]] Status Start();
  void Stop();
  [[nodiscard]] Status Publish(const std::string& name, const void* data, uint64_t bytes,
                               cinch_dtype dtype, uint64_t version, void* stream);
  [[nodiscard]] Status Serve(cinch_endpoint* endpoint);
  /// When it returns, nothing uses the endpoint any more.
  void Forget(const cinch_endpoint* endpoint);

 private:
  struct Tensor {
    std::mutex publishing;  // Guards what follows; one publication at a time.
    transfer::MemoryPlace place;
    std::unique_ptr<TensorMemory> memory;
    Buffer previous;    // To be used again, once nobody sends it any more.
    Buffer patch_room;  // Where patches are made before their size is known.
    // Guarded by the publisher's mutex.
    std::shared_ptr<const PublishedVersion> newest;
  };
  /// An endpoint whose next request is awaited, or being served.
  struct Client {
    cinch_endpoint* endpoint = nullptr;
    VersionRequest request;
    uint64_t request_bytes = 0;
    enum class State { kListening, kAsked, kGone } state = State::kListening;
  };
  struct CallbackData;
  struct Shipment;

  [[nodiscard]] Status MakeVersion(Tensor& tensor, const void* data, void* stream,
                                   const PublishedVersion* before, PublishedVersion& made);
  [[nodiscard]] Status MakePatch(Tensor& tensor, const PublishedVersion& before,
                                 PublishedVersion& made);
  void Work();
  [[nodiscard]] bool ServeOne();
  [[nodiscard]] Status Listen(const std::shared_ptr<Client>& client);
  void OnRequest(const std::shared_ptr<Client>& client, cinch_status status);
  [[nodiscard]] std::shared_ptr<const PublishedVersion> Find(const VersionRequest& request);
  void Answer(const std::shared_ptr<Client>& client,
              const std::shared_ptr<const PublishedVersion>& newest);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<std::string, std::shared_ptr<Tensor>> tensors_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::shared_ptr<Client> serving_;  // The client that the thread is busy with.
  std::thread thread_;
};

}  // namespace cinch::versions
