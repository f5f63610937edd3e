// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <memory>
#include <utility>

#include "transfer/engine_pair.h"
#include "transfer/handles.h"
#include "transfer/mock_fabric.h"

namespace cinch::transfer_test {

inline transfer::Settings TestSettings(double operation_timeout_seconds = 20) {
  transfer::Settings settings;
  settings.policy = policy::Mode::kCompressed;
  settings.codec_threads = 2;
  settings.segment_bytes = uint64_t{256} << 10;
  settings.peer_timeout_seconds = 20;
  settings.operation_timeout_seconds = operation_timeout_seconds;
  return settings;
}

/// Two engines over a mock fabric, with the handshake done by hand.
class MockPair {
 public:
  explicit MockPair(MockFaults faults = {}, const transfer::Settings& settings = TestSettings(),
                    const transfer::SegmentCodecFactory& codec = transfer::CreateCpuSegmentCodec,
                    const std::shared_ptr<transfer::DeviceRuntime>& devices = nullptr)
      : fabric_(std::move(faults)) {
    for (Side& side : sides_) {
      EXPECT_EQ(
          transfer::Engine::Create(settings, {fabric_.Factory(), codec, devices}, side.engine),
          CINCH_OK);
      EXPECT_EQ(side.engine->EnsureBackend(""), CINCH_OK);
      EXPECT_EQ(transfer::PrepareHandshake(settings, side.engine->BackendAddress(), side.local),
                CINCH_OK);
    }
    int sockets[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    remote_socket_.reset(sockets[1]);
    sides_[0].Open(sides_[1], UniqueFd(sockets[0]));
    sides_[1].Open(sides_[0], UniqueFd());
    for (Side& side : sides_) {
      EXPECT_TRUE(side.engine->WaitFor([&] { return side.endpoint->endpoint->greeted(); },
                                       Deadline::After(kLongSeconds)));
    }
  }
  ~MockPair() {
    for (Side& side : sides_) side.engine->Shutdown();
  }
  MockPair(const MockPair&) = delete;
  MockPair& operator=(const MockPair&) = delete;

  [[nodiscard]] const std::shared_ptr<transfer::Engine>& left_engine() const {
    return sides_[0].engine;
  }
  [[nodiscard]] const std::shared_ptr<transfer::Engine>& right_engine() const {
    return sides_[1].engine;
  }
  [[nodiscard]] const EndpointHandle& left() const { return sides_[0].endpoint; }
  [[nodiscard]] const EndpointHandle& right() const { return sides_[1].endpoint; }
  /// Whether the left side loses its peer, whose socket closes now and who talks on, in time.
  [[nodiscard]] bool LosesPeerByItsSocket() {
    remote_socket_.reset();
    return sides_[0].engine->WaitFor([&] { return !left()->endpoint->open(); },
                                     Deadline::After(kLongSeconds));
  }

 private:
  struct Side {
    std::shared_ptr<transfer::Engine> engine;
    transfer::HandshakeLocal local;
    EndpointHandle endpoint;

    void Open(const Side& other, UniqueFd liveness) {
      const transfer::HandshakePeer peer{other.local.hello, other.local.session, other.local.token,
                                         other.local.address};
      endpoint.reset(new cinch_endpoint{engine, nullptr});
      EXPECT_EQ(engine->AddEndpoint(local, peer, std::move(liveness), nullptr, endpoint->endpoint),
                CINCH_OK);
    }
  };

  UniqueFd remote_socket_;
  MockFabric fabric_;
  Side sides_[2];
};

}  // namespace cinch::transfer_test
