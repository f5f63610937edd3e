// SPDX-License-Identifier: Apache-2.0
#include "transfer/mock_fabric.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

#include "base/unique_fd.h"

namespace cinch::transfer_test {

using transfer::Completion;
using transfer::Link;
using transfer::Payload;
using transfer::WireHeader;

namespace {

class MockLink final : public Link {
 public:
  explicit MockLink(uint64_t peer) : peer_(peer) {}
  [[nodiscard]] std::string Describe() const override { return "mock"; }
  const uint64_t peer_;
  bool failed_ = false;
  bool broken_ = false;  // Nothing gets through any more, though nobody knows it yet.
};

}  // namespace

class MockBackend final : public transfer::Backend {
 public:
  MockBackend(MockFabric& fabric, transfer::BackendEvents& events, uint64_t address)
      : fabric_(fabric), events_(events), id_(address), event_(::eventfd(0, EFD_NONBLOCK)) {
    address_.resize(sizeof(address));
    std::memcpy(address_.data(), &address, sizeof(address));
  }
  ~MockBackend() override {
    const std::lock_guard lock(fabric_.mutex_);
    fabric_.backends_.erase(id_);
    std::erase_if(fabric_.held_, [&](const auto& item) { return item.second.sender == id_; });
  }

  [[nodiscard]] std::span<const uint8_t> address() const override { return address_; }

  [[nodiscard]] Status Open(std::unique_ptr<transfer::Port> /*port*/, std::span<const uint8_t> peer,
                            std::unique_ptr<Link>& link) override {
    uint64_t id = 0;
    if (peer.size() != sizeof(id)) return CINCH_ERROR_TRANSPORT;
    std::memcpy(&id, peer.data(), sizeof(id));
    link = std::make_unique<MockLink>(id);
    links_.insert(link.get());
    return CINCH_OK;
  }

  [[nodiscard]] Status Send(Link* link, std::span<const uint8_t> header, const void* payload,
                            uint64_t bytes, bool large, Completion done) override {
    auto* mock = static_cast<MockLink*>(link);
    if (mock->failed_) return CINCH_ERROR_PEER_LOST;
    const std::lock_guard lock(fabric_.mutex_);
    Arrival arrival;
    arrival.header.assign(header.begin(), header.end());
    Fate fate = Fate::kDeliver;
    if (fabric_.faults_.on_send && header.size() == sizeof(WireHeader)) {
      WireHeader changed;
      std::memcpy(&changed, header.data(), sizeof(changed));
      fate = fabric_.faults_.on_send(id_, changed);
      std::memcpy(arrival.header.data(), &changed, sizeof(changed));
    }
    if (fate == Fate::kFailLink) failing_.push_back(mock);
    mock->broken_ |= fate == Fate::kFailLink;
    arrival.bytes = bytes;
    if (large) {
      arrival.token = fabric_.next_token_++;
      fabric_.held_[arrival.token] = {id_, payload, bytes, std::move(done)};
    } else if (bytes > 0) {
      const auto* first = static_cast<const uint8_t*>(payload);
      arrival.payload.assign(first, first + bytes);
    }
    const auto peer = fabric_.backends_.find(mock->peer_);
    if (fate == Fate::kDeliver && !mock->broken_ && peer != fabric_.backends_.end()) {
      arrival.delay = peer->second->NextDelay();
      peer->second->arrivals_.push_back(std::move(arrival));
      peer->second->Signal();
    }
    Signal();
    return large ? CINCH_IN_PROGRESS : CINCH_OK;
  }

  [[nodiscard]] Status Fetch(const Payload& payload, void* destination, Completion done) override {
    const std::lock_guard lock(fabric_.mutex_);
    const auto found = fabric_.held_.find(reinterpret_cast<uintptr_t>(payload.pending));
    if (found == fabric_.held_.end()) return CINCH_ERROR_PEER_LOST;
    if (found->second.bytes > 0) {
      std::memcpy(destination, found->second.data, found->second.bytes);
    }
    if (fabric_.faults_.on_fetch) {
      fabric_.faults_.on_fetch(static_cast<uint8_t*>(destination), found->second.bytes);
    }
    Finish(found);
    completions_.push_back({std::move(done), CINCH_OK, NextDelay()});
    Signal();
    return CINCH_IN_PROGRESS;
  }

  void Drop(const Payload& payload) override {
    const std::lock_guard lock(fabric_.mutex_);
    const auto found = fabric_.held_.find(reinterpret_cast<uintptr_t>(payload.pending));
    if (found != fabric_.held_.end()) Finish(found);
  }

