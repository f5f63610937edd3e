// SPDX-License-Identifier: Apache-2.0
// Peers in other processes that die, stop, restart, disappear or are not what they should be.
#include <chrono>
#include <csignal>
#include <thread>

#include "transfer/engine_pair.h"
#include "transfer/pattern.h"
#include "transfer/peer_process.h"

namespace cinch::transfer_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

// Far above the time-outs that are tested, far below a hang.
constexpr double kBoundSeconds = 20;

void Pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

cinch_engine_options FaultOptions(const char* transports) {
  cinch_engine_options options = DefaultOptions();
  options.transports = transports;
  options.peer_timeout_seconds = 0.5;
  return options;
}

// The engine still serves: a fresh peer gets a message through.
void ExpectUsable(cinch_engine* engine, const char* transports) {
  PeerProcess peer(
      {std::string("transports=") + transports, "listen=127.0.0.1:0", "accept", "recv=11:3000001"});
  const std::string address = peer.Value("address");
  const EndpointHandle endpoint = Connect(engine, address);
  ASSERT_NE(endpoint, nullptr);
  const std::vector<uint8_t> data = Pattern(11, 3000001);
  EXPECT_EQ(Wait(Send(endpoint, data.data(), data.size())), CINCH_OK);
  EXPECT_EQ(peer.Line(), "receiving");
  EXPECT_EQ(peer.Value("recv"), "CINCH_OK");
}

class Fault : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Fault, testing::Values("tcp", "posix,self"));

// Starts a transfer to a receiver that is slowed down, hurts it in the middle, and expects every
// pending operation to end.
void HurtReceiver(const char* transports, int signal, cinch_policy policy) {
  cinch_engine_options options = FaultOptions(transports);
  options.link_gbps = 0.1;
  options.policy = policy;
  const EngineHandle engine = MakeEngine(options);
  PeerProcess peer(
      {std::string("transports=") + transports, "listen=127.0.0.1:0", "accept", "recv=1:60000000"});
  const EndpointHandle endpoint = Connect(engine.get(), peer.Value("address"));
  const std::vector<uint8_t> data = Pattern(1, 60000000);
  const OperationHandle large = Send(endpoint, data.data(), data.size());
  const OperationHandle behind = Send(endpoint, data.data(), data.size());
  std::vector<uint8_t> buffer(1000);
  const OperationHandle receive = Receive(endpoint, buffer.data(), buffer.size());
  EXPECT_EQ(peer.Line(), "receiving");
  Pause(0.2);
  EXPECT_EQ(cinch_test(large.get()), CINCH_IN_PROGRESS);
  peer.Signal(signal);
  EXPECT_EQ(Wait(large, kBoundSeconds), CINCH_ERROR_PEER_LOST);
  EXPECT_EQ(Wait(behind, kBoundSeconds), CINCH_ERROR_PEER_LOST);
  EXPECT_EQ(Wait(receive, kBoundSeconds), CINCH_ERROR_PEER_LOST);
  EXPECT_EQ(cinch_endpoint_state(endpoint.get()), CINCH_ERROR_PEER_LOST);
  cinch_operation* refused = nullptr;
  EXPECT_EQ(cinch_send(endpoint.get(), data.data(), 8, nullptr, &refused), CINCH_ERROR_PEER_LOST);
  ExpectUsable(engine.get(), transports);
}

TEST_P(Fault, ReceiverKilledMidTransfer) {
  HurtReceiver(GetParam(), SIGKILL, CINCH_POLICY_COMPRESSED);
}
TEST_P(Fault, ReceiverKilledMidRawTransfer) { HurtReceiver(GetParam(), SIGKILL, CINCH_POLICY_RAW); }
TEST_P(Fault, ReceiverStoppedMidTransfer) {
  HurtReceiver(GetParam(), SIGSTOP, CINCH_POLICY_COMPRESSED);
}
TEST_P(Fault, ReceiverStoppedMidRawTransfer) {
  HurtReceiver(GetParam(), SIGSTOP, CINCH_POLICY_RAW);
}

