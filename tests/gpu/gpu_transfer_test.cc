// SPDX-License-Identifier: Apache-2.0
// Device memory between two real processes on one GPU.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/gpu_transfer_peer.h"

namespace cinch::gpu_test {
namespace {

using transfer_test::Wait;

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

/// This process, the other one, and their connection.
class GpuTransfer : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    cinch_engine_options options = transfer_test::DefaultOptions();
    options.transports = "posix,cma,self";
    options.peer_timeout_seconds = 4;
    options.without_shared_device_memory = GetParam() ? 0 : 1;
    engine_ = transfer_test::MakeEngine(options);
    listener_ = transfer_test::Listen(engine_.get());
    StartPeer();
  }
  void TearDown() override {
    if (endpoint_ && cinch_endpoint_state(endpoint_.get()) == CINCH_OK) Tell({Verb::kStop});
    if (peer_ > 0) {
      int status = 0;
      ::waitpid(peer_, &status, 0);
      EXPECT_TRUE(killed_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
    }
  }

  void StartPeer() {
    const std::string address = transfer_test::AddressOf(listener_);
    peer_ = ::fork();
    if (peer_ == 0) {
      ::execl("/proc/self/exe", "gpu_transfer_test", "--peer", address.c_str(), nullptr);
      ::_exit(127);
    }
    endpoint_ = transfer_test::Accept(listener_);
    ASSERT_TRUE(endpoint_);
    killed_ = false;
  }
  void KillPeer() {
    ::kill(peer_, SIGKILL);
    int status = 0;
    ::waitpid(peer_, &status, 0);
    peer_ = -1;
    killed_ = true;
  }

  void Tell(const Command& command) {
    const cinch_transfer_options options = Tagged(kCommandTag);
    EXPECT_EQ(Wait(transfer_test::Send(endpoint_, &command, sizeof(command), &options)), CINCH_OK);
  }
  Answer Hear() {
    Answer answer{CINCH_ERROR_INTERNAL, 0, {}};
    const cinch_transfer_options options = Tagged(kAnswerTag);
    EXPECT_EQ(Wait(transfer_test::Receive(endpoint_, &answer, sizeof(answer), &options)), CINCH_OK);
    return answer;
  }
  OperationHandle SendData(const void* data, uint64_t bytes) {
    const cinch_transfer_options options = Tagged(kDataTag, hasher_.stream);
    return transfer_test::Send(endpoint_, data, bytes, &options);
  }
  OperationHandle ReceiveData(void* data, uint64_t bytes) {
    const cinch_transfer_options options = Tagged(kDataTag, hasher_.stream);
    return transfer_test::Receive(endpoint_, data, bytes, &options);
  }

  EngineHandle engine_;
  transfer_test::ListenerHandle listener_;
  EndpointHandle endpoint_;
  Hasher hasher_;
  pid_t peer_ = -1;
  bool killed_ = false;
};

INSTANTIATE_TEST_SUITE_P(Paths, GpuTransfer, testing::Bool(),
                         [](const auto& each) { return each.param ? "Shared" : "Pinned"; });

TEST_P(GpuTransfer, EveryKindOfMemoryToEveryOther) {
  for (const MemoryKind from : kAllKinds) {
    for (const MemoryKind to : kAllKinds) {
      SCOPED_TRACE(std::string(NameOf(from)) + " to " + NameOf(to));
      const uint64_t bytes = 3 * kMegabyte + 8 * (static_cast<uint64_t>(to) + 1);
      const Memory memory(from, bytes);
      hasher_.Fill(memory.data(), bytes, 5);
      Tell({Verb::kReceive, to, bytes});
      const OperationHandle send = SendData(memory.data(), bytes);
      EXPECT_EQ(Wait(send), CINCH_OK);
      hasher_.Fill(memory.data(), bytes, 6);  // The source is ours again.
      const Answer answer = Hear();
      EXPECT_EQ(answer.status, CINCH_OK);
      EXPECT_EQ(answer.hash, hasher_.Expected(bytes, 5));
      Tell({Verb::kSend, to, bytes, 9});
      EXPECT_EQ(Wait(ReceiveData(memory.data(), bytes)), CINCH_OK);
      EXPECT_EQ(hasher_.Hash(memory.data(), bytes), hasher_.Expected(bytes, 9));
      EXPECT_EQ(Hear().status, CINCH_OK);
    }
  }
}

TEST_P(GpuTransfer, LargeMessagesAndTheirPath) {
  const uint64_t bytes = 200 * kMegabyte + 8;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 5);
  for (int i = 0; i < 3; ++i) {
    Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
    const OperationHandle send = SendData(memory.data(), bytes);
    EXPECT_EQ(Wait(send), CINCH_OK);
    EXPECT_EQ(Hear().hash, hasher_.Expected(bytes, 5));
    const cinch_transfer_stats stats = transfer_test::StatsOf(send);
    EXPECT_LT(stats.wire_bytes, bytes * 7 / 10);
    EXPECT_EQ(stats.raw_segments, 0u);
    EXPECT_GT(GetParam() ? stats.shared_segments : stats.pinned_segments,
              stats.compressed_segments / 2);
  }
}

