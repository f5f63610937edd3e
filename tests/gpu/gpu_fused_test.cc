// SPDX-License-Identifier: Apache-2.0
/// The fused collectives with ranks that are streams of one process, bit for bit.
#include <cuda_fp16.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "support/fused_group.h"

namespace cinch::test {
namespace {

using fused::Communicator;
using fused::Route;

// Streams of different ranks must not share a hardware queue, and this is read once.
const int kManyQueues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);

uint32_t CtasFor(uint32_t ranks) { return ranks <= 4 ? 32 : 16; }

size_t OperationCount() {
  const char* text = std::getenv("CINCH_FUSED_TEST_OPERATIONS");
  return text == nullptr ? 300 : static_cast<size_t>(std::strtoul(text, nullptr, 10));
}

/// The seconds after which random operations end, however many are left.
double OperationSeconds() {
  const char* text = std::getenv("CINCH_FUSED_TEST_SECONDS");
  return text == nullptr ? 1e9 : std::strtod(text, nullptr);
}

uint64_t OperationSeed() {
  const char* text = std::getenv("CINCH_FUSED_TEST_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// Device memory with a message at an offset, surrounded by bytes that nobody may touch.
class Place {
 public:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kGuardByte = 0xA5;
  Place(size_t bytes, size_t offset, uint32_t rank = 0)
      : rank_(rank),
        bytes_(bytes),
        offset_(kGuard + offset),
        memory_((UseDeviceOf(rank), bytes + 2 * kGuard + offset)) {
    EXPECT_EQ(cudaMemset(memory_.data(), kGuardByte, memory_.size()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  uint8_t* data() const { return memory_.data() + offset_; }
  void Set(const Bytes& bytes) {
    UseDeviceOf(rank_);
    EXPECT_EQ(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  /// The message; the guards are checked.
  Bytes Get() const {
    const Bytes all = memory_.Download();
    for (size_t i = 0; i < offset_; ++i) {
      if (all[i] != kGuardByte) ADD_FAILURE() << "byte before the output was written";
    }
    for (size_t i = offset_ + bytes_; i < all.size(); ++i) {
      if (all[i] != kGuardByte) ADD_FAILURE() << "byte behind the output was written";
    }
    return Bytes(all.begin() + static_cast<std::ptrdiff_t>(offset_),
                 all.begin() + static_cast<std::ptrdiff_t>(offset_ + bytes_));
  }

 private:
  uint32_t rank_;
  size_t bytes_;
  size_t offset_;
  Memory memory_;
};

struct Case {
  size_t bytes;
  size_t send_offset;
  size_t receive_offset;
  Kind kind;
  cinch_dtype dtype;
};

std::vector<Place> MakePlaces(uint32_t count, size_t bytes, size_t offset) {
  std::vector<Place> places;
  places.reserve(count);
  for (uint32_t i = 0; i < count; ++i) places.emplace_back(bytes, offset, i);
  return places;
}

void CheckAllGather(FusedGroup* group, const Case& one, bool in_place) {
  const uint32_t ranks = group->ranks();
  auto sends = MakePlaces(ranks, one.bytes, one.send_offset);
  auto receives = MakePlaces(ranks, one.bytes * ranks, one.receive_offset);
  Bytes expected;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Bytes message = MakeMessage(one.bytes, one.kind, one.bytes + rank);
    expected.insert(expected.end(), message.begin(), message.end());
    sends[rank].Set(message);
    if (in_place) {
      Bytes start(one.bytes * ranks, 0x11);
      std::copy(message.begin(), message.end(),
                start.begin() + static_cast<std::ptrdiff_t>(rank * one.bytes));
      receives[rank].Set(start);
    }
  }
  group->Run([&](uint32_t rank, Communicator& fused, cudaStream_t stream) {
    const uint8_t* send = in_place ? receives[rank].data() + rank * one.bytes : sends[rank].data();
    return fused.AllGather(send, receives[rank].data(), one.bytes, one.dtype, stream);
  });
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(receives[rank].Get() == expected) << "rank " << rank << " bytes " << one.bytes;
  }
}

void CheckBroadcast(FusedGroup* group, const Case& one, uint32_t root) {
  const uint32_t ranks = group->ranks();
  auto buffers = MakePlaces(ranks, one.bytes, one.receive_offset);
  const Bytes message = MakeMessage(one.bytes, one.kind, one.bytes);
  buffers[root].Set(message);
  group->Run([&](uint32_t rank, Communicator& fused, cudaStream_t stream) {
    return fused.Broadcast(buffers[rank].data(), one.bytes, root, one.dtype, stream);
  });
  for (uint32_t rank = 0; rank < ranks; ++rank) ASSERT_TRUE(buffers[rank].Get() == message);
}

/// Sizes of all pairs come from `size_of(from, to)`.
template <typename SizeOf>
void CheckExchange(FusedGroup* group, const Case& one, SizeOf size_of) {
  const uint32_t ranks = group->ranks();
  std::vector<std::vector<Place>> sends(ranks);
  std::vector<std::vector<Place>> receives(ranks);
  std::vector<std::vector<Route>> routes(ranks, std::vector<Route>(fused::kMaxRanks));
  const auto message_of = [&](uint32_t from, uint32_t to) {
    return MakeMessage(size_of(from, to), one.kind, one.bytes + 31 * from + to);
  };
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      sends[rank].emplace_back(size_of(rank, peer), one.send_offset, rank);
      receives[rank].emplace_back(size_of(peer, rank), one.receive_offset, rank);
      sends[rank][peer].Set(message_of(rank, peer));
      routes[rank][peer] = {sends[rank][peer].data(), size_of(rank, peer),
                            receives[rank][peer].data(), size_of(peer, rank)};
    }
  }
  group->Run([&](uint32_t rank, Communicator& fused, cudaStream_t stream) {
    return fused.Exchange(routes[rank].data(), one.dtype, stream);
  });
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      ASSERT_TRUE(receives[rank][peer].Get() == message_of(peer, rank))
          << peer << " to " << rank << " bytes " << size_of(peer, rank);
    }
  }
}

void CheckSendReceive(FusedGroup* group, const Case& one, uint32_t from, uint32_t to) {
  std::vector<Place> places;
  places.emplace_back(one.bytes, one.receive_offset, from);
  places.emplace_back(one.bytes, one.receive_offset, to);
  const Bytes message = MakeMessage(one.bytes, one.kind, one.bytes);
  places[0].Set(message);
  group->Run([&](uint32_t rank, Communicator& fused, cudaStream_t stream) {
    if (rank == from) return fused.Send(places[0].data(), one.bytes, to, one.dtype, stream);
    if (rank == to) return fused.Receive(places[1].data(), one.bytes, from, one.dtype, stream);
    return CINCH_OK;
  });
  ASSERT_TRUE(places[1].Get() == message);
}

float ElementAt(const Bytes& bytes, size_t i, cinch_dtype dtype) {
  if (dtype == CINCH_DTYPE_FP32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return value;
  }
  uint16_t half = 0;
  std::memcpy(&half, bytes.data() + 2 * i, 2);
  if (dtype == CINCH_DTYPE_BF16) return FromBf16(half);
  return __half2float(__half(__half_raw{half}));
}

void PutElement(float value, size_t i, cinch_dtype dtype, Bytes* bytes) {
  if (dtype == CINCH_DTYPE_FP32) {
    std::memcpy(bytes->data() + 4 * i, &value, 4);
    return;
  }
  const uint16_t half =
      dtype == CINCH_DTYPE_BF16 ? Bf16Of(value) : static_cast<__half_raw>(__float2half_rn(value)).x;
  std::memcpy(bytes->data() + 2 * i, &half, 2);
}

size_t SizeOfElement(cinch_dtype dtype) { return dtype == CINCH_DTYPE_FP32 ? 4 : 2; }

Bytes MakeNumbers(size_t elements, cinch_dtype dtype, uint64_t seed) {
  Numbers numbers(seed);
  Bytes bytes(elements * SizeOfElement(dtype));
  for (size_t i = 0; i < elements; ++i) PutElement(numbers.Gaussian(), i, dtype, &bytes);
  return bytes;
}

Bytes SumOf(const std::vector<Bytes>& messages, cinch_dtype dtype) {
  Bytes sum(messages[0].size());
  for (size_t i = 0; i < sum.size() / SizeOfElement(dtype); ++i) {
    float value = ElementAt(messages[0], i, dtype);
    for (size_t rank = 1; rank < messages.size(); ++rank) {
      value += ElementAt(messages[rank], i, dtype);
    }
    PutElement(value, i, dtype, &sum);
  }
  return sum;
}

enum class Reduction { kScatter, kAll, kAllInPlace };

void CheckReduce(FusedGroup* group, size_t elements, cinch_dtype dtype, Reduction reduction,
                 size_t offset) {
  const uint32_t ranks = group->ranks();
  const bool scatters = reduction == Reduction::kScatter;
  const size_t part_bytes = elements * SizeOfElement(dtype);
  const size_t send_bytes = scatters ? part_bytes * ranks : part_bytes;
  auto sends = MakePlaces(ranks, send_bytes, offset);
  auto receives = MakePlaces(ranks, part_bytes, offset);
  std::vector<Bytes> messages;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    messages.push_back(MakeNumbers(send_bytes / SizeOfElement(dtype), dtype, elements + rank));
    sends[rank].Set(messages.back());
  }
  group->Run([&](uint32_t rank, Communicator& fused, cudaStream_t stream) {
    uint8_t* send = sends[rank].data();
    if (scatters) return fused.ReduceScatter(send, receives[rank].data(), elements, dtype, stream);
    uint8_t* receive = reduction == Reduction::kAllInPlace ? send : receives[rank].data();
    return fused.AllReduce(send, receive, elements, dtype, stream);
  });
  const Bytes sum = SumOf(messages, dtype);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Bytes got =
        reduction == Reduction::kAllInPlace ? sends[rank].Get() : receives[rank].Get();
    const size_t begin = scatters ? rank * part_bytes : 0;
    ASSERT_EQ(std::memcmp(got.data(), sum.data() + begin, part_bytes), 0)
        << "rank " << rank << " elements " << elements << " dtype " << dtype;
  }
}

