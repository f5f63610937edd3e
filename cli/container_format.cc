// SPDX-License-Identifier: Apache-2.0
#include "container_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "strict_json.h"

namespace cinch::cli::container {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the container is little-endian");

constexpr size_t kHashOffset = 56;
constexpr size_t kMaxRank = 64;
/// The keys that a segment must have take more than this.
constexpr size_t kMinSegmentJsonBytes = 48;

template <typename Value>
void Put(std::span<std::byte> bytes, size_t offset, const Value& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

template <typename Value>
Value Get(std::span<const std::byte> bytes, size_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Outcome Broken(const std::string& what) {
  return Refuse(ExitCode::kBadData, "not a valid .cinch file: " + what);
}

bool IsZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

/// A whole number below 2^60, so that sums of a few cannot overflow.
bool ReadSize(const Json& value, uint64_t* size) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxOriginalBytes) {
    return false;
  }
  *size = value.get<uint64_t>();
  return true;
}

bool ReadShape(const Json& value, std::vector<uint64_t>* shape) {
  if (!value.is_array() || value.size() > kMaxRank) {
    return false;
  }
  for (const Json& entry : value) {
    if (!entry.is_number_unsigned()) {
      return false;
    }
    shape->push_back(entry.get<uint64_t>());
  }
  return true;
}

bool ReadText(const Json& object, const char* key, std::string* text) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    return false;
  }
  *text = found->get<std::string>();
  return true;
}

Outcome ReadSegment(const Json& object, Segment* segment) {
  std::string kind;
  std::string dtype;
  if (!object.is_object() || !ReadText(object, "name", &segment->name) ||
      !ReadText(object, "kind", &kind) || !ReadText(object, "dtype", &dtype) ||
      !ReadText(object, "file_dtype", &segment->file_dtype) || object.size() != 6) {
    return Broken("a segment of the directory lacks a key or has one too many");
  }
  if (kind != "tensor" && kind != "header") {
    return Broken("a segment of the directory has an unknown kind");
  }
  segment->is_tensor = kind == "tensor";
  if (cinch_dtype_parse(dtype.c_str(), &segment->dtype) != CINCH_OK) {
    return Broken("a segment of the directory has an unknown dtype");
  }
  const auto bytes = object.find("bytes");
  const auto shape = object.find("shape");
  if (bytes == object.end() || shape == object.end() || !ReadSize(*bytes, &segment->size_bytes) ||
      !ReadShape(*shape, &segment->shape)) {
    return Broken("a segment of the directory has a bad size or shape");
  }
  return {};
}

}  // namespace

HeaderBytes EncodeHeader(const Header& header) {
  HeaderBytes bytes{};
  Put(bytes, 0, kMagic);
  Put(bytes, 8, kVersion);
  Put(bytes, 16, header.original_bytes);
  Put(bytes, 24, header.directory_bytes);
  Put(bytes, 32, header.chunk_bytes);
  Put(bytes, 40, header.directory_hash);
  Put(bytes, kHashOffset, ShortHash(std::span<const std::byte>(bytes).first(kHashOffset)));
  return bytes;
}

TrailerBytes EncodeTrailer(const Trailer& trailer) {
  TrailerBytes bytes{};
  Put(bytes, 0, kTrailerMagic);
  Put(bytes, 8, trailer.frame_count);
  Put(bytes, 16, trailer.body_bytes);
  Put(bytes, 24, trailer.digest);
  Put(bytes, kHashOffset, ShortHash(std::span<const std::byte>(bytes).first(kHashOffset)));
  return bytes;
}