TEST_P(GpuTransfer, SendsReadTheirDataAtTheirPlaceInTheStream) {
  const uint64_t bytes = 64 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 1);
  for (int i = 0; i < 50; ++i) hasher_.Fill(memory.data(), bytes, 100 + i);  // Some milliseconds.
  hasher_.Fill(memory.data(), bytes, 7);
  Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
  EXPECT_EQ(Wait(SendData(memory.data(), bytes)), CINCH_OK);
  EXPECT_EQ(Hear().hash, hasher_.Expected(bytes, 7));
}

TEST_P(GpuTransfer, ManyConcurrentWritesAndReads) {
  constexpr uint64_t kWrites = 64;
  const uint64_t each = kMegabyte;
  Tell({Verb::kRegion, MemoryKind::kDevice, kWrites * each, 1});
  const Answer region = Hear();
  ASSERT_EQ(region.status, CINCH_OK);
  const Memory memory(MemoryKind::kDevice, kWrites * each);
  hasher_.Fill(memory.data(), memory.bytes(), 3);
  auto* data = static_cast<uint8_t*>(memory.data());
  const cinch_transfer_options options = Tagged(0, hasher_.stream);
  std::vector<OperationHandle> operations;
  for (uint64_t i = 0; i < kWrites; ++i) {
    cinch_operation* operation = nullptr;
    ASSERT_EQ(cinch_write(endpoint_.get(), data + i * each, each, &region.region, i * each,
                          &options, &operation),
              CINCH_OK);
    operations.emplace_back(operation);
  }
  for (const OperationHandle& operation : operations) EXPECT_EQ(Wait(operation), CINCH_OK);
  Tell({Verb::kHashRegion});
  EXPECT_EQ(Hear().hash, hasher_.Expected(memory.bytes(), 3));
  const Memory back(MemoryKind::kDevice, kWrites * each);
  cinch_operation* operation = nullptr;
  ASSERT_EQ(cinch_read(endpoint_.get(), back.data(), back.bytes(), &region.region, 0, &options,
                       &operation),
            CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
  EXPECT_EQ(hasher_.Hash(back.data(), back.bytes()), hasher_.Expected(memory.bytes(), 3));
}

TEST_P(GpuTransfer, TenThousandMessagesLoseNothing) {
  constexpr uint64_t kMessages = 10000;
  constexpr uint64_t kBytes = 8192;
  const Memory memory(MemoryKind::kDevice, kMessages * kBytes);
  hasher_.Fill(memory.data(), memory.bytes(), 11);
  Command command{Verb::kReceiveMany, MemoryKind::kDevice, kBytes};
  command.count = kMessages;
  Tell(command);
  std::vector<OperationHandle> operations;
  const cinch_transfer_options options = Tagged(kDataTag, hasher_.stream);
  size_t waited = 0;
  for (uint64_t i = 0; i < kMessages; ++i) {
    cinch_operation* operation = nullptr;
    const auto* data = static_cast<const uint8_t*>(memory.data()) + i * kBytes;
    while (cinch_send(endpoint_.get(), data, kBytes, &options, &operation) == CINCH_ERROR_BUSY) {
      ASSERT_EQ(Wait(operations[waited++]), CINCH_OK);  // Back-pressure.
    }
    ASSERT_NE(operation, nullptr);
    operations.emplace_back(operation);
  }
  for (; waited < operations.size(); ++waited) ASSERT_EQ(Wait(operations[waited]), CINCH_OK);
  const Answer answer = Hear();
  EXPECT_EQ(answer.status, CINCH_OK);
  EXPECT_EQ(answer.hash, hasher_.Expected(memory.bytes(), 11));
}

TEST_P(GpuTransfer, MemoryStaysFlatOverManyTransfers) {
  const uint64_t bytes = 2 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 1);
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  for (int i = 0; i < 40; ++i) {
    Command command{Verb::kReceiveMany, MemoryKind::kDevice, bytes};
    command.count = 25;
    Tell(command);
    for (int k = 0; k < 25; ++k) ASSERT_EQ(Wait(SendData(memory.data(), bytes)), CINCH_OK);
    ASSERT_EQ(Hear().status, CINCH_OK);
    ASSERT_EQ(cudaMemGetInfo(i < 4 ? &before : &after, &total), cudaSuccess);
  }
  EXPECT_LE(before, after + 4 * kMegabyte);
}

