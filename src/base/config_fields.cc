// SPDX-License-Identifier: Apache-2.0
// The table of settings. A new one is a member of Config and a row here; docs/configuration.md is
// generated from it (see tests/support/config_doc.cc).
#include <array>
#include <iterator>
#include <optional>

#include "base/config.h"
#include "base/text.h"

namespace cinch {
namespace {

constexpr size_t kMaxFields = 15;
constexpr uint32_t kMaxThreads = 1024;
constexpr double kMaxTimeoutSeconds = 24 * 3600;
constexpr double kMaxLinkGbps = 100000;
constexpr uint64_t kMinSegmentBytes = uint64_t{64} << 10;
constexpr uint64_t kMaxSegmentBytes = uint64_t{4} << 20;
constexpr uint64_t kMinCollectiveBytes = uint64_t{1} << 10;
constexpr uint64_t kMaxCollectiveBytes = uint64_t{1} << 40;
// A block of the frame format: segments hold whole blocks.
constexpr uint64_t kSegmentStepBytes = uint64_t{32} << 10;

// The words of an enumeration stand in the order of its enumerators.
template <typename Enum, size_t kCount>
bool ParseWord(std::string_view text, const std::array<std::string_view, kCount>& words,
               Enum& value) {
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] == text) {
      value = static_cast<Enum>(i);
      return true;
    }
  }
  return false;
}

template <typename Enum, size_t kCount>
std::string PrintWord(const std::array<std::string_view, kCount>& words, Enum value) {
  return std::string(words[static_cast<size_t>(value)]);
}

constexpr std::array<std::string_view, 5> kLogWords = {"off", "error", "warn", "info", "debug"};
constexpr std::array<std::string_view, 3> kPolicyWords = {"auto", "raw", "compressed"};
constexpr std::array<std::string_view, 2> kSwitchWords = {"off", "on"};
constexpr std::array<std::string_view, 4> kSimdWords = {"auto", "scalar", "avx2", "avx512"};

template <typename Number, typename Value>
bool Assign(std::optional<Number> parsed, Number minimum, Number maximum, Value& value) {
  if (!parsed || *parsed < minimum || *parsed > maximum) return false;
  value = static_cast<Value>(*parsed);
  return true;
}

bool AssignText(std::string_view text, std::string& value) {
  value = text;
  return true;
}

