// SPDX-License-Identifier: Apache-2.0
// How an engine finds out what a device's codec does, and what it makes of it.
#include <chrono>
#include <cstring>
#include <thread>

#include "transfer/device_probe.h"
#include "transfer/fake_devices.h"
#include "transfer/mock_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

class DeviceSpeed : public testing::Test {
 public:
  DeviceSpeed() { devices->SetSpeeds(std::nullopt); }

  [[nodiscard]] std::unique_ptr<MockPair> Pair(
      const transfer::Settings& settings = TestSettings()) const {
    return std::make_unique<MockPair>(MockFaults{}, settings, transfer::CreateCpuSegmentCodec,
                                      devices);
  }
  [[nodiscard]] uint8_t* Put(int device, const std::vector<uint8_t>& bytes) const {
    uint8_t* memory = devices->Allocate(device, bytes.size());
    std::memcpy(devices->View(memory), bytes.data(), bytes.size());
    return memory;
  }
  /// A megabyte from device 0 to `target_device`.
  [[nodiscard]] bool Exchange(const MockPair& pair, int target_device,
                              const cinch_transfer_options* options = nullptr) const {
    const std::vector<uint8_t> data = Pattern(3, kMegabyte);
    uint8_t* target = devices->Allocate(target_device, data.size());
    const OperationHandle receive = Receive(pair.right(), target, data.size());
    const OperationHandle send = Send(pair.left(), Put(0, data), data.size(), options);
    return Wait(send) == CINCH_OK && Wait(receive) == CINCH_OK &&
           std::memcmp(devices->View(target), data.data(), data.size()) == 0;
  }
  [[nodiscard]] bool BecomesKnown(int device) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!devices->speeds().Find(device, 0)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  std::shared_ptr<FakeDevices> devices = std::make_shared<FakeDevices>();
};

TEST_F(DeviceSpeed, EachDeviceIsMeasuredOnceWhenItIsFirstUsed) {
  {
    const auto pair = Pair();
    std::vector<uint8_t> host(kMegabyte);
    const OperationHandle receive = Receive(pair->right(), host.data(), host.size());
    EXPECT_EQ(Wait(Send(pair->left(), Pattern(1, kMegabyte).data(), kMegabyte)), CINCH_OK);
    EXPECT_EQ(Wait(receive), CINCH_OK);
    EXPECT_EQ(devices->submitted_tasks, 0u);
    EXPECT_TRUE(Exchange(*pair, 1));
    EXPECT_TRUE(BecomesKnown(0));
    EXPECT_TRUE(BecomesKnown(1));
  }
  for (const int device : {0, 1}) {
    const transfer::DeviceSpeeds speeds = devices->speeds().Find(device, 0).value();
    for (const transfer::CodecSpeed& speed : {speeds.pinned, speeds.shared}) {
      EXPECT_GT(speed.encode_bytes_per_second, 1e6);
      EXPECT_LT(speed.encode_bytes_per_second, 1e12);
      EXPECT_GT(speed.decode_bytes_per_second, 1e6);
      EXPECT_LT(speed.decode_bytes_per_second, 1e12);
    }
  }
  EXPECT_FALSE(devices->speeds().Find(0, 8).has_value()) << "other launches are other speeds";
  const uint64_t tasks = devices->submitted_tasks;
  const auto another = Pair();
  EXPECT_TRUE(Exchange(*another, 1));
  EXPECT_LT(devices->submitted_tasks - tasks, transfer::DeviceProbe::kJobs) << "measured again";
}

TEST_F(DeviceSpeed, OnlyDevicesInUseAreMeasured) {
  const auto pair = Pair();
  EXPECT_TRUE(Exchange(*pair, 0));
  EXPECT_TRUE(BecomesKnown(0));
  EXPECT_EQ(devices->touched_devices, 1u);
}

// The caller's stream stands still for as long as it likes: measuring does not use it.
TEST_F(DeviceSpeed, MeasuringDoesNotComeAfterTheCallersStream) {
  const auto pair = Pair();
  FakeStream stream;
  stream.reached = false;
  cinch_transfer_options options = TransferOptions();
  options.stream = &stream;
  const std::vector<uint8_t> data = Pattern(3, kMegabyte);
  uint8_t* target = devices->Allocate(0, data.size());
  const OperationHandle receive = Receive(pair->right(), target, data.size());
  const OperationHandle send = Send(pair->left(), Put(0, data), data.size(), &options);
  EXPECT_TRUE(BecomesKnown(0));
  EXPECT_EQ(cinch_test(send.get()), CINCH_IN_PROGRESS);
  stream.reached = true;
  EXPECT_EQ(Wait(send), CINCH_OK);
  EXPECT_EQ(Wait(receive), CINCH_OK);
}

