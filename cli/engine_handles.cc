// SPDX-License-Identifier: Apache-2.0
#include "engine_handles.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <fstream>
#include <vector>

#include "interrupt.h"

namespace cinch::cli {
namespace {

/// Short enough for a smooth bar and a prompt end, long enough to cost nothing.
constexpr double kSliceSeconds = 0.1;
constexpr double kDefaultConnectSeconds = 30;
constexpr size_t kMaxKeyBytes = size_t{64} << 10;

Outcome ReadKey(const std::string& path, std::vector<char>* key) {
  std::ifstream file(path, std::ios::binary);
  key->resize(kMaxKeyBytes + 1);
  file.read(key->data(), static_cast<std::streamsize>(key->size()));
  const auto size = static_cast<size_t>(file.gcount());
  if (!file.is_open() || size == 0 || size > kMaxKeyBytes) {
    return Refuse(ExitCode::kUsage, fmt::format("cannot read a key from '{}'; make one with "
                                                "`head -c 32 /dev/urandom | base64 > FILE`",
                                                path));
  }
  key->resize(size);
  // An editor's last newline is not part of the key.
  while (!key->empty() && (key->back() == '\n' || key->back() == '\r')) {
    key->pop_back();
  }
  return {};
}

cinch_policy PolicyOf(const std::string& name) {
  if (name == "raw") {
    return CINCH_POLICY_RAW;
  }
  if (name == "compressed") {
    return CINCH_POLICY_COMPRESSED;
  }
  return name == "auto" ? CINCH_POLICY_AUTO : CINCH_POLICY_DEFAULT;
}

}  // namespace

void AddLinkOptions(CLI::App* command, LinkOptions* options) {
  command
      ->add_option("--policy", options->policy,
                   "auto: a cost model decides; raw; compressed. Default: CINCH_POLICY or auto")
      ->check(CLI::IsMember({"auto", "raw", "compressed"}));
  command
      ->add_option("--link-gbps", options->link_gbps,
                   "Slow sending down to this many 10^9 bits a second")
      ->check(CLI::Range(0.0, 100000.0));
  command->add_option("--key-file", options->key_file,
                      "File with the shared key; needed for addresses other than loopback. "
                      "Default: CINCH_KEY or CINCH_KEY_FILE");
  command
      ->add_option("--timeout", options->timeout_seconds,
                   "Seconds to wait for a connection, and for a transfer that does not move")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_option("--threads", options->threads, "Codec threads; default: half the cores")
      ->check(CLI::Range(0, 1024));
  command->add_option("--transports", options->transports,
                      "UCX transports, e.g. tcp or posix,cma,self; default: the best there are");
}

Outcome CreateEngine(const LinkOptions& options, EngineHandle* engine) {
  std::vector<char> key;
  if (!options.key_file.empty()) {
    if (Outcome outcome = ReadKey(options.key_file, &key); !outcome.ok()) {
      return outcome;
    }
  }
  cinch_engine_options engine_options;
  cinch_engine_options_init(&engine_options);
  engine_options.policy = PolicyOf(options.policy);
  engine_options.codec_threads = options.threads;
  engine_options.link_gbps = options.link_gbps;
  engine_options.operation_timeout_seconds = options.timeout_seconds;
  engine_options.key = key.empty() ? nullptr : key.data();
  engine_options.key_bytes = key.size();
  engine_options.transports = options.transports.empty() ? nullptr : options.transports.c_str();
  cinch_engine* created = nullptr;
  const Status status = cinch_engine_create(&engine_options, &created);
  engine->reset(created);
  switch (status) {
    case CINCH_OK:
      return {};
    case CINCH_ERROR_UNSUPPORTED:
      return FromStatus(status, "this build cannot transfer; build it with UCX (libucx-dev)");
    case CINCH_ERROR_CONFIG:
      return FromStatus(status,
                        "a CINCH_ variable has a value that it does not take; `cinch info` "
                        "shows them");
    case CINCH_ERROR_INVALID_ARGUMENT:
      return FromStatus(status, key.empty() || key.size() >= 16
                                    ? "an option of the transfer engine is not valid"
                                    : "the key is too short; it needs at least 16 bytes");
    default:
      return FromStatus(status, {});
  }
}

double ConnectSeconds(const LinkOptions& options) {
  return options.timeout_seconds > 0 ? options.timeout_seconds : kDefaultConnectSeconds;
}

Outcome Listen(cinch_engine* engine, const std::string& address, ListenerHandle* listener,
               std::string* bound_address) {
  cinch_listener* created = nullptr;
  const Status status = cinch_listen(engine, address.c_str(), &created);
  listener->reset(created);
  if (status == CINCH_ERROR_KEY_REQUIRED) {
    return FromStatus(status, fmt::format("'{}' is not loopback, so the peers must prove a shared "
                                          "key: give both ends the same --key-file",
                                          address));
  }
  if (status == CINCH_ERROR_ADDRESS) {
    return FromStatus(status, fmt::format("cannot listen at '{}'; write HOST:PORT with a local "
                                          "address and a free port",
                                          address));
  }
  if (status != CINCH_OK) {
    return FromStatus(status, {});
  }
  std::array<char, 128> text{};
  if (const Status named = cinch_listener_address(created, text.data(), text.size());
      named != CINCH_OK) {
    return FromStatus(named, {});
  }
  *bound_address = text.data();
  return {};
}

Outcome Connect(cinch_engine* engine, const LinkOptions& options, const std::string& address,
                EndpointHandle* endpoint) {
  cinch_endpoint* created = nullptr;
  const double seconds = ConnectSeconds(options);
  Status status = CINCH_OK;
  {
    const InterruptsEndAtOnce at_once;
    status = cinch_connect(engine, address.c_str(), seconds, &created);
  }
  endpoint->reset(created);
  switch (status) {
    case CINCH_OK:
      return {};
    case CINCH_ERROR_ADDRESS:
      return FromStatus(status,
                        fmt::format("cannot use the address '{}'; write HOST:PORT", address));
    case CINCH_ERROR_TIMEOUT:
      return FromStatus(status, fmt::format("nobody answered at '{}' within {} s; is the receiver "
                                            "running there?",
                                            address, seconds));
    case CINCH_ERROR_KEY_REQUIRED:
      return FromStatus(status, fmt::format("'{}' needs a shared key: give both ends the same "
                                            "--key-file",
                                            address));
    default:
      return DescribeTransferFailure(status);
  }
}

Outcome Accept(cinch_listener* listener, double wait_seconds, EndpointHandle* endpoint) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    cinch_endpoint* accepted = nullptr;
    const Status status = cinch_accept(listener, kSliceSeconds, &accepted);
    if (status != CINCH_ERROR_TIMEOUT) {
      endpoint->reset(accepted);
      return FromStatus(status, {});
    }
    if (Interrupted()) {
      return InterruptedOutcome();
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (wait_seconds > 0 && elapsed.count() > wait_seconds) {
      Status reason = CINCH_OK;
      const uint64_t refused = cinch_listener_refused(listener, &reason);
      std::string message = fmt::format("nobody connected within {} s", wait_seconds);
      if (refused > 0) {
        message += fmt::format("; {} connections were refused, the last one because {}", refused,
                               cinch_status_text(reason));
      }
      return FromStatus(CINCH_ERROR_TIMEOUT, message);
    }
  }
}

