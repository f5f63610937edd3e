// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"

namespace cinch {

/// Which form a message may take: the cost model decides, or one form is pinned.
enum class PolicyMode { kAuto, kRaw, kCompressed };

/// The highest SIMD target that the codec may use; kAuto is whatever the machine has.
enum class SimdTarget { kAuto, kScalar, kAvx2, kAvx512 };

/// Everything that can be set from outside, with its default. Handles copy what they need when they
/// are made; nothing else in the library reads the environment.
struct Config {
  LogLevel log_level = LogLevel::kWarn;
  uint32_t threads = 0;  ///< Codec threads a handle; 0 = one for each core the process may use.
  PolicyMode policy = PolicyMode::kAuto;
  bool fused = false;  ///< kAuto, and fused kernels behind NCCL's names where they gain.
  bool checksum = true;
  SimdTarget simd = SimdTarget::kAuto;
  std::string key;       ///< Shared key of the peers; empty = none.
  std::string key_file;  ///< File that holds the shared key; empty = none.
  std::string listen_address = "127.0.0.1";
  double timeout_seconds = 30;
  double link_gbps = 0;  ///< Rate to which the sender paces itself, in 10^9 bits a second; 0 = off.
  uint64_t segment_bytes = uint64_t{1} << 20;
  double device_codec_gbps = 0;  ///< A device codec's, in 10^9 bits a second; 0 = measured.
  std::string nccl_library;      ///< The NCCL behind the interposer; empty = search.
  uint64_t collectives_min_bytes = uint64_t{1} << 20;
  std::string nccl_report;  ///< "stderr" or a file; empty = none.
};

/// One setting: how it is named, documented, read and printed.
struct ConfigField {
  const char* name;
  const char* type;
  const char* description;
  bool secret;  ///< Its value is never printed.
  /// Reads `text` into `config`; false when it is not a value of this setting.
  bool (*parse)(std::string_view text, Config& config);
  std::string (*print)(const Config& config);
};

/// Every setting, in the order of the documentation.
[[nodiscard]] std::span<const ConfigField> ConfigFields();

/// Something in the environment that deserves a word.
struct ConfigProblem {
  Status status;  ///< CINCH_ERROR_CONFIG for a bad value; CINCH_OK for a mere misspelling.
  std::string message;
};

/// Names and values, as in the environment.
using ConfigVariables = std::vector<std::pair<std::string, std::string>>;

struct ConfigReading {
  Config config;
  std::vector<ConfigProblem> problems;
  std::vector<bool> is_set;  ///< For each of ConfigFields(): the variables named it.
};

/// Reads the CINCH_* names among `variables`. A setting whose value is bad keeps its default and
/// leaves a problem; so does a CINCH_* name that does not exist. An empty value means unset.
[[nodiscard]] ConfigReading ReadConfig(const ConfigVariables& variables);

/// The process's configuration: read from the environment at the first call, then fixed. The first
/// call logs its problems. Thread-safe.
[[nodiscard]] const Config& ProcessConfig();

/// The whole reading behind ProcessConfig(). Thread-safe.
[[nodiscard]] const ConfigReading& ProcessConfigReading();

/// CINCH_ERROR_CONFIG when a setting of the process has a bad value, else CINCH_OK. What creates a
/// handle returns this, so that a mistyped value is an error and not a silent default.
[[nodiscard]] Status ProcessConfigStatus();

/// docs/configuration.md.
[[nodiscard]] std::string ConfigDocumentation();

}  // namespace cinch
