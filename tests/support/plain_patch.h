// SPDX-License-Identifier: Apache-2.0
/// @file plain_patch.h
/// What docs/format.md, section 9, says of applying a patch, bit by bit, to hold the codec against.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "cinch/codec.h"
#include "format/block_hash.h"

namespace cinch::test {

class PlainPatch {
 public:
  using Bytes = std::vector<uint8_t>;

  explicit PlainPatch(Bytes patch) : patch_(std::move(patch)) {}

  /// Applies the patch. With `seal`, what says that the blocks are as they were made is put right
  /// first: their checksums and the header's hashes.
  [[nodiscard]] cinch_status Apply(const Bytes& base, bool seal, Bytes* result) {
    *result = base;
    cinch_status status = CheckHeader(base);
    if (status == CINCH_OK) status = CheckIndex();
    const uint64_t blocks = (base.size() + kBlockBytes - 1) / kBlockBytes;
    uint64_t hash = 0;
    for (uint64_t block = 0; block < blocks && status == CINCH_OK; ++block) {
      status = ApplyBlock(block, seal, result, &hash);
    }
    if (status != CINCH_OK) return status;
    if (seal) Store(40, hash);
    if (seal) Store(60, static_cast<uint32_t>(HeaderHash()));
    return hash == Load<uint64_t>(40) ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
  }
  /// The patch, as far as it was sealed.
  [[nodiscard]] const Bytes& patch() const { return patch_; }

  /// Makes the header right for a patch of `base`, which chance never does.
  void RepairHeader(const Bytes& base) {
    if (patch_.size() < kHeaderBytes) patch_.resize(kHeaderBytes);
    const uint64_t blocks = (base.size() + kBlockBytes - 1) / kBlockBytes;
    const uint64_t payload_at = PayloadAt(blocks);
    if (patch_.size() < payload_at) patch_.resize(payload_at);
    patch_.resize(patch_.size() - (patch_.size() - payload_at) % kUnitBytes);
    Store(0, uint32_t{0x50434E43});
    Store(4, uint32_t{1});
    Store(8, uint64_t{base.size()});
    Store(16, uint64_t{patch_.size() - payload_at});
    Store(24, static_cast<uint32_t>(blocks));
    Store(28, static_cast<uint32_t>(kBlockBytes));
    Store(32, ContentHash(base));
    for (size_t at = 48; at < 60; ++at) patch_[at] = 0;
    Store(60, static_cast<uint32_t>(HeaderHash()));
  }

 private:
  static constexpr uint64_t kHeaderBytes = 64;
  static constexpr uint64_t kBlockBytes = 32768;
  static constexpr uint64_t kUnitBytes = 16;

  template <typename Value>
  [[nodiscard]] Value Load(uint64_t at) const {
    Value value;
    std::memcpy(&value, &patch_[at], sizeof(value));
    return value;
  }
  template <typename Value>
  void Store(uint64_t at, Value value) {
    std::memcpy(&patch_[at], &value, sizeof(value));
  }
  [[nodiscard]] uint32_t Bit(uint64_t bit) const { return patch_[bit / 8] >> bit % 8 & 1; }
  [[nodiscard]] uint64_t HeaderHash() const {
    return format::BlockHash(patch_.data(), 60, ~uint32_t{0});
  }
  [[nodiscard]] static uint64_t PayloadAt(uint64_t blocks) {
    return kHeaderBytes + (4 * blocks + 15) / 16 * 16;
  }
  [[nodiscard]] static uint64_t LengthOf(const Bytes& bytes, uint64_t block) {
    const uint64_t left = bytes.size() - block * kBlockBytes;
    return left < kBlockBytes ? left : kBlockBytes;
  }
  [[nodiscard]] static uint64_t HashOf(const Bytes& bytes, uint64_t block) {
    return format::BlockHash(&bytes[block * kBlockBytes], LengthOf(bytes, block), block);
  }
  [[nodiscard]] static uint64_t ContentHash(const Bytes& bytes) {
    uint64_t hash = 0;
    for (uint64_t block = 0; block * kBlockBytes < bytes.size(); ++block) {
      hash += HashOf(bytes, block);
    }
    return hash;
  }

  [[nodiscard]] cinch_status CheckHeader(const Bytes& base) const {
    if (patch_.size() < kHeaderBytes) return CINCH_ERROR_FRAME_TRUNCATED;
    if (Load<uint32_t>(0) != 0x50434E43) return CINCH_ERROR_FRAME_MAGIC;
    if (Load<uint16_t>(4) != 1) return CINCH_ERROR_FRAME_VERSION;
    if (Load<uint32_t>(60) != static_cast<uint32_t>(HeaderHash())) return CINCH_ERROR_FRAME_HEADER;
    bool reserved = Load<uint16_t>(6) != 0;
    for (size_t at = 48; at < 60; ++at) reserved |= patch_[at] != 0;
    if (reserved) return CINCH_ERROR_FRAME_RESERVED;
    const auto original_bytes = Load<uint64_t>(8);
    const auto payload_bytes = Load<uint64_t>(16);
    const uint64_t blocks = original_bytes / kBlockBytes + (original_bytes % kBlockBytes != 0);
    if (original_bytes > uint64_t{63} << 30 || payload_bytes % 16 != 0 ||
        payload_bytes >= uint64_t{1} << 36 || Load<uint32_t>(24) != blocks ||
        Load<uint32_t>(28) != kBlockBytes) {
      return CINCH_ERROR_FRAME_HEADER;
    }
    const uint64_t whole = PayloadAt(blocks) + payload_bytes;
    if (patch_.size() != whole) {
      return patch_.size() < whole ? CINCH_ERROR_FRAME_TRUNCATED : CINCH_ERROR_FRAME_TRAILING;
    }
    return original_bytes == base.size() && Load<uint64_t>(32) == ContentHash(base)
               ? CINCH_OK
               : CINCH_ERROR_FRAME_BASE_MISSING;
  }

