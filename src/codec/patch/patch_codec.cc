// SPDX-License-Identifier: Apache-2.0
// Patches of host memory, block after block, in the order of docs/format.md, section 9.
#include "codec/patch/patch_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/guarded.h"
#include "cinch/codec.h"
#include "cinch/patch.h"

namespace cinch::codec {
namespace {

using namespace cinch::format;

constexpr uint64_t kHashedHeaderBytes = offsetof(PatchHeader, header_hash);

/// The words of a block, or their differences.
using Words = std::array<uint16_t, kMaxPatchWords>;

// A last odd byte is a word of its own.
void LoadWords(const uint8_t* bytes, uint32_t length, Words& words) {
  if (length % kPatchWordBytes != 0) words[length / kPatchWordBytes] = 0;
  std::memcpy(words.data(), bytes, length);
}

uint64_t HashWords(const Words& words, uint32_t length, uint64_t block) {
  uint64_t sum = 0;
  const uint32_t pairs = (length + 7) / 8;
  for (uint32_t pair = 0; pair < pairs; ++pair) {
    uint32_t halves[2];
    std::memcpy(halves, &words[pair * 4], sizeof(halves));
    sum += HashPair(pair, halves[0], halves[1]);
  }
  return FinishHash(sum, length, block);
}

/// Chooses the width from the sample.
uint32_t ChooseWidth(const Words& differences, uint32_t words) {
  std::array<uint32_t, kMaxPatchWidth + 1> by_length{};
  uint32_t samples = 0;
  for (uint32_t i = 0; i < words; ++i) {
    if (!InPatchSample(i)) continue;
    ++samples;
    ++by_length[static_cast<size_t>(std::bit_width(differences[i]))];
  }
  constexpr uint32_t kExceptionBits = 32;
  uint32_t best = 0;
  uint64_t best_cost = ~uint64_t{0};
  for (uint32_t i = 0; i < kPatchWidthCount; ++i) {
    const uint32_t width = PatchWidthAt(i);
    uint64_t exceptions = 0;
    for (uint32_t length = width + 1; length <= kMaxPatchWidth; ++length) {
      exceptions += by_length[length];
    }
    const uint64_t cost = uint64_t{width} * samples + kExceptionBits * exceptions;
    if (cost >= best_cost) continue;
    best = width;
    best_cost = cost;
  }
  return best;
}

uint32_t CountExceptions(const Words& differences, uint32_t words, uint32_t width) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < words; ++i) count += (differences[i] >> width) != 0 ? 1 : 0;
  return count;
}

/// Appends a block's field and list; `payload` is zero.
void WriteContents(const Words& differences, uint32_t words, uint32_t width, uint8_t* payload) {
  uint8_t* plane = payload + sizeof(PatchBlockHeader);
  uint32_t shift = 0;
  for (uint32_t bits = 8; bits > 0;) {
    const bool has = bits == 8 ? shift + 8 <= width : (width & bits) != 0;
    if (has) {
      for (uint32_t i = 0; i < words; ++i) {
        const uint32_t value = (differences[i] >> width) != 0 ? 0 : differences[i];
        const uint32_t part = (value >> shift) & ((1u << bits) - 1);
        plane[i * bits / 8] |= static_cast<uint8_t>(part << (i * bits % 8));
      }
      plane += PatchPlaneBytes(words, bits);
      shift += bits;
    }
    if (!has || bits != 8) bits /= 2;
  }
  const uint32_t exceptions = CountExceptions(differences, words, width);
  uint8_t* positions = payload + sizeof(PatchBlockHeader) + PatchFieldBytes(words, width);
  uint8_t* values = positions + 2 * exceptions;
  uint32_t at = 0;
  for (uint32_t i = 0; i < words; ++i) {
    if ((differences[i] >> width) == 0) continue;
    const auto position = static_cast<uint16_t>(i);
    std::memcpy(positions + 2 * at, &position, sizeof(position));
    std::memcpy(values + 2 * at, &differences[i], sizeof(uint16_t));
    ++at;
  }
}