  void Close(std::unique_ptr<Link> link, std::function<void()> closed) override {
    const std::lock_guard lock(fabric_.mutex_);
    links_.erase(link.get());
    std::erase(failing_, static_cast<MockLink*>(link.get()));
    for (auto item = fabric_.held_.begin(); item != fabric_.held_.end();) {
      if (item->second.sender != id_) {
        ++item;
        continue;
      }
      completions_.push_back({std::move(item->second.done), CINCH_ERROR_PEER_LOST, 0});
      item = fabric_.held_.erase(item);
    }
    closing_.push_back(std::move(closed));
    Signal();
  }

  bool Progress() override {
    std::vector<Arrival> arrivals;
    std::vector<Finished> completions;
    std::vector<MockLink*> failing;
    std::vector<std::function<void()>> closing;
    {
      const std::lock_guard lock(fabric_.mutex_);
      eventfd_t count = 0;
      static_cast<void>(::eventfd_read(event_.get(), &count));
      // Order is kept: what is not due holds up what came later.
      while (!arrivals_.empty() && --arrivals_.front().delay < 0) {
        arrivals.push_back(std::move(arrivals_.front()));
        arrivals_.pop_front();
      }
      while (!completions_.empty() && --completions_.front().delay < 0) {
        completions.push_back(std::move(completions_.front()));
        completions_.pop_front();
      }
      failing.swap(failing_);
      closing.swap(closing_);
      if (!arrivals_.empty() || !completions_.empty()) Signal();
    }
    for (Finished& each : completions) {
      if (each.done) each.done(each.status);
    }
    for (const Arrival& each : arrivals) {
      Payload payload;
      payload.bytes = each.bytes;
      payload.pending = reinterpret_cast<void*>(each.token);
      if (each.token == 0) payload.data = each.payload.data();
      events_.OnArrival(each.header, payload);
    }
    for (MockLink* link : failing) {
      if (!links_.contains(link)) continue;
      link->failed_ = true;
      events_.OnLinkFailed(link, CINCH_ERROR_PEER_LOST);
    }
    for (const auto& closed : closing) closed();
    return !arrivals.empty() || !completions.empty() || !failing.empty() || !closing.empty();
  }

  [[nodiscard]] bool needs_polling() const override { return false; }
  [[nodiscard]] int event_fd() const override { return event_.get(); }
  [[nodiscard]] bool Arm() override {
    const std::lock_guard lock(fabric_.mutex_);
    return !fabric_.faults_.never_rests && arrivals_.empty() && completions_.empty() &&
           failing_.empty() && closing_.empty();
  }

 private:
  struct Arrival {
    std::vector<uint8_t> header;
    std::vector<uint8_t> payload;
    uint64_t bytes = 0;
    uintptr_t token = 0;
    int delay = 0;
  };
  struct Finished {
    Completion done;
    Status status = CINCH_OK;
    int delay = 0;
  };

  // All need the fabric's lock.
  void Signal() { static_cast<void>(::eventfd_write(event_.get(), 1)); }
  int NextDelay() {
    const int most = fabric_.faults_.max_delay;
    return most == 0 ? 0 : static_cast<int>(fabric_.random_() % static_cast<uint64_t>(most + 1));
  }
  void Finish(std::map<uintptr_t, MockFabric::Held>::iterator held) {
    const auto sender = fabric_.backends_.find(held->second.sender);
    if (sender != fabric_.backends_.end()) {
      sender->second->completions_.push_back({std::move(held->second.done), CINCH_OK, 0});
      sender->second->Signal();
    }
    fabric_.held_.erase(held);
  }

  MockFabric& fabric_;
  transfer::BackendEvents& events_;
  const uint64_t id_;
  UniqueFd event_;
  std::vector<uint8_t> address_;
  std::deque<Arrival> arrivals_;
  std::deque<Finished> completions_;
  std::vector<MockLink*> failing_;
  std::vector<std::function<void()>> closing_;
  std::set<Link*> links_;
};

transfer::BackendFactory MockFabric::Factory() {
  return [this](const transfer::BackendOptions& /*options*/, transfer::BackendEvents& events,
                std::unique_ptr<transfer::Backend>& backend) -> Status {
    backend = Make(events);
    return CINCH_OK;
  };
}

std::unique_ptr<transfer::Backend> MockFabric::Make(transfer::BackendEvents& events) {
  const std::lock_guard lock(mutex_);
  const uint64_t address = next_address_++;
  auto backend = std::make_unique<MockBackend>(*this, events, address);
  backends_[address] = backend.get();
  return backend;
}

}  // namespace cinch::transfer_test
