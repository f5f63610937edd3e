// SPDX-License-Identifier: Apache-2.0
/// @file measurement_plan.h
/// What a comparison of collectives measures, in which order, and how its results are written. No
/// CUDA: the plan can be looked at, and is tested, where there is no GPU.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cinch/codec.h"

namespace cinch::bench {

enum class Collective {
  kSendReceive,  ///< Every rank sends to the next one and receives from the one before.
  kSendOneWay,   ///< Ranks 0, 2, ... send to 1, 3, ...
  kBroadcast,    ///< From rank 0.
  kAllGather,
  kAllToAll,
  kReduceScatter,
  kAllReduce,
};

/// Who moves the bytes.
enum class Method {
  kNccl,         ///< With its defaults.
  kWrapped,      ///< NCCL with the interposer in front of it.
  kCopies,       ///< cudaMemcpyPeerAsync, of what is only moved.
  kFused,        ///< Coded, stored by bulk copies.
  kFusedDirect,  ///< Coded, stored from registers.
  kFusedRaw,     ///< The same kernels without coding.
};

struct CompareOptions {
  uint32_t gpus = 0;                    ///< Ranks, one a GPU. 0: all that are visible.
  bool share_gpu = false;               ///< All ranks on one GPU: to try the program; without NCCL.
  std::vector<Collective> collectives;  ///< Never empty once parsed; nor are the lists below.
  std::vector<uint64_t> sizes_bytes;
  std::vector<uint32_t> sms;  ///< Multiprocessors' worth of thread blocks.
  cinch_dtype dtype = CINCH_DTYPE_BF16;
  std::string data = "gaussian:0.02";  ///< Of tensors::ParseDataSpec, or "file:PATH".
  std::string nccl = "libnccl.so.2";
  std::string wrapped;          ///< The interposer's path; empty: not measured.
  double budget_seconds = 600;  ///< No measurement begins later.
  bool dry = false;             ///< Print the plan instead.
};

enum class Parsed { kRun, kHelp, kWrong };
/// `text` becomes the help or what is wrong. `arguments` are without the program's name.
[[nodiscard]] Parsed ParseCompareOptions(const std::vector<std::string>& arguments,
                                         CompareOptions* options, std::string* text);

/// Some ranks that a plan can be made for, or why not in `text`. `visible_gpus` is what the machine
/// has.
[[nodiscard]] bool ChooseRanks(const CompareOptions& options, uint32_t visible_gpus,
                               uint32_t* ranks, std::string* text);

struct Measurement {
  Collective collective;
  Method method;
  uint64_t bytes;  ///< Of the larger buffer of a rank: ranks times `part_bytes` where it has parts.
  uint32_t sms;    ///< 0 for all but fused.
};

/// In the order in which they are worth having: a run that is cut short has measured whole groups
/// of one collective and size, of which the first is what the others are compared with.
[[nodiscard]] std::vector<Measurement> MakePlan(const CompareOptions& options, uint32_t ranks);

[[nodiscard]] const char* NameOf(Collective collective);
[[nodiscard]] const char* NameOf(Method method);
[[nodiscard]] inline bool IsFused(Method method) { return method >= Method::kFused; }
[[nodiscard]] inline bool AddsUp(Collective collective) {
  return collective >= Collective::kReduceScatter;
}
/// Whether all methods must have the same bits: more than two numbers are added up in orders that
/// differ.
[[nodiscard]] bool HasOneResult(Collective collective, uint32_t ranks);
/// What is expected of the best of fused, in NCCL's rates with its defaults over NVLink: 0 where
/// nothing is but that a policy steps aside.
[[nodiscard]] double TargetOf(Collective collective, uint64_t bytes);
/// What one rank sends, uncompressed, and cannot avoid sending: nccl-tests' bus bandwidth counts
/// it.
[[nodiscard]] uint64_t WireBytes(Collective collective, uint64_t bytes, uint32_t ranks);

/// How often an operation is repeated between two looks at the clock.
[[nodiscard]] int RepeatsFor(uint64_t bytes);

/// What all lines of a run have in common.
struct RunFacts {
  uint32_t ranks = 0;
  bool share_gpu = false;
  std::string device;
  std::string nccl_version;
};
struct Measured {
  double seconds = 0;          ///< Median over the rounds, of the slowest rank.
  double fastest_seconds = 0;  ///< Of the rounds.
  /// Whether the result is that of the group's first measurement; -1: it need not be.
  int same_bits = -1;
};
[[nodiscard]] nlohmann::json PlanLine(const CompareOptions& options, uint32_t ranks,
                                      const Measurement& measurement);
[[nodiscard]] nlohmann::json ResultLine(const CompareOptions& options, const RunFacts& facts,
                                        const Measurement& measurement, const Measured& measured);

}  // namespace cinch::bench
