// SPDX-License-Identifier: Apache-2.0
// The codec among other work: graphs, streams, threads, progress, host memory, very large inputs.
#include <atomic>
#include <thread>

#include "gpu/gpu_codec.h"
#include "support/test_data.h"

namespace cinch {
namespace {

using test::Bytes;
using test::CpuFrame;
using test::DataKind;
using test::MakeData;
using test::Memory;
using test::ScratchMemory;
using test::Stream;

constexpr uint64_t kBlock = CINCH_CUDA_BLOCK_BYTES;

/// A tensor's way to a frame and back, all on one stream.
class Loop {
 public:
  explicit Loop(uint64_t bytes, Memory::Kind frame_kind = Memory::Kind::kDevice)
      : input_(bytes),
        frame_(cinch_compress_bound(bytes), frame_kind),
        output_(bytes),
        results_(2 * sizeof(cinch_cuda_result), Memory::Kind::kMapped),
        scratch_(1, bytes) {
    cinch_cuda_options_init(&options_);
    options_.stream = stream_;
  }

  cinch_status Compress(cinch_dtype dtype) {
    const cinch_cuda_item item{input_.data(), input_.size(), frame_.data(),
                               frame_.size(), dtype,         0};
    return cinch_cuda_compress(&options_, &item, result(0), scratch_.get());
  }
  cinch_status Decompress(uint64_t frame_bytes) {
    const cinch_cuda_item item{frame_.data(),  frame_bytes,       output_.data(),
                               output_.size(), CINCH_DTYPE_BYTES, 0};
    return cinch_cuda_decompress(&options_, &item, result(1), scratch_.get());
  }
  cinch_cuda_result* result(int which) { return results_.as<cinch_cuda_result>() + which; }
  Memory& input() { return input_; }
  Memory& frame() { return frame_; }
  Memory& output() { return output_; }
  Stream& stream() { return stream_; }
  cinch_cuda_options& options() { return options_; }

 private:
  Memory input_;
  Memory frame_;
  Memory output_;
  Memory results_;
  ScratchMemory scratch_;
  Stream stream_;
  cinch_cuda_options options_;
};

void CheckFrame(const Bytes& input, cinch_dtype dtype, const cinch_cuda_result& result,
                const Bytes& frame) {
  const Bytes expected = CpuFrame(input, dtype, true);
  ASSERT_EQ(result.status, CINCH_OK);
  ASSERT_EQ(result.output_bytes, expected.size());
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), frame.begin()));
}