bool HasMagic(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() &&
         std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

Outcome DecodeHeader(std::span<const std::byte> bytes, Header* header) {
  if (bytes.size() < kHeaderBytes) {
    return Broken("it ends within its header");
  }
  if (!HasMagic(bytes)) {
    return Broken("it does not begin like one");
  }
  if (const auto version = Get<uint32_t>(bytes, 8); version != kVersion) {
    return Broken(
        fmt::format("it has version {}, this program reads version {}", version, kVersion));
  }
  if (Get<uint64_t>(bytes, kHashOffset) != ShortHash(bytes.first(kHashOffset))) {
    return Broken("its header is damaged");
  }
  if (!IsZero(bytes.subspan(12, 4)) || !IsZero(bytes.subspan(48, 8))) {
    return Broken("a reserved byte of its header is set");
  }
  header->original_bytes = Get<uint64_t>(bytes, 16);
  header->directory_bytes = Get<uint64_t>(bytes, 24);
  header->chunk_bytes = Get<uint64_t>(bytes, 32);
  header->directory_hash = Get<uint64_t>(bytes, 40);
  if (header->original_bytes > kMaxOriginalBytes || header->directory_bytes > kMaxDirectoryBytes ||
      header->chunk_bytes < kMinChunkBytes || header->chunk_bytes > kMaxChunkBytes ||
      header->chunk_bytes % kMinChunkBytes != 0) {
    return Broken("a size in its header is out of range");
  }
  return {};
}

Outcome DecodeTrailer(std::span<const std::byte> bytes, Trailer* trailer) {
  if (bytes.size() < kTrailerBytes) {
    return Broken("it ends within its trailer");
  }
  if (bytes.size() > kTrailerBytes) {
    return Broken("bytes follow its trailer");
  }
  if (std::memcmp(bytes.data(), kTrailerMagic.data(), kTrailerMagic.size()) != 0 ||
      Get<uint64_t>(bytes, kHashOffset) != ShortHash(bytes.first(kHashOffset))) {
    return Broken("its trailer is damaged");
  }
  if (!IsZero(bytes.subspan(40, 16))) {
    return Broken("a reserved byte of its trailer is set");
  }
  trailer->frame_count = Get<uint64_t>(bytes, 8);
  trailer->body_bytes = Get<uint64_t>(bytes, 16);
  trailer->digest = Get<FileDigest>(bytes, 24);
  return {};
}

Outcome EncodeDirectory(const std::vector<Segment>& segments, bool is_safetensors,
                        std::string* json) {
  Json list = Json::array();
  for (const Segment& segment : segments) {
    list.push_back({{"name", segment.name},
                    {"kind", segment.is_tensor ? "tensor" : "header"},
                    {"dtype", cinch_dtype_name(segment.dtype)},
                    {"file_dtype", segment.file_dtype},
                    {"shape", segment.shape},
                    {"bytes", segment.size_bytes}});
  }
  const Json directory = {{"source", is_safetensors ? "safetensors" : "raw"},
                          {"segments", std::move(list)}};
  // A raw file may have any name; its bytes do not depend on how the name is shown.
  *json = directory.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (json->size() > kMaxDirectoryBytes) {
    return FromStatus(CINCH_ERROR_TOO_LARGE, "the file has too many tensors for a container");
  }
  return {};
}

Outcome DecodeDirectory(std::string_view json, uint64_t original_bytes, Directory* directory) {
  // The directory, its segments, and each of them with its shape.
  const Json root = ParseStrictJson(
      json, {.depth = 4, .containers = 2 + 2 * (json.size() / kMinSegmentJsonBytes)});
  std::string source;
  if (!root.is_object() || root.size() != 2 || !ReadText(root, "source", &source) ||
      !root.contains("segments") || !root["segments"].is_array() ||
      (source != "safetensors" && source != "raw")) {
    return Broken("its directory is not the JSON that it must be");
  }
  Directory result;
  result.is_safetensors = source == "safetensors";
  uint64_t offset_bytes = 0;
  for (const Json& entry : root["segments"]) {
    Segment segment;
    if (Outcome outcome = ReadSegment(entry, &segment); !outcome.ok()) {
      return outcome;
    }
    segment.offset_bytes = offset_bytes;
    if (segment.size_bytes > original_bytes - offset_bytes) {
      return Broken("its segments are larger than the file they make up");
    }
    offset_bytes += segment.size_bytes;
    result.segments.push_back(std::move(segment));
  }
  if (offset_bytes != original_bytes) {
    return Broken("its segments are smaller than the file they make up");
  }
  *directory = std::move(result);
  return {};
}

}  // namespace cinch::cli::container
