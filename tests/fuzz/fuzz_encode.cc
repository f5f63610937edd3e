// SPDX-License-Identifier: Apache-2.0
// Encodes data of up to two blocks, alone or relative to a base, with both codecs: the same frame,
// tightly bounded, which both decode to the data. A short input makes long data by repetition.
#include <algorithm>
#include <iterator>
#include <vector>

#include "cinch/codec.hpp"
#include "format/layout.h"
#include "support/require.h"
#include "support/test_data.h"

namespace {

using cinch::Codec;
using cinch::test::FuzzInput;
using cinch::test::Require;
using Bytes = std::vector<std::byte>;

constexpr size_t kMostBytes = cinch::format::kBlockBytes + 4000;
constexpr size_t kShortBytes = 600;

Codec& CodecOf(cinch_backend backend) {
  static Codec codecs[2];
  Codec& codec = codecs[backend == CINCH_BACKEND_CPU ? 0 : 1];
  if (codec.get() == nullptr) {
    Require(Codec::Create(backend, 1, &codec) == CINCH_OK, "a codec can be created");
  }
  return codec;
}

/// What is encoded, and how.
struct Problem {
  cinch_dtype dtype;
  bool checksum;
  bool delta;
  Bytes data;
  Bytes base;
};

Problem MakeProblem(FuzzInput* input) {
  const auto choice = input->Take<uint8_t>();
  const auto& dtypes = cinch::test::kAllDtypes;
  Problem problem{dtypes[input->Take<uint8_t>() % std::size(dtypes)],
                  (choice & 1) != 0,
                  (choice & 2) != 0,
                  {},
                  {}};
  const auto number = input->Take<uint32_t>();
  const size_t size = number % ((choice & 4) != 0 ? kMostBytes : kShortBytes);
  const auto changed_every = input->Take<uint16_t>();
  const auto change = input->Take<std::byte>();
  const auto drift = input->Take<uint8_t>();
  const std::span<const uint8_t> pattern = input->TakeAll();
  problem.data.resize(size);
  for (size_t i = 0; i < size && !pattern.empty(); ++i) {
    const size_t turn = i / pattern.size();
    problem.data[i] = static_cast<std::byte>(pattern[i % pattern.size()] + turn * drift);
  }
  problem.base = problem.data;
  for (size_t i = 0; i < size; i += changed_every + size_t{1}) problem.base[i] ^= change;
  return problem;
}

cinch_status Encode(cinch_backend backend, const Problem& problem, std::span<std::byte> frame,
                    uint64_t* frame_bytes) {
  Codec& codec = CodecOf(backend);
  return problem.delta
             ? codec.CompressDelta(problem.data, problem.base, problem.dtype, frame, frame_bytes)
             : codec.Compress(problem.data, problem.dtype, problem.checksum, frame, frame_bytes);
}

void RequireDecodes(cinch_backend backend, const Problem& problem,
                    std::span<const std::byte> frame) {
  Bytes output(problem.data.size());
  uint64_t output_bytes = 0;
  Require(
      CodecOf(backend).DecompressDelta(frame, problem.base, output, &output_bytes) == CINCH_OK &&
          output_bytes == output.size() && output == problem.data,
      "what was encoded comes back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const Problem problem = MakeProblem(&input);
  Bytes by_cpu(Codec::Bound(problem.data.size()));
  Bytes by_reference(by_cpu.size());
  uint64_t frame_bytes = 0;
  uint64_t reference_bytes = 0;
  Require(Encode(CINCH_BACKEND_CPU, problem, by_cpu, &frame_bytes) == CINCH_OK &&
              Encode(CINCH_BACKEND_REFERENCE, problem, by_reference, &reference_bytes) == CINCH_OK,
          "a frame fits its bound");
  by_cpu.resize(frame_bytes);
  by_reference.resize(reference_bytes);
  Require(by_cpu == by_reference, "both codecs make the same frame");
  Bytes tight(frame_bytes);
  Require(Encode(CINCH_BACKEND_CPU, problem, tight, &frame_bytes) == CINCH_OK && tight == by_cpu,
          "a frame needs no more room than it takes");
  Require(Encode(CINCH_BACKEND_CPU, problem, std::span(tight).first(tight.size() - 1),
                 &frame_bytes) == CINCH_ERROR_DESTINATION_TOO_SMALL,
          "a frame that does not fit says so");
  RequireDecodes(CINCH_BACKEND_CPU, problem, by_cpu);
  RequireDecodes(CINCH_BACKEND_REFERENCE, problem, by_cpu);
  cinch_frame_info info{};
  info.struct_size = sizeof(info);
  Require(
      cinch_frame_inspect(by_cpu.data(), by_cpu.size(), &info) == CINCH_OK &&
          info.original_bytes == problem.data.size() && info.frame_bytes == by_cpu.size() &&
          info.stored_blocks + info.constant_blocks + info.cascade_blocks + info.sparse_blocks ==
              info.block_count &&
          (info.is_delta != 0) == (problem.delta && !problem.data.empty()),
      "a frame says what it is");
  return 0;
}
