// SPDX-License-Identifier: Apache-2.0
/// @file octet.cuh
/// Eight elements, the unit in which a lane works: their bytes, and the bytes transposed into
/// planes (docs/format.md, section 3).
///
/// After Normalize every dtype looks alike: an element's symbol is the upper S bits of its highest
/// byte, the rest of that byte are the residue's upper 8 - S bits, and the lower bytes are the
/// residue's byte planes.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/portable.cuh"
#include "format/dtype.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kOctet = 8;

/// What happens to an element's bits before the split.
enum class Transform : uint32_t { kNone, kRotate, kMoveSign };

CINCH_PORTABLE Transform TransformOf(uint32_t dtype) {
  if (format::SignAboveSymbol(dtype)) return Transform::kMoveSign;
  return format::TraitsOf(dtype).rotated ? Transform::kRotate : Transform::kNone;
}

/// The word with an fp32's sign moved from above the exponent to below it; also the upper word of
/// an fp64, whose symbol stands at the same place.
CINCH_PORTABLE uint32_t MoveSign(uint32_t word) {
  return ((word << 1) & 0xFF000000) | (word & 0x007FFFFF) | ((word >> 31) << 23);
}
CINCH_PORTABLE uint32_t RestoreSign(uint32_t word) {
  return ((word >> 1) & 0x7F800000) | (word & 0x007FFFFF) | ((word & 0x00800000) << 8);
}

template <uint32_t kElementBytes>
struct Octet {
  static constexpr uint32_t kWords = 2 * kElementBytes;
  uint32_t word[kWords];
};

template <uint32_t kElementBytes>
CINCH_PORTABLE void Normalize(Octet<kElementBytes>* octet, Transform transform) {
  if (transform == Transform::kNone) return;
  constexpr uint32_t kStep = kElementBytes == 8 ? 2 : 1;
  if (transform == Transform::kRotate) {
    for (uint32_t& word : octet->word) word = RotateLeftOne(word);
  } else if constexpr (kElementBytes >= 4) {
    for (uint32_t i = kStep - 1; i < octet->kWords; i += kStep) {
      octet->word[i] = MoveSign(octet->word[i]);
    }
  }
}

template <uint32_t kElementBytes>
CINCH_PORTABLE void Denormalize(Octet<kElementBytes>* octet, Transform transform) {
  if (transform == Transform::kNone) return;
  constexpr uint32_t kStep = kElementBytes == 8 ? 2 : 1;
  if (transform == Transform::kRotate) {
    for (uint32_t& word : octet->word) word = RotateRightOne(word);
  } else if constexpr (kElementBytes >= 4) {
    for (uint32_t i = kStep - 1; i < octet->kWords; i += kStep) {
      octet->word[i] = RestoreSign(octet->word[i]);
    }
  }
}

/// Rotates the `bytes` (1 to 3) low bytes of a word, each element of 1 or 2 bytes within itself:
/// the elements after a block's last whole word. By one to the left, or to the right.
template <uint32_t kElementBytes>
CINCH_PORTABLE uint32_t RotateElementsAlone(uint32_t word, uint32_t bytes, bool left) {
  constexpr uint32_t kBits = 8 * (kElementBytes < 4 ? kElementBytes : 2);
  constexpr uint32_t kMask = (1U << kBits) - 1;
  const uint32_t by = left ? 1 : kBits - 1;
  uint32_t result = 0;
  for (uint32_t at = 0; at < 8 * bytes; at += kBits) {
    const uint32_t element = (word >> at) & kMask;
    result |= (((element << by) | (element >> (kBits - by))) & kMask) << at;
  }
  return result;
}

/// Loads the octet that starts at element `first`, normalized, from a block of `elements` elements
/// at an address that 16 divides; bytes beyond the elements read as zero.
template <uint32_t kElementBytes>
CINCH_PORTABLE Octet<kElementBytes> LoadOctet(const uint8_t* block, uint32_t first,
                                              uint32_t elements, Transform transform) {
  Octet<kElementBytes> octet;
  const uint8_t* bytes = block + first * kElementBytes;
  if (first + kOctet <= elements) {
    if constexpr (kElementBytes == 1) {
      const auto words = LoadAligned<Words2>(bytes);
      octet.word[0] = words.word[0];
      octet.word[1] = words.word[1];
    } else {
      for (uint32_t i = 0; i < octet.kWords; i += 4) {
        const auto words = LoadAligned<Words4>(bytes + 4 * i);
        for (uint32_t k = 0; k < 4; ++k) octet.word[i + k] = words.word[k];
      }
    }
    Normalize(&octet, transform);
    return octet;
  }
  const uint32_t left_bytes = first < elements ? (elements - first) * kElementBytes : 0;
  for (uint32_t i = 0; i < octet.kWords; ++i) {
    const uint32_t there = 4 * i < left_bytes ? Minimum(left_bytes - 4 * i, 4) : 0;
    octet.word[i] = LoadBytes<uint32_t>(bytes + 4 * i, there);
  }
  Normalize(&octet, transform);
  if (kElementBytes < 4 && transform == Transform::kRotate && left_bytes % 4 != 0) {
    const uint32_t there = left_bytes % 4;
    const uint32_t last = LoadBytes<uint32_t>(bytes + left_bytes - there, there);
    for (uint32_t i = 0; i < octet.kWords; ++i) {
      if (i == left_bytes / 4) {
        octet.word[i] = RotateElementsAlone<kElementBytes>(last, there, true);
      }
    }
  }
  return octet;
}

