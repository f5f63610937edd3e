// SPDX-License-Identifier: Apache-2.0
// Paged memory: tables of blocks that differ on the two sides.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "cinch/blocks.h"
#include "transfer/engine_pair.h"
#include "transfer/fake_devices.h"
#include "transfer/mock_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kLocalBlocks = 700;
constexpr uint64_t kRemoteBlocks = 900;
constexpr size_t kLayers = 3;

/// Two caches of several layers, in fake device memory, with one region for all remote layers.
class Blocks : public testing::Test {
 public:
  Blocks() {
    constexpr uint64_t kRemoteBytes = kRemoteBlocks * kBlockBytes * kLayers;
    remote_memory = devices->Allocate(1, kRemoteBytes);
    right.engine = pair.right_engine();
    EXPECT_EQ(cinch_region_register(&right, remote_memory, kRemoteBytes,
                                    CINCH_REGION_READ | CINCH_REGION_WRITE, &region),
              CINCH_OK);
    EXPECT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      uint8_t* memory = devices->Allocate(0, kLocalBlocks * kBlockBytes);
      const std::vector<uint8_t> data = Pattern(layer + 1, kLocalBlocks * kBlockBytes);
      std::memcpy(devices->View(memory), data.data(), data.size());
      pools.push_back({memory, &remote, layer * kRemoteBlocks * kBlockBytes});
    }
    local_ids = Shuffled(kLocalBlocks, 5);
    remote_ids = Shuffled(kRemoteBlocks, 6);
    local_ids.resize(500);
    remote_ids.resize(500);
  }
  ~Blocks() override { EXPECT_EQ(cinch_region_release(region, kLongSeconds), CINCH_OK); }

  static std::vector<uint32_t> Shuffled(uint64_t count, uint64_t seed) {
    std::vector<uint32_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937_64 random(seed);
    std::shuffle(ids.begin(), ids.end(), random);
    return ids;
  }
  [[nodiscard]] cinch_block_transfer Transfer() const {
    cinch_block_transfer transfer{};
    transfer.struct_size = sizeof(transfer);
    transfer.pools = pools.data();
    transfer.pool_count = pools.size();
    transfer.block_bytes = kBlockBytes;
    transfer.local = {local_ids.data(), local_ids.size(), kLocalBlocks};
    transfer.remote = {remote_ids.data(), remote_ids.size(), kRemoteBlocks};
    return transfer;
  }
  [[nodiscard]] cinch_status Write(const cinch_block_transfer& transfer,
                                   const cinch_transfer_options* options = nullptr) const {
    cinch_operation* operation = nullptr;
    const cinch_status status =
        cinch_write_blocks(pair.left().get(), &transfer, options, &operation);
    return status == CINCH_OK ? Wait(OperationHandle(operation)) : status;
  }
  [[nodiscard]] const uint8_t* Local(size_t layer, size_t i) const {
    return devices->View(pools[layer].base) + local_ids[i] * kBlockBytes;
  }
  [[nodiscard]] const uint8_t* Remote(size_t layer, size_t i) const {
    return devices->View(remote_memory) + pools[layer].offset_bytes + remote_ids[i] * kBlockBytes;
  }
  [[nodiscard]] bool AllEqual() const {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (size_t i = 0; i < local_ids.size(); ++i) {
        if (std::memcmp(Local(layer, i), Remote(layer, i), kBlockBytes) != 0) return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool RemoteIsUntouched() const {
    const uint8_t* view = devices->View(remote_memory);
    return std::all_of(view, view + kRemoteBlocks * kBlockBytes * kLayers,
                       [](uint8_t byte) { return byte == 0; });
  }

  std::shared_ptr<FakeDevices> devices = std::make_shared<FakeDevices>();
  MockPair pair{{}, TestSettings(), transfer::CreateCpuSegmentCodec, devices};
  uint8_t* remote_memory = nullptr;
  cinch_engine right;
  cinch_region* region = nullptr;
  cinch_remote_region remote{};
  std::vector<cinch_block_pool> pools;
  std::vector<uint32_t> local_ids;
  std::vector<uint32_t> remote_ids;
};

TEST_F(Blocks, AllLayersAtOnceWithDifferentTables) {
  ASSERT_EQ(Write(Transfer()), CINCH_OK);
  EXPECT_TRUE(AllEqual());
}

// Small blocks by the ten thousand are one operation, and few segments.
TEST_F(Blocks, SixteenThousandSmallBlocksInOneCall) {
  constexpr uint64_t kSmallBytes = 64;
  constexpr uint64_t kCount = 16384;
  constexpr uint64_t kThere = kRemoteBlocks * kBlockBytes * kLayers / kSmallBytes;
  const std::vector<uint32_t> here = Shuffled(kCount, 1);
  std::vector<uint32_t> there = Shuffled(kThere, 2);
  there.resize(kCount);
  const std::vector<uint8_t> data = Pattern(9, kCount * kSmallBytes);
  uint8_t* memory = devices->Allocate(0, data.size());
  std::memcpy(devices->View(memory), data.data(), data.size());
  const cinch_block_pool pool{memory, &remote, 0};
  cinch_block_transfer transfer = Transfer();
  transfer.pools = &pool;
  transfer.pool_count = 1;
  transfer.block_bytes = kSmallBytes;
  transfer.local = {here.data(), kCount, kCount};
  transfer.remote = {there.data(), kCount, kThere};
  cinch_operation* operation = nullptr;
  ASSERT_EQ(cinch_write_blocks(pair.left().get(), &transfer, nullptr, &operation), CINCH_OK);
  const OperationHandle write(operation);
  ASSERT_EQ(Wait(write), CINCH_OK);
  EXPECT_LE(StatsOf(write).compressed_segments + StatsOf(write).raw_segments, 16u);
  const uint8_t* view = devices->View(remote_memory);
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(std::memcmp(view + there[i] * kSmallBytes, &data[here[i] * kSmallBytes], kSmallBytes),
              0)
        << i;
  }
  // One bad id among them, and nothing moves.
  std::memset(devices->View(remote_memory), 0, kThere * kSmallBytes);
  there[kCount / 2] = static_cast<uint32_t>(kThere);
  EXPECT_EQ(Write(transfer), CINCH_ERROR_INVALID_ARGUMENT);
  there[kCount / 2] = there[0];
  EXPECT_EQ(Write(transfer), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(RemoteIsUntouched());
}

TEST_F(Blocks, LayerByLayerAndBack) {
  for (size_t layer = 0; layer < kLayers; ++layer) {
    cinch_block_transfer transfer = Transfer();
    transfer.pools = &pools[layer];
    transfer.pool_count = 1;
    ASSERT_EQ(Write(transfer), CINCH_OK);
  }
  EXPECT_TRUE(AllEqual());
  for (const cinch_block_pool& pool : pools) {
    std::memset(devices->View(pool.base), 0, kLocalBlocks * kBlockBytes);
  }
  cinch_operation* operation = nullptr;
  const cinch_block_transfer transfer = Transfer();
  ASSERT_EQ(cinch_read_blocks(pair.left().get(), &transfer, nullptr, &operation), CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
  EXPECT_TRUE(AllEqual());
  const std::vector<uint8_t> original = Pattern(1, kLocalBlocks * kBlockBytes);
  EXPECT_EQ(std::memcmp(Local(0, 7), &original[local_ids[7] * kBlockBytes], kBlockBytes), 0);
}

TEST_F(Blocks, NotificationComesOnceTheDataAreThere) {
  cinch_block_transfer transfer = Transfer();
  transfer.notify = 1;
  cinch_transfer_options options = TransferOptions();
  options.tag = 77;
  cinch_transfer_options exactly = options;
  exactly.tag_mask = ~uint64_t{0};
  const OperationHandle notified = Receive(pair.right(), nullptr, 0, &exactly);
  cinch_operation* operation = nullptr;
  ASSERT_EQ(cinch_write_blocks(pair.left().get(), &transfer, &options, &operation), CINCH_OK);
  const OperationHandle write(operation);
  ASSERT_EQ(Wait(notified), CINCH_OK);
  EXPECT_TRUE(AllEqual());
  EXPECT_EQ(InfoOf(notified).tag, 77u);
  EXPECT_EQ(Wait(write), CINCH_OK);
}

TEST_F(Blocks, BadTablesAreRefusedBeforeAnythingMoves) {
  const auto refused = [&](auto&& change) {
    cinch_block_transfer transfer = Transfer();
    change(transfer);
    return Write(transfer);
  };
  EXPECT_EQ(refused([&](auto&) { remote_ids[499] = kRemoteBlocks; }), CINCH_ERROR_INVALID_ARGUMENT);
  remote_ids[499] = remote_ids[3];
  EXPECT_EQ(refused([](auto&) {}), CINCH_ERROR_INVALID_ARGUMENT);  // Written twice.
  remote_ids = Shuffled(kRemoteBlocks, 6);
  remote_ids.resize(500);
  EXPECT_EQ(refused([](auto& t) { t.local.id_count = 499; }), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.local.block_count = 10; }), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.local.ids = nullptr; }), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.block_bytes = 0; }), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.block_bytes = ~uint64_t{0}; }), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.struct_size = 1; }), CINCH_ERROR_INVALID_ARGUMENT);
  pools[2].offset_bytes += kBlockBytes * kRemoteBlocks;
  EXPECT_EQ(refused([](auto&) {}), CINCH_ERROR_REGION);  // Beyond the region's end.
  EXPECT_TRUE(RemoteIsUntouched());
}

