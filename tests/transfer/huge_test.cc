// SPDX-License-Identifier: Apache-2.0
// Messages of more than 4 GiB. Their pieces are the same few megabytes over and over, so that the
// test needs no memory of that size.
#include "transfer/engine_pair.h"
#include "transfer/pattern.h"

namespace cinch::transfer_test {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{32} << 20;
constexpr uint64_t kTotalBytes = (uint64_t{4} << 30) + (uint64_t{96} << 20) + 7;
constexpr double kMinutes = 600;

std::vector<cinch_piece> Repeated(std::vector<uint8_t>& memory) {
  std::vector<cinch_piece> pieces;
  for (uint64_t at = 0; at < kTotalBytes; at += kPieceBytes) {
    pieces.push_back({memory.data(), std::min(kPieceBytes, kTotalBytes - at)});
  }
  return pieces;
}

class Huge : public testing::TestWithParam<cinch_policy> {};
INSTANTIATE_TEST_SUITE_P(All, Huge, testing::Values(CINCH_POLICY_RAW, CINCH_POLICY_COMPRESSED));

TEST_P(Huge, MoreThanFourGibibytes) {
  const EnginePair pair;
  std::vector<uint8_t> sent = Pattern(1, kPieceBytes);
  std::vector<uint8_t> received(kPieceBytes);
  const std::vector<cinch_piece> source = Repeated(sent);
  const std::vector<cinch_piece> target = Repeated(received);
  const cinch_transfer_options options = TransferOptions(GetParam());
  cinch_operation* send = nullptr;
  cinch_operation* receive = nullptr;
  ASSERT_EQ(cinch_recvv(pair.right.get(), target.data(), target.size(), nullptr, &receive),
            CINCH_OK);
  ASSERT_EQ(cinch_sendv(pair.left.get(), source.data(), source.size(), &options, &send), CINCH_OK);
  const OperationHandle send_handle(send);
  const OperationHandle receive_handle(receive);
  EXPECT_EQ(Wait(receive_handle, kMinutes), CINCH_OK);
  EXPECT_EQ(Wait(send_handle, kMinutes), CINCH_OK);
  EXPECT_EQ(InfoOf(receive_handle).message_bytes, kTotalBytes);
  EXPECT_EQ(StatsOf(receive_handle).payload_bytes, kTotalBytes);
  EXPECT_TRUE(received == sent);
}

}  // namespace
}  // namespace cinch::transfer_test