void HurtSender(const char* transports, int signal) {
  const EngineHandle engine = MakeEngine(FaultOptions(transports));
  const ListenerHandle listener = Listen(engine.get());
  PeerProcess peer({std::string("transports=") + transports, "gbps=0.5",
                    "connect=" + AddressOf(listener), "send=1:60000000"});
  const EndpointHandle endpoint = Accept(listener);
  std::vector<uint8_t> buffer(60000000);
  const OperationHandle receive = Receive(endpoint, buffer.data(), buffer.size());
  EXPECT_EQ(peer.Value("connect"), "CINCH_OK");
  for (int i = 0; i < 2000 && InfoOf(receive).bytes_done == 0; ++i) Pause(0.005);
  EXPECT_GT(InfoOf(receive).bytes_done, 0u);
  peer.Signal(signal);
  EXPECT_EQ(Wait(receive, kBoundSeconds), CINCH_ERROR_PEER_LOST);
  ExpectUsable(engine.get(), transports);
}

TEST_P(Fault, SenderKilledMidTransfer) { HurtSender(GetParam(), SIGKILL); }
TEST_P(Fault, SenderStoppedMidTransfer) { HurtSender(GetParam(), SIGSTOP); }

// A peer that ends in the middle of handing a message to the transport leaves what it shares with
// us half written. That must stay between us and it.
void FallInMidCopy(const char* transports, int signal) {
  const EngineHandle engine = MakeEngine(FaultOptions(transports));
  const std::string with = std::string("transports=") + transports;
  PeerProcess other({with, "listen=127.0.0.1:0", "accept", "print=ready", "echo=1"});
  const EndpointHandle to_other = Connect(engine.get(), other.Value("address"));
  EXPECT_EQ(other.Line(), "ready");

  const ListenerHandle listener = Listen(engine.get());
  PeerProcess peer(
      {with, "connect=" + AddressOf(listener), "wait", "fall=" + std::to_string(signal)});
  const EndpointHandle endpoint = Accept(listener);
  EXPECT_EQ(peer.Value("connect"), "CINCH_OK");
  std::vector<uint8_t> buffer(8000);
  const OperationHandle receive = Receive(endpoint, buffer.data(), buffer.size());
  peer.Continue();
  EXPECT_EQ(Wait(receive, kBoundSeconds), CINCH_ERROR_PEER_LOST);

  uint64_t value = 1234567;
  EXPECT_EQ(Wait(Send(to_other, &value, sizeof(value))), CINCH_OK);
  value = 0;
  EXPECT_EQ(Wait(Receive(to_other, &value, sizeof(value))), CINCH_OK);
  EXPECT_EQ(value, 1234567u);
  EXPECT_EQ(other.Value("echo"), "OK");
  ExpectUsable(engine.get(), transports);
}

TEST_P(Fault, SenderKilledMidCopy) { FallInMidCopy(GetParam(), SIGKILL); }
TEST_P(Fault, SenderStoppedMidCopy) { FallInMidCopy(GetParam(), SIGSTOP); }

// A peer that was stopped for so long that it was given up finds out when it goes on.
TEST_P(Fault, StoppedPeerLearnsItsLoss) {
  const EngineHandle engine = MakeEngine(FaultOptions(GetParam()));
  PeerProcess peer({std::string("transports=") + GetParam(), "peer_timeout=0.5",
                    "listen=127.0.0.1:0", "accept", "recv=1:1000"});
  const EndpointHandle endpoint = Connect(engine.get(), peer.Value("address"));
  EXPECT_EQ(peer.Line(), "receiving");
  peer.Signal(SIGSTOP);
  std::vector<uint8_t> buffer(10);
  EXPECT_EQ(Wait(Receive(endpoint, buffer.data(), 10), kBoundSeconds), CINCH_ERROR_PEER_LOST);
  peer.Signal(SIGCONT);
  EXPECT_EQ(peer.Value("recv"), "CINCH_ERROR_PEER_LOST");
}