TEST_F(Blocks, ARegionThatIsGoneIsRefused) {
  ASSERT_EQ(cinch_region_release(region, kLongSeconds), CINCH_OK);
  region = nullptr;
  EXPECT_EQ(Write(Transfer()), CINCH_ERROR_REGION);
  EXPECT_TRUE(RemoteIsUntouched());
}

// The owner has given the blocks to somebody else.
TEST_F(Blocks, TablesOfAnEarlierGenerationAreRefused) {
  const cinch_remote_region before = remote;
  uint64_t generation = 77;
  EXPECT_EQ(cinch_remote_region_generation(&before, &generation), CINCH_OK);
  EXPECT_EQ(generation, 0u);
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(cinch_region_renew(region, kLongSeconds), CINCH_OK);
    EXPECT_EQ(Write(Transfer()), CINCH_ERROR_STALE) << i;
  }
  cinch_operation* operation = nullptr;
  const cinch_block_transfer transfer = Transfer();
  ASSERT_EQ(cinch_read_blocks(pair.left().get(), &transfer, nullptr, &operation), CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_ERROR_STALE);
  ASSERT_EQ(cinch_write(pair.left().get(), pools[0].base, 100, &before, 0, nullptr, &operation),
            CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_ERROR_STALE);
  ASSERT_EQ(cinch_read(pair.left().get(), pools[0].base, 100, &before, 0, nullptr, &operation),
            CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_ERROR_STALE);
  EXPECT_TRUE(RemoteIsUntouched());
  const std::vector<uint8_t> original = Pattern(1, kLocalBlocks * kBlockBytes);
  EXPECT_EQ(std::memcmp(devices->View(pools[0].base), original.data(), original.size()), 0);

  ASSERT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
  EXPECT_EQ(cinch_remote_region_generation(&remote, &generation), CINCH_OK);
  EXPECT_EQ(generation, 3u);
  EXPECT_EQ(Write(Transfer()), CINCH_OK);
  EXPECT_TRUE(AllEqual());
}

