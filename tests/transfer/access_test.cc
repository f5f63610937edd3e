// SPDX-License-Identifier: Apache-2.0
// Who may connect, and what strangers at the port can do: nothing.
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"
#include "transfer/engine_pair.h"
#include "transfer/handshake.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

const char kKey[] = "sixteen bytes or more";
const char kOtherKey[] = "quite another long key";

cinch_engine_options WithKey(const char* key) {
  cinch_engine_options options = DefaultOptions();
  options.handshake_timeout_seconds = 1;
  if (key != nullptr) {
    options.key = key;
    options.key_bytes = std::char_traits<char>::length(key);
  }
  return options;
}

uint16_t PortOf(const std::string& address) {
  return static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
}

UniqueFd RawConnection(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
  return fd;
}

void SendAll(const UniqueFd& fd, const std::vector<uint8_t>& bytes) {
  // The other side may close in the middle, which is fine.
  static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

std::vector<uint8_t> ReadAll(const UniqueFd& fd) {
  std::vector<uint8_t> all;
  uint8_t buffer[1024];
  for (ssize_t count; (count = ::recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    all.insert(all.end(), buffer, buffer + count);
  }
  return all;
}

void ExpectServed(cinch_engine* client, const ListenerHandle& listener) {
  const EndpointHandle left = Connect(client, AddressOf(listener));
  const EndpointHandle right = Accept(listener);
  ASSERT_TRUE(left && right);
  const std::vector<uint8_t> sent = Pattern(1, 300000);
  std::vector<uint8_t> received(sent.size());
  const OperationHandle receive = Receive(right, received.data(), received.size());
  EXPECT_EQ(Wait(Send(left, sent.data(), sent.size())), CINCH_OK);
  EXPECT_EQ(Wait(receive), CINCH_OK);
  EXPECT_EQ(received, sent);
}

cinch_status TryConnect(cinch_engine* engine, const std::string& address, double seconds = 5) {
  cinch_endpoint* endpoint = nullptr;
  const cinch_status status = cinch_connect(engine, address.c_str(), seconds, &endpoint);
  EXPECT_EQ(endpoint != nullptr, status == CINCH_OK);
  cinch_endpoint_release(endpoint);
  return status;
}

TEST(Access, KeysMustAgree) {
  struct Case {
    const char* listener_key;
    const char* client_key;
    cinch_status expected;
  };
  for (const Case& each : {Case{kKey, kKey, CINCH_OK}, Case{nullptr, nullptr, CINCH_OK},
                           Case{kKey, kOtherKey, CINCH_ERROR_AUTHENTICATION},
                           Case{kKey, nullptr, CINCH_ERROR_AUTHENTICATION},
                           Case{nullptr, kKey, CINCH_ERROR_AUTHENTICATION}}) {
    const EngineHandle server = MakeEngine(WithKey(each.listener_key));
    const EngineHandle client = MakeEngine(WithKey(each.client_key));
    const ListenerHandle listener = Listen(server.get());
    EXPECT_EQ(TryConnect(client.get(), AddressOf(listener)), each.expected);
    if (each.expected == CINCH_OK) continue;
    cinch_endpoint* endpoint = nullptr;
    EXPECT_EQ(cinch_accept(listener.get(), 0.05, &endpoint), CINCH_ERROR_TIMEOUT);
    cinch_status reason = CINCH_OK;
    EXPECT_EQ(cinch_listener_refused(listener.get(), &reason), 1u);
    EXPECT_EQ(reason, CINCH_ERROR_AUTHENTICATION);
  }
}

TEST(Access, AShortKeyIsRefused) {
  cinch_engine_options options = DefaultOptions();
  options.key = "short";
  options.key_bytes = 5;
  cinch_engine* engine = nullptr;
  EXPECT_EQ(cinch_engine_create(&options, &engine), CINCH_ERROR_CONFIG);
  EXPECT_EQ(engine, nullptr);
}

TEST(Access, OtherAddressesNeedAKey) {
  const EngineHandle engine = MakeEngine(DefaultOptions());
  cinch_listener* listener = nullptr;
  EXPECT_EQ(cinch_listen(engine.get(), "0.0.0.0:0", &listener), CINCH_ERROR_KEY_REQUIRED);
  EXPECT_EQ(cinch_listen(engine.get(), "[::]:0", &listener), CINCH_ERROR_KEY_REQUIRED);
  EXPECT_EQ(TryConnect(engine.get(), "192.0.2.1:1"), CINCH_ERROR_KEY_REQUIRED);
}

std::string OwnAddress() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  std::string found;
  for (const ifaddrs* each = list; each != nullptr && found.empty(); each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    if (ntohl(address->sin_addr.s_addr) >> 24 == 127) continue;
    char text[INET_ADDRSTRLEN];
    found = ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text));
  }
  ::freeifaddrs(list);
  return found;
}

