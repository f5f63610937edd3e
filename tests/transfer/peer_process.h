// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

namespace cinch::transfer_test {

/// A transfer_peer process (see there for the steps). Killed with its owner.
class PeerProcess {
 public:
  explicit PeerProcess(std::vector<std::string> steps) {
    int to_child[2];
    int from_child[2];
    if (::pipe(to_child) != 0 || ::pipe(from_child) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to_child[0], STDIN_FILENO);
      ::dup2(from_child[1], STDOUT_FILENO);
      // UCX would keep the signals of crashes to itself, and a peer that crashes from ending.
      ::setenv("UCX_HANDLE_ERRORS", "none", 1);
      for (const int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) ::close(fd);
      std::vector<char*> arguments = {const_cast<char*>(CINCH_TRANSFER_PEER)};
      for (std::string& step : steps) arguments.push_back(step.data());
      arguments.push_back(nullptr);
      ::execv(CINCH_TRANSFER_PEER, arguments.data());
      ::_exit(127);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    input_ = to_child[1];
    output_ = from_child[0];
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess() {
    Signal(SIGKILL);
    static_cast<void>(Join());
    ::close(input_);
    ::close(output_);
  }

  void Signal(int number) const {
    if (pid_ > 0 && !joined_) ::kill(pid_, number);
  }

  /// Sends the line that a `wait` or `compare` step waits for.
  void Continue() const { static_cast<void>(!::write(input_, "\n", 1)); }

  /// The next line that the peer prints; empty after `seconds` or when it has ended.
  std::string Line(double seconds = 60) {
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
    while (true) {
      const size_t newline = buffer_.find('\n');
      if (newline != std::string::npos) {
        std::string line = buffer_.substr(0, newline);
        buffer_.erase(0, newline + 1);
        return line;
      }
      pollfd item{output_, POLLIN, 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      if (left.count() <= 0 || ::poll(&item, 1, static_cast<int>(left.count())) <= 0) return {};
      char bytes[512];
      const ssize_t count = ::read(output_, bytes, sizeof(bytes));
      if (count <= 0) return {};
      buffer_.append(bytes, static_cast<size_t>(count));
    }
  }

  /// The rest of a line that must begin with `word`; otherwise the whole line in brackets.
  std::string Value(const std::string& word) {
    std::string line = Line();
    if (line.rfind(word + " ", 0) == 0) return line.substr(word.size() + 1);
    return "[" + line + "]";
  }

  /// The exit code, or minus the signal.
  int Join() {
    if (joined_ || pid_ <= 0) return 0;
    joined_ = true;
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  bool joined_ = false;
  std::string buffer_;
};

}  // namespace cinch::transfer_test
