// SPDX-License-Identifier: Apache-2.0
// The engine with device memory, on fake devices: nothing but the runtime can touch their memory.
#include <cstring>
#include <numeric>

#include "transfer/fake_devices.h"
#include "transfer/mock_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

transfer::Settings DeviceSettings(bool share, policy::Mode mode = policy::Mode::kCompressed) {
  transfer::Settings settings = TestSettings();
  settings.share_device_memory = share;
  settings.policy = mode;
  return settings;
}

class DeviceEngine : public testing::TestWithParam<bool> {
 public:
  DeviceEngine() = default;

  [[nodiscard]] std::unique_ptr<MockPair> Pair(policy::Mode mode = policy::Mode::kCompressed,
                                               MockFaults mock_faults = {}) const {
    return std::make_unique<MockPair>(std::move(mock_faults), DeviceSettings(GetParam(), mode),
                                      transfer::CreateCpuSegmentCodec, devices);
  }
  /// Device memory that holds `bytes`.
  [[nodiscard]] uint8_t* Put(int device, const std::vector<uint8_t>& bytes) const {
    uint8_t* memory = devices->Allocate(device, bytes.size());
    if (!bytes.empty()) std::memcpy(devices->View(memory), bytes.data(), bytes.size());
    return memory;
  }
  [[nodiscard]] std::vector<uint8_t> Get(const uint8_t* memory, size_t bytes) const {
    const uint8_t* view = devices->View(memory);
    return {view, view + bytes};
  }

  std::shared_ptr<FakeDevices> devices = std::make_shared<FakeDevices>();
};

INSTANTIATE_TEST_SUITE_P(Paths, DeviceEngine, testing::Bool(),
                         [](const auto& each) { return each.param ? "Shared" : "Pinned"; });

TEST_P(DeviceEngine, MovesEverySizeBetweenDevices) {
  const auto pair = Pair();
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4096}, size_t{4097}, size_t{65536},
                             kMegabyte, 9 * kMegabyte + 3}) {
    const std::vector<uint8_t> data = Pattern(bytes, bytes);
    const uint8_t* source = Put(0, data);
    uint8_t* target = devices->Allocate(1, bytes);
    const OperationHandle receive = Receive(pair->right(), target, bytes);
    const OperationHandle send = Send(pair->left(), source, bytes);
    ASSERT_EQ(Wait(receive), CINCH_OK) << bytes;
    ASSERT_EQ(Wait(send), CINCH_OK) << bytes;
    EXPECT_TRUE(Get(target, bytes) == data) << bytes;
  }
}

TEST_P(DeviceEngine, MovesBetweenHostAndDevice) {
  const auto pair = Pair();
  for (const size_t bytes : {size_t{5}, size_t{4000}, 3 * kMegabyte + 1}) {
    const std::vector<uint8_t> data = Pattern(bytes, bytes);
    uint8_t* middle = devices->Allocate(0, bytes);
    std::vector<uint8_t> back(bytes);
    const OperationHandle first = Receive(pair->right(), middle, bytes);
    ASSERT_EQ(Wait(Send(pair->left(), data.data(), bytes)), CINCH_OK);
    ASSERT_EQ(Wait(first), CINCH_OK);
    const OperationHandle second = Receive(pair->left(), back.data(), bytes);
    ASSERT_EQ(Wait(Send(pair->right(), middle, bytes)), CINCH_OK);
    ASSERT_EQ(Wait(second), CINCH_OK);
    EXPECT_TRUE(back == data) << bytes;
  }
}

TEST_P(DeviceEngine, RawDataAndStatisticsNameThePath) {
  const auto pair = Pair(policy::Mode::kRaw);
  const std::vector<uint8_t> data = Pattern(1, 2 * kMegabyte);
  uint8_t* target = devices->Allocate(1, data.size());
  const OperationHandle receive = Receive(pair->right(), target, data.size());
  const OperationHandle send = Send(pair->left(), Put(0, data), data.size());
  ASSERT_EQ(Wait(send), CINCH_OK);
  ASSERT_EQ(Wait(receive), CINCH_OK);
  EXPECT_TRUE(Get(target, data.size()) == data);
  for (const OperationHandle* each : {&send, &receive}) {
    const cinch_transfer_stats stats = StatsOf(*each);
    EXPECT_EQ(stats.compressed_segments, 0u);
    EXPECT_EQ(stats.pinned_segments + stats.shared_segments, stats.raw_segments);
    EXPECT_EQ(stats.shared_segments > 0, GetParam());
  }
}

