// SPDX-License-Identifier: Apache-2.0
// Writes and reads of a peer's regions, within one process and between two.
#include <chrono>
#include <cstring>

#include "transfer/engine_pair.h"
#include "transfer/pattern.h"
#include "transfer/peer_process.h"

namespace cinch::transfer_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

class OneSided : public testing::TestWithParam<cinch_policy> {
 protected:
  void Register(size_t bytes, uint32_t access) {
    memory_ = Pattern(100, bytes);
    ASSERT_EQ(
        cinch_region_register(pair_.right_engine.get(), memory_.data(), bytes, access, &region_),
        CINCH_OK);
    ASSERT_EQ(cinch_region_describe(region_, &remote_), CINCH_OK);
  }
  void TearDown() override { EXPECT_EQ(cinch_region_release(region_, kLongSeconds), CINCH_OK); }

  OperationHandle Write(const std::vector<uint8_t>& data, uint64_t offset) {
    const cinch_transfer_options options = TransferOptions(GetParam());
    cinch_operation* operation = nullptr;
    EXPECT_EQ(cinch_write(pair_.left.get(), data.data(), data.size(), &remote_, offset, &options,
                          &operation),
              CINCH_OK);
    return OperationHandle(operation);
  }
  OperationHandle Read(std::vector<uint8_t>& data, uint64_t offset) {
    const cinch_transfer_options options = TransferOptions(GetParam());
    cinch_operation* operation = nullptr;
    EXPECT_EQ(cinch_read(pair_.left.get(), data.data(), data.size(), &remote_, offset, &options,
                         &operation),
              CINCH_OK);
    return OperationHandle(operation);
  }

  static constexpr uint32_t kBoth = CINCH_REGION_READ | CINCH_REGION_WRITE;
  EnginePair pair_;
  std::vector<uint8_t> memory_;
  cinch_region* region_ = nullptr;
  cinch_remote_region remote_{};
};
INSTANTIATE_TEST_SUITE_P(All, OneSided,
                         testing::Values(CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED,
                                         CINCH_POLICY_AUTO));

TEST_P(OneSided, WritesAndReadsRangesExactly) {
  Register(9 * kMegabyte + 5, kBoth);
  std::vector<uint8_t> model = memory_;
  uint64_t seed = 1;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{4097}, size_t{65537},
                             kMegabyte + 1, 9 * kMegabyte}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{5}, memory_.size() - bytes}) {
      const std::vector<uint8_t> data = Pattern(++seed, bytes);
      ASSERT_EQ(Wait(Write(data, offset)), CINCH_OK);
      std::copy(data.begin(), data.end(), model.begin() + static_cast<ptrdiff_t>(offset));
      ASSERT_TRUE(memory_ == model) << bytes << " at " << offset;
      std::vector<uint8_t> back(bytes);
      const OperationHandle read = Read(back, offset);
      ASSERT_EQ(Wait(read), CINCH_OK);
      ASSERT_EQ(back, data);
      if (GetParam() == CINCH_POLICY_COMPRESSED && bytes > kMegabyte) {
        EXPECT_LT(StatsOf(read).wire_bytes, bytes * 3 / 4);
      }
    }
  }
}

TEST_P(OneSided, ManyAtOnce) {
  constexpr size_t kCount = 100;  // More than run at once.
  constexpr size_t kBytes = 100000;
  Register(kCount * kBytes, kBoth);
  std::vector<std::vector<uint8_t>> data;
  std::vector<OperationHandle> operations;
  for (size_t i = 0; i < kCount; ++i) {
    data.push_back(Pattern(i, kBytes));
    operations.push_back(Write(data.back(), i * kBytes));
  }
  for (const OperationHandle& each : operations) ASSERT_EQ(Wait(each), CINCH_OK);
  operations.clear();
  std::vector<std::vector<uint8_t>> back(kCount, std::vector<uint8_t>(kBytes));
  for (size_t i = 0; i < kCount; ++i) operations.push_back(Read(back[i], i * kBytes));
  for (const OperationHandle& each : operations) ASSERT_EQ(Wait(each), CINCH_OK);
  EXPECT_TRUE(back == data);
}

TEST_P(OneSided, VectorsOfManySmallPieces) {
  constexpr size_t kPieces = 20000;
  constexpr size_t kStride = 700;
  Register(kPieces * kStride, kBoth);
  std::vector<uint8_t> local = Pattern(7, kPieces * 300);
  std::vector<cinch_piece> pieces;
  std::vector<cinch_remote_piece> remote;
  for (size_t i = 0; i < kPieces; ++i) {
    remote.push_back({&remote_, i * kStride, 300});
    if (i % 2 == 0) pieces.push_back({local.data() + i * 300, 600});
  }
  const std::vector<uint8_t> before = memory_;
  const cinch_transfer_options options = TransferOptions(GetParam());
  cinch_operation* operation = nullptr;
  ASSERT_EQ(cinch_writev(pair_.left.get(), pieces.data(), pieces.size(), remote.data(),
                         remote.size(), &options, &operation),
            CINCH_OK);
  ASSERT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
  for (size_t i = 0; i < kPieces; ++i) {
    ASSERT_EQ(0, std::memcmp(&memory_[i * kStride], &local[i * 300], 300)) << i;
    ASSERT_EQ(0, std::memcmp(&memory_[i * kStride + 300], &before[i * kStride + 300], 400)) << i;
  }
  const std::vector<uint8_t> sent = local;
  std::fill(local.begin(), local.end(), uint8_t{0});
  ASSERT_EQ(cinch_readv(pair_.left.get(), pieces.data(), pieces.size(), remote.data(),
                        remote.size(), &options, &operation),
            CINCH_OK);
  ASSERT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
  EXPECT_TRUE(local == sent);
}