TEST_F(DeviceSpeed, AConfiguredSpeedIsTakenInstead) {
  transfer::Settings settings = TestSettings();
  settings.device_codec_gbps = 80;
  const auto pair = Pair(settings);
  EXPECT_TRUE(Exchange(*pair, 1, nullptr));
  EXPECT_LT(devices->submitted_tasks, transfer::DeviceProbe::kJobs);
  EXPECT_TRUE(devices->speeds().Claim(0, 0)) << "somebody measured";
}

TEST_F(DeviceSpeed, WithoutMemoryToMeasureMessagesStillMove) {
  devices->faults.no_memory = true;
  const auto pair = Pair();
  EXPECT_TRUE(Exchange(*pair, 1));
  EXPECT_FALSE(devices->speeds().Find(0, 0).has_value());
}

TEST_F(DeviceSpeed, AnEngineMayEndWhileItMeasures) {
  for (int i = 0; i < 5; ++i) {
    devices->SetSpeeds(std::nullopt);
    const auto pair = Pair();
    EXPECT_TRUE(Exchange(*pair, 1));
  }
}

/// What the policy chooses over a link of 100 MB/s with a codec that was measured like that.
cinch_policy ChoiceAt(const transfer::DeviceSpeeds& speeds, bool share) {
  constexpr double kLinkGbps = 0.8;
  const auto devices = std::make_shared<FakeDevices>();
  devices->SetSpeeds(speeds);
  transfer::Settings settings = TestSettings();
  settings.policy = policy::Mode::kAuto;
  settings.link_gbps = kLinkGbps;
  settings.share_device_memory = share;
  MockPair pair({}, settings, transfer::CreateCpuSegmentCodec, devices);
  const std::vector<uint8_t> data = Pattern(3, 2 * kMegabyte);
  uint8_t* source = devices->Allocate(0, data.size());
  uint8_t* target = devices->Allocate(1, data.size());
  std::memcpy(devices->View(source), data.data(), data.size());
  cinch_policy chosen = CINCH_POLICY_DEFAULT;
  // The first, raw, shows what the link does; nothing of the codec is known but what was measured.
  for (const cinch_policy policy : {CINCH_POLICY_RAW, CINCH_POLICY_AUTO}) {
    const cinch_transfer_options options = TransferOptions(policy);
    const OperationHandle receive = Receive(pair.right(), target, data.size());
    const OperationHandle send = Send(pair.left(), source, data.size(), &options);
    EXPECT_EQ(Wait(send), CINCH_OK);
    EXPECT_EQ(Wait(receive), CINCH_OK);
    chosen = InfoOf(send).policy;
  }
  return chosen;
}

TEST(DeviceChoice, FollowsTheSpeedThatWasMeasuredForTheWay) {
  // Far apart: on a busy machine the link looks slower than it is.
  constexpr transfer::CodecSpeed kFast{10e9, 10e9};
  constexpr transfer::CodecSpeed kSlowEncoder{1e5, 10e9};
  constexpr transfer::CodecSpeed kSlowDecoder{10e9, 1e5};
  for (const bool share : {false, true}) {
    const auto choice = [share](const transfer::CodecSpeed& here,
                                const transfer::CodecSpeed& elsewhere) {
      return ChoiceAt(
          share ? transfer::DeviceSpeeds{elsewhere, here} : transfer::DeviceSpeeds{here, elsewhere},
          share);
    };
    EXPECT_EQ(choice(kFast, kSlowEncoder), CINCH_POLICY_COMPRESSED) << share;
    EXPECT_EQ(choice(kSlowEncoder, kFast), CINCH_POLICY_RAW) << share;
    EXPECT_EQ(choice(kSlowDecoder, kFast), CINCH_POLICY_RAW) << share;
  }
}

}  // namespace
}  // namespace cinch::transfer_test
