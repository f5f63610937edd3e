// SPDX-License-Identifier: Apache-2.0
// Two processes: one sends a tensor, the other receives it. Shows the calls, what travelled, and
// what the policy thought. (With memory of a GPU the calls are the same: give its address, and the
// stream in the options.)
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "cinch/transfer.h"

namespace {

constexpr uint64_t kBytes = uint64_t{64} << 20;
constexpr double kSeconds = 30;

bool Good(const char* what, cinch_status status) {
  if (status == CINCH_OK) return true;
  std::fprintf(stderr, "%s: %s\n", what, cinch_status_text(status));
  return false;
}

/// bf16 values of N(0, 0.02), the same in both processes.
std::vector<uint16_t> Tensor() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<uint16_t> values(kBytes / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    // A million of them are enough; the example should not take long to start.
    constexpr size_t kDrawn = size_t{1} << 20;
    if (i >= kDrawn) {
      values[i] = values[i - kDrawn];
      continue;
    }
    const float value = normal(random);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    values[i] = static_cast<uint16_t>(bits >> 16);
  }
  return values;
}

cinch_transfer_options Options() {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.dtype = CINCH_DTYPE_BF16;
  options.name = "weights";
  return options;
}

int Receive(int address_pipe) {
  char address[64] = {};
  if (::read(address_pipe, address, sizeof(address)) <= 0) return 1;
  cinch_engine* engine = nullptr;
  cinch_endpoint* endpoint = nullptr;
  cinch_operation* operation = nullptr;
  std::vector<uint16_t> tensor(kBytes / 2);
  const cinch_transfer_options options = Options();
  bool good = Good("engine", cinch_engine_create(nullptr, &engine)) &&
              Good("connect", cinch_connect(engine, address, kSeconds, &endpoint)) &&
              Good("recv", cinch_recv(endpoint, tensor.data(), kBytes, &options, &operation)) &&
              Good("recv", cinch_wait(operation, kSeconds));
  good = good && tensor == Tensor();
  std::printf("received: %s\n", good ? "the same bytes" : "SOMETHING ELSE");
  cinch_operation_release(operation);
  cinch_endpoint_release(endpoint);
  cinch_engine_destroy(engine);
  return good ? 0 : 1;
}

bool Send(cinch_endpoint* endpoint) {
  const std::vector<uint16_t> tensor = Tensor();
  cinch_operation* operation = nullptr;
  const cinch_transfer_options options = Options();
  cinch_transfer_stats stats{};
  stats.struct_size = sizeof(stats);
  const bool good =
      Good("send", cinch_send(endpoint, tensor.data(), kBytes, &options, &operation)) &&
      Good("send", cinch_wait(operation, kSeconds)) &&
      Good("statistics", cinch_operation_get_stats(operation, &stats));
  if (good) {
    const auto size = static_cast<double>(kBytes);
    std::printf(
        "sent: %.1f MB in %.1f ms, %.3f of it on the wire, %llu segments compressed, %llu "
        "raw\n",
        size * 1e-6, stats.elapsed_seconds * 1e3, static_cast<double>(stats.wire_bytes) / size,
        static_cast<unsigned long long>(stats.compressed_segments),
        static_cast<unsigned long long>(stats.raw_segments));
  }
  cinch_operation_release(operation);
  return good;
}

}  // namespace

int main() {
  int address_pipe[2];
  if (::pipe(address_pipe) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) return Receive(address_pipe[0]);
  cinch_engine* engine = nullptr;
  cinch_listener* listener = nullptr;
  cinch_endpoint* endpoint = nullptr;
  char address[64] = {};
  bool good = Good("engine", cinch_engine_create(nullptr, &engine)) &&
              Good("listen", cinch_listen(engine, "127.0.0.1:0", &listener)) &&
              Good("address", cinch_listener_address(listener, address, sizeof(address)));
  good = good && ::write(address_pipe[1], address, sizeof(address)) == sizeof(address);
  good = good && Good("accept", cinch_accept(listener, kSeconds, &endpoint)) && Send(endpoint);
  int status = 0;
  ::close(address_pipe[1]);
  ::waitpid(child, &status, 0);
  cinch_endpoint_release(endpoint);
  cinch_listener_release(listener);
  cinch_engine_destroy(engine);
  return good && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
