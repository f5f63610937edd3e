// SPDX-License-Identifier: Apache-2.0
/// The fused collectives between two processes over CUDA IPC, which take turns on the GPU: that
/// results are right, and that the survivor of a killed process gets an error and starts anew.
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "cinch/fused.h"
#include "support/fused_group.h"

extern char** environ;

namespace cinch::test {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr const char* kChild = "--fused-child=";

bool WriteAll(int fd, const void* bytes, size_t count) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  while (count > 0) {
    const ssize_t written = send(fd, at, count, MSG_NOSIGNAL);
    if (written <= 0) return false;
    at += written;
    count -= static_cast<size_t>(written);
  }
  return true;
}
bool ReadAll(int fd, void* bytes, size_t count) {
  auto* at = static_cast<uint8_t*>(bytes);
  while (count > 0) {
    const ssize_t got = read(fd, at, count);
    if (got <= 0) return false;
    at += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}

struct Pipe {
  int fd;
  uint32_t rank;
};

int GatherOverPipe(void* context, const void* send, void* receive, size_t bytes) {
  const auto* pipe = static_cast<const Pipe*>(context);
  auto* all = static_cast<uint8_t*>(receive);
  std::memcpy(all + pipe->rank * bytes, send, bytes);
  const bool good =
      WriteAll(pipe->fd, send, bytes) && ReadAll(pipe->fd, all + (1 - pipe->rank) * bytes, bytes);
  return good ? 0 : 1;
}

cinch_fused* Create(Pipe* pipe, double timeout_seconds) {
  cinch_fused_options options;
  cinch_fused_options_init(&options);
  options.rank = pipe->rank;
  options.ranks = 2;
  options.max_ctas = 16;
  options.timeout_seconds = timeout_seconds;
  options.min_coded_bytes = 0;
  options.all_gather = &GatherOverPipe;
  options.context = pipe;
  cinch_fused* fused = nullptr;
  const cinch_status status = cinch_fused_create(&options, &fused);
  EXPECT_EQ(status, CINCH_OK) << cinch_status_name(status);
  return fused;
}

/// One all-gather; whether its result was right. `*status` is what the kernels said.
bool GatherOnce(cinch_fused* fused, uint32_t rank, uint64_t seed, cinch_status* status) {
  Memory send(kBytes);
  Memory receive(2 * kBytes);
  const Bytes messages[2] = {MakeMessage(kBytes, Kind::kMixed, 2 * seed + 1),
                             MakeMessage(kBytes, Kind::kGaussian, 2 * seed + 2)};
  send.Upload(messages[rank].data(), kBytes);
  *status =
      cinch_fused_all_gather(fused, send.data(), receive.data(), kBytes, CINCH_DTYPE_BF16, nullptr);
  if (*status != CINCH_OK || cudaStreamSynchronize(nullptr) != cudaSuccess) return false;
  *status = cinch_fused_check(fused, nullptr);
  if (*status != CINCH_OK) return false;
  const Bytes got = receive.Download();
  return std::memcmp(got.data(), messages[0].data(), kBytes) == 0 &&
         std::memcmp(got.data() + kBytes, messages[1].data(), kBytes) == 0;
}

/// A child is a rank that gathers `rounds` times; or for ever, until a signal kills it.
int RunChild(const std::string& arguments) {
  const size_t comma = arguments.find(',');
  Pipe pipe{std::atoi(arguments.c_str()), 1};
  const int rounds = std::atoi(arguments.c_str() + comma + 1);
  UseDeviceOf(1);
  cinch_fused* fused = Create(&pipe, rounds == 0 ? 10 : 20);
  if (fused == nullptr) return 2;
  for (int round = 0; rounds == 0 || round < rounds; ++round) {
    cinch_status status = CINCH_OK;
    if (!GatherOnce(fused, 1, static_cast<uint64_t>(round), &status)) return 3;
  }
  uint8_t done = 1;
  const bool ended = WriteAll(pipe.fd, &done, 1) && ReadAll(pipe.fd, &done, 1);
  cinch_fused_destroy(fused);
  return ended ? 0 : 4;
}

class Child {
 public:
  explicit Child(int rounds) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pipe_ = {fds[0], 0};
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    std::string self = "/proc/self/exe";
    std::string argument = kChild + std::to_string(fds[1]) + "," + std::to_string(rounds);
    char* arguments[] = {self.data(), argument.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, self.c_str(), nullptr, nullptr, arguments, environ), 0);
    close(fds[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    close(pipe_.fd);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Pipe* pipe() { return &pipe_; }
  void Kill() const { kill(pid_, SIGKILL); }
  int Wait() {
    int state = 0;
    waitpid(pid_, &state, 0);
    pid_ = -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 100;
  }

 private:
  Pipe pipe_{};
  pid_t pid_ = -1;
};

void GatherWithAChild(int rounds) {
  Child child(rounds);
  cinch_fused* fused = Create(child.pipe(), 20);
  ASSERT_NE(fused, nullptr);
  for (int round = 0; round < rounds; ++round) {
    cinch_status status = CINCH_OK;
    EXPECT_TRUE(GatherOnce(fused, 0, static_cast<uint64_t>(round), &status))
        << cinch_status_name(status);
  }
  uint8_t done = 1;
  EXPECT_TRUE(ReadAll(child.pipe()->fd, &done, 1) && WriteAll(child.pipe()->fd, &done, 1));
  EXPECT_EQ(child.Wait(), 0);
  cinch_fused_destroy(fused);
}

TEST(FusedProcessTest, TwoProcessesGather) { GatherWithAChild(5); }

TEST(FusedProcessTest, ASurvivorGetsAnErrorAndStartsAnew) {
  const char* text = std::getenv("CINCH_FUSED_TEST_KILLS");
  const int kills = text == nullptr ? 3 : std::atoi(text);
  Numbers numbers(7);
  for (int i = 0; i < kills; ++i) {
    Child child(0);
    cinch_fused* fused = Create(child.pipe(), 0.3);
    ASSERT_NE(fused, nullptr);
    const auto microseconds = static_cast<int64_t>(numbers.Below(60000));
    std::thread killer([&child, microseconds] {
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
      child.Kill();
    });
    cinch_status status = CINCH_OK;
    for (uint64_t round = 0; GatherOnce(fused, 0, round, &status); ++round) {
    }
    killer.join();
    EXPECT_TRUE(status == CINCH_ERROR_TIMEOUT || status == CINCH_ERROR_PEER_LOST)
        << "kill " << i << ": " << cinch_status_name(status) << " "
        << cudaGetErrorString(cudaGetLastError());
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cinch_fused_destroy(fused);
    if (HasFailure()) return;
  }
  GatherWithAChild(2);
}

}  // namespace
}  // namespace cinch::test

int main(int argc, char** argv) {
  const std::string prefix = cinch::test::kChild;
  if (argc == 2 && std::string(argv[1]).rfind(prefix, 0) == 0) {
    return cinch::test::RunChild(std::string(argv[1]).substr(prefix.size()));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