TEST(GpuGraphTest, ACapturedCallReplaysOnNewDataWithNewSizes) {
  constexpr uint64_t kBytes = 3 * kBlock + 6;
  Loop loop(kBytes);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CINCH_CUDA_OK(cudaStreamBeginCapture(loop.stream(), cudaStreamCaptureModeGlobal));
  ASSERT_EQ(loop.Compress(CINCH_DTYPE_BF16), CINCH_OK);
  CINCH_CUDA_OK(cudaStreamEndCapture(loop.stream(), &graph));
  CINCH_CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
  size_t nodes = 0;
  CINCH_CUDA_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 1U);
  std::vector<Bytes> inputs;
  std::vector<Bytes> frames;
  for (const DataKind kind : test::kAllDataKinds) {
    inputs.push_back(MakeData(kind, CINCH_DTYPE_BF16, kBytes, 7));
    frames.push_back(CpuFrame(inputs.back(), CINCH_DTYPE_BF16, true));
  }
  for (int replay = 0; replay < 1000; ++replay) {
    const size_t which = static_cast<size_t>(replay) % inputs.size();
    loop.input().Upload(inputs[which].data(), kBytes);
    CINCH_CUDA_OK(cudaGraphLaunch(executable, loop.stream()));
    loop.stream().Wait();
    ASSERT_EQ(loop.result(0)->status, CINCH_OK);
    ASSERT_EQ(loop.result(0)->output_bytes, frames[which].size()) << replay;
    const Bytes frame = loop.frame().Download();
    ASSERT_TRUE(std::equal(frames[which].begin(), frames[which].end(), frame.begin())) << replay;
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST(GpuGraphTest, ACapturedBatchReadsItsItemsAgain) {
  constexpr uint64_t kItems = 100;
  constexpr uint64_t kBytes = 50000;
  const Bytes data = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, kItems * kBytes, 1);
  Memory input(data.size());
  input.Upload(data.data(), data.size());
  const uint64_t room = (cinch_compress_bound(kBytes) + 255) / 256 * 256;
  Memory output(kItems * room);
  Memory items(kItems * sizeof(cinch_cuda_item), Memory::Kind::kMapped);
  Memory results(kItems * sizeof(cinch_cuda_result), Memory::Kind::kMapped);
  ScratchMemory scratch(kItems, kItems * kBytes);
  Stream stream;
  cinch_cuda_options options;
  cinch_cuda_options_init(&options);
  options.stream = stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CINCH_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_EQ(cinch_cuda_compress_batch(&options, items.as<cinch_cuda_item>(), kItems,
                                      results.as<cinch_cuda_result>(), scratch.get()),
            CINCH_OK);
  CINCH_CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CINCH_CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
  for (uint64_t replay = 1; replay < 20; ++replay) {
    for (uint64_t i = 0; i < kItems; ++i) {
      items.as<cinch_cuda_item>()[i] = {input.data() + i * kBytes / 16 * 16,
                                        (i * replay * 977) % kBytes,
                                        output.data() + i * room,
                                        room,
                                        CINCH_DTYPE_BF16,
                                        0};
    }
    CINCH_CUDA_OK(cudaGraphLaunch(executable, stream));
    stream.Wait();
    const Bytes frames = output.Download();
    for (uint64_t i = 0; i < kItems; ++i) {
      const auto begin = data.begin() + static_cast<long>(i * kBytes / 16 * 16);
      const Bytes part(begin, begin + static_cast<long>((i * replay * 977) % kBytes));
      CheckFrame(part, CINCH_DTYPE_BF16, results.as<cinch_cuda_result>()[i],
                 Bytes(frames.begin() + static_cast<long>(i * room),
                       frames.begin() + static_cast<long>((i + 1) * room)));
      if (HasFatalFailure()) return;
    }
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

/// Compresses and decompresses again and again, checking every time.
void Repeat(DataKind kind, int rounds, std::atomic<int>* failures) {
  constexpr uint64_t kBytes = 4 << 20;
  Loop loop(kBytes);
  const Bytes input = MakeData(kind, CINCH_DTYPE_BF16, kBytes, 3);
  const Bytes expected = CpuFrame(input, CINCH_DTYPE_BF16, true);
  loop.input().Upload(input.data(), kBytes);
  for (int round = 0; round < rounds; ++round) {
    bool ok = loop.Compress(CINCH_DTYPE_BF16) == CINCH_OK;
    ok = ok && loop.Decompress(expected.size()) == CINCH_OK;
    ok = ok && cudaStreamSynchronize(loop.stream()) == cudaSuccess;
    ok = ok && loop.result(0)->status == CINCH_OK && loop.result(1)->status == CINCH_OK;
    ok = ok && loop.result(0)->output_bytes == expected.size() && loop.output().Download() == input;
    if (!ok) ++*failures;
  }
}

TEST(GpuStreamTest, ThreadsWithStreamsOfTheirOwnDoNotDisturbEachOther) {
  // The CPU's codec handle takes one call at a time.
  test::CpuCodec();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  std::atomic<bool> first_done{false};
  threads.emplace_back([&] {
    Repeat(DataKind::kGaussian, 50, &failures);
    first_done = true;
  });
  while (!first_done && threads.size() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    threads.emplace_back([&] { Repeat(DataKind::kMixed, 50, &failures); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(GpuStreamTest, TwoStreamsOfOneThreadRunAtOnce) {
  constexpr uint64_t kBytes = 16 << 20;
  Loop first(kBytes);
  Loop second(kBytes);
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, kBytes, 3);
  for (Loop* loop : {&first, &second}) loop->input().Upload(input.data(), kBytes);
  for (int round = 0; round < 20; ++round) {
    for (Loop* loop : {&first, &second}) ASSERT_EQ(loop->Compress(CINCH_DTYPE_BF16), CINCH_OK);
  }
  for (Loop* loop : {&first, &second}) {
    loop->stream().Wait();
    CheckFrame(input, CINCH_DTYPE_BF16, *loop->result(0), loop->frame().Download());
  }
}

TEST(GpuStreamTest, TheCurrentDeviceStaysCurrent) {
  int devices = 0;
  CINCH_CUDA_OK(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device) {
    CINCH_CUDA_OK(cudaSetDevice(device));
    Loop loop(100000);
    for (int current = 0; current < devices; ++current) {
      CINCH_CUDA_OK(cudaSetDevice(current));
      ASSERT_EQ(loop.Compress(CINCH_DTYPE_BF16), CINCH_OK);
      int after = -1;
      CINCH_CUDA_OK(cudaGetDevice(&after));
      EXPECT_EQ(after, current);
      loop.stream().Wait();
      EXPECT_EQ(loop.result(0)->status, CINCH_OK);
    }
  }
  CINCH_CUDA_OK(cudaSetDevice(0));
}

/// Watches a counter until it has reached `blocks`, calling `check(seen)` whenever it has grown.
template <typename Check>
void Watch(volatile uint64_t* progress, uint64_t blocks, int* sightings, Check check) {
  uint64_t seen = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (seen < blocks) {
    const uint64_t now = *progress;
    std::atomic_thread_fence(std::memory_order_acquire);
    ASSERT_GE(now, seen);
    if (now != seen) {
      check(seen, now);
      if (testing::Test::HasFatalFailure()) return;
      seen = now;
      ++*sightings;
    }
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << seen;
  }
}

TEST(GpuProgressTest, WhatIsPublishedIsCompleteWhileTheKernelRuns) {
  constexpr uint64_t kBytes = (24 << 20) + 100;
  const uint64_t blocks = (kBytes + kBlock - 1) / kBlock;
  Loop loop(kBytes, Memory::Kind::kMapped);
  const Bytes input = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, kBytes, 3);
  const Bytes expected = CpuFrame(input, CINCH_DTYPE_BF16, true);
  loop.input().Upload(input.data(), kBytes);
  Memory progress(8, Memory::Kind::kMapped);
  *progress.as<uint64_t>() = 0;
  loop.options().progress = progress.as<uint64_t>();
  loop.options().max_ctas = 4;
  std::fill_n(loop.frame().data(), loop.frame().size(), uint8_t{0xEE});
  ASSERT_EQ(loop.Compress(CINCH_DTYPE_BF16), CINCH_OK);
  const auto* index = reinterpret_cast<const uint32_t*>(expected.data() + 64);
  const uint64_t payload = 64 + (4 * blocks + 15) / 16 * 16;
  int sightings = 0;
  Watch(progress.as<uint64_t>(), blocks, &sightings, [&](uint64_t from, uint64_t to) {
    const uint64_t begin = from == 0 ? 0 : uint64_t{16} * index[from - 1];
    const uint64_t end = uint64_t{16} * index[to - 1];
    ASSERT_EQ(std::memcmp(loop.frame().data() + 64 + 4 * from, index + from, 4 * (to - from)), 0);
    ASSERT_EQ(std::memcmp(loop.frame().data() + payload + begin, expected.data() + payload + begin,
                          end - begin),
              0);
  });
  loop.stream().Wait();
  // A host that polls while four thread blocks code 24 MB sees more than the end.
  EXPECT_GT(sightings, 3);
  CheckFrame(input, CINCH_DTYPE_BF16, *loop.result(0),
             Bytes(loop.frame().data(), loop.frame().data() + loop.frame().size()));
  *progress.as<uint64_t>() = 0;
  ASSERT_EQ(loop.Decompress(expected.size()), CINCH_OK);
  Watch(progress.as<uint64_t>(), blocks, &sightings, [](uint64_t, uint64_t) {});
  loop.stream().Wait();
  EXPECT_EQ(loop.result(1)->status, CINCH_OK);
  EXPECT_TRUE(loop.output().Download() == input);
}

/// Frames in mapped memory that a thread of the host brings while a kernel decodes them.
class Arrival {
 public:
  Arrival(uint64_t items, uint64_t bytes)
      : bytes_(bytes),
        room_((cinch_compress_bound(bytes) + 255) / 256 * 256),
        frames_(items * room_, Memory::Kind::kMapped),
        outputs_(items * bytes),
        counters_(items * 8, Memory::Kind::kMapped),
        results_(items * sizeof(cinch_cuda_result), Memory::Kind::kMapped),
        scratch_(items, items * bytes) {
    std::memset(frames_.data(), 0xEE, frames_.size());
    std::memset(counters_.data(), 0, counters_.size());
    cinch_cuda_options_init(&options_);
    options_.stream = stream_;
    options_.items_on_host = 1;
    options_.available_bytes = counters_.as<uint64_t>();
    for (uint64_t i = 0; i < items; ++i) {
      inputs_.push_back(MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, bytes, i + 1));
      sent_.push_back(CpuFrame(inputs_.back(), CINCH_DTYPE_BF16, true));
      items_.push_back({frames_.data() + i * room_, sent_.back().size(),
                        outputs_.data() + i * bytes, bytes, CINCH_DTYPE_BYTES, 0});
    }
  }
  void Start() {
    ASSERT_EQ(cinch_cuda_decompress_batch(&options_, items_.data(), items_.size(),
                                          results_.as<cinch_cuda_result>(), scratch_.get()),
              CINCH_OK);
  }
  /// Brings the bytes of item i up to `end`.
  void Bring(uint64_t i, uint64_t end) {
    auto* counter = counters_.as<uint64_t>() + i;
    const uint64_t begin = *counter;
    end = std::min<uint64_t>(end, sent_[i].size());
    if (begin >= end) return;
    std::memcpy(frames_.data() + i * room_ + begin, sent_[i].data() + begin, end - begin);
    __atomic_store_n(counter, end, __ATOMIC_RELEASE);
  }
  bool IsBack(uint64_t i) const {
    const Bytes all = outputs_.Download();
    return std::equal(inputs_[i].begin(), inputs_[i].end(),
                      all.begin() + static_cast<long>(i * bytes_));
  }
  uint64_t frame_bytes(uint64_t i) const { return sent_[i].size(); }
  cinch_cuda_result result(uint64_t i) const { return results_.as<cinch_cuda_result>()[i]; }
  cinch_cuda_options& options() { return options_; }
  Stream& stream() { return stream_; }

 private:
  uint64_t bytes_;
  uint64_t room_;
  Memory frames_;
  Memory outputs_;
  Memory counters_;
  Memory results_;
  ScratchMemory scratch_;
  Stream stream_;
  cinch_cuda_options options_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> sent_;
  std::vector<cinch_cuda_item> items_;
};

TEST(GpuArrivalTest, BlocksAreDecodedBeforeTheFrameIsComplete) {
  constexpr uint64_t kBytes = (8 << 20) + 100;
  Arrival arrival(2, kBytes);
  Memory progress(16, Memory::Kind::kMapped);
  auto* seen = progress.as<volatile uint64_t>();
  std::memset(progress.data(), 0, progress.size());
  arrival.options().progress = progress.as<uint64_t>();
  arrival.Start();
  if (HasFatalFailure()) return;
  const uint64_t half = arrival.frame_bytes(0) / 2;
  for (uint64_t end = 64; end < half; end += 50000) {
    for (uint64_t i = 0; i < 2; ++i) arrival.Bring(i, end);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  // Nothing more comes until what is there has been decoded.
  const auto begin = std::chrono::steady_clock::now();
  while (seen[0] < 100) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << seen[0];
  }
  ASSERT_EQ(cudaStreamQuery(arrival.stream()), cudaErrorNotReady);
  for (uint64_t i = 0; i < 2; ++i) arrival.Bring(i, ~uint64_t{0});
  arrival.stream().Wait();
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(arrival.result(i).status, CINCH_OK);
    EXPECT_EQ(arrival.result(i).output_bytes, kBytes);
    EXPECT_TRUE(arrival.IsBack(i));
    EXPECT_EQ(seen[i], (kBytes + kBlock - 1) / kBlock);
  }
}

TEST(GpuArrivalTest, AFrameThatDoesNotComeTimesOutAndLeavesItsNeighboursAlone) {
  Arrival arrival(4, 1 << 20);
  arrival.options().available_timeout_ns = 50'000'000;
  arrival.Bring(0, ~uint64_t{0});
  arrival.Bring(1, 64 + 10);                      // Not all of its index,
  arrival.Bring(2, arrival.frame_bytes(2) - 16);  // not its last bytes.
  arrival.Bring(3, ~uint64_t{0});
  arrival.Start();
  arrival.stream().Wait();
  for (const uint64_t i : {0, 3}) {
    EXPECT_EQ(arrival.result(i).status, CINCH_OK);
    EXPECT_TRUE(arrival.IsBack(i));
  }
  for (const uint64_t i : {1, 2}) EXPECT_EQ(arrival.result(i).status, CINCH_ERROR_TIMEOUT);
  // The same scratch memory serves the next call.
  for (const uint64_t i : {1, 2}) arrival.Bring(i, ~uint64_t{0});
  arrival.Start();
  arrival.stream().Wait();
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(arrival.result(i).status, CINCH_OK);
}

TEST(GpuArrivalTest, AFrameOfWhichNothingComesTimesOut) {
  Arrival arrival(2, 100000);
  arrival.options().available_timeout_ns = 50'000'000;
  arrival.Bring(1, ~uint64_t{0});
  arrival.Start();
  arrival.stream().Wait();
  EXPECT_EQ(arrival.result(0).status, CINCH_ERROR_TIMEOUT);
  EXPECT_EQ(arrival.result(1).status, CINCH_OK);
}

TEST(GpuLargeTest, InputsOfMoreThanFourGibibytesSurvive) {
  constexpr uint64_t kPart = 64 << 20;
  constexpr uint64_t kParts = 70;
  constexpr uint64_t kBytes = kParts * kPart + 10;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CINCH_CUDA_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (free_bytes < 4 * kBytes) GTEST_SKIP() << "needs " << 4 * kBytes << " bytes of device memory";
  Loop loop(kBytes);
  Bytes part = MakeData(DataKind::kGaussian, CINCH_DTYPE_BF16, kPart, 3);
  for (uint64_t i = 0; i < kParts; ++i) {
    // Every part differs, so that parts that change places are seen.
    std::memcpy(part.data(), &i, sizeof i);
    CINCH_CUDA_OK(
        cudaMemcpy(loop.input().data() + i * kPart, part.data(), kPart, cudaMemcpyHostToDevice));
  }
  CINCH_CUDA_OK(cudaMemset(loop.input().data() + kParts * kPart, 7, 10));
  ASSERT_EQ(loop.Compress(CINCH_DTYPE_BF16), CINCH_OK);
  loop.stream().Wait();
  ASSERT_EQ(loop.result(0)->status, CINCH_OK);
  EXPECT_LT(loop.result(0)->output_bytes, kBytes / 100 * 69);
  ASSERT_EQ(loop.Decompress(loop.result(0)->output_bytes), CINCH_OK);
  loop.stream().Wait();
  ASSERT_EQ(loop.result(1)->status, CINCH_OK);
  ASSERT_EQ(loop.result(1)->output_bytes, kBytes);
  Bytes back(kPart);
  for (uint64_t i = 0; i < kParts; ++i) {
    std::memcpy(part.data(), &i, sizeof i);
    CINCH_CUDA_OK(
        cudaMemcpy(back.data(), loop.output().data() + i * kPart, kPart, cudaMemcpyDeviceToHost));
    ASSERT_TRUE(back == part) << "part " << i;
  }
}

}  // namespace
}  // namespace cinch
