// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace cinch::transfer {

/// The two parts of "HOST:PORT"; the host is empty in ":PORT".
struct HostPort {
  std::string host;
  std::string port;
};

/// Splits "HOST:PORT" or "[IPV6]:PORT". The port must be a number up to 65535.
/// OK, ADDRESS.
[[nodiscard]] Status ParseHostPort(std::string_view text, HostPort& address);

/// One socket address of a host.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length_bytes = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Looks the host up. At least one result when OK.
/// OK, ADDRESS.
[[nodiscard]] Status Resolve(const HostPort& address, std::vector<SocketAddress>& results);

/// Whether it is 127.0.0.0/8 or ::1.
[[nodiscard]] bool IsLoopback(const SocketAddress& address);

/// "127.0.0.1:4000" or "[::1]:4000".
[[nodiscard]] std::string FormatAddress(const SocketAddress& address);

/// The network devices that UCX may use for connections from or to the local `address`: the name
/// of the interface that has it, and, where that interface belongs to an RDMA device, the device's
/// port. Empty when no interface has the address (e.g. 0.0.0.0): then all may be used.
[[nodiscard]] std::string DevicesOf(const SocketAddress& address);

}  // namespace cinch::transfer