TEST_P(DeviceEngine, PiecesOfBothSidesNeedNotMatch) {
  const auto pair = Pair();
  constexpr size_t kBytes = 2 * kMegabyte + 77;
  const std::vector<uint8_t> data = Pattern(3, kBytes);
  std::vector<cinch_piece> sources;
  std::vector<cinch_piece> targets;
  for (size_t at = 0; at < kBytes;) {
    const size_t step = std::min<size_t>(kBytes - at, 1000 + 37 * sources.size());
    sources.push_back({Put(0, {&data[at], &data[at] + step}), step});
    at += step;
  }
  for (size_t at = 0; at < kBytes;) {
    const size_t step = std::min<size_t>(kBytes - at, 4096);
    targets.push_back({devices->Allocate(1, step), step});
    at += step;
  }
  cinch_operation* receive = nullptr;
  cinch_operation* send = nullptr;
  ASSERT_EQ(cinch_recvv(pair->right().get(), targets.data(), targets.size(), nullptr, &receive),
            CINCH_OK);
  ASSERT_EQ(cinch_sendv(pair->left().get(), sources.data(), sources.size(), nullptr, &send),
            CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(send)), CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(receive)), CINCH_OK);
  size_t at = 0;
  for (const cinch_piece& piece : targets) {
    const auto* memory = static_cast<const uint8_t*>(piece.address);
    ASSERT_EQ(std::memcmp(devices->View(memory), &data[at], piece.bytes), 0) << at;
    at += piece.bytes;
  }
}