TEST_F(Blocks, OneStalePoolAmongFreshOnesMovesNothing) {
  const cinch_remote_region before = remote;
  ASSERT_EQ(cinch_region_renew(region, kLongSeconds), CINCH_OK);
  ASSERT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
  pools[2].region = &before;
  EXPECT_EQ(Write(Transfer()), CINCH_ERROR_STALE);
  EXPECT_TRUE(RemoteIsUntouched());
  pools[2].region = &remote;
  EXPECT_EQ(Write(Transfer()), CINCH_OK);
  EXPECT_TRUE(AllEqual());
}

// A description cannot be brought up to date by who holds it.
TEST_F(Blocks, AGenerationCannotBeClaimed) {
  const cinch_remote_region before = remote;
  ASSERT_EQ(cinch_region_renew(region, kLongSeconds), CINCH_OK);
  cinch_remote_region now;
  ASSERT_EQ(cinch_region_describe(region, &now), CINCH_OK);
  constexpr size_t kKeyAt = 16;
  constexpr size_t kKeyBytes = 8;
  for (size_t at = 0; at < sizeof(now.descriptor); ++at) {
    remote = before;
    const bool in_key = at >= kKeyAt && at < kKeyAt + kKeyBytes;
    remote.descriptor[at] = in_key ? remote.descriptor[at] ^ 1 : now.descriptor[at];
    EXPECT_EQ(Write(Transfer()), in_key ? CINCH_ERROR_REGION : CINCH_ERROR_STALE) << at;
  }
  EXPECT_TRUE(RemoteIsUntouched());
}

