// SPDX-License-Identifier: Apache-2.0
#include "transfer/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <filesystem>
#include <memory>

#include "base/log.h"
#include "base/text.h"

namespace cinch::transfer {
namespace {

constexpr uint64_t kMaxPort = 65535;

const sockaddr_in& AsV4(const sockaddr* address) {
  return *reinterpret_cast<const sockaddr_in*>(address);
}
const sockaddr_in6& AsV6(const sockaddr* address) {
  return *reinterpret_cast<const sockaddr_in6*>(address);
}

bool SameHost(const sockaddr* left, const sockaddr* right) {
  if (left->sa_family != right->sa_family) return false;
  if (left->sa_family == AF_INET) {
    return AsV4(left).sin_addr.s_addr == AsV4(right).sin_addr.s_addr;
  }
  if (left->sa_family != AF_INET6) return false;
  return std::memcmp(&AsV6(left).sin6_addr, &AsV6(right).sin6_addr, sizeof(in6_addr)) == 0;
}

// "mlx5_0:1" for an interface that is a port of an RDMA device.
std::string RdmaPort(const std::string& interface) {
  std::error_code error;
  const std::filesystem::path folder = "/sys/class/net/" + interface + "/device/infiniband";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    return entry.path().filename().string() + ":1";
  }
  return {};
}

// A loopback device may lack the very address, e.g. 127.0.0.2.
std::string InterfaceOf(const SocketAddress& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr != nullptr && SameHost(each->ifa_addr, address.get())) return each->ifa_name;
  }
  return IsLoopback(address) ? "lo" : "";
}

}  // namespace

Status ParseHostPort(std::string_view text, HostPort& address) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return CINCH_ERROR_ADDRESS;
  const std::string_view port = text.substr(colon + 1);
  const auto number = ParseUnsigned(port);
  if (!number || *number > kMaxPort) return CINCH_ERROR_ADDRESS;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return CINCH_ERROR_ADDRESS;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return CINCH_ERROR_ADDRESS;  // An IPv6 address without brackets: its port is anybody's guess.
  }
  address = {std::string(host), std::string(port)};
  return CINCH_OK;
}

Status Resolve(const HostPort& address, std::vector<SocketAddress>& results) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &list);
  if (failure != 0) {
    Log(LogLevel::kError, "{}: {}", address.host, ::gai_strerror(failure));
    return CINCH_ERROR_ADDRESS;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  results.clear();
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (each->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress result;
    std::memcpy(&result.storage, each->ai_addr, each->ai_addrlen);
    result.length_bytes = each->ai_addrlen;
    results.push_back(result);
  }
  return results.empty() ? CINCH_ERROR_ADDRESS : CINCH_OK;
}

bool IsLoopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    constexpr uint32_t kLoopbackNetwork = 127;
    return ntohl(AsV4(address.get()).sin_addr.s_addr) >> 24 == kLoopbackNetwork;
  }
  if (address.storage.ss_family != AF_INET6) return false;
  const in6_addr& host = AsV6(address.get()).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&host) != 0;
}

std::string FormatAddress(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.storage.ss_family == AF_INET) {
    const sockaddr_in& v4 = AsV4(address.get());
    ::inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
    return fmt::format("{}:{}", host, ntohs(v4.sin_port));
  }
  const sockaddr_in6& v6 = AsV6(address.get());
  ::inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
  return fmt::format("[{}]:{}", host, ntohs(v6.sin6_port));
}

std::string DevicesOf(const SocketAddress& address) {
  const std::string interface = InterfaceOf(address);
  if (interface.empty()) return {};
  const std::string rdma = RdmaPort(interface);
  return rdma.empty() ? interface : rdma + "," + interface;
}

}  // namespace cinch::transfer
