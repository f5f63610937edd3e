// SPDX-License-Identifier: Apache-2.0
// Two processes move data in every way for as long as they are told to, cancel, lose peers and
// queue more than fits; every byte that arrives is compared, and memory must stay flat.
//
//   transfer_soak SECONDS [TRANSPORTS]      scripts/soak runs it for an hour
//
// Where there is a GPU, half of the memory is a device's. Ends with 0 and a line of figures, or
// with 1 and what was wrong.
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "transfer/soak_side.h"

namespace {

using namespace cinch::transfer_test;
using Clock = std::chrono::steady_clock;

// Heaps and transports round up; what is lost with each of thousands of operations shows anyway.
constexpr uint64_t kFlatBytes = uint64_t{24} << 20;
// A peer that was just killed may still be about to be cleared away.
constexpr uint64_t kFlatFiles = 16;

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0;
  uint64_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<uint64_t>(std::distance(begin(files), end(files)));
}

/// Memory and open files at the end against memory when everything had been done once.
class FlatMemory {
 public:
  void Look(uint64_t rounds) {
    constexpr uint64_t kWarmUpRounds = 12;
    if (rounds < kWarmUpRounds) return;
    const uint64_t resident = ResidentBytes();
    const uint64_t device = DeviceBytesInUse();
    const uint64_t files = OpenFiles();
    if (rounds == kWarmUpRounds) {
      resident_ = resident;
      device_ = device;
      files_ = files;
    }
    last_grown_files_ = files > files_ ? files - files_ : 0;
    grown_ = std::max(grown_, resident > resident_ ? resident - resident_ : 0);
    device_grown_ = std::max(device_grown_, device > device_ ? device - device_ : 0);
  }
  void Demand(const char* who) const {
    std::fprintf(stderr,
                 "%s: resident memory grew by %.1f MB, device memory by %.1f MB, open files by "
                 "%llu\n",
                 who, 1e-6 * static_cast<double>(grown_), 1e-6 * static_cast<double>(device_grown_),
                 static_cast<unsigned long long>(last_grown_files_));
    if (CINCH_SOAK_CHECKS_MEMORY && grown_ > kFlatBytes) Die(who, "memory is not flat");
    if (device_grown_ > kFlatBytes) Die(who, "device memory is not flat");
    if (last_grown_files_ > kFlatFiles) Die(who, "files are left open");
  }

 private:
  uint64_t resident_ = 0;
  uint64_t device_ = 0;
  uint64_t grown_ = 0;
  uint64_t device_grown_ = 0;
  uint64_t files_ = 0;
  uint64_t last_grown_files_ = 0;
};

/// Does what it is told until the end.
void RunSecond(const char* transports, int address_fd) {
  Side side(false, transports);
  const std::string line = side.Listen() + '\n';
  if (::write(address_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return;
  side.Accept();
  side.ExchangeRegions();
  side.ShareVersions();
  FlatMemory memory;
  for (uint64_t rounds = 0;; ++rounds) {
    Control control;
    side.Receive(&control, sizeof(control));
    if (control.kind == Control::Kind::kEnd) {
      side.Send(&control, sizeof(control));
      break;
    }
    if (control.kind == Control::Kind::kQueue) side.RunQueue(control.seed);
    if (control.kind == Control::Kind::kBatch) side.RunBatch(control.seed);
    if (control.kind == Control::Kind::kRenew) side.RenewRegion();
    memory.Look(rounds);
  }
  memory.Demand(side.name());
}

void Print(const Figures& figures, double seconds) {
  const auto show = [](const char* name, uint64_t count) {
    std::printf(", %llu %s", static_cast<unsigned long long>(count), name);
  };
  std::printf("soak: %.1f s, %.2f GB", seconds, 1e-9 * static_cast<double>(figures.bytes));
  show("batches", figures.batches);
  show("operations", figures.operations);
  show("blocks", figures.blocks);
  show("versions", figures.versions);
  show("stale descriptions refused", figures.stale);
  show("cancelled", figures.cancelled);
  show("peers killed", figures.lost_peers);
  show("refusals while full", figures.refused_when_full);
  std::printf(", device memory %s\n", HasDevice() ? "too" : "not used");
}

void RunFirst(const char* transports, const std::string& address, double seconds) {
  Side side(true, transports);
  side.Connect(address);
  side.ExchangeRegions();
  side.ShareVersions();
  constexpr uint64_t kQueueEvery = 200;
  constexpr uint64_t kLoseEvery = 20;
  constexpr uint64_t kRenewEvery = 10;
  FlatMemory memory;
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  constexpr uint64_t kLeastRounds = 16;
  for (uint64_t round = 0; round < kLeastRounds || elapsed() < seconds; ++round) {
    Control control{Control::Kind::kBatch, round};
    if (round % kQueueEvery == 1) control.kind = Control::Kind::kQueue;
    if (round % kRenewEvery == 4) control.kind = Control::Kind::kRenew;
    side.Send(&control, sizeof(control));
    if (control.kind == Control::Kind::kQueue) side.RunQueue(round);
    if (control.kind == Control::Kind::kRenew) side.RenewRegion();
    if (control.kind == Control::Kind::kBatch) side.RunBatch(round);
    if (round % kLoseEvery == 2) side.LosePeer();
    memory.Look(round);
  }
  // Who leaves first must know that the other has everything.
  Control end;
  side.Send(&end, sizeof(end));
  side.Receive(&end, sizeof(end));
  memory.Demand(side.name());
  const Figures& figures = side.figures();
  Print(figures, elapsed());
}

/// Sends until it is killed.
[[noreturn]] void RunVictim(const std::string& address, const char* transports) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Side side(true, transports);
  side.Connect(address);
  const std::vector<uint8_t> data = Pattern(1, kLargeBytes);
  while (true) side.Send(data.data(), data.size());
}

/// The other process says where it listens through the pipe.
pid_t StartSecond(const char* self, const char* transports, int address_fd) {
  std::string name = self;
  std::string second = "--second";
  std::string by = transports;
  std::string where = std::to_string(address_fd);
  char* arguments[] = {name.data(), second.data(), by.data(), where.data(), nullptr};
  pid_t pid = -1;
  if (::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) {
    Die("first", "no second process");
  }
  return pid;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count == 4 && std::strcmp(arguments[1], "--victim") == 0) {
    RunVictim(arguments[2], arguments[3]);
  }
  // Large buffers go back to the system at once, so that resident memory means something.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 18);
  if (argument_count == 4 && std::strcmp(arguments[1], "--second") == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunSecond(arguments[2], std::atoi(arguments[3]));
    return 0;
  }
  const double seconds = argument_count > 1 ? std::atof(arguments[1]) : 0;
  const char* transports = argument_count > 2 ? arguments[2] : "tcp";
  if (seconds <= 0) {
    std::fprintf(stderr, "usage: transfer_soak SECONDS [TRANSPORTS]\n");
    return 2;
  }
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) return 1;
  const pid_t child = StartSecond(arguments[0], transports, pipe_fds[1]);
  ::close(pipe_fds[1]);
  std::string address;
  for (char each = 0; ::read(pipe_fds[0], &each, 1) == 1 && each != '\n';) address += each;
  RunFirst(transports, address, seconds);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