constexpr ConfigField kFields[] = {
    {"CINCH_LOG", "off|error|warn|info|debug", "How much the library writes to standard error.",
     false,
     [](std::string_view text, Config& c) { return ParseWord(text, kLogWords, c.log_level); },
     [](const Config& c) { return PrintWord(kLogWords, c.log_level); }},
    {"CINCH_THREADS", "0 to 1024",
     "Codec threads of a handle, the caller's included. 0 takes one for each core that the process "
     "may run on.",
     false,
     [](std::string_view text, Config& c) {
       return Assign<uint64_t>(ParseUnsigned(text), 0, kMaxThreads, c.threads);
     },
     [](const Config& c) { return fmt::to_string(c.threads); }},
    {"CINCH_POLICY", "auto|raw|compressed|fused",
     "The form in which messages travel. `auto` lets the cost model decide for each message; `raw` "
     "and `compressed` pin it. `fused` is `auto`, but NCCL's operations between ranks that reach "
     "each other's memory take the fused kernels where those were measured to gain; the same on "
     "all "
     "ranks.",
     false,
     [](std::string_view text, Config& c) {
       c.fused = text == "fused";
       return ParseWord(c.fused ? "auto" : text, kPolicyWords, c.policy);
     },
     [](const Config& c) { return c.fused ? "fused" : PrintWord(kPolicyWords, c.policy); }},
    {"CINCH_CHECKSUM", "on|off",
     "Whether frames carry a checksum of the original bytes, which the decoder verifies.", false,
     [](std::string_view text, Config& c) { return ParseWord(text, kSwitchWords, c.checksum); },
     [](const Config& c) { return PrintWord(kSwitchWords, c.checksum); }},
    {"CINCH_SIMD", "auto|scalar|avx2|avx512",
     "The highest instruction set that the CPU codec may use. The bytes of a frame do not depend "
     "on it.",
     false, [](std::string_view text, Config& c) { return ParseWord(text, kSimdWords, c.simd); },
     [](const Config& c) { return PrintWord(kSimdWords, c.simd); }},
    {"CINCH_KEY", "text",
     "Shared key that the peers of a connection prove to each other. Needed for addresses other "
     "than loopback. Prefer `CINCH_KEY_FILE`: other processes of the user can read an environment.",
     true, [](std::string_view text, Config& c) { return AssignText(text, c.key); },
     [](const Config& c) { return c.key; }},
    {"CINCH_KEY_FILE", "path", "File that holds the shared key; `CINCH_KEY` wins over it.", false,
     [](std::string_view text, Config& c) { return AssignText(text, c.key_file); },
     [](const Config& c) { return c.key_file; }},
    {"CINCH_LISTEN", "address", "Local address on which the engine listens unless told otherwise.",
     false, [](std::string_view text, Config& c) { return AssignText(text, c.listen_address); },
     [](const Config& c) { return c.listen_address; }},
    {"CINCH_TIMEOUT", "0.001 to 86400 (seconds)",
     "How long a wait lasts before it ends with CINCH_ERROR_TIMEOUT, unless the call says.", false,
     [](std::string_view text, Config& c) {
       return Assign<double>(ParseNumber(text), 0.001, kMaxTimeoutSeconds, c.timeout_seconds);
     },
     [](const Config& c) { return fmt::format("{}", c.timeout_seconds); }},
    {"CINCH_LINK_GBPS", "0 to 100000 (10^9 bits a second)",
     "Rate to which a sender paces itself, to share or to imitate a link. 0 does not pace.", false,
     [](std::string_view text, Config& c) {
       return Assign<double>(ParseNumber(text), 0, kMaxLinkGbps, c.link_gbps);
     },
     [](const Config& c) { return fmt::format("{}", c.link_gbps); }},
    {"CINCH_SEGMENT_BYTES", "64K to 4M, a multiple of 32K (bytes; K and M are binary)",
     "Original bytes in one step of the send pipeline: smaller steps overlap codec and wire "
     "sooner, larger ones cost less each.",
     false,
     [](std::string_view text, Config& c) {
       const std::optional<uint64_t> bytes = ParseBytes(text);
       return bytes && *bytes % kSegmentStepBytes == 0 &&
              Assign<uint64_t>(bytes, kMinSegmentBytes, kMaxSegmentBytes, c.segment_bytes);
     },
     [](const Config& c) { return fmt::to_string(c.segment_bytes); }},
    {"CINCH_DEVICE_CODEC_GBPS", "0 to 100000 (10^9 bits a second)",
     "What the policy takes a device's codec for, each way, in bits of original data, until it has "
     "seen better. 0 measures a device when it is first used.",
     false,
     [](std::string_view text, Config& c) {
       return Assign<double>(ParseNumber(text), 0, kMaxLinkGbps, c.device_codec_gbps);
     },
     [](const Config& c) { return fmt::format("{}", c.device_codec_gbps); }},
    {"CINCH_NCCL_LIB", "path",
     "The NCCL library behind the interposer. Unset, it is looked for beside the libraries of the "
     "process and in the system's directories. A bare name would find the interposer itself.",
     false, [](std::string_view text, Config& c) { return AssignText(text, c.nccl_library); },
     [](const Config& c) { return c.nccl_library; }},
    {"CINCH_COLLECTIVES_MIN_BYTES", "1K to 1T (bytes; K, M, G and T are binary)",
     "Collectives whose call has fewer bytes than this go straight through. The same on all ranks.",
     false,
     [](std::string_view text, Config& c) {
       return Assign<uint64_t>(ParseBytes(text), kMinCollectiveBytes, kMaxCollectiveBytes,
                               c.collectives_min_bytes);
     },
     [](const Config& c) { return fmt::to_string(c.collectives_min_bytes); }},
    {"CINCH_NCCL_REPORT", "stderr or path",
     "Where the interposer writes at exit, a line a communicator, what it did; a file is appended "
     "to.",
     false, [](std::string_view text, Config& c) { return AssignText(text, c.nccl_report); },
     [](const Config& c) { return c.nccl_report; }},
};
static_assert(std::size(kFields) <= kMaxFields, "the budget of settings is spent");

}  // namespace

std::span<const ConfigField> ConfigFields() { return kFields; }

}  // namespace cinch