TEST_F(Blocks, GenerationsThatAreForgottenAreRefusedAsWell) {
  for (int i = 0; i < 200; ++i) ASSERT_EQ(cinch_region_renew(region, 0), CINCH_OK);
  EXPECT_EQ(Write(Transfer()), CINCH_ERROR_REGION);
  EXPECT_TRUE(RemoteIsUntouched());
}

TEST_F(Blocks, RenewingWaitsForWhatBeganBefore) {
  FakeStream stream;
  stream.reached = false;
  cinch_transfer_options options = TransferOptions();
  options.stream = &stream;
  const cinch_block_transfer transfer = Transfer();
  cinch_operation* operation = nullptr;
  ASSERT_EQ(cinch_write_blocks(pair.left().get(), &transfer, &options, &operation), CINCH_OK);
  const OperationHandle write(operation);
  ASSERT_TRUE(pair.right_engine()->WaitFor([&] { return region->entry->users > 0; },
                                           Deadline::After(kLongSeconds)));
  EXPECT_EQ(cinch_region_renew(region, 0.01), CINCH_ERROR_TIMEOUT);
  EXPECT_EQ(Write(Transfer()), CINCH_ERROR_STALE);
  EXPECT_EQ(cinch_region_renew(region, 0.01), CINCH_ERROR_TIMEOUT);
  EXPECT_EQ(cinch_region_release(region, 0.01), CINCH_ERROR_TIMEOUT);
  stream.reached = true;
  EXPECT_EQ(Wait(write), CINCH_OK);
  EXPECT_TRUE(AllEqual());
}

TEST_F(Blocks, RenewingTakesNoNonsense) {
  uint64_t generation = 0;
  EXPECT_EQ(cinch_region_renew(nullptr, 1), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_remote_region_generation(nullptr, &generation), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_remote_region_generation(&remote, nullptr), CINCH_ERROR_INVALID_ARGUMENT);
  remote = {};
  EXPECT_EQ(cinch_remote_region_generation(&remote, &generation), CINCH_ERROR_REGION);
}

TEST_F(Blocks, SourcesMayRepeatInAWrite) {
  local_ids[1] = local_ids[0];
  EXPECT_EQ(Write(Transfer()), CINCH_OK);
  EXPECT_TRUE(AllEqual());
}

}  // namespace
}  // namespace cinch::transfer_test
