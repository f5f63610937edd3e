// SPDX-License-Identifier: Apache-2.0
#include "transfer/settings.h"

#include <cmath>
#include <cstddef>
#include <fstream>

#include "base/worker_pool.h"
#include "transfer/grown_struct.h"

namespace cinch::transfer {
namespace {

constexpr double kMaxSeconds = 24 * 3600;

// A key file is a line; anything this long is some other file.
constexpr size_t kMaxKeyFileBytes = 4096;

Status ReadKeyFile(const std::string& path, std::string& key) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    Log(LogLevel::kError, "the key file {} cannot be read", path);
    return CINCH_ERROR_IO;
  }
  // No more than that: the path may lead to a device that never ends. Reading a directory fails.
  key.resize(kMaxKeyFileBytes + 1);
  file.read(key.data(), static_cast<std::streamsize>(key.size()));
  key.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || key.size() > kMaxKeyFileBytes) {
    Log(LogLevel::kError, "the key file {} cannot be read or holds more than {} bytes", path,
        kMaxKeyFileBytes);
    return CINCH_ERROR_IO;
  }
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  return CINCH_OK;
}

Status ResolveKey(const cinch_engine_options* options, const Config& config, Settings& settings) {
  if (options != nullptr && options->key_bytes > 0) {
    if (options->key == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    settings.key.assign(static_cast<const char*>(options->key), options->key_bytes);
  } else if (!config.key.empty()) {
    settings.key = config.key;
  } else if (!config.key_file.empty()) {
    CINCH_RETURN_IF_ERROR(ReadKeyFile(config.key_file, settings.key));
    if (settings.key.empty()) {
      Log(LogLevel::kError, "the key file {} is empty", config.key_file);
      return CINCH_ERROR_CONFIG;
    }
  }
  if (settings.key.empty() || settings.key.size() >= kMinKeyBytes) return CINCH_OK;
  Log(LogLevel::kError, "the shared key has {} bytes; at least {} are needed", settings.key.size(),
      kMinKeyBytes);
  return CINCH_ERROR_CONFIG;
}

policy::Mode ModeOf(PolicyMode mode) {
  switch (mode) {
    case PolicyMode::kRaw:
      return policy::Mode::kRaw;
    case PolicyMode::kCompressed:
      return policy::Mode::kCompressed;
    case PolicyMode::kAuto:
      break;
  }
  return policy::Mode::kAuto;
}

bool IsDuration(double seconds) { return seconds > 0 && seconds <= kMaxSeconds; }

Status ApplySizes(const cinch_engine_options& options, Settings& settings) {
  if (options.segment_bytes != 0) settings.segment_bytes = options.segment_bytes;
  if (options.codec_threads != 0) settings.codec_threads = options.codec_threads;
  if (options.link_gbps != 0) settings.link_gbps = options.link_gbps;
  if (settings.codec_threads > kMaxCodecThreads || !std::isfinite(settings.link_gbps) ||
      settings.link_gbps < 0) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  return CINCH_OK;
}

Status ApplyTimes(const cinch_engine_options& options, Settings& settings) {
  if (options.peer_timeout_seconds != 0) {
    if (!IsDuration(options.peer_timeout_seconds)) return CINCH_ERROR_INVALID_ARGUMENT;
    settings.peer_timeout_seconds = options.peer_timeout_seconds;
  }
  if (options.handshake_timeout_seconds != 0) {
    if (!IsDuration(options.handshake_timeout_seconds)) return CINCH_ERROR_INVALID_ARGUMENT;
    settings.handshake_timeout_seconds = options.handshake_timeout_seconds;
  }
  if (options.operation_timeout_seconds != 0) {
    if (std::isnan(options.operation_timeout_seconds)) return CINCH_ERROR_INVALID_ARGUMENT;
    settings.operation_timeout_seconds = options.operation_timeout_seconds;
  }
  return CINCH_OK;
}

Status ApplyOptions(const cinch_engine_options& given, Settings& settings) {
  cinch_engine_options options;
  cinch_engine_options_init(&options);
  if (!TakeGrown(given, offsetof(cinch_engine_options, device_max_ctas), options)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  settings.device_max_ctas = options.device_max_ctas;
  if (options.device_codec_gbps != 0) settings.device_codec_gbps = options.device_codec_gbps;
  if (!std::isfinite(settings.device_codec_gbps) || settings.device_codec_gbps < 0) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  settings.share_device_memory = options.without_shared_device_memory == 0;
  if (cinch_dtype_size(options.dtype) == 0) return CINCH_ERROR_INVALID_ARGUMENT;
  if (options.dtype != CINCH_DTYPE_BYTES) settings.dtype = options.dtype;
  switch (options.policy) {
    case CINCH_POLICY_DEFAULT:
      break;
    case CINCH_POLICY_AUTO:
      settings.policy = policy::Mode::kAuto;
      break;
    case CINCH_POLICY_RAW:
      settings.policy = policy::Mode::kRaw;
      break;
    case CINCH_POLICY_COMPRESSED:
      settings.policy = policy::Mode::kCompressed;
      break;
    default:
      return CINCH_ERROR_INVALID_ARGUMENT;
  }
  if (options.without_checksum != 0) settings.checksum = false;
  if (options.transports != nullptr) settings.transports = options.transports;
  if (options.network_devices != nullptr) settings.network_devices = options.network_devices;
  CINCH_RETURN_IF_ERROR(ApplySizes(options, settings));
  return ApplyTimes(options, settings);
}

}  // namespace

Status ResolveSettings(const cinch_engine_options* options, const Config& config,
                       Settings& settings) {
  settings = Settings{};
  settings.policy = ModeOf(config.policy);
  settings.checksum = config.checksum;
  settings.segment_bytes = config.segment_bytes;
  settings.link_gbps = config.link_gbps;
  settings.device_codec_gbps = config.device_codec_gbps;
  settings.operation_timeout_seconds = config.timeout_seconds;
  settings.listen_host = config.listen_address;
  settings.codec_threads = config.threads != 0 ? config.threads : UsableCores();
  if (options != nullptr) CINCH_RETURN_IF_ERROR(ApplyOptions(*options, settings));
  const bool from_options = options != nullptr && options->segment_bytes != 0;
  if (settings.segment_bytes < kMinSegmentBytes || settings.segment_bytes > kMaxSegmentBytes ||
      settings.segment_bytes % kSegmentGranularityBytes != 0) {
    if (from_options) return CINCH_ERROR_INVALID_ARGUMENT;
    Log(LogLevel::kError, "CINCH_SEGMENT_BYTES must be a multiple of 32K from 64K to 4M");
    return CINCH_ERROR_CONFIG;
  }
  return ResolveKey(options, config, settings);
}

}  // namespace cinch::transfer