  [[nodiscard]] cinch_status CheckIndex() const {
    const auto blocks = Load<uint32_t>(24);
    uint64_t before = 0;
    for (uint64_t i = 0; i < blocks; ++i) {
      const auto end = Load<uint32_t>(kHeaderBytes + 4 * i);
      if (end < before) return CINCH_ERROR_FRAME_INDEX;
      before = end;
    }
    for (uint64_t at = kHeaderBytes + 4 * uint64_t{blocks}; at < PayloadAt(blocks); ++at) {
      if (patch_[at] != 0) return CINCH_ERROR_FRAME_RESERVED;
    }
    return 16 * before == Load<uint64_t>(16) ? CINCH_OK : CINCH_ERROR_FRAME_INDEX;
  }

  /// A field's elements; false when a bit is set that has no meaning. `at` gets past it.
  [[nodiscard]] bool ReadField(uint64_t words, uint32_t width, uint64_t end, uint64_t* at,
                               std::vector<uint32_t>* values) const {
    const uint64_t begin = *at;
    uint32_t shift = 0;
    for (const uint32_t plane : {8U, 8U, 4U, 2U, 1U}) {
      if (width - shift < plane) continue;
      const uint64_t plane_bytes = (plane * words + 7) / 8;
      if (*at + plane_bytes > end) return false;
      for (uint64_t bit = 0; bit < 8 * plane_bytes; ++bit) {
        if (Bit(8 * *at + bit) == 0) continue;
        if (bit >= plane * words) return false;
        (*values)[bit / plane] |= 1U << (shift + bit % plane);
      }
      *at += plane_bytes;
      shift += plane;
    }
    for (; (*at - begin) % 8 != 0; ++*at) {
      if (*at >= end || patch_[*at] != 0) return false;
    }
    return true;
  }

  [[nodiscard]] bool ReadDifferences(uint64_t at, uint64_t end,
                                     std::vector<uint32_t>* differences) const {
    const uint64_t begin = at;
    const uint64_t words = differences->size();
    const uint32_t width = patch_[at];
    const uint64_t exceptions = Load<uint16_t>(at + 2);
    if (width > 16 || patch_[at + 1] != 0 || exceptions > words) return false;
    at += 8;
    if (!ReadField(words, width, end, &at, differences) || at + 4 * exceptions > end) return false;
    int64_t last = -1;
    for (uint64_t i = 0; i < exceptions; ++i) {
      const auto position = Load<uint16_t>(at + 2 * i);
      const auto difference = Load<uint16_t>(at + 2 * exceptions + 2 * i);
      if (position <= last || position >= words || difference < (uint32_t{1} << width))
        return false;
      (*differences)[position] = difference;
      last = position;
    }
    at += 4 * exceptions;
    // No more than what fills the last 16 bytes, and that is zero.
    if ((at - begin + 15) / 16 * 16 != end - begin) return false;
    for (; at < end; ++at) {
      if (patch_[at] != 0) return false;
    }
    return true;
  }

  [[nodiscard]] cinch_status ApplyBlock(uint64_t block, bool seal, Bytes* result, uint64_t* hash) {
    const uint64_t payload_at = PayloadAt(Load<uint32_t>(24));
    const auto end_at = [&](uint64_t i) { return Load<uint32_t>(kHeaderBytes + 4 * i); };
    const uint64_t begin = payload_at + 16 * uint64_t{block == 0 ? 0 : end_at(block - 1)};
    const uint64_t end = payload_at + 16 * uint64_t{end_at(block)};
    if (begin != end) {
      const uint64_t length = LengthOf(*result, block);
      std::vector<uint32_t> differences((length + 1) / 2);
      if (!ReadDifferences(begin, end, &differences)) return CINCH_ERROR_FRAME_BLOCK;
      uint8_t* bytes = &(*result)[block * kBlockBytes];
      for (uint64_t i = 0; i < differences.size(); ++i) {
        const bool whole = 2 * i + 1 < length;
        const uint32_t before = bytes[2 * i] + (whole ? bytes[2 * i + 1] * 256U : 0U);
        const uint32_t zigzag = differences[i];
        const uint32_t step = zigzag % 2 == 0 ? zigzag / 2 : 0U - (zigzag + 1) / 2;
        const uint32_t after = (before + step) % 65536;
        bytes[2 * i] = static_cast<uint8_t>(after);
        if (whole) bytes[2 * i + 1] = static_cast<uint8_t>(after / 256);
        if (!whole && after >= 256) return CINCH_ERROR_FRAME_BLOCK;
      }
    }
    const uint64_t made = HashOf(*result, block);
    *hash += made;
    if (begin == end) return CINCH_OK;
    if (seal) Store(begin + 4, static_cast<uint32_t>(made));
    return Load<uint32_t>(begin + 4) == static_cast<uint32_t>(made) ? CINCH_OK
                                                                    : CINCH_ERROR_FRAME_CHECKSUM;
  }

  Bytes patch_;
};

}  // namespace cinch::test