// A short stop is no loss.
TEST_P(Fault, ShortStopIsSurvived) {
  cinch_engine_options options = FaultOptions(GetParam());
  options.peer_timeout_seconds = 10;
  const EngineHandle engine = MakeEngine(options);
  PeerProcess peer(
      {std::string("transports=") + GetParam(), "listen=127.0.0.1:0", "accept", "recv=1:50000000"});
  const EndpointHandle endpoint = Connect(engine.get(), peer.Value("address"));
  const std::vector<uint8_t> data = Pattern(1, 50000000);
  EXPECT_EQ(peer.Line(), "receiving");
  const OperationHandle send = Send(endpoint, data.data(), data.size());
  peer.Signal(SIGSTOP);
  Pause(0.5);
  peer.Signal(SIGCONT);
  EXPECT_EQ(Wait(send), CINCH_OK);
  EXPECT_EQ(peer.Value("recv"), "CINCH_OK");
}

TEST_P(Fault, RestartedPeerIsServedAgain) {
  const EngineHandle engine = MakeEngine(FaultOptions(GetParam()));
  const std::string transports = std::string("transports=") + GetParam();
  std::string address;
  EndpointHandle old;
  {
    PeerProcess peer({transports, "listen=127.0.0.1:0", "accept", "wait"});
    address = peer.Value("address");
    old = Connect(engine.get(), address);
  }
  PeerProcess peer({transports, "listen=" + address, "accept", "recv=5:5000000"});
  EXPECT_EQ(peer.Value("address"), address);
  const EndpointHandle fresh = Connect(engine.get(), address);
  const std::vector<uint8_t> data = Pattern(5, 5000000);
  EXPECT_EQ(Wait(Send(fresh, data.data(), data.size())), CINCH_OK);
  EXPECT_EQ(peer.Line(), "receiving");
  EXPECT_EQ(peer.Value("recv"), "CINCH_OK");
  std::vector<uint8_t> buffer(10);
  cinch_operation* operation = nullptr;
  const cinch_status status = cinch_recv(old.get(), buffer.data(), 10, nullptr, &operation);
  EXPECT_EQ(status == CINCH_OK ? Wait(OperationHandle(operation), kBoundSeconds) : status,
            CINCH_ERROR_PEER_LOST);
}

TEST_P(Fault, PeerGoneAfterConnect) {
  const EngineHandle engine = MakeEngine(FaultOptions(GetParam()));
  const ListenerHandle listener = Listen(engine.get());
  PeerProcess peer(
      {std::string("transports=") + GetParam(), "connect=" + AddressOf(listener), "exit"});
  cinch_endpoint* accepted = nullptr;
  const cinch_status status = cinch_accept(listener.get(), 2, &accepted);
  const EndpointHandle endpoint(accepted);
  if (status == CINCH_OK) {
    std::vector<uint8_t> buffer(10);
    cinch_operation* operation = nullptr;
    const cinch_status posted = cinch_recv(endpoint.get(), buffer.data(), 10, nullptr, &operation);
    EXPECT_EQ(posted == CINCH_OK ? Wait(OperationHandle(operation), kBoundSeconds) : posted,
              CINCH_ERROR_PEER_LOST);
  } else {
    EXPECT_EQ(status, CINCH_ERROR_TIMEOUT);  // It was gone before its greeting.
  }
  ExpectUsable(engine.get(), GetParam());
}

TEST_P(Fault, LargeMessageBetweenProcesses) {
  const EngineHandle engine = MakeEngine(FaultOptions(GetParam()));
  PeerProcess peer({std::string("transports=") + GetParam(), "listen=127.0.0.1:0", "accept",
                    "recv=1:300000001", "send=2:300000001"});
  const EndpointHandle endpoint = Connect(engine.get(), peer.Value("address"));
  std::vector<uint8_t> data = Pattern(1, 300000001);
  EXPECT_EQ(Wait(Send(endpoint, data.data(), data.size()), 60), CINCH_OK);
  EXPECT_EQ(peer.Line(), "receiving");
  EXPECT_EQ(peer.Value("recv"), "CINCH_OK");
  EXPECT_EQ(Wait(Receive(endpoint, data.data(), data.size()), 60), CINCH_OK);
  EXPECT_EQ(peer.Value("send"), "CINCH_OK");
  EXPECT_TRUE(data == Pattern(2, 300000001));
}

}  // namespace
}  // namespace cinch::transfer_test