TEST(Access, OtherAddressesWorkWithAKey) {
  const std::string address = OwnAddress();
  if (address.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  const EngineHandle server = MakeEngine(WithKey(kKey));
  const EngineHandle client = MakeEngine(WithKey(kKey));
  const ListenerHandle listener = Listen(server.get(), (address + ":0").c_str());
  ASSERT_TRUE(listener);
  EXPECT_EQ(AddressOf(listener).rfind(address + ":", 0), 0u);
  ExpectServed(client.get(), listener);
}

TEST(Access, BadAddressesAreErrors) {
  const EngineHandle engine = MakeEngine(WithKey(kKey));
  for (const char* address : {"", "localhost", "1.2.3.4:99999", "::1:5", "[::1:5", "a:b",
                              "no.such.host.invalid:1", "127.0.0.1:-1"}) {
    cinch_listener* listener = nullptr;
    EXPECT_EQ(cinch_listen(engine.get(), address, &listener), CINCH_ERROR_ADDRESS) << address;
    EXPECT_EQ(TryConnect(engine.get(), address), CINCH_ERROR_ADDRESS) << address;
  }
  const ListenerHandle first = Listen(engine.get());
  cinch_listener* second = nullptr;
  EXPECT_EQ(cinch_listen(engine.get(), AddressOf(first).c_str(), &second), CINCH_ERROR_ADDRESS);
}

TEST(Access, NobodyListeningTimesOut) {
  const EngineHandle engine = MakeEngine(DefaultOptions());
  std::string address;
  {
    const ListenerHandle listener = Listen(engine.get());
    address = AddressOf(listener);
  }
  EXPECT_EQ(TryConnect(engine.get(), address, 0.2), CINCH_ERROR_TIMEOUT);
}

TEST(Access, DtypesMustAgree) {
  cinch_engine_options bf16 = DefaultOptions();
  bf16.dtype = CINCH_DTYPE_BF16;
  cinch_engine_options fp32 = DefaultOptions();
  fp32.dtype = CINCH_DTYPE_FP32;
  const EngineHandle server = MakeEngine(bf16);
  const ListenerHandle listener = Listen(server.get());
  EXPECT_EQ(TryConnect(MakeEngine(fp32).get(), AddressOf(listener)), CINCH_ERROR_DTYPE_MISMATCH);
  EXPECT_EQ(TryConnect(MakeEngine(bf16).get(), AddressOf(listener)), CINCH_OK);
  EXPECT_EQ(TryConnect(MakeEngine(DefaultOptions()).get(), AddressOf(listener)), CINCH_OK);
}

transfer::Hello ClientHello() {
  transfer::Settings settings;
  transfer::HandshakeLocal local;
  EXPECT_EQ(transfer::PrepareHandshake(settings, {1}, local), CINCH_OK);
  return local.hello;
}

TEST(Access, OtherVersionsAreRefusedByName) {
  const EngineHandle server = MakeEngine(DefaultOptions());
  const ListenerHandle listener = Listen(server.get());
  transfer::Hello protocol = ClientHello();
  protocol.protocol_min = protocol.protocol_max = 99;
  transfer::Hello format = ClientHello();
  format.format_min = format.format_max = 99;
  for (const transfer::Hello& hello : {protocol, format}) {
    const UniqueFd raw = RawConnection(PortOf(AddressOf(listener)));
    SendAll(raw, transfer::BuildHello(hello));
    EXPECT_EQ(ReadAll(raw), transfer::BuildRefuse(CINCH_ERROR_VERSION_MISMATCH));
  }
}

std::vector<uint8_t> RandomBytes(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> data(bytes);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  return data;
}

TEST(Access, GarbageAndSilenceAtThePortDoNoHarm) {
  const EngineHandle server = MakeEngine(WithKey(kKey));
  const EngineHandle client = MakeEngine(WithKey(kKey));
  const ListenerHandle listener = Listen(server.get());
  const uint16_t port = PortOf(AddressOf(listener));
  std::vector<UniqueFd> strangers;
  for (uint64_t i = 0; i < 100; ++i) {
    strangers.push_back(RawConnection(port));
    if (i % 3 == 0) SendAll(strangers.back(), RandomBytes(1 + i * 37, i));
    // A good beginning that never goes on, and one that goes on wrongly.
    if (i % 3 == 1) SendAll(strangers.back(), transfer::BuildHello(ClientHello()));
    if (i % 6 == 1) SendAll(strangers.back(), RandomBytes(200, i));
  }
  const auto begin = std::chrono::steady_clock::now();
  ExpectServed(client.get(), listener);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_GT(cinch_listener_refused(listener.get(), nullptr), 0u);
  strangers.clear();
  ExpectServed(client.get(), listener);
}

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// What is opened for one peer over shared memory goes when its handshake comes to nothing, or when
// its connection ends.
TEST(Access, NothingIsKeptForPeersThatAreGone) {
  cinch_engine_options options = DefaultOptions();
  options.transports = "posix,self";
  const EngineHandle server = MakeEngine(options);
  const EngineHandle client = MakeEngine(options);
  const ListenerHandle listener = Listen(server.get());
  ExpectServed(client.get(), listener);
  const size_t before = OpenDescriptors();
  for (int i = 0; i < 20; ++i) {
    const UniqueFd stranger = RawConnection(PortOf(AddressOf(listener)));
    SendAll(stranger, transfer::BuildHello(ClientHello()));
    SendAll(stranger, transfer::BuildProof({}));
    uint8_t some = 0;
    EXPECT_EQ(::recv(stranger.get(), &some, 1, 0), 1);
  }
  for (int i = 0; i < 20; ++i) ExpectServed(client.get(), listener);
  const auto settled = [&] { return OpenDescriptors() <= before; };
  for (int i = 0; i < 3000 && !settled(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(OpenDescriptors(), before);
}

// The ports on which this process listens, by the inodes of its sockets.
std::set<uint16_t> ListeningPorts() {
  std::set<std::string> inodes;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return {};
  while (const dirent* entry = ::readdir(folder)) {
    char target[64] = {};
    const std::string link = std::string("/proc/self/fd/") + entry->d_name;
    if (::readlink(link.c_str(), target, sizeof(target) - 1) <= 0) continue;
    const std::string text = target;
    if (text.rfind("socket:[", 0) == 0) inodes.insert(text.substr(8, text.size() - 9));
  }
  ::closedir(folder);
  std::set<uint16_t> ports;
  std::ifstream table("/proc/self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    if (state != "0A" || !inodes.contains(inode)) continue;
    ports.insert(static_cast<uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
    EXPECT_EQ(local.substr(0, 8), "0100007F") << "listens beyond loopback";
  }
  return ports;
}

// The transport has a port of its own, which must bear strangers as well.
TEST(Access, GarbageAtTheTransportsPortsDoesNoHarm) {
  const EngineHandle server = MakeEngine(DefaultOptions());
  const EngineHandle client = MakeEngine(DefaultOptions());
  const ListenerHandle listener = Listen(server.get());
  ExpectServed(client.get(), listener);
  const std::set<uint16_t> ports = ListeningPorts();
  EXPECT_GE(ports.size(), 2u);
  std::vector<UniqueFd> strangers;
  for (const uint16_t port : ports) {
    for (uint64_t i = 0; i < 20; ++i) {
      strangers.push_back(RawConnection(port));
      if (i > 0) SendAll(strangers.back(), RandomBytes(i * 100, i + port));
    }
  }
  ExpectServed(client.get(), listener);
  strangers.clear();
  ExpectServed(client.get(), listener);
}

TEST(Access, ListenersEndInAnyOrder) {
  EngineHandle server = MakeEngine(DefaultOptions());
  const EngineHandle client = MakeEngine(DefaultOptions());
  ListenerHandle listener = Listen(server.get());
  const EndpointHandle unaccepted = Connect(client.get(), AddressOf(listener));
  server.reset();
  cinch_endpoint* endpoint = nullptr;
  EXPECT_EQ(cinch_accept(listener.get(), 5, &endpoint), CINCH_ERROR_CANCELLED);
  listener.reset();
  for (int i = 0; i < 1000 && cinch_endpoint_state(unaccepted.get()) == CINCH_OK; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(cinch_endpoint_state(unaccepted.get()), CINCH_ERROR_PEER_LOST);
}

}  // namespace
}  // namespace cinch::transfer_test