/// The inverse of LoadOctet; bytes beyond the elements are left alone.
template <uint32_t kElementBytes>
CINCH_PORTABLE void StoreOctet(Octet<kElementBytes> octet, uint32_t first, uint32_t elements,
                               Transform transform, uint8_t* block) {
  uint8_t* bytes = block + first * kElementBytes;
  if (first + kOctet <= elements) {
    Denormalize(&octet, transform);
    if constexpr (kElementBytes == 1) {
      StoreAligned(bytes, Words2{{octet.word[0], octet.word[1]}});
    } else {
      for (uint32_t i = 0; i < octet.kWords; i += 4) {
        StoreAligned(bytes + 4 * i, Words4{{octet.word[i], octet.word[i + 1], octet.word[i + 2],
                                            octet.word[i + 3]}});
      }
    }
    return;
  }
  const uint32_t left_bytes = first < elements ? (elements - first) * kElementBytes : 0;
  const Octet<kElementBytes> normalized = octet;
  Denormalize(&octet, transform);
  for (uint32_t i = 0; i < octet.kWords; ++i) {
    const uint32_t there = 4 * i < left_bytes ? Minimum(left_bytes - 4 * i, 4) : 0;
    uint32_t word = octet.word[i];
    if (kElementBytes < 4 && transform == Transform::kRotate && there < 4) {
      word = RotateElementsAlone<kElementBytes>(normalized.word[i], there, false);
    }
    StoreBytes<uint32_t>(bytes + 4 * i, word, there);
  }
}

/// Byte `plane` of each of eight elements.
struct Plane {
  uint32_t low;   ///< Of elements 0 to 3.
  uint32_t high;  ///< Of elements 4 to 7.
};

/// Takes one byte plane of four elements; `first` is 0 or 4.
template <uint32_t kElementBytes>
CINCH_PORTABLE uint32_t TakeBytes(const Octet<kElementBytes>& octet, uint32_t first,
                                  uint32_t plane) {
  if constexpr (kElementBytes == 1) {
    return octet.word[first / 4];
  } else if constexpr (kElementBytes == 2) {
    return BytePermute(octet.word[first / 2], octet.word[first / 2 + 1], 0x6420 + 0x1111 * plane);
  } else {
    constexpr uint32_t kStep = kElementBytes / 4;
    const uint32_t* words = &octet.word[first * kStep + plane / 4];
    const uint32_t selector = plane % 4 + ((4 + plane % 4) << 4);
    return BytePermute(BytePermute(words[0], words[kStep], selector),
                       BytePermute(words[2 * kStep], words[3 * kStep], selector), 0x5410);
  }
}

template <uint32_t kElementBytes>
CINCH_PORTABLE Plane TakePlane(const Octet<kElementBytes>& octet, uint32_t plane) {
  return {TakeBytes(octet, 0, plane), TakeBytes(octet, 4, plane)};
}

/// The four words that have byte e of planes 0 to 3 in word e: a transposition.
CINCH_PORTABLE void Transpose(uint32_t plane0, uint32_t plane1, uint32_t plane2, uint32_t plane3,
                              uint32_t* words, uint32_t step) {
  for (uint32_t e = 0; e < 4; ++e) {
    const uint32_t selector = e + ((4 + e) << 4);
    words[e * step] = BytePermute(BytePermute(plane0, plane1, selector),
                                  BytePermute(plane2, plane3, selector), 0x5410);
  }
}

/// The inverse of TakePlane for all planes of an octet, the highest one last.
template <uint32_t kElementBytes>
CINCH_PORTABLE Octet<kElementBytes> JoinPlanes(const Plane (&planes)[kElementBytes]) {
  Octet<kElementBytes> octet;
  for (uint32_t half = 0; half < 2; ++half) {
    const auto of = [&](uint32_t plane) {
      return half == 0 ? planes[plane].low : planes[plane].high;
    };
    if constexpr (kElementBytes == 1) {
      octet.word[half] = of(0);
    } else if constexpr (kElementBytes == 2) {
      octet.word[2 * half] = BytePermute(of(0), of(1), 0x5140);
      octet.word[2 * half + 1] = BytePermute(of(0), of(1), 0x7362);
    } else if constexpr (kElementBytes == 4) {
      Transpose(of(0), of(1), of(2), of(3), &octet.word[4 * half], 1);
    } else {
      Transpose(of(0), of(1), of(2), of(3), &octet.word[8 * half], 2);
      Transpose(of(4), of(5), of(6), of(7), &octet.word[8 * half + 1], 2);
    }
  }
  return octet;
}

}  // namespace cinch::codec::gpu
