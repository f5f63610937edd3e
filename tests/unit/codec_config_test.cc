// SPDX-License-Identifier: Apache-2.0
// Runs with CINCH_THREADS=many and CINCH_CHECKSUM=off in its environment.
#include <gtest/gtest.h>

#include "cinch/codec.h"

namespace {

TEST(CodecConfig, ABadVariableFailsTheHandleInsteadOfBecomingADefault) {
  cinch_codec* codec = nullptr;
  EXPECT_EQ(cinch_codec_create(nullptr, &codec), CINCH_ERROR_CONFIG);
  EXPECT_EQ(codec, nullptr);
}

TEST(CodecConfig, TheChecksumDefaultComesFromTheEnvironment) {
  cinch_compress_options options;
  cinch_compress_options_init(&options);
  EXPECT_EQ(options.checksum, 0);
}

}  // namespace
