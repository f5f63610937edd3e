// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file_hash.h"
#include "outcome.h"
#include "segments.h"

/// The layout of .cinch files; docs/container.md is normative. Everything read is untrusted.
namespace cinch::cli::container {

inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'C', 'N', 'C', 'F', '\r', '\n', 0x1A};
inline constexpr std::array<uint8_t, 8> kTrailerMagic = {'C', 'N', 'C', 'F', 'E', 'N', 'D', '\n'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint64_t kHeaderBytes = 64;
inline constexpr uint64_t kTrailerBytes = 64;
/// docs/format.md, section 2.
inline constexpr uint64_t kFrameHeaderBytes = 64;
inline constexpr uint64_t kFrameBlockBytes = 32768;
/// What a reader accepts: its memory is a small multiple of a chunk.
inline constexpr uint64_t kMaxChunkBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMinChunkBytes = kFrameBlockBytes;
/// Some 200,000 tensors; parsed, a directory takes up to some ten times its size.
inline constexpr uint64_t kMaxDirectoryBytes = uint64_t{32} << 20;
inline constexpr uint64_t kMaxOriginalBytes = uint64_t{1} << 60;

struct Header {
  uint64_t original_bytes = 0;
  uint64_t directory_bytes = 0;
  uint64_t chunk_bytes = 0;
  uint64_t directory_hash = 0;
};

struct Trailer {
  uint64_t frame_count = 0;
  /// All frames together.
  uint64_t body_bytes = 0;
  FileDigest digest{};
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
using TrailerBytes = std::array<std::byte, kTrailerBytes>;

HeaderBytes EncodeHeader(const Header& header);
TrailerBytes EncodeTrailer(const Trailer& trailer);

/// Whether a file begins like a container, whatever follows.
bool HasMagic(std::span<const std::byte> file);

/// OK or bad data, with the rule that is broken. `bytes` may be of any size.
Outcome DecodeHeader(std::span<const std::byte> bytes, Header* header);
Outcome DecodeTrailer(std::span<const std::byte> bytes, Trailer* trailer);

/// The directory as JSON. Fails when a name is not UTF-8 or the result is too long.
Outcome EncodeDirectory(const std::vector<Segment>& segments, bool is_safetensors,
                        std::string* json);

struct Directory {
  std::vector<Segment> segments;
  bool is_safetensors = false;
};

/// Checks every rule: known keys and types, known dtypes, segments that cover exactly
/// `original_bytes`. Offsets are computed, not read.
Outcome DecodeDirectory(std::string_view json, uint64_t original_bytes, Directory* directory);

}  // namespace cinch::cli::container
