// SPDX-License-Identifier: Apache-2.0
// The other process of the transfer tests. Its arguments are steps, done in order:
//
//   key=TEXT transports=NAME peer_timeout=S gbps=N     settings, before the first of the others
//   listen=ADDRESS      prints "address ADDRESS"
//   accept              takes one connection
//   connect=ADDRESS     prints "connect STATUS"
//   send=SEED:BYTES     sends Pattern(SEED, BYTES), waits; prints "send STATUS"
//   post=SEED:BYTES     likewise, without waiting
//   recv=SEED:BYTES     receives and compares with Pattern(SEED, BYTES); prints "recv STATUS" or
//                       "recv DIFFERENT"
//   fall=SIGNAL         sends CINCH_INLINE_BYTES, and raises the signal while the transport
//                       copies them
//   echo=COUNT          receives 8 bytes and sends them back, so often
//   region=SEED:BYTES   opens a region with that content; prints "region HEX"
//   compare=SEED        waits for a line on standard input, then prints "region SAME" or
//                       "region DIFFERENT" for Pattern(SEED, size of the region)
//   memory              prints "memory KIB": the largest resident size so far
//   touch=SEED:BYTES    makes Pattern(SEED, BYTES) ahead
//   into=SEED:BYTES     receives over what `touch` made, without comparing; prints "into STATUS"
//   print=TEXT          prints TEXT
//   wait                waits for a line on standard input (or its end)
//   exit                ends without closing anything
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cinch/transfer.h"
#include "transfer/pattern.h"

