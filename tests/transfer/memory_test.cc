// SPDX-License-Identifier: Apache-2.0
// A transfer's memory is a constant, not a multiple of the message.
#include "transfer/engine_pair.h"
#include "transfer/pattern.h"
#include "transfer/peer_process.h"

namespace cinch::transfer_test {
namespace {

constexpr uint64_t kBytes = uint64_t{512} << 20;
// The transport's own buffers, the threads' stacks and the codec's scratch memory.
constexpr uint64_t kOtherBytes = uint64_t{16} << 20;

uint64_t PeakBytes(PeerProcess& peer) { return std::stoull(peer.Value("memory")) * 1024; }

// Both sides run in processes of their own. Each first moves a small message (so that everything
// that is allocated once is there) and then the large one, out of and into memory that it already
// has; what the peak grows by in between is what the transfer needed.
TEST(Memory, StaysUnderTheStatedConstant) {
  const std::string large = std::to_string(kBytes);
  for (const char* transports : {"tcp", "posix,self"}) {
    const std::string transport = std::string("transports=") + transports;
    PeerProcess receiver({transport, "listen=127.0.0.1:0", "accept", "touch=1:" + large, "memory",
                          "into=1:" + large, "memory", "wait"});
    const std::string address = receiver.Value("address");
    PeerProcess sender({transport, "touch=1:" + large, "connect=" + address, "memory",
                        "send=1:" + large, "memory", "wait"});
    EXPECT_EQ(sender.Value("connect"), "CINCH_OK");
    const uint64_t sender_before = PeakBytes(sender);
    const uint64_t receiver_before = PeakBytes(receiver);
    EXPECT_GE(sender_before, kBytes);
    EXPECT_EQ(receiver.Value("into"), "CINCH_OK");
    EXPECT_EQ(sender.Value("send"), "CINCH_OK");
    EXPECT_LT(PeakBytes(sender) - sender_before, CINCH_ENDPOINT_MEMORY_BYTES + kOtherBytes);
    EXPECT_LT(PeakBytes(receiver) - receiver_before, CINCH_ENDPOINT_MEMORY_BYTES + kOtherBytes);
    sender.Continue();
    receiver.Continue();
  }
}

}  // namespace
}  // namespace cinch::transfer_test
