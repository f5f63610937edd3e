// SPDX-License-Identifier: Apache-2.0
#include "transfer/bootstrap.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/log.h"

namespace cinch::transfer {
namespace {

constexpr int kBacklog = 64;
constexpr auto kRetryPause = std::chrono::milliseconds(20);

bool WaitReady(int fd, short events, Deadline deadline) {
  pollfd item{fd, events, 0};
  while (!deadline.expired()) {
    const int ready = ::poll(&item, 1, deadline.remaining_milliseconds());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

// OK, IN_PROGRESS (nobody listens there now), TIMEOUT, ADDRESS.
Status TryConnect(const SocketAddress& address, Deadline deadline, UniqueFd& socket) {
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return CINCH_ERROR_ADDRESS;
  if (::connect(fd.get(), address.get(), address.length_bytes) != 0 && errno != EINPROGRESS) {
    return errno == ECONNREFUSED || errno == EAGAIN ? CINCH_IN_PROGRESS : CINCH_ERROR_ADDRESS;
  }
  if (!WaitReady(fd.get(), POLLOUT, deadline)) return CINCH_ERROR_TIMEOUT;
  int error = 0;
  socklen_t error_bytes = sizeof(error);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &error_bytes);
  if (error == ECONNREFUSED || error == ECONNRESET) return CINCH_IN_PROGRESS;
  if (error != 0) {
    Log(LogLevel::kInfo, "connecting to {}: {}", FormatAddress(address), std::strerror(error));
    return CINCH_ERROR_ADDRESS;
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  socket = std::move(fd);
  return CINCH_OK;
}

}  // namespace

Status CheckAccess(const SocketAddress& address, const Settings& settings) {
  if (IsLoopback(address) || !settings.key.empty()) return CINCH_OK;
  Log(LogLevel::kError,
      "{} is not a loopback address, so the peers must share a key: write at least {} random bytes "
      "to a file that only you can read (openssl rand -hex 32 > cinch.key; chmod 600 cinch.key), "
      "copy it to the peer, and set CINCH_KEY_FILE to its path on both sides",
      FormatAddress(address), kMinKeyBytes);
  return CINCH_ERROR_KEY_REQUIRED;
}

Status OpenListener(const SocketAddress& address, UniqueFd& socket, SocketAddress& bound) {
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  bound.length_bytes = sizeof(bound.storage);
  const bool opened = fd.valid() &&
                      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                      ::bind(fd.get(), address.get(), address.length_bytes) == 0 &&
                      ::listen(fd.get(), kBacklog) == 0 &&
                      ::getsockname(fd.get(), bound.get(), &bound.length_bytes) == 0;
  if (!opened) {
    Log(LogLevel::kError, "cannot listen at {}: {}", FormatAddress(address), std::strerror(errno));
    return CINCH_ERROR_ADDRESS;
  }
  socket = std::move(fd);
  return CINCH_OK;
}

Status OpenConnection(const std::vector<SocketAddress>& addresses, Deadline deadline,
                      UniqueFd& socket, SocketAddress& local) {
  while (true) {
    Status status = CINCH_ERROR_ADDRESS;
    for (const SocketAddress& address : addresses) {
      const Status tried = TryConnect(address, deadline, socket);
      if (tried == CINCH_OK) {
        local.length_bytes = sizeof(local.storage);
        const bool named = ::getsockname(socket.get(), local.get(), &local.length_bytes) == 0;
        return named ? CINCH_OK : CINCH_ERROR_ADDRESS;
      }
      if (tried == CINCH_IN_PROGRESS) status = tried;
    }
    if (deadline.expired()) return CINCH_ERROR_TIMEOUT;
    if (status != CINCH_IN_PROGRESS) return status;
    std::this_thread::sleep_for(kRetryPause);
  }
}

Status HandshakeSocket::Write() {
  const Bytes more = handshake_.TakeOutput();
  output_.insert(output_.end(), more.begin(), more.end());
  while (wants_to_write()) {
    const ssize_t count = ::send(socket_.get(), output_.data() + written_,
                                 output_.size() - written_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      written_ += static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? CINCH_OK : CINCH_ERROR_PEER_LOST;
  }
  output_.clear();
  written_ = 0;
  return CINCH_OK;
}

Status HandshakeSocket::Advance() {
  Status status = Write();
  while (status == CINCH_OK) {
    std::array<uint8_t, 4096> buffer{};
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count == 0) return CINCH_ERROR_PEER_LOST;
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? CINCH_IN_PROGRESS : CINCH_ERROR_PEER_LOST;
    }
    const Status fed = handshake_.Feed(ByteView(buffer).first(static_cast<size_t>(count)));
    status = Write();
    if (fed == CINCH_OK) {
      // The last word may still have to go out: everything fits the socket's buffer.
      return status == CINCH_OK && !wants_to_write() ? CINCH_OK : CINCH_ERROR_PEER_LOST;
    }
    if (fed != CINCH_IN_PROGRESS) return fed;
  }
  return status;
}

void HandshakeSocket::Refuse(Status reason) {
  const Bytes message = BuildRefuse(reason);
  // Best effort: the peer also notices the connection's end.
  static_cast<void>(
      ::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Status RunHandshake(HandshakeSocket& session, Deadline deadline) {
  while (true) {
    const Status status = session.Advance();
    if (status != CINCH_IN_PROGRESS) return status;
    const auto events = static_cast<short>(POLLIN | (session.wants_to_write() ? POLLOUT : 0));
    if (!WaitReady(session.fd(), events, deadline)) return CINCH_ERROR_TIMEOUT;
  }
}

}  // namespace cinch::transfer
