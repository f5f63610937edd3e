// SPDX-License-Identifier: Apache-2.0
// What the C ABI says of bad arguments, and in a process without NCCL.
#include <gtest/gtest.h>

#include "cinch/collectives.h"

namespace {

TEST(CollectivesAbi, OptionsHaveDefaults) {
  cinch_collectives_options options{};
  cinch_collectives_options_init(&options);
  EXPECT_EQ(options.struct_size, sizeof(options));
  EXPECT_EQ(options.min_bytes, uint64_t{1} << 20);
  EXPECT_EQ(options.always_compress, 0);
  cinch_collectives_options_init(nullptr);
}

TEST(CollectivesAbi, NeedsNcclInTheProcess) {
  int communicator = 0;
  cinch_collectives* handle = nullptr;
  EXPECT_EQ(cinch_collectives_create(&communicator, nullptr, &handle), CINCH_ERROR_UNSUPPORTED);
  EXPECT_EQ(handle, nullptr);
}

TEST(CollectivesAbi, RefusesBadArguments) {
  int communicator = 0;
  cinch_collectives* handle = nullptr;
  EXPECT_EQ(cinch_collectives_create(nullptr, nullptr, &handle), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_collectives_create(&communicator, nullptr, nullptr),
            CINCH_ERROR_INVALID_ARGUMENT);
  cinch_collectives_options options{};
  cinch_collectives_options_init(&options);
  options.reserved = 1;
  EXPECT_EQ(cinch_collectives_create(&communicator, &options, &handle),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_all_gather(nullptr, &communicator, &communicator, 1, 0, nullptr),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_collectives_error(nullptr), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_collectives_counters_get(nullptr, nullptr), CINCH_ERROR_INVALID_ARGUMENT);
  cinch_collectives_destroy(nullptr);
}

TEST(CollectivesAbi, GroupsAreBalanced) {
  EXPECT_EQ(cinch_collectives_group_end(), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_collectives_group_start(), CINCH_OK);
  EXPECT_EQ(cinch_collectives_group_start(), CINCH_OK);
  EXPECT_EQ(cinch_collectives_group_end(), CINCH_OK);
  EXPECT_EQ(cinch_collectives_group_end(), CINCH_OK);
  EXPECT_EQ(cinch_collectives_group_end(), CINCH_ERROR_INVALID_ARGUMENT);
}

}  // namespace
