// SPDX-License-Identifier: Apache-2.0
// One of the two processes of the soak test.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transfer/pattern.h"
#include "transfer/soak_memory.h"
#include "transfer/soak_parts.h"
#include "transfer/soak_plan.h"

namespace cinch::transfer_test {

/// One of the two processes.
class Side {
 public:
  Side(bool first, const char* transports)
      : name_(first ? "first" : "second"),
        first_(first),
        transports_(transports),
        region_memory_(kSlots * kSlotBytes, false) {
    cinch_engine_options options;
    cinch_engine_options_init(&options);
    options.transports = transports;
    options.codec_threads = 2;
    options.peer_timeout_seconds = 30;
    Check("engine", cinch_engine_create(&options, &engine_));
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    versions_.reset();
    cinch_endpoint_release(endpoint_);
    cinch_listener_release(listener_);
    static_cast<void>(cinch_region_release(region_, kWaitSeconds));
    cinch_engine_destroy(engine_);
  }

  void Check(const char* what, cinch_status status) const {
    transfer_test::Check(name_, what, status);
  }

  std::string Listen() {
    Check("listen", cinch_listen(engine_, "127.0.0.1:0", &listener_));
    char address[64] = {};
    Check("address", cinch_listener_address(listener_, address, sizeof(address)));
    return address;
  }
  void Accept() {
    Check("accept", cinch_accept(listener_, kWaitSeconds, &endpoint_));
    cinch_listener_release(listener_);
    listener_ = nullptr;
  }
  void Connect(const std::string& address) {
    Check("connect", cinch_connect(engine_, address.c_str(), kWaitSeconds, &endpoint_));
  }

  /// The peer's region becomes known to the first process.
  void ExchangeRegions() {
    if (first_) return Receive(&remote_, sizeof(remote_));
    Check("region", cinch_region_register(engine_, region_memory_.data(), kSlots * kSlotBytes,
                                          CINCH_REGION_READ | CINCH_REGION_WRITE, &region_));
    Check("region", cinch_region_describe(region_, &remote_));
    Send(&remote_, sizeof(remote_));
  }

  /// Both processes have a tensor whose versions go from the first to the second.
  void ShareVersions() { versions_ = std::make_unique<SoakVersions>(name_, first_, endpoint_); }

  /// The region's earlier description is refused from now on.
  void RenewRegion() {
    const cinch_remote_region earlier = remote_;
    if (first_) {
      Receive(&remote_, sizeof(remote_));
      SoakBlocks blocks(name_, endpoint_, earlier);
      blocks.ExpectStale();
      ++figures_.stale;
      return;
    }
    Check("renew", cinch_region_renew(region_, kWaitSeconds));
    Check("region", cinch_region_describe(region_, &remote_));
    Send(&remote_, sizeof(remote_));
  }

  void Send(const void* data, uint64_t bytes) {
    cinch_transfer_options options = OptionsOf(kControlTag);
    cinch_operation* operation = nullptr;
    Check("control", cinch_send(endpoint_, data, bytes, &options, &operation));
    Check("control", End(operation));
  }
  void Receive(void* data, uint64_t bytes) {
    cinch_transfer_options options = OptionsOf(kControlTag);
    cinch_operation* operation = nullptr;
    Check("control", cinch_recv(endpoint_, data, bytes, &options, &operation));
    Check("control", End(operation));
  }