/// Writes the payload of one block; `bytes` 0 for one that has not changed.
Status WriteBlock(const uint8_t* base, const uint8_t* data, uint32_t length, uint64_t block,
                  uint8_t* payload, uint64_t capacity, PatchHeader& header, uint32_t& bytes) {
  const uint32_t words = PatchWords(length);
  Words old_words;
  Words differences;
  LoadWords(base, length, old_words);
  LoadWords(data, length, differences);
  // Words after the last one count for the hash of the last pair.
  for (uint32_t i = words; i % 4 != 0; ++i) old_words[i] = differences[i] = 0;
  const uint64_t hash = HashWords(differences, length, block);
  header.base_hash += HashWords(old_words, length, block);
  header.result_hash += hash;
  for (uint32_t i = 0; i < words; ++i) {
    differences[i] = static_cast<uint16_t>(PatchDifference(old_words[i], differences[i]));
  }
  bytes = 0;
  if (CountExceptions(differences, words, 0) == 0) return CINCH_OK;
  uint32_t width = ChooseWidth(differences, words);
  uint32_t exceptions = CountExceptions(differences, words, width);
  if (PatchPayloadBytes(words, width, exceptions) > PatchPayloadBytes(words, kMaxPatchWidth, 0)) {
    width = kMaxPatchWidth;
    exceptions = 0;
  }
  bytes = PatchPayloadBytes(words, width, exceptions);
  if (bytes > capacity) return CINCH_ERROR_DESTINATION_TOO_SMALL;
  std::memset(payload, 0, bytes);
  const PatchBlockHeader block_header{static_cast<uint8_t>(width), 0,
                                      static_cast<uint16_t>(exceptions),
                                      static_cast<uint32_t>(hash)};
  std::memcpy(payload, &block_header, sizeof(block_header));
  WriteContents(differences, words, width, payload);
  return CINCH_OK;
}

/// Reads the field; false when unused bits of it are set.
bool ReadField(const uint8_t* field, uint32_t words, uint32_t width, Words& differences) {
  differences.fill(0);
  const uint8_t* plane = field;
  uint32_t shift = 0;
  for (uint32_t bits = 8; bits > 0;) {
    const bool has = bits == 8 ? shift + 8 <= width : (width & bits) != 0;
    if (has) {
      for (uint32_t i = 0; i < words; ++i) {
        const uint32_t part = (plane[i * bits / 8] >> (i * bits % 8)) & ((1u << bits) - 1);
        differences[i] = static_cast<uint16_t>(differences[i] | (part << shift));
      }
      const uint32_t used = words * bits % 8;
      if (used != 0 && (plane[words * bits / 8] >> used) != 0) return false;
      plane += PatchPlaneBytes(words, bits);
      shift += bits;
    }
    if (!has || bits != 8) bits /= 2;
  }
  return std::all_of(plane, field + PatchFieldBytes(words, width),
                     [](uint8_t b) { return b == 0; });
}

