// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu_transfer_peer.h"

#include <vector>

namespace cinch::gpu_test {
namespace {

constexpr double kPeerSeconds = 60;

class Peer {
 public:
  explicit Peer(const char* address) {
    cinch_engine_options options = transfer_test::DefaultOptions();
    options.transports = "posix,cma,self";
    options.peer_timeout_seconds = 4;
    engine_ = transfer_test::MakeEngine(options);
    endpoint_ = transfer_test::Connect(engine_.get(), address);
  }

  bool Serve() {
    Command command;
    const cinch_transfer_options options = Tagged(kCommandTag);
    const OperationHandle received =
        transfer_test::Receive(endpoint_, &command, sizeof(command), &options);
    if (transfer_test::Wait(received, kPeerSeconds) != CINCH_OK) return false;
    if (command.verb == Verb::kStop) return false;
    const Answer answer = Do(command);
    const cinch_transfer_options tagged = Tagged(kAnswerTag);
    const OperationHandle sent = transfer_test::Send(endpoint_, &answer, sizeof(answer), &tagged);
    return transfer_test::Wait(sent) == CINCH_OK;
  }

 private:
  Answer Do(const Command& command) {
    switch (command.verb) {
      case Verb::kReceive:
        return Receive(command);
      case Verb::kSend:
        return Send(command);
      case Verb::kRegion:
        return Open(command);
      case Verb::kHashRegion:
        return {CINCH_OK, hasher_.Hash(region_memory_->data(), region_memory_->bytes()), {}};
      case Verb::kReceiveMany:
        return ReceiveMany(command);
      case Verb::kSpoilAll:
        return SpoilAll(command);
      case Verb::kStop:
        break;
    }
    return {CINCH_ERROR_INTERNAL, 0, {}};
  }

  // The kernel that hashes is enqueued the moment completion is reported; nothing is synchronised.
  Answer Receive(const Command& command) {
    const Memory memory(command.kind, command.bytes);
    const cinch_transfer_options options = Tagged(kDataTag, hasher_.stream);
    const OperationHandle received =
        transfer_test::Receive(endpoint_, memory.data(), command.bytes, &options);
    const cinch_status status = transfer_test::Wait(received);
    return {status, hasher_.Hash(memory.data(), command.bytes), {}};
  }

  // The source is filled by its stream, and overwritten as soon as the send is complete.
  Answer Send(const Command& command) {
    const Memory memory(command.kind, command.bytes);
    hasher_.Fill(memory.data(), command.bytes, command.seed);
    const cinch_transfer_options options = Tagged(kDataTag, hasher_.stream);
    const OperationHandle sent =
        transfer_test::Send(endpoint_, memory.data(), command.bytes, &options);
    const cinch_status status = transfer_test::Wait(sent);
    hasher_.Fill(memory.data(), command.bytes, command.seed + 1);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return {status, 0, {}};
  }

  Answer Open(const Command& command) {
    region_memory_ = std::make_unique<Memory>(command.kind, command.bytes);
    hasher_.Fill(region_memory_->data(), command.bytes, command.seed);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    Answer answer{};
    answer.status = cinch_region_register(engine_.get(), region_memory_->data(), command.bytes,
                                          CINCH_REGION_READ | CINCH_REGION_WRITE, &region_);
    if (answer.status == CINCH_OK) answer.status = cinch_region_describe(region_, &answer.region);
    return answer;
  }

  // `count` messages of `bytes`, all posted at first.
  Answer ReceiveMany(const Command& command) {
    const Memory memory(MemoryKind::kDevice, command.bytes * command.count);
    std::vector<OperationHandle> operations;
    const cinch_transfer_options options = Tagged(kDataTag, hasher_.stream);
    Answer answer{};
    uint64_t posted = 0;
    for (uint64_t done = 0; done < command.count; ++done) {
      for (; posted < command.count && posted - done < 1000; ++posted) {
        operations.push_back(transfer_test::Receive(
            endpoint_, static_cast<uint8_t*>(memory.data()) + posted * command.bytes, command.bytes,
            &options));
      }
      const cinch_status status = transfer_test::Wait(operations[done]);
      operations[done] = nullptr;
      if (status != CINCH_OK) answer.status = status;
    }
    answer.hash = hasher_.Hash(memory.data(), memory.bytes());
    return answer;
  }

  // Takes all of the device's memory; then a receive into what little there is must still do.
  Answer SpoilAll(const Command& command) {
    std::vector<void*> taken;
    const Memory target(MemoryKind::kDevice, command.bytes);
    for (uint64_t step = uint64_t{8} << 30; step >= 4096; step /= 2) {
      void* memory = nullptr;
      while (cudaMalloc(&memory, step) == cudaSuccess) taken.push_back(memory);
      cudaGetLastError();
    }
    const cinch_transfer_options options = Tagged(kDataTag);
    const OperationHandle received =
        transfer_test::Receive(endpoint_, target.data(), command.bytes, &options);
    const cinch_status status = transfer_test::Wait(received);
    for (void* memory : taken) cudaFree(memory);
    return {status, 0, {}};
  }

  EngineHandle engine_;
  EndpointHandle endpoint_;
  Hasher hasher_;
  std::unique_ptr<Memory> region_memory_;
  cinch_region* region_ = nullptr;
};

}  // namespace

int RunPeer(const char* address) {
  Peer peer(address);
  while (peer.Serve()) {
  }
  return testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace cinch::gpu_test
