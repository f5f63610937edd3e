// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/config.h"
#include "cinch/transfer.h"
#include "policy/message_policy.h"

namespace cinch::transfer {

inline constexpr uint64_t kMinSegmentBytes = uint64_t{64} << 10;
inline constexpr uint64_t kMaxSegmentBytes = uint64_t{4} << 20;
inline constexpr uint64_t kSegmentGranularityBytes = uint64_t{32} << 10;  // One block of a frame.
inline constexpr uint32_t kMaxCodecThreads = 1024;
inline constexpr size_t kMinKeyBytes = 16;
inline constexpr double kDefaultPeerTimeoutSeconds = 10;
inline constexpr double kDefaultHandshakeTimeoutSeconds = 5;

/// An engine's options with every default filled in and every value checked.
struct Settings {
  policy::Mode policy = policy::Mode::kAuto;
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  uint64_t segment_bytes = uint64_t{1} << 20;
  uint32_t codec_threads = 1;
  bool checksum = true;
  std::string key;  ///< Empty: none.
  double link_gbps = 0;
  double peer_timeout_seconds = kDefaultPeerTimeoutSeconds;
  double operation_timeout_seconds = 30;  ///< Negative: none.
  double handshake_timeout_seconds = kDefaultHandshakeTimeoutSeconds;
  std::string transports;
  std::string network_devices;
  uint32_t device_max_ctas = 0;
  double device_codec_gbps = 0;  ///< 0: measured.
  bool share_device_memory = true;
  std::string listen_host;  ///< For addresses without a host.
};

/// `options` may be null. OK, INVALID_ARGUMENT, CONFIG, IO (key file).
[[nodiscard]] Status ResolveSettings(const cinch_engine_options* options, const Config& config,
                                     Settings& settings);

}  // namespace cinch::transfer