namespace {

using cinch::transfer_test::Pattern;

constexpr double kSeconds = 60;

void Say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// A message in memory that cannot be read to its end: who tries gets `fall_signal` there.
constexpr size_t kPageBytes = 4096;
void* fall_page = nullptr;
int fall_signal = 0;

void Fall(int /*number*/) {
  static_cast<void>(::mprotect(fall_page, kPageBytes, PROT_READ | PROT_WRITE));
  ::kill(::getpid(), fall_signal);
}

const void* MemoryToFallIn(int signal) {
  void* memory =
      ::mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(7);
  fall_page = static_cast<char*>(memory) + kPageBytes;
  fall_signal = signal;
  if (::mprotect(fall_page, kPageBytes, PROT_NONE) != 0) std::exit(7);
  struct sigaction action {};
  action.sa_handler = Fall;
  if (::sigaction(SIGSEGV, &action, nullptr) != 0) std::exit(7);
  return static_cast<char*>(fall_page) - CINCH_INLINE_BYTES / 2;
}

struct Spec {
  uint64_t seed = 0;
  size_t bytes = 0;
};

Spec ParseSpec(const std::string& text) {
  const size_t colon = text.find(':');
  return {std::stoull(text.substr(0, colon)),
          colon == std::string::npos ? 0 : std::stoull(text.substr(colon + 1))};
}

class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    cinch_endpoint_release(endpoint_);
    cinch_listener_release(listener_);
    static_cast<void>(cinch_region_release(region_handle_, kSeconds));
    cinch_engine_destroy(engine_);
    for (cinch_operation* each : posted_) cinch_operation_release(each);
  }

  bool Do(const std::string& step) {
    const size_t equals = step.find('=');
    const std::string name = step.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : step.substr(equals + 1);
    if (Configure(name, value)) return true;
    if (engine_ == nullptr) Start();
    return Connect(name, value) || Move(name, value) || Report(name, value);
  }

 private:
  bool Configure(const std::string& name, const std::string& value) {
    if (name == "key") {
      key_ = value;
    } else if (name == "transports") {
      transports_ = value;
    } else if (name == "peer_timeout") {
      peer_timeout_seconds_ = std::stod(value);
    } else if (name == "gbps") {
      link_gbps_ = std::stod(value);
    } else {
      return false;
    }
    return true;
  }

  void Start() {
    cinch_engine_options options;
    cinch_engine_options_init(&options);
    options.transports = transports_.c_str();
    options.codec_threads = 1;
    options.key = key_.data();
    options.key_bytes = key_.size();
    options.peer_timeout_seconds = peer_timeout_seconds_;
    options.link_gbps = link_gbps_;
    if (cinch_engine_create(&options, &engine_) != CINCH_OK) std::exit(3);
  }

  bool Connect(const std::string& name, const std::string& value) {
    if (name == "listen") {
      if (cinch_listen(engine_, value.c_str(), &listener_) != CINCH_OK) std::exit(4);
      char address[64] = {};
      if (cinch_listener_address(listener_, address, sizeof(address)) != CINCH_OK) std::exit(4);
      Say(std::string("address ") + address);
    } else if (name == "accept") {
      if (cinch_accept(listener_, kSeconds, &endpoint_) != CINCH_OK) std::exit(5);
    } else if (name == "connect") {
      Say(std::string("connect ") +
          cinch_status_name(cinch_connect(engine_, value.c_str(), kSeconds, &endpoint_)));
    } else {
      return false;
    }
    return true;
  }

  bool Move(const std::string& name, const std::string& value) {
    if (name == "send" || name == "post") {
      Send(ParseSpec(value), name == "send");
    } else if (name == "touch") {
      static_cast<void>(Data(ParseSpec(value)));
    } else if (name == "into") {
      ReceiveInto(Data(ParseSpec(value)));
    } else if (name == "fall") {
      SendAndFall(std::stoi(value));
    } else if (name == "recv") {
      Receive(ParseSpec(value));
    } else if (name == "echo") {
      Echo(std::stoi(value));
    } else if (name == "region") {
      OpenRegion(ParseSpec(value));
    } else if (name == "compare") {
      static_cast<void>(std::getchar());
      // Any call that looks into the engine comes after what the engine has written.
      cinch_transfer_stats stats{};
      stats.struct_size = sizeof(stats);
      static_cast<void>(cinch_engine_get_stats(engine_, &stats));
      Say(region_ == Pattern(std::stoull(value), region_.size()) ? "region SAME"
                                                                 : "region DIFFERENT");
    } else {
      return false;
    }
    return true;
  }

  bool Report(const std::string& name, const std::string& value) {
    if (name == "memory") {
      std::ifstream status("/proc/self/status");
      for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmHWM:", 0) == 0) Say("memory " + line.substr(6));
      }
    } else if (name == "print") {
      Say(value);
    } else if (name == "wait") {
      static_cast<void>(std::getchar());
    } else if (name == "exit") {
      _exit(0);
    } else {
      return false;
    }
    return true;
  }

  static cinch_status Finish(cinch_status started, cinch_operation* operation) {
    const cinch_status status = started == CINCH_OK ? cinch_wait(operation, kSeconds) : started;
    cinch_operation_release(operation);
    return status;
  }

  // What is sent and received stays, so that its pages are there before memory is measured.
  std::vector<uint8_t>& Data(const Spec& spec) {
    auto& data = data_[spec.seed];
    if (data.size() != spec.bytes) data = Pattern(spec.seed, spec.bytes);
    return data;
  }

  void Send(const Spec& spec, bool wait) {
    std::vector<uint8_t>& data = Data(spec);
    cinch_transfer_options options;
    cinch_transfer_options_init(&options);
    options.dtype = CINCH_DTYPE_BF16;
    cinch_operation* operation = nullptr;
    const cinch_status started =
        cinch_send(endpoint_, data.data(), data.size(), &options, &operation);
    if (!wait) posted_.push_back(operation);
    if (wait) Say(std::string("send ") + cinch_status_name(Finish(started, operation)));
  }

  void SendAndFall(int signal) {
    cinch_operation* operation = nullptr;
    const cinch_status started =
        cinch_send(endpoint_, MemoryToFallIn(signal), CINCH_INLINE_BYTES, nullptr, &operation);
    Say(std::string("fall ") + cinch_status_name(Finish(started, operation)));
  }

  void ReceiveInto(std::vector<uint8_t>& data) {
    cinch_operation* operation = nullptr;
    const cinch_status started =
        cinch_recv(endpoint_, data.data(), data.size(), nullptr, &operation);
    Say(std::string("into ") + cinch_status_name(Finish(started, operation)));
  }

  void Receive(const Spec& spec) {
    std::vector<uint8_t>& expected = Data(spec);
    std::vector<uint8_t> received(spec.bytes, 0x5A);
    Say("receiving");
    cinch_operation* operation = nullptr;
    const cinch_status started =
        cinch_recv(endpoint_, received.data(), received.size(), nullptr, &operation);
    const cinch_status status = Finish(started, operation);
    const bool same = status != CINCH_OK || received == expected;
    Say(std::string("recv ") + (same ? cinch_status_name(status) : "DIFFERENT"));
  }

  void Echo(int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; ++i) {
      cinch_operation* operation = nullptr;
      cinch_status started = cinch_recv(endpoint_, &value, sizeof(value), nullptr, &operation);
      if (Finish(started, operation) != CINCH_OK) return Say("echo FAILED");
      started = cinch_send(endpoint_, &value, sizeof(value), nullptr, &operation);
      if (Finish(started, operation) != CINCH_OK) return Say("echo FAILED");
    }
    Say("echo OK");
  }

  void OpenRegion(const Spec& spec) {
    region_ = Pattern(spec.seed, spec.bytes);
    cinch_remote_region remote{};
    if (cinch_region_register(engine_, region_.data(), region_.size(),
                              CINCH_REGION_READ | CINCH_REGION_WRITE,
                              &region_handle_) != CINCH_OK ||
        cinch_region_describe(region_handle_, &remote) != CINCH_OK) {
      std::exit(6);
    }
    std::string text = "region ";
    for (const unsigned char byte : remote.descriptor) {
      char digits[3] = {};
      std::snprintf(digits, sizeof(digits), "%02x", byte);
      text += digits;
    }
    Say(text);
  }

  std::string key_;
  std::string transports_ = "tcp";
  double peer_timeout_seconds_ = 0;
  double link_gbps_ = 0;
  cinch_engine* engine_ = nullptr;
  cinch_listener* listener_ = nullptr;
  cinch_endpoint* endpoint_ = nullptr;
  cinch_region* region_handle_ = nullptr;
  std::vector<cinch_operation*> posted_;
  std::map<uint64_t, std::vector<uint8_t>> data_;
  std::vector<uint8_t> region_;
};

}  // namespace

int main(int argument_count, char** arguments) {
  Peer peer;
  for (int i = 1; i < argument_count; ++i) {
    if (!peer.Do(arguments[i])) {
      std::fprintf(stderr, "unknown step: %s\n", arguments[i]);
      return 2;
    }
  }
  return 0;
}
