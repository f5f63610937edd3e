// SPDX-License-Identifier: Apache-2.0
// The block codecs on one thread: GB/s of original bytes, per SIMD target, dtype and kind of data,
// with memcpy of as many bytes beside them. Blocks are coded one after another through 64 MiB, as a
// frame does, so that caches do not flatter. The checksum is on.
//
//   block_codec_bench --benchmark_filter='avx512/bf16'
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "codec/block_codec.h"
#include "codec/cpu/cpu_target.h"
#include "format/layout.h"
#include "support/test_data.h"

namespace cinch::codec {
namespace {

constexpr uint32_t kBlocks = 2048;
constexpr size_t kInputBytes = size_t{kBlocks} * format::kBlockBytes;

struct Case {
  SimdTarget target;
  bool reference;
  cinch_dtype made_as;
  cinch_dtype told;
  test::DataKind kind;
};

/// The same megabyte of drawn elements over and over: drawing takes longer than coding.
std::vector<uint8_t> MakeInput(const Case& c) {
  constexpr size_t kDrawnBytes = size_t{32} * format::kBlockBytes;
  const std::vector<uint8_t> drawn = test::MakeData(c.kind, c.made_as, kDrawnBytes, 1);
  std::vector<uint8_t> input(kInputBytes);
  for (size_t at = 0; at < kInputBytes; at += kDrawnBytes) {
    std::memcpy(input.data() + at, drawn.data(), kDrawnBytes);
  }
  return input;
}

const BlockCodec& CodecOf(const Case& c) {
  SetCpuTargetLimit(c.target);
  return c.reference ? ReferenceBlockCodec() : CpuBlockCodec();
}

struct Frame {
  std::vector<uint8_t> payload;
  std::vector<uint32_t> end_bytes;
};

void EncodeAll(const BlockCodec& codec, const Case& c, const std::vector<uint8_t>& input,
               Frame* frame) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const BlockInput block{input.data() + size_t{i} * format::kBlockBytes, format::kBlockBytes,
                           static_cast<uint32_t>(c.told), i, true};
    at += codec.Encode(block, frame->payload.data() + at).payload_bytes;
    frame->end_bytes[i] = at;
  }
}

Frame MakeFrame() {
  return {std::vector<uint8_t>(size_t{kBlocks} * format::kMaxBlockPayloadBytes + kEncodeSlackBytes),
          std::vector<uint32_t>(kBlocks)};
}

void Report(benchmark::State& state, const Frame& frame) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kInputBytes));
  state.counters["ratio"] =
      static_cast<double>(kInputBytes) / static_cast<double>(frame.end_bytes.back());
}

void BenchEncode(benchmark::State& state, const Case& c) {
  const BlockCodec& codec = CodecOf(c);
  const std::vector<uint8_t> input = MakeInput(c);
  Frame frame = MakeFrame();
  for (auto _ : state) EncodeAll(codec, c, input, &frame);
  Report(state, frame);
}

void BenchDecode(benchmark::State& state, const Case& c) {
  const BlockCodec& codec = CodecOf(c);
  const std::vector<uint8_t> input = MakeInput(c);
  Frame frame = MakeFrame();
  EncodeAll(codec, c, input, &frame);
  std::vector<uint8_t> output(kInputBytes);
  for (auto _ : state) {
    uint32_t begin = 0;
    for (uint32_t i = 0; i < kBlocks; ++i) {
      uint64_t hash;
      const BlockPayload payload{frame.payload.data() + begin, frame.end_bytes[i] - begin,
                                 format::kBlockBytes, i, true};
      const Status status =
          codec.Decode(payload, output.data() + size_t{i} * format::kBlockBytes, &hash);
      if (status != CINCH_OK) return state.SkipWithError("a block does not decode");
      begin = frame.end_bytes[i];
    }
  }
  if (output != input) return state.SkipWithError("the blocks decode to something else");
  Report(state, frame);
}

void BenchMemcpy(benchmark::State& state) {
  const std::vector<uint8_t> input(kInputBytes, 1);
  std::vector<uint8_t> output(kInputBytes);
  for (auto _ : state) {
    std::memcpy(output.data(), input.data(), kInputBytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kInputBytes));
}

void Register(const std::string& target, const Case& c) {
  std::string name = target + "/" + cinch_dtype_name(c.made_as);
  if (c.told != c.made_as) name += std::string("_as_") + cinch_dtype_name(c.told);
  name += "/" + test::NameOf(c.kind);
  benchmark::RegisterBenchmark((name + "/encode").c_str(), BenchEncode, c);
  benchmark::RegisterBenchmark((name + "/decode").c_str(), BenchDecode, c);
}

void RegisterTarget(const std::string& name, SimdTarget target, bool reference) {
  using test::DataKind;
  for (const cinch_dtype dtype :
       {CINCH_DTYPE_BF16, CINCH_DTYPE_FP16, CINCH_DTYPE_FP32, CINCH_DTYPE_FP64,
        CINCH_DTYPE_FP8_E4M3FN, CINCH_DTYPE_FP8_E5M2, CINCH_DTYPE_INT8, CINCH_DTYPE_INT32}) {
    Register(name, {target, reference, dtype, dtype, DataKind::kGaussian});
  }
  Register(name, {target, reference, CINCH_DTYPE_BF16, CINCH_DTYPE_AUTO, DataKind::kGaussian});
  Register(name, {target, reference, CINCH_DTYPE_FP32, CINCH_DTYPE_AUTO, DataKind::kGaussian});
  Register(name, {target, reference, CINCH_DTYPE_FP32, CINCH_DTYPE_FP32, DataKind::kZeroPlanes});
  for (const DataKind kind : {DataKind::kRandom, DataKind::kZeros, DataKind::kOneExponent,
                              DataKind::kWide, DataKind::kFarOutliers}) {
    Register(name, {target, reference, CINCH_DTYPE_BF16, CINCH_DTYPE_BF16, kind});
  }
}

}  // namespace
}  // namespace cinch::codec

int main(int argc, char** argv) {
  using cinch::SimdTarget;
  benchmark::RegisterBenchmark("memcpy", cinch::codec::BenchMemcpy);
  cinch::codec::RegisterTarget("avx512", SimdTarget::kAvx512, false);
  cinch::codec::RegisterTarget("avx2", SimdTarget::kAvx2, false);
  cinch::codec::RegisterTarget("scalar", SimdTarget::kScalar, false);
  cinch::codec::RegisterTarget("reference", SimdTarget::kAuto, true);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
