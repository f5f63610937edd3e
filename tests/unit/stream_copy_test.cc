// SPDX-License-Identifier: Apache-2.0
#include "codec/frame/stream_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace cinch::codec {
namespace {

TEST(StreamCopy, CopiesEveryLengthAtEveryAlignmentAndNothingElse) {
  constexpr uint64_t kRoom = 512;
  constexpr uint8_t kUntouched = 0xA5;
  std::vector<uint8_t> source(kRoom);
  for (uint64_t i = 0; i < kRoom; ++i) source[i] = static_cast<uint8_t>(i * 37 + 1);
  for (uint64_t begin = 0; begin < 32; ++begin) {
    for (uint64_t from = 0; from < 3; ++from) {
      for (uint64_t bytes = 0; bytes <= 200; ++bytes) {
        std::vector<uint8_t> target(kRoom, kUntouched);
        StreamCopy(target.data() + begin, source.data() + from, bytes);
        for (uint64_t i = 0; i < kRoom; ++i) {
          const bool inside = i >= begin && i < begin + bytes;
          ASSERT_EQ(target[i], inside ? source[from + i - begin] : kUntouched)
              << begin << " " << from << " " << bytes << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cinch::codec