  void RunBatch(uint64_t seed) {
    const std::vector<Planned> plan = PlanBatch(seed);
    std::vector<Running> running(plan.size());
    for (size_t i = 0; i < plan.size(); ++i) {
      // Never a tag again: a message that was cancelled may still be on its way.
      StartMessage(plan[i], kFirstTag + seed * kTagsOfRound + i, running[i]);
    }
    for (size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].cancel) static_cast<void>(cinch_cancel(running[i].operation));
    }
    for (size_t i = 0; i < plan.size(); ++i) EndMessage(plan[i], running[i]);
    if (first_) WriteAndReadBack(seed);
    MoveBlocks(seed);
    versions_->Next(seed);
    ++figures_.versions;
    // What is fetched must not wait behind a queue of messages that are not received before.
    uint64_t fetched = seed;
    first_ ? Receive(&fetched, sizeof(fetched)) : Send(&fetched, sizeof(fetched));
    ++figures_.batches;
  }

  /// More messages than may be pending: the sender is refused until some have gone, unless they go
  /// as quickly as they come.
  void RunQueue(uint64_t seed) {
    std::deque<Running> running;
    for (uint64_t i = 0; i < kQueued; ++i) {
      Planned each;
      each.bytes = 1 + (seed + i * 7919) % 3000;
      each.seed = seed + i;
      each.policy = CINCH_POLICY_DEFAULT;
      if (!first_ && i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      running.emplace_back();
      while (!TryStart(each, kFirstTag + seed * kTagsOfRound, running.back())) {
        ++figures_.refused_when_full;
        EndMessage(queued_.front(), running.front());
        running.pop_front();
        queued_.pop_front();
      }
      queued_.push_back(each);
    }
    while (!running.empty()) {
      EndMessage(queued_.front(), running.front());
      running.pop_front();
      queued_.pop_front();
    }
  }

  /// Starts another process that sends to this one, and kills it.
  void LosePeer() {
    const std::string address = Listen();
    std::string program = "/proc/self/exe";
    std::string victim = "--victim";
    std::string where = address;
    std::string by = transports_;
    char* arguments[] = {program.data(), victim.data(), where.data(), by.data(), nullptr};
    pid_t pid = -1;
    if (::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ) != 0) {
      Die(name_, "no process for the peer that is lost");
    }
    cinch_endpoint* endpoint = nullptr;
    Check("accept the victim", cinch_accept(listener_, kWaitSeconds, &endpoint));
    SoakMemory memory(kLargeBytes, figures_.lost_peers % 2 == 1);
    cinch_operation* operations[2] = {};
    for (cinch_operation*& each : operations) {
      Check("recv", cinch_recv(endpoint, memory.data(), kLargeBytes, nullptr, &each));
    }
    static_cast<void>(cinch_wait(operations[0], 0.001 * static_cast<double>(random_() % 50)));
    ::kill(pid, SIGKILL);
    for (cinch_operation* each : operations) {
      const cinch_status status = End(each);
      if (status != CINCH_OK && status != CINCH_ERROR_PEER_LOST) Check("lost peer", status);
    }
    ::waitpid(pid, nullptr, 0);
    cinch_endpoint_release(endpoint);
    cinch_listener_release(listener_);
    listener_ = nullptr;
    ++figures_.lost_peers;
  }

  [[nodiscard]] const Figures& figures() const { return figures_; }
  [[nodiscard]] const char* name() const { return name_; }

 private:
  struct Running {
    cinch_operation* operation = nullptr;
    SoakMemory memory;
    bool receives = false;
  };

  /// The memory as a list of pieces of different sizes.
  [[nodiscard]] static std::vector<cinch_piece> Cut(uint8_t* data, uint64_t bytes, uint64_t count) {
    std::vector<cinch_piece> pieces;
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t end = i + 1 == count ? bytes : bytes * (i + 1) / count;
      pieces.push_back({data + at, end - at});
      at = end;
    }
    return pieces;
  }

  [[nodiscard]] bool TryStart(const Planned& each, uint64_t tag, Running& running) {
    running.receives = each.from_first != first_;
    if (!running.memory.allocated()) {
      running.memory =
          SoakMemory(each.bytes, running.receives ? each.target_on_device : each.source_on_device);
      if (!running.receives) running.memory.Write(Pattern(each.seed, each.bytes));
    }
    cinch_transfer_options options = OptionsOf(tag);
    options.dtype = running.receives ? CINCH_DTYPE_AUTO : each.dtype;
    options.policy = each.policy;
    options.stream = CINCH_NO_STREAM;
    const auto pieces = Cut(running.memory.data(), each.bytes, each.pieces);
    const cinch_status status =
        running.receives
            ? cinch_recvv(endpoint_, pieces.data(), pieces.size(), &options, &running.operation)
            : cinch_sendv(endpoint_, pieces.data(), pieces.size(), &options, &running.operation);
    if (status == CINCH_ERROR_BUSY) return false;
    Check("start", status);
    return true;
  }

  void StartMessage(const Planned& each, uint64_t tag, Running& running) {
    if (!TryStart(each, tag, running)) Die(name_, "busy with one batch");
  }

  void EndMessage(const Planned& each, Running& running) {
    const cinch_status status = End(running.operation);
    ++figures_.operations;
    if (each.cancel && status == CINCH_ERROR_CANCELLED) {
      ++figures_.cancelled;
      return;
    }
    Check(running.receives ? "receive" : "send", status);
    figures_.bytes += each.bytes;
    if (running.receives && running.memory.Read() != Pattern(each.seed, each.bytes)) {
      Die(name_, "other bytes arrived than were sent: seed " + std::to_string(each.seed) + ", " +
                     std::to_string(each.bytes) + " bytes");
    }
  }

  /// The second process only hears that its blocks are there.
  void MoveBlocks(uint64_t seed) {
    cinch_transfer_options options = OptionsOf(kFirstTag + seed * kTagsOfRound + kNotifyTag);
    if (first_) {
      SoakBlocks blocks(name_, endpoint_, remote_);
      figures_.blocks += blocks.ThereAndBack(seed, options);
      return;
    }
    cinch_operation* operation = nullptr;
    Check("notification", cinch_recv(endpoint_, nullptr, 0, &options, &operation));
    Check("notification", End(operation));
  }

  void WriteAndReadBack(uint64_t seed) {
    std::vector<cinch_operation*> operations(kSlots);
    std::vector<SoakMemory> memories;
    for (uint64_t i = 0; i < kSlots; ++i) {
      memories.emplace_back(kSlotBytes, i % 2 == 1);
      memories.back().Write(Pattern(seed + i, kSlotBytes));
    }
    cinch_transfer_options options = OptionsOf(0);
    options.dtype = CINCH_DTYPE_BF16;
    options.stream = CINCH_NO_STREAM;
    for (const bool write : {true, false}) {
      for (uint64_t i = 0; i < kSlots; ++i) {
        if (!write) memories[i].Write(std::vector<uint8_t>(kSlotBytes));
        const auto start = write ? cinch_write(endpoint_, memories[i].data(), kSlotBytes, &remote_,
                                               i * kSlotBytes, &options, &operations[i])
                                 : cinch_read(endpoint_, memories[i].data(), kSlotBytes, &remote_,
                                              i * kSlotBytes, &options, &operations[i]);
        Check(write ? "write" : "read", start);
      }
      for (cinch_operation* each : operations) {
        Check(write ? "write" : "read", End(each));
        ++figures_.operations;
        figures_.bytes += kSlotBytes;
      }
    }
    for (uint64_t i = 0; i < kSlots; ++i) {
      if (memories[i].Read() != Pattern(seed + i, kSlotBytes)) Die(name_, "a region differs");
    }
  }

  const char* name_;
  bool first_;
  const char* transports_;
  cinch_engine* engine_ = nullptr;
  cinch_listener* listener_ = nullptr;
  cinch_endpoint* endpoint_ = nullptr;
  cinch_region* region_ = nullptr;
  cinch_remote_region remote_{};
  SoakMemory region_memory_;
  std::unique_ptr<SoakVersions> versions_;
  std::deque<Planned> queued_;
  std::mt19937_64 random_{11};
  Figures figures_;
};

}  // namespace cinch::transfer_test