TEST_P(DeviceEngine, PiecesInDifferentPlacesAreRefused) {
  const auto pair = Pair();
  uint8_t host[16] = {};
  const cinch_piece mixed[] = {{devices->Allocate(0, 16), 16}, {host, 16}};
  const cinch_piece two[] = {{devices->Allocate(0, 16), 16}, {devices->Allocate(1, 16), 16}};
  cinch_operation* operation = nullptr;
  for (const cinch_piece* pieces : {mixed, two}) {
    EXPECT_EQ(cinch_sendv(pair->left().get(), pieces, 2, nullptr, &operation),
              CINCH_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(cinch_recvv(pair->left().get(), pieces, 2, nullptr, &operation),
              CINCH_ERROR_INVALID_ARGUMENT);
  }
}

TEST_P(DeviceEngine, OneSidedAccessesReachDeviceRegions) {
  const auto pair = Pair();
  constexpr size_t kBytes = 3 * kMegabyte;
  const std::vector<uint8_t> data = Pattern(5, kBytes);
  uint8_t* memory = devices->Allocate(1, kBytes);
  cinch_engine engine{pair->right_engine()};
  cinch_region* region = nullptr;
  ASSERT_EQ(cinch_region_register(&engine, memory, kBytes, CINCH_REGION_READ | CINCH_REGION_WRITE,
                                  &region),
            CINCH_OK);
  cinch_remote_region remote;
  ASSERT_EQ(cinch_region_describe(region, &remote), CINCH_OK);
  cinch_operation* operation = nullptr;
  ASSERT_EQ(cinch_write(pair->left().get(), Put(0, data), kBytes, &remote, 0, nullptr, &operation),
            CINCH_OK);
  EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
  EXPECT_TRUE(Get(memory, kBytes) == data);
  for (int i = 0; i < 2; ++i) {  // The first reply may come before its reader reaches our memory.
    uint8_t* back = devices->Allocate(0, kBytes);
    ASSERT_EQ(cinch_read(pair->left().get(), back, kBytes, &remote, 0, nullptr, &operation),
              CINCH_OK);
    EXPECT_EQ(Wait(OperationHandle(operation)), CINCH_OK);
    EXPECT_TRUE(Get(back, kBytes) == data);
  }
  EXPECT_EQ(cinch_region_release(region, kLongSeconds), CINCH_OK);
}

TEST_P(DeviceEngine, SendsWaitForTheirStream) {
  const auto pair = Pair();
  const std::vector<uint8_t> data = Pattern(7, kMegabyte);
  uint8_t* source = devices->Allocate(0, data.size());
  uint8_t* target = devices->Allocate(1, data.size());
  FakeStream stream;
  stream.reached = false;
  cinch_transfer_options options = TransferOptions();
  options.stream = &stream;
  const OperationHandle receive = Receive(pair->right(), target, data.size());
  const OperationHandle send = Send(pair->left(), source, data.size(), &options);
  EXPECT_EQ(cinch_wait(send.get(), 0.05), CINCH_IN_PROGRESS);
  std::memcpy(devices->View(source), data.data(), data.size());
  stream.reached = true;
  EXPECT_EQ(Wait(send), CINCH_OK);
  EXPECT_EQ(Wait(receive), CINCH_OK);
  EXPECT_TRUE(Get(target, data.size()) == data);
}

TEST_P(DeviceEngine, DamagedFramesAreNamedOnBothSides) {
  if (GetParam()) GTEST_SKIP() << "what is in shared memory does not travel";
  std::atomic<bool> damage{true};
  MockFaults faults;
  faults.on_fetch = [&](uint8_t* bytes, uint64_t count) {
    if (damage && count > 200) bytes[count / 2] ^= 0x10;
  };
  const auto pair = Pair(policy::Mode::kCompressed, std::move(faults));
  const std::vector<uint8_t> data = Pattern(9, 4 * kMegabyte);
  uint8_t* target = devices->Allocate(1, data.size());
  OperationHandle receive = Receive(pair->right(), target, data.size());
  OperationHandle send = Send(pair->left(), Put(0, data), data.size());
  const cinch_status status = Wait(receive);
  EXPECT_LE(status, CINCH_ERROR_FRAME_TRUNCATED);
  EXPECT_EQ(Wait(send), status);
  damage = false;
  receive = Receive(pair->right(), target, data.size());
  send = Send(pair->left(), Put(0, data), data.size());
  EXPECT_EQ(Wait(send), CINCH_OK);
  EXPECT_EQ(Wait(receive), CINCH_OK);
  EXPECT_TRUE(Get(target, data.size()) == data);
}

TEST_P(DeviceEngine, DeviceFailuresEndTheMessageOnly) {
  const auto pair = Pair();
  const std::vector<uint8_t> data = Pattern(9, 4 * kMegabyte);
  const uint8_t* source = Put(0, data);
  uint8_t* target = devices->Allocate(1, data.size());
  const auto exchange = [&] {
    const OperationHandle receive = Receive(pair->right(), target, data.size());
    const OperationHandle send = Send(pair->left(), source, data.size());
    const cinch_status sent = Wait(send);
    EXPECT_EQ(Wait(receive), sent);
    return sent;
  };
  devices->faults.no_lanes = true;
  EXPECT_EQ(exchange(), CINCH_ERROR_OUT_OF_MEMORY);
  devices->faults.no_lanes = false;
  devices->faults.broken = true;
  EXPECT_EQ(exchange(), CINCH_ERROR_DEVICE);
  devices->faults.broken = false;
  EXPECT_EQ(exchange(), CINCH_OK);
  EXPECT_TRUE(Get(target, data.size()) == data);
}

TEST_P(DeviceEngine, CancelledSendsLeaveTheConnection) {
  const auto pair = Pair();
  const std::vector<uint8_t> data = Pattern(9, 16 * kMegabyte);
  const uint8_t* source = Put(0, data);
  uint8_t* target = devices->Allocate(1, data.size());
  for (int i = 0; i < 20; ++i) {
    const OperationHandle receive = Receive(pair->right(), target, data.size());
    const OperationHandle send = Send(pair->left(), source, data.size());
    static_cast<void>(cinch_wait(send.get(), 0.001 * i));
    EXPECT_EQ(cinch_cancel((i % 2 == 0 ? send : receive).get()), CINCH_OK);
    if (i % 2 != 0) {
      // A receive that ended before its message came leaves the message to others: there are none.
      static_cast<void>(Wait(receive));
      EXPECT_EQ(cinch_cancel(send.get()), CINCH_OK);
    }
    const cinch_status sent = Wait(send);
    EXPECT_TRUE(sent == CINCH_OK || sent == CINCH_ERROR_CANCELLED) << sent;
    const cinch_status received = Wait(receive);
    EXPECT_TRUE(received == CINCH_OK || received == CINCH_ERROR_CANCELLED) << received;
  }
  const OperationHandle receive = Receive(pair->right(), target, data.size());
  EXPECT_EQ(Wait(Send(pair->left(), source, data.size())), CINCH_OK);
  EXPECT_EQ(Wait(receive), CINCH_OK);
  EXPECT_TRUE(Get(target, data.size()) == data);
}

TEST_P(DeviceEngine, ManyMessagesAtOnceShareLaunches) {
  const auto pair = Pair();
  constexpr size_t kMessages = 200;
  constexpr size_t kBytes = 20000;
  std::vector<OperationHandle> operations;
  std::vector<uint8_t*> targets;
  for (size_t i = 0; i < kMessages; ++i) {
    targets.push_back(devices->Allocate(1, kBytes));
    operations.push_back(Receive(pair->right(), targets.back(), kBytes));
  }
  for (size_t i = 0; i < kMessages; ++i) {
    operations.push_back(Send(pair->left(), Put(0, Pattern(i, kBytes)), kBytes));
  }
  for (const OperationHandle& each : operations) EXPECT_EQ(Wait(each), CINCH_OK);
  for (size_t i = 0; i < kMessages; ++i) {
    EXPECT_TRUE(Get(targets[i], kBytes) == Pattern(i, kBytes)) << i;
  }
  EXPECT_LT(devices->submitted_batches, 2 * kMessages);
}

TEST_P(DeviceEngine, PeerLostWhileDevicesWorkEndsEverything) {
  const auto pair = Pair();
  const std::vector<uint8_t> data = Pattern(9, 16 * kMegabyte);
  const OperationHandle send = Send(pair->left(), Put(0, data), data.size());
  EXPECT_TRUE(pair->LosesPeerByItsSocket());
  EXPECT_EQ(Wait(send), CINCH_ERROR_PEER_LOST);
}

}  // namespace
}  // namespace cinch::transfer_test
