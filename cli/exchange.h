// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cinch/transfer.h"
#include "engine_handles.h"
#include "file_hash.h"
#include "outcome.h"

/// The messages of `cinch send` and `cinch recv`; docs/cli.md, "What goes over the wire". Each kind
/// has its own tag, so that an answer can overtake data. Whatever is received is untrusted.
namespace cinch::cli::exchange {

inline constexpr uint64_t kManifestTag = 0x636E6301;
inline constexpr uint64_t kAnswerTag = 0x636E6302;
inline constexpr uint64_t kDataTag = 0x636E6303;
inline constexpr uint64_t kDigestTag = 0x636E6304;
inline constexpr uint64_t kResultTag = 0x636E6305;
inline constexpr uint64_t kAllTagBits = ~uint64_t{0};

inline constexpr uint64_t kProtocolVersion = 1;
inline constexpr uint64_t kMaxManifestBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxAnswerBytes = 4096;
inline constexpr size_t kMaxFiles = 65536;
inline constexpr size_t kMaxNameBytes = 255;

/// One file to come.
struct FileEntry {
  std::string name;
  uint64_t size_bytes = 0;
  /// Data messages that make it up, none of them empty.
  uint64_t chunks = 0;
};

/// What a sender announces.
struct Manifest {
  std::vector<FileEntry> files;
  /// Size of the largest data message.
  uint64_t chunk_bytes = 0;

  uint64_t total_bytes() const;
  uint64_t total_chunks() const;
};

/// OK when `name` may become a file in the receiver's directory: one path component of valid UTF-8
/// without control characters that does not begin with a dot.
Outcome CheckName(const std::string& name);

std::string EncodeManifest(const Manifest& manifest);
/// Checks every rule, sums included: no total overflows.
Outcome DecodeManifest(const std::string& json, Manifest* manifest);

/// An outcome that crosses the connection.
std::string EncodeAnswer(const Outcome& outcome);
/// The peer's outcome, or PROTOCOL when the text is none.
Outcome DecodeAnswer(const std::string& json);

/// Sends a short message and waits until the peer has it.
Outcome SendText(cinch_endpoint* endpoint, uint64_t tag, const std::string& text);

/// Waits for a message of at most `max_bytes`. `timeout_seconds` 0: for as long as the peer lives.
Outcome ReceiveText(cinch_endpoint* endpoint, uint64_t tag, uint64_t max_bytes,
                    double timeout_seconds, const std::function<Outcome()>& between,
                    std::string* text);

/// Whether a message with that tag is there.
bool HasArrived(cinch_endpoint* endpoint, uint64_t tag);

}  // namespace cinch::cli::exchange