Outcome Await(cinch_operation* operation, const std::function<Outcome()>& between) {
  while (true) {
    const Status status = cinch_wait(operation, kSliceSeconds);
    if (status == CINCH_OK) {
      return {};
    }
    if (status != CINCH_IN_PROGRESS) {
      return DescribeTransferFailure(status);
    }
    Outcome outcome = between ? between() : Outcome{};
    if (outcome.ok() && Interrupted()) {
      outcome = InterruptedOutcome();
    }
    if (!outcome.ok()) {
      // Bounded by the engine's own time-outs: only a completed operation lets go of its buffer.
      static_cast<void>(cinch_cancel(operation));
      while (cinch_wait(operation, kSliceSeconds) == CINCH_IN_PROGRESS) {
      }
      return outcome;
    }
  }
}

Outcome DescribeTransferFailure(Status status) {
  switch (status) {
    case CINCH_ERROR_PEER_LOST:
      return FromStatus(status, "the other end went away; see what it says, and try again");
    case CINCH_ERROR_TIMEOUT:
      return FromStatus(status,
                        "nothing moved for too long; check the other end and the network, "
                        "or raise --timeout");
    case CINCH_ERROR_AUTHENTICATION:
      return FromStatus(status, "the keys of the two ends differ: give both the same --key-file");
    case CINCH_ERROR_VERSION_MISMATCH:
      return FromStatus(status, "the other end is another version of cinch; install the same one");
    default:
      return FromStatus(status, {});
  }
}

const char* PolicyName(cinch_policy policy) {
  switch (policy) {
    case CINCH_POLICY_RAW:
      return "raw";
    case CINCH_POLICY_COMPRESSED:
      return "compressed";
    default:
      return "auto";
  }
}

std::string PathOf(const cinch_endpoint* endpoint) {
  std::array<char, 256> path{};
  return cinch_endpoint_path(endpoint, path.data(), path.size()) == CINCH_OK ? path.data() : "";
}

}  // namespace cinch::cli