TEST_P(GpuTransfer, AKilledPeerIsLostAndAnotherOneServed) {
  const uint64_t bytes = 512 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 1);
  Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
  const OperationHandle send = SendData(memory.data(), bytes);
  static_cast<void>(cinch_wait(send.get(), 0.004));
  KillPeer();
  EXPECT_EQ(Wait(send), CINCH_ERROR_PEER_LOST);
  endpoint_.reset();
  StartPeer();
  Tell({Verb::kReceive, MemoryKind::kDevice, 8 * kMegabyte});
  EXPECT_EQ(Wait(SendData(memory.data(), 8 * kMegabyte)), CINCH_OK);
  EXPECT_EQ(Hear().hash, hasher_.Hash(memory.data(), 8 * kMegabyte));
}

TEST_P(GpuTransfer, ASenderThatIsKilledLosesItsReceiver) {
  const uint64_t bytes = 512 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  Tell({Verb::kSend, MemoryKind::kDevice, bytes, 1});
  const OperationHandle receive = ReceiveData(memory.data(), bytes);
  static_cast<void>(cinch_wait(receive.get(), 0.3));
  KillPeer();
  const cinch_status status = Wait(receive);
  EXPECT_TRUE(status == CINCH_ERROR_PEER_LOST || status == CINCH_OK) << status;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_P(GpuTransfer, AStoppedPeerIsWaitedForOrLostInTime) {
  const uint64_t bytes = 64 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 1);
  Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
  ::kill(peer_, SIGSTOP);
  const OperationHandle send = SendData(memory.data(), bytes);
  EXPECT_EQ(cinch_wait(send.get(), 1), CINCH_IN_PROGRESS);
  ::kill(peer_, SIGCONT);
  EXPECT_EQ(Wait(send), CINCH_OK);
  EXPECT_EQ(Hear().hash, hasher_.Expected(bytes, 1));
  ::kill(peer_, SIGSTOP);
  EXPECT_EQ(Wait(SendData(memory.data(), bytes)), CINCH_ERROR_PEER_LOST);
  ::kill(peer_, SIGCONT);
  KillPeer();
}

TEST_P(GpuTransfer, CancelledOperationsLeaveTheConnectionUsable) {
  const uint64_t bytes = 128 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 1);
  for (int i = 0; i < 6; ++i) {
    Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
    const OperationHandle send = SendData(memory.data(), bytes);
    static_cast<void>(cinch_wait(send.get(), 0.002 * i));
    EXPECT_EQ(cinch_cancel(send.get()), CINCH_OK);
    const cinch_status status = Wait(send);
    EXPECT_TRUE(status == CINCH_OK || status == CINCH_ERROR_CANCELLED) << status;
    if (status != CINCH_OK) {
      // Cancelled before it was matched, it never was; the receive takes the next one.
      const OperationHandle again = SendData(memory.data(), bytes);
      const Answer answer = Hear();
      if (answer.status == CINCH_OK) {
        EXPECT_EQ(Wait(again), CINCH_OK);
      } else {
        EXPECT_EQ(answer.status, CINCH_ERROR_CANCELLED);
        EXPECT_EQ(cinch_cancel(again.get()), CINCH_OK);
        static_cast<void>(Wait(again));
      }
    } else {
      EXPECT_EQ(Hear().status, CINCH_OK);
    }
  }
  Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
  EXPECT_EQ(Wait(SendData(memory.data(), bytes)), CINCH_OK);
  EXPECT_EQ(Hear().hash, hasher_.Expected(bytes, 1));
}

TEST_P(GpuTransfer, AFullDeviceIsAnErrorOrDoesButNeverAHang) {
  const uint64_t bytes = 4 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  Tell({Verb::kSpoilAll, MemoryKind::kDevice, bytes});
  const cinch_status sent = Wait(SendData(memory.data(), bytes));
  const Answer answer = Hear();
  EXPECT_EQ(answer.status, sent);
  EXPECT_TRUE(sent == CINCH_OK || sent == CINCH_ERROR_OUT_OF_MEMORY || sent == CINCH_ERROR_DEVICE)
      << sent;
  Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
  EXPECT_EQ(Wait(SendData(memory.data(), bytes)), CINCH_OK);
  EXPECT_EQ(Hear().hash, hasher_.Expected(bytes, 1));
}

TEST_P(GpuTransfer, ForkAfterTheStartHarmsNobody) {
  const uint64_t bytes = 8 * kMegabyte;
  const Memory memory(MemoryKind::kDevice, bytes);
  hasher_.Fill(memory.data(), bytes, 1);
  Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
  EXPECT_EQ(Wait(SendData(memory.data(), bytes)), CINCH_OK);
  EXPECT_EQ(Hear().status, CINCH_OK);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  Tell({Verb::kReceive, MemoryKind::kDevice, bytes});
  EXPECT_EQ(Wait(SendData(memory.data(), bytes)), CINCH_OK);
  EXPECT_EQ(Hear().hash, hasher_.Expected(bytes, 1));
}

}  // namespace
}  // namespace cinch::gpu_test

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--peer") == 0) return cinch::gpu_test::RunPeer(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