TEST_P(OneSided, NothingOutsideARegionIsTouched) {
  Register(1000, kBoth);
  std::vector<uint8_t> data(100, 1);
  cinch_operation* operation = nullptr;
  // What the descriptor tells is refused here.
  for (const uint64_t offset : {uint64_t{901}, uint64_t{1000}, ~uint64_t{0}, ~uint64_t{0} - 50}) {
    EXPECT_EQ(cinch_write(pair_.left.get(), data.data(), data.size(), &remote_, offset, nullptr,
                          &operation),
              CINCH_ERROR_REGION);
    EXPECT_EQ(cinch_read(pair_.left.get(), data.data(), data.size(), &remote_, offset, nullptr,
                         &operation),
              CINCH_ERROR_REGION);
  }
  // A descriptor that lies about the size, the id or the key is refused by the owner.
  const std::vector<uint8_t> before = memory_;
  for (const size_t byte : {size_t{30}, size_t{10}, size_t{20}}) {
    cinch_remote_region forged = remote_;
    forged.descriptor[byte] ^= 0x40;
    const uint64_t offset = byte == 30 ? 950 : 0;
    ASSERT_EQ(cinch_write(pair_.left.get(), data.data(), data.size(), &forged, offset, nullptr,
                          &operation),
              CINCH_OK);
    EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_ERROR_REGION);
    ASSERT_EQ(cinch_read(pair_.left.get(), data.data(), data.size(), &forged, offset, nullptr,
                         &operation),
              CINCH_OK);
    EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_ERROR_REGION);
  }
  EXPECT_EQ(memory_, before);
  EXPECT_EQ(data, std::vector<uint8_t>(100, 1));
  EXPECT_EQ(Wait(Write(data, 900)), CINCH_OK);  // And the connection is still there.
}

TEST_P(OneSided, AccessRightsAreKept) {
  Register(1000, CINCH_REGION_READ);
  std::vector<uint8_t> data(100);
  EXPECT_EQ(Wait(Read(data, 0)), CINCH_OK);
  EXPECT_EQ(Wait(Write(data, 0)), CINCH_ERROR_REGION);
  EXPECT_EQ(cinch_region_release(region_, kLongSeconds), CINCH_OK);
  EXPECT_EQ(Wait(Read(data, 0)), CINCH_ERROR_REGION);
  region_ = nullptr;
}

TEST_P(OneSided, ReleaseWaitsForRunningAccesses) {
  Register(64 * kMegabyte, kBoth);
  const std::vector<uint8_t> data = Pattern(3, memory_.size());
  const OperationHandle write = Write(data, 0);
  (void)Wait(write, 0.002);  // So that it is most often under way.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(cinch_region_release(region_, 2 * kLongSeconds), CINCH_OK);
  // The end of the access wakes it, not its time-out.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  region_ = nullptr;
  // Nobody writes there any more, whether the write came through or was refused.
  const cinch_status status = Wait(write);
  EXPECT_TRUE(status == CINCH_OK || status == CINCH_ERROR_REGION) << cinch_status_name(status);
  if (status == CINCH_OK) {
    EXPECT_TRUE(memory_ == data);
  }
}

TEST_P(OneSided, CancelledReadsLeaveTheConnectionUsable) {
  Register(32 * kMegabyte, kBoth);
  std::vector<uint8_t> back(memory_.size());
  const OperationHandle read = Read(back, 0);
  EXPECT_EQ(cinch_cancel(read.get()), CINCH_OK);
  EXPECT_EQ(Wait(read), CINCH_ERROR_CANCELLED);
  // One is to be caught under way, which a busy machine can miss.
  bool caught = false;
  for (int attempt = 0; attempt < 100 && !caught; ++attempt) {
    const OperationHandle running = Read(back, 0);
    const bool under_way = Wait(running, 0.003) == CINCH_IN_PROGRESS;
    EXPECT_EQ(cinch_cancel(running.get()), CINCH_OK);
    const cinch_status status = Wait(running);
    caught = under_way && status == CINCH_ERROR_CANCELLED;
    EXPECT_TRUE(caught || status == CINCH_OK) << cinch_status_name(status);
  }
  EXPECT_TRUE(caught);
  ASSERT_EQ(Wait(Read(back, 0)), CINCH_OK);
  EXPECT_TRUE(back == memory_);
}

TEST(OneSidedProcesses, AccessWithoutThePeersProgram) {
  const EngineHandle engine = MakeEngine(DefaultOptions());
  PeerProcess peer({"listen=127.0.0.1:0", "accept", "region=1:5000000", "compare=2", "wait"});
  const EndpointHandle endpoint = Connect(engine.get(), peer.Value("address"));
  const std::string text = peer.Value("region");
  cinch_remote_region remote{};
  ASSERT_EQ(text.size(), 2 * sizeof(remote.descriptor));
  for (size_t i = 0; i < sizeof(remote.descriptor); ++i) {
    remote.descriptor[i] =
        static_cast<unsigned char>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  std::vector<uint8_t> data(5000000);
  cinch_operation* operation = nullptr;
  ASSERT_EQ(cinch_read(endpoint.get(), data.data(), data.size(), &remote, 0, nullptr, &operation),
            CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
  EXPECT_TRUE(data == Pattern(1, 5000000));
  data = Pattern(2, 5000000);
  ASSERT_EQ(cinch_write(endpoint.get(), data.data(), data.size(), &remote, 0, nullptr, &operation),
            CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
  peer.Continue();
  EXPECT_EQ(peer.Line(), "region SAME");
}

}  // namespace
}  // namespace cinch::transfer_test