Status ReadBlock(const uint8_t* payload, uint32_t bytes, uint32_t words, Words& differences,
                 uint32_t& checksum) {
  PatchBlockHeader header;
  std::memcpy(&header, payload, sizeof(header));
  checksum = header.checksum;
  if (header.width > kMaxPatchWidth || header.reserved != 0 || header.exceptions > words ||
      bytes != PatchPayloadBytes(words, header.width, header.exceptions)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  const uint8_t* field = payload + sizeof(header);
  if (!ReadField(field, words, header.width, differences)) return CINCH_ERROR_FRAME_BLOCK;
  const uint8_t* positions = field + PatchFieldBytes(words, header.width);
  const uint8_t* values = positions + 2 * header.exceptions;
  uint32_t next = 0;
  for (uint32_t i = 0; i < header.exceptions; ++i) {
    uint16_t position = 0;
    uint16_t value = 0;
    std::memcpy(&position, positions + 2 * i, sizeof(position));
    std::memcpy(&value, values + 2 * i, sizeof(value));
    if (position < next || position >= words || (value >> header.width) == 0) {
      return CINCH_ERROR_FRAME_BLOCK;
    }
    differences[position] = value;
    next = position + 1u;
  }
  const uint8_t* end = values + 2 * header.exceptions;
  const bool clean = std::all_of(end, payload + bytes, [](uint8_t b) { return b == 0; });
  return clean ? CINCH_OK : CINCH_ERROR_FRAME_BLOCK;
}

/// Applies one block; `bytes` 0: it has not changed.
Status ApplyBlock(const uint8_t* base, const uint8_t* payload, uint32_t bytes, uint8_t* data,
                  uint32_t length, uint64_t block, uint64_t& content_hash) {
  const uint32_t words = PatchWords(length);
  Words current{};
  LoadWords(base, length, current);
  uint32_t checksum = 0;
  if (bytes > 0) {
    Words differences;
    CINCH_RETURN_IF_ERROR(ReadBlock(payload, bytes, words, differences, checksum));
    for (uint32_t i = 0; i < words; ++i) {
      current[i] = static_cast<uint16_t>(ApplyPatchDifference(current[i], differences[i]));
    }
    if (length % kPatchWordBytes != 0 && (current[words - 1] >> 8) != 0) {
      return CINCH_ERROR_FRAME_BLOCK;  // It changes a byte that is not there.
    }
  }
  const uint64_t hash = HashWords(current, length, block);
  if (bytes > 0 && static_cast<uint32_t>(hash) != checksum) return CINCH_ERROR_FRAME_CHECKSUM;
  content_hash += hash;
  std::memcpy(data, current.data(), length);
  return CINCH_OK;
}

Status CheckIndex(const uint8_t* patch, const PatchHeader& header) {
  const uint8_t* index = patch + sizeof(PatchHeader);
  uint32_t before = 0;
  for (uint64_t i = 0; i < IndexBytes(header.block_count) / 4; ++i) {
    uint32_t end = 0;
    std::memcpy(&end, index + 4 * i, sizeof(end));
    if (i >= header.block_count) {
      if (end != 0) return CINCH_ERROR_FRAME_RESERVED;
      continue;
    }
    if (end < before) return CINCH_ERROR_FRAME_INDEX;
    before = end;
  }
  return uint64_t{before} * kPayloadUnitBytes == header.payload_bytes ? CINCH_OK
                                                                      : CINCH_ERROR_FRAME_INDEX;
}

Status Create(const uint8_t* base, const uint8_t* data, uint64_t bytes, uint8_t* patch,
              uint64_t capacity, uint64_t& patch_bytes) {
  PatchHeader header{};
  header.magic = kPatchMagic;
  header.version = kPatchVersion;
  header.original_bytes = bytes;
  header.block_count = static_cast<uint32_t>(BlockCount(bytes));
  header.block_bytes = kBlockBytes;
  const uint64_t first = PayloadOffset(header.block_count);
  if (patch == nullptr || capacity < first) return CINCH_ERROR_DESTINATION_TOO_SMALL;
  std::memset(patch, 0, first);
  for (uint64_t i = 0; i < header.block_count; ++i) {
    const uint64_t place = first + header.payload_bytes;
    uint32_t block_bytes = 0;
    CINCH_RETURN_IF_ERROR(WriteBlock(base + i * kBlockBytes, data + i * kBlockBytes,
                                     BlockLength(bytes, i), i, patch + place, capacity - place,
                                     header, block_bytes));
    header.payload_bytes += block_bytes;
    const auto end = static_cast<uint32_t>(header.payload_bytes / kPayloadUnitBytes);
    std::memcpy(patch + sizeof(header) + 4 * i, &end, sizeof(end));
  }
  SealPatchHeader(header);
  std::memcpy(patch, &header, sizeof(header));
  patch_bytes = first + header.payload_bytes;
  return CINCH_OK;
}

Status Apply(const uint8_t* base, const uint8_t* patch, const PatchHeader& header, uint8_t* data) {
  CINCH_RETURN_IF_ERROR(CheckIndex(patch, header));
  const uint8_t* index = patch + sizeof(PatchHeader);
  const uint8_t* payloads = patch + PayloadOffset(header.block_count);
  uint64_t hash = 0;
  uint32_t before = 0;
  for (uint64_t i = 0; i < header.block_count; ++i) {
    uint32_t end = 0;
    std::memcpy(&end, index + 4 * i, sizeof(end));
    // Longer than any payload is wrong, and must not wrap around.
    const uint64_t long_bytes = uint64_t{end - before} * kPayloadUnitBytes;
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(long_bytes, 2 * kBlockBytes));
    CINCH_RETURN_IF_ERROR(
        ApplyBlock(base + i * kBlockBytes, payloads + uint64_t{before} * kPayloadUnitBytes, bytes,
                   data + i * kBlockBytes, BlockLength(header.original_bytes, i), i, hash));
    before = end;
  }
  return hash == header.result_hash ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
}

}  // namespace

void SealPatchHeader(PatchHeader& header) {
  header.header_hash = static_cast<uint32_t>(
      BlockHash(reinterpret_cast<const uint8_t*>(&header), kHashedHeaderBytes, kHeaderHashIndex));
}