class FusedTest : public testing::TestWithParam<uint32_t> {
 protected:
  FusedTest() : group_(GetParam(), CtasFor(GetParam())) {}
  FusedGroup group_;
};

constexpr size_t kSizes[] = {0,    1,     2,      15,     2046,    2048,    2050,
                             8192, 16384, 100001, 262144, 1048576, 5000002, 9437184};

TEST_P(FusedTest, AllGatherGivesEverybodyEverything) {
  for (const size_t bytes : kSizes) {
    for (const Kind kind : {Kind::kGaussian, Kind::kMixed}) {
      CheckAllGather(&group_, {bytes, 0, 0, kind, CINCH_DTYPE_BF16}, false);
      if (HasFatalFailure()) return;
    }
  }
  CheckAllGather(&group_, {1 << 20, 0, 0, Kind::kNoise, CINCH_DTYPE_BF16}, false);
  CheckAllGather(&group_, {1 << 20, 0, 0, Kind::kZero, CINCH_DTYPE_BF16}, true);
  CheckAllGather(&group_, {1 << 20, 0, 0, Kind::kGaussian, CINCH_DTYPE_FP32}, true);
}

TEST_P(FusedTest, AnyAlignment) {
  for (const size_t offset : {1, 2, 4, 6, 8, 13}) {
    CheckAllGather(&group_, {300000, offset, 0, Kind::kGaussian, CINCH_DTYPE_BF16}, false);
    CheckAllGather(&group_, {300000, 0, offset, Kind::kMixed, CINCH_DTYPE_BF16}, false);
    CheckBroadcast(&group_, {300001, offset, offset, Kind::kGaussian, CINCH_DTYPE_AUTO}, 0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(FusedTest, BroadcastAndSendReceive) {
  for (const size_t bytes : kSizes) {
    const Case one{bytes, 0, 0, Kind::kMixed, CINCH_DTYPE_BF16};
    CheckBroadcast(&group_, one, static_cast<uint32_t>(bytes) % group_.ranks());
    CheckSendReceive(&group_, one, 0, group_.ranks() - 1);
    CheckSendReceive(&group_, one, 1, 0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(FusedTest, ExchangeOfEqualAndUnequalParts) {
  for (const size_t bytes : {size_t{0}, size_t{2048}, size_t{70000}, size_t{1} << 20}) {
    const Case one{bytes, 0, 0, Kind::kMixed, CINCH_DTYPE_BF16};
    CheckExchange(&group_, one, [&](uint32_t, uint32_t) { return bytes; });
    CheckExchange(&group_, one, [&](uint32_t from, uint32_t to) {
      return (from + 2 * to) % 3 == 0 ? 0 : bytes / (1 + from) + 4096 * to;
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(FusedTest, ReductionsAddInTheOrderOfTheRanks) {
  for (const cinch_dtype dtype : {CINCH_DTYPE_BF16, CINCH_DTYPE_FP16, CINCH_DTYPE_FP32}) {
    for (const size_t elements : {1, 7, 1024, 4096, 50001, 524288}) {
      CheckReduce(&group_, elements, dtype, Reduction::kScatter, 0);
      CheckReduce(&group_, elements, dtype, Reduction::kAll, 0);
      CheckReduce(&group_, elements, dtype, Reduction::kAllInPlace, 4);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(FusedTest, StoresAndBulkCopiesGiveTheSame) {
  for (uint32_t rank = 0; rank < group_.ranks(); ++rank) group_.at(rank).SetDirect(true);
  CheckAllGather(&group_, {3000000, 0, 0, Kind::kMixed, CINCH_DTYPE_BF16}, false);
  CheckReduce(&group_, 300000, CINCH_DTYPE_BF16, Reduction::kAll, 0);
}

TEST_P(FusedTest, NumbersWrapAround) {
  for (uint32_t rank = 0; rank < group_.ranks(); ++rank) {
    ASSERT_EQ(group_.at(rank).SetNumbersBeforeWrap(), CINCH_OK);
  }
  CheckAllGather(&group_, {9437184, 0, 0, Kind::kMixed, CINCH_DTYPE_BF16}, false);
  CheckReduce(&group_, 3000000, CINCH_DTYPE_BF16, Reduction::kAll, 0);
}

void RunRandomOperation(FusedGroup* group, Numbers* numbers) {
  const bool direct = numbers->Below(2) == 0;
  for (uint32_t rank = 0; rank < group->ranks(); ++rank) group->at(rank).SetDirect(direct);
  const auto size = static_cast<size_t>(numbers->Below(uint64_t{1} << (4 + numbers->Below(18))));
  const size_t offsets[] = {0, 0, 0, 2, 8, 1};
  const Case one{size, offsets[numbers->Below(6)], offsets[numbers->Below(6)],
                 static_cast<Kind>(numbers->Below(4)),
                 numbers->Below(4) == 0 ? CINCH_DTYPE_FP32 : CINCH_DTYPE_BF16};
  const cinch_dtype dtypes[] = {CINCH_DTYPE_BF16, CINCH_DTYPE_FP16, CINCH_DTYPE_FP32};
  switch (numbers->Below(6)) {
    case 0:
      return CheckAllGather(group, one, numbers->Below(2) == 0);
    case 1:
      return CheckBroadcast(group, one, static_cast<uint32_t>(numbers->Below(group->ranks())));
    case 2: {
      const uint64_t seed = numbers->Next();
      return CheckExchange(group, one, [&](uint32_t from, uint32_t to) {
        return static_cast<size_t>(Numbers(seed + 100 * from + to).Below(size + 1));
      });
    }
    case 3: {
      const auto from = static_cast<uint32_t>(numbers->Below(group->ranks()));
      return CheckSendReceive(group, one, from, (from + 1) % group->ranks());
    }
    case 4:
      return CheckReduce(group, size / 4 + 1, dtypes[numbers->Below(3)], Reduction::kScatter, 0);
    default:
      return CheckReduce(group, size / 4 + 1, dtypes[numbers->Below(3)], Reduction::kAll, 0);
  }
}

TEST_P(FusedTest, RandomOperations) {
  Numbers numbers(GetParam() + 1000 * OperationSeed());
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> most(OperationSeconds());
  size_t done = 0;
  while (done < OperationCount() && std::chrono::steady_clock::now() - start < most) {
    RunRandomOperation(&group_, &numbers);
    if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "operation " << done;
    ++done;
  }
  RecordProperty("operations", static_cast<int>(done));
  std::printf("%zu operations of %u ranks\n", done, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, FusedTest, testing::Values(2, 4, 8));

TEST(FusedGraphTest, ACapturedCallIsReplayedWithOtherData) {
  constexpr size_t kBytes = 3 << 20;
  FusedGroup group(2, 16);
  auto sends = MakePlaces(2, kBytes, 0);
  auto receives = MakePlaces(2, 2 * kBytes, 0);
  cudaGraphExec_t replays[2] = {};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    cudaGraph_t graph = nullptr;
    UseDeviceOf(rank);
    CINCH_CUDA_OK(cudaStreamBeginCapture(group.stream(rank), cudaStreamCaptureModeThreadLocal));
    ASSERT_EQ(group.at(rank).AllGather(sends[rank].data(), receives[rank].data(), kBytes,
                                       CINCH_DTYPE_BF16, group.stream(rank)),
              CINCH_OK);
    CINCH_CUDA_OK(cudaStreamEndCapture(group.stream(rank), &graph));
    CINCH_CUDA_OK(cudaGraphInstantiate(&replays[rank], graph, 0));
    CINCH_CUDA_OK(cudaGraphDestroy(graph));
  }
  for (uint64_t round = 0; round < 3; ++round) {
    Bytes expected;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const Bytes message = MakeMessage(kBytes, Kind::kMixed, 10 * round + rank);
      sends[rank].Set(message);
      expected.insert(expected.end(), message.begin(), message.end());
    }
    group.Run([&](uint32_t rank, Communicator&, cudaStream_t stream) {
      UseDeviceOf(rank);
      return cudaGraphLaunch(replays[rank], stream) == cudaSuccess ? CINCH_OK : CINCH_ERROR_DEVICE;
    });
    ASSERT_TRUE(receives[0].Get() == expected && receives[1].Get() == expected);
  }
  for (cudaGraphExec_t replay : replays) CINCH_CUDA_OK(cudaGraphExecDestroy(replay));
}

TEST(FusedFailureTest, APeerThatDoesNotComeIsReportedInTime) {
  FusedGroup group(2, 16, 0.2);
  const Place send(1 << 20, 0);
  const Place receive(2 << 20, 0);
  ASSERT_EQ(group.at(0).AllGather(send.data(), receive.data(), 1 << 20, CINCH_DTYPE_BF16,
                                  group.stream(0)),
            CINCH_OK);
  ASSERT_EQ(cudaStreamSynchronize(group.stream(0)), cudaSuccess);
  fused::Report report;
  EXPECT_EQ(group.at(0).Check(&report), CINCH_ERROR_TIMEOUT);
  EXPECT_EQ(report.rank, 0U);
  EXPECT_EQ(report.peer, 1U);
  EXPECT_NE(report.expected, report.seen);
  // The rank does not try again, and neither does its peer wait in vain.
  EXPECT_EQ(group.at(0).AllGather(send.data(), receive.data(), 1 << 20, CINCH_DTYPE_BF16,
                                  group.stream(0)),
            CINCH_ERROR_TIMEOUT);
  // What the first rank sent may be there in full, but no more comes.
  for (int i = 0; i < 2; ++i) {
    const Status status = group.at(1).AllGather(send.data(), receive.data(), 1 << 20,
                                                CINCH_DTYPE_BF16, group.stream(1));
    EXPECT_EQ(status, CINCH_OK);
    ASSERT_EQ(cudaStreamSynchronize(group.stream(1)), cudaSuccess);
  }
  EXPECT_EQ(group.at(1).Check(nullptr), CINCH_ERROR_PEER_LOST);
}

TEST(FusedFailureTest, AbortMakesAllRanksLeave) {
  FusedGroup group(2, 16, 60);
  const Place send(64 << 20, 0);
  const Place receive(64 << 20, 0);
  ASSERT_EQ(group.at(0).Send(send.data(), 64 << 20, 1, CINCH_DTYPE_BF16, group.stream(0)),
            CINCH_OK);
  group.at(1).Abort();
  ASSERT_EQ(cudaStreamSynchronize(group.stream(0)), cudaSuccess);
  EXPECT_EQ(group.at(0).Check(nullptr), CINCH_ERROR_PEER_LOST);
  EXPECT_EQ(group.at(1).Receive(receive.data(), 64 << 20, 0, CINCH_DTYPE_BF16, group.stream(1)),
            CINCH_ERROR_CANCELLED);
}

TEST(FusedFailureTest, OwnAbortIsCancelled) {
  FusedGroup group(2, 16, 60);
  const Place receive(8 << 20, 0);
  ASSERT_EQ(group.at(0).Receive(receive.data(), 8 << 20, 1, CINCH_DTYPE_BF16, group.stream(0)),
            CINCH_OK);
  group.at(0).Abort();
  ASSERT_EQ(cudaStreamSynchronize(group.stream(0)), cudaSuccess);
  EXPECT_EQ(group.at(0).Check(nullptr), CINCH_ERROR_CANCELLED);
}

TEST(FusedFailureTest, PartsThatDoNotMatchAreAnError) {
  FusedGroup group(2, 16, 5);
  const Place send(1 << 20, 0);
  const Place receive(1 << 20, 0);
  ASSERT_EQ(group.at(0).Send(send.data(), 1 << 20, 1, CINCH_DTYPE_BF16, group.stream(0)), CINCH_OK);
  ASSERT_EQ(group.at(1).Receive(receive.data(), 1000, 0, CINCH_DTYPE_BF16, group.stream(1)),
            CINCH_OK);
  ASSERT_EQ(cudaStreamSynchronize(group.stream(1)), cudaSuccess);
  EXPECT_EQ(group.at(1).Check(nullptr), CINCH_ERROR_PROTOCOL);
  ASSERT_EQ(cudaStreamSynchronize(group.stream(0)), cudaSuccess);
}

}  // namespace
}  // namespace cinch::test
