// SPDX-License-Identifier: Apache-2.0
// A peer that knows the secrets of the handshake and then need not keep to the rules.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "transfer/mock_pair.h"

namespace cinch::transfer_test {

/// A peer that sends whatever it is told, without an engine.
class Hostile final : public transfer::BackendEvents {
 public:
  explicit Hostile(const transfer::Settings& settings = TestSettings(1),
                   const std::shared_ptr<transfer::DeviceRuntime>& devices = nullptr,
                   const transfer::SegmentCodecFactory& codec = transfer::CreateCpuSegmentCodec) {
    EXPECT_EQ(transfer::Engine::Create(settings, {fabric_.Factory(), codec, devices}, engine_),
              CINCH_OK);
    EXPECT_EQ(engine_->EnsureBackend(""), CINCH_OK);
    EXPECT_EQ(transfer::PrepareHandshake(settings, engine_->BackendAddress(), local_), CINCH_OK);
    backend_ = fabric_.Make(*this);
    transfer::HandshakePeer peer;
    peer.hello = local_.hello;
    peer.address.assign(backend_->address().begin(), backend_->address().end());
    endpoint.reset(new cinch_endpoint{engine_, nullptr});
    EXPECT_EQ(engine_->AddEndpoint(local_, peer, UniqueFd(), nullptr, endpoint->endpoint),
              CINCH_OK);
    EXPECT_EQ(backend_->Open(nullptr, engine_->BackendAddress(), link_), CINCH_OK);
    Send(Make(transfer::WireType::kGreeting));
    EXPECT_TRUE(engine_->WaitFor([&] { return endpoint->endpoint->greeted(); },
                                 Deadline::After(kLongSeconds)));
  }
  ~Hostile() override {
    engine_->Shutdown();
    backend_->Close(std::move(link_), [] {});
    static_cast<void>(backend_->Progress());
  }

  [[nodiscard]] transfer::WireHeader Make(transfer::WireType type) const {
    transfer::WireHeader header;
    header.type = type;
    header.session = local_.session;
    header.token = local_.token;
    return header;
  }
  void Send(const transfer::WireHeader& header, std::vector<uint8_t> payload = {},
            bool large = false) {
    payloads_.push_back(std::move(payload));
    static_cast<void>(backend_->Send(
        link_.get(), {reinterpret_cast<const uint8_t*>(&header), sizeof(header)},
        payloads_.back().data(), payloads_.back().size(), large, [this](Status) { --held_back_; }));
    if (large) ++held_back_;
    static_cast<void>(backend_->Progress());
  }
  /// Whether the engine fetches or drops, in time, all that it was offered.
  [[nodiscard]] bool HasAllBack(Deadline deadline) {
    while (held_back_ > 0 && !deadline.expired()) {
      static_cast<void>(engine_->WaitFor([] { return false; }, Deadline::After(0.001)));
      static_cast<void>(backend_->Progress());
    }
    return held_back_ == 0;
  }
  /// Waits for the connection's end and says why it ended.
  [[nodiscard]] cinch_status End() const {
    static_cast<void>(engine_->WaitFor([&] { return !endpoint->endpoint->open(); },
                                       Deadline::After(kLongSeconds)));
    return cinch_endpoint_state(endpoint.get());
  }
  [[nodiscard]] cinch_engine* engine() {
    handle_.engine = engine_;
    return &handle_;
  }

  void OnArrival(std::span<const uint8_t>, transfer::Payload payload) override {
    if (payload.pending != nullptr) backend_->Drop(payload);
  }
  void OnLinkFailed(transfer::Link*, Status) override {}

  EndpointHandle endpoint;

 private:
  MockFabric fabric_;
  std::shared_ptr<transfer::Engine> engine_;
  cinch_engine handle_;
  transfer::HandshakeLocal local_;
  std::unique_ptr<transfer::Backend> backend_;
  std::unique_ptr<transfer::Link> link_;
  std::deque<std::vector<uint8_t>> payloads_;
  int held_back_ = 0;
};

}  // namespace cinch::transfer_test