Status ReadPatchHeader(const uint8_t* patch, uint64_t patch_bytes, PatchHeader& header) {
  if (patch_bytes < sizeof(header)) return CINCH_ERROR_FRAME_TRUNCATED;
  std::memcpy(&header, patch, sizeof(header));
  if (header.magic != kPatchMagic) return CINCH_ERROR_FRAME_MAGIC;
  if (header.version != kPatchVersion) return CINCH_ERROR_FRAME_VERSION;
  PatchHeader sealed = header;
  SealPatchHeader(sealed);
  if (sealed.header_hash != header.header_hash) return CINCH_ERROR_FRAME_HEADER;
  const bool clean =
      header.reserved0 == 0 && std::all_of(std::begin(header.reserved1), std::end(header.reserved1),
                                           [](uint8_t b) { return b == 0; });
  if (!clean) return CINCH_ERROR_FRAME_RESERVED;
  if (header.original_bytes > CINCH_MAX_FRAME_INPUT_BYTES || header.block_bytes != kBlockBytes ||
      header.block_count != BlockCount(header.original_bytes) ||
      header.payload_bytes % kPayloadUnitBytes != 0 || header.payload_bytes >= kMaxPayloadBytes) {
    return CINCH_ERROR_FRAME_HEADER;
  }
  const uint64_t whole = PayloadOffset(header.block_count) + header.payload_bytes;
  if (patch_bytes < whole) return CINCH_ERROR_FRAME_TRUNCATED;
  return patch_bytes == whole ? CINCH_OK : CINCH_ERROR_FRAME_TRAILING;
}

}  // namespace cinch::codec

using namespace cinch::codec;
using cinch::Guarded;
using cinch::GuardedOr;
using cinch::Status;

uint64_t cinch_patch_bound(uint64_t original_bytes) {
  return GuardedOr(uint64_t{0}, [&]() -> uint64_t {
    if (original_bytes > CINCH_MAX_FRAME_INPUT_BYTES) return 0;
    return cinch::format::PatchBound(original_bytes);
  });
}

cinch_status cinch_patch_content_hash(const void* data, uint64_t bytes, uint64_t* hash) {
  return Guarded([&]() -> Status {
    if ((data == nullptr && bytes > 0) || hash == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    const auto* first = static_cast<const uint8_t*>(data);
    uint64_t sum = 0;
    Words words;
    for (uint64_t i = 0; i < cinch::format::BlockCount(bytes); ++i) {
      const uint32_t length = cinch::format::BlockLength(bytes, i);
      words.fill(0);
      LoadWords(first + i * cinch::format::kBlockBytes, length, words);
      sum += HashWords(words, length, i);
    }
    *hash = sum;
    return CINCH_OK;
  });
}

cinch_status cinch_patch_create(const void* base, const void* data, uint64_t bytes, void* patch,
                                uint64_t capacity_bytes, uint64_t* patch_bytes) {
  return Guarded([&]() -> Status {
    if (((base == nullptr || data == nullptr) && bytes > 0) ||
        (patch == nullptr && capacity_bytes > 0) || patch_bytes == nullptr) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    *patch_bytes = 0;
    if (bytes > CINCH_MAX_FRAME_INPUT_BYTES) return CINCH_ERROR_TOO_LARGE;
    return Create(static_cast<const uint8_t*>(base), static_cast<const uint8_t*>(data), bytes,
                  static_cast<uint8_t*>(patch), capacity_bytes, *patch_bytes);
  });
}

cinch_status cinch_patch_get_info(const void* patch, uint64_t patch_bytes, cinch_patch_info* info) {
  return Guarded([&]() -> Status {
    if ((patch == nullptr && patch_bytes > 0) || info == nullptr ||
        info->struct_size != sizeof(*info)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    cinch::format::PatchHeader header;
    const Status status = ReadPatchHeader(static_cast<const uint8_t*>(patch), patch_bytes, header);
    // The header alone is enough to be asked for.
    if (status != CINCH_OK &&
        !(status == CINCH_ERROR_FRAME_TRUNCATED && patch_bytes >= sizeof(header))) {
      return status;
    }
    info->original_bytes = header.original_bytes;
    info->patch_bytes = cinch::format::PayloadOffset(header.block_count) + header.payload_bytes;
    info->base_hash = header.base_hash;
    info->result_hash = header.result_hash;
    return CINCH_OK;
  });
}

cinch_status cinch_patch_apply(const void* base, uint64_t base_hash, const void* patch,
                               uint64_t patch_bytes, void* data, uint64_t bytes) {
  return Guarded([&]() -> Status {
    if (((base == nullptr || data == nullptr) && bytes > 0) ||
        (patch == nullptr && patch_bytes > 0)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    cinch::format::PatchHeader header;
    CINCH_RETURN_IF_ERROR(ReadPatchHeader(static_cast<const uint8_t*>(patch), patch_bytes, header));
    if (header.original_bytes != bytes || header.base_hash != base_hash) {
      return CINCH_ERROR_FRAME_BASE_MISSING;
    }
    return Apply(static_cast<const uint8_t*>(base), static_cast<const uint8_t*>(patch), header,
                 static_cast<uint8_t*>(data));
  });
}
