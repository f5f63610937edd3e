// SPDX-License-Identifier: Apache-2.0
#include "collectives/sequence.h"

#include <cstring>

#include "collectives/float_math.h"
#include "nccl/interposer/real_library.h"

namespace cinch::testing {

using namespace collectives;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kPoolBytes = size_t{1} << 18;
constexpr size_t kGuardBytes = 64;

/// Bytes that look like weights of a dtype; no NaN and no infinity, which have no one result.
std::vector<uint8_t> MakePool(int dtype) {
  std::mt19937 random(static_cast<uint32_t>(dtype) + 5);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<uint8_t> pool(kPoolBytes);
  const size_t element = NcclDtypeBytes(dtype);
  for (size_t i = 0; i < kPoolBytes / element; ++i) {
    if (dtype == kNcclFloat64) {
      const double value = static_cast<double>(normal(random));
      std::memcpy(pool.data() + 8 * i, &value, 8);
    } else if (dtype == kNcclFloat32 || dtype == kNcclBfloat16 || dtype == kNcclFloat16) {
      Store(pool.data(), i, dtype, normal(random));
    } else {
      const uint64_t value = random() % 16;
      std::memcpy(pool.data() + element * i, &value, element);
    }
  }
  return pool;
}

const std::vector<uint8_t>& Pool(int dtype) {
  static const std::vector<std::vector<uint8_t>> pools = [] {
    std::vector<std::vector<uint8_t>> all(kNcclDtypeCount);
    for (int i = 0; i < kNcclDtypeCount; ++i) all[static_cast<size_t>(i)] = MakePool(i);
    return all;
  }();
  return pools[static_cast<size_t>(dtype)];
}

bool IsReduction(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

void Fill(const Step& step, int rank, std::vector<uint8_t>* memory) {
  std::mt19937_64 random(step.serial * 64 + static_cast<uint64_t>(rank));
  if (step.data == Step::Data::kZeros) return;
  if (step.data == Step::Data::kNoise) {
    for (uint8_t& byte : *memory) byte = static_cast<uint8_t>(random());
    return;
  }
  const std::vector<uint8_t>& pool = Pool(step.dtype);
  size_t at = random() % (kPoolBytes / 16) * 8;
  for (size_t done = 0; done < memory->size();) {
    const size_t piece = std::min(memory->size() - done, kPoolBytes - at);
    std::memcpy(memory->data() + done, pool.data() + at, piece);
    done += piece;
    at = 0;
  }
}

}  // namespace

Step SequenceMaker::Next() {
  constexpr Kind kKinds[] = {Kind::kAllGather, Kind::kAllReduce,     Kind::kAllReduce,
                             Kind::kAllToAll,  Kind::kBroadcast,     Kind::kGather,
                             Kind::kReduce,    Kind::kReduceScatter, Kind::kScatter,
                             Kind::kSend,      Kind::kSend};
  // The dtypes of training more often than the rest.
  constexpr int kDtypes[] = {kNcclBfloat16, kNcclBfloat16, kNcclFloat32, kNcclFloat16, kNcclUint8};
  Step step;
  step.serial = ++serial_;
  step.kind = kKinds[Pick(std::size(kKinds) - 1)];
  step.dtype = Pick(2) != 0 ? kDtypes[Pick(std::size(kDtypes) - 1)]
                            : static_cast<int>(Pick(kNcclDtypeCount - 1));
  // Few sizes, so that kinds of operations recur and are decided; odd ones and nothing among them.
  const size_t sizes[] = {0,
                          1,
                          7,
                          options_.max_elements / 3,
                          options_.max_elements / 2 + 1,
                          options_.max_elements - 1,
                          options_.max_elements,
                          options_.max_elements,
                          Pick(options_.max_elements)};
  step.count = sizes[Pick(std::size(sizes) - 1)];
  step.reduction = Pick(1) != 0 ? static_cast<int>(kNcclSum) : static_cast<int>(Pick(5)) - 1;
  step.root = static_cast<int>(Pick(static_cast<size_t>(options_.ranks) - 1));
  step.in_place = Pick(2) == 0;
  step.to_itself = Pick(7) == 0;
  const size_t data = Pick(9);
  if (!IsReduction(step.kind) && data == 0) step.data = Step::Data::kNoise;
  if (data == 1) step.data = Step::Data::kZeros;
  step.stream = Pick(options_.streams - 1);
  step.comm = Pick(options_.comms - 1);
  return step;
}

StepBuffers::StepBuffers(const Step& step, int rank, int ranks)
    : step_(step), rank_(rank), ranks_(ranks), bytes_(step.count * NcclDtypeBytes(step.dtype)) {
  const size_t all = bytes_ * static_cast<size_t>(ranks) + kGuardBytes;
  send_.resize(all);
  receive_.assign(all, 0xA5);
  Fill(step, rank, &send_);
  if (step.in_place) receive_ = send_;
}

int StepBuffers::Run(const NcclApi& api, void* comm, HostStream* stream) {
  const size_t own = bytes_ * static_cast<size_t>(rank_);
  const bool root = rank_ == step_.root;
  uint8_t* receive = receive_.data();
  // Each operation's own way of being in place (nccl.h).
  const bool in_place = step_.in_place;
  switch (step_.kind) {
    case Kind::kAllGather:
      return api.all_gather(in_place ? receive + own : send_.data(), receive, step_.count,
                            step_.dtype, comm, stream);
    case Kind::kAllToAll:
      return api.all_to_all(send_.data(), receive, step_.count, step_.dtype, comm, stream);
    case Kind::kBroadcast:
      return api.broadcast(in_place ? receive : send_.data(), receive, step_.count, step_.dtype,
                           step_.root, comm, stream);
    case Kind::kGather: {
      void* into = root ? receive : nullptr;
      return api.gather(in_place && root ? receive + own : send_.data(), into, step_.count,
                        step_.dtype, step_.root, comm, stream);
    }
    case Kind::kScatter: {
      const void* from = root ? send_.data() : nullptr;
      return api.scatter(from, in_place && root ? send_.data() + own : receive, step_.count,
                         step_.dtype, step_.root, comm, stream);
    }
    case Kind::kReduceScatter:
      return RunReduction(api, comm, stream, in_place ? receive : send_.data(),
                          in_place ? receive + own : receive);
    case Kind::kSend:
    case Kind::kReceive:
      return RunRing(api, comm, stream);
    default:
      return RunReduction(api, comm, stream, in_place ? receive : send_.data(), receive);
  }
}

int StepBuffers::RunReduction(const NcclApi& api, void* comm, HostStream* stream, const void* send,
                              void* receive) {
  const bool own = step_.reduction == kOwnOperator;
  const bool interposed = &api == &InterposedNccl();
  int reduction = step_.reduction;
  if (own) {
    using Create = int (*)(int*, void*, int, int, void*);
    uint64_t scalar = 3;
    if (step_.dtype == kNcclFloat64) {
      const double value = 0.75;
      std::memcpy(&scalar, &value, 8);
    } else if (step_.dtype == kNcclFloat16 || step_.dtype == kNcclBfloat16 ||
               step_.dtype == kNcclFloat32) {
      Store(&scalar, 0, step_.dtype, 0.75F);
    }
    const auto create =
        interposed ? &ncclRedOpCreatePreMulSum
                   : reinterpret_cast<Create>(nccl::FindRealFunction("ncclRedOpCreatePreMulSum"));
    if (const int error = create(&reduction, &scalar, step_.dtype, 1, comm)) return error;
  }
  int result = 0;
  if (step_.kind == Kind::kAllReduce) {
    result = api.all_reduce(send, receive, step_.count, step_.dtype, reduction, comm, stream);
  } else if (step_.kind == Kind::kReduceScatter) {
    result = api.reduce_scatter(send, receive, step_.count, step_.dtype, reduction, comm, stream);
  } else {
    void* into = rank_ == step_.root || step_.in_place ? receive : nullptr;
    result = api.reduce(send, into, step_.count, step_.dtype, reduction, step_.root, comm, stream);
  }
  if (own && result == 0) {
    using Destroy = int (*)(int, void*);
    // nccl.h allows it as soon as the call that was given the operator has returned.
    const auto destroy =
        interposed ? &ncclRedOpDestroy
                   : reinterpret_cast<Destroy>(nccl::FindRealFunction("ncclRedOpDestroy"));
    result = destroy(reduction, comm);
  }
  return result;
}

int StepBuffers::RunRing(const NcclApi& api, void* comm, HostStream* stream) {
  const int to = step_.to_itself ? rank_ : (rank_ + 1) % ranks_;
  const int from = step_.to_itself ? rank_ : (rank_ + ranks_ - 1) % ranks_;
  int result = api.group_start();
  if (result == 0) result = api.send(send_.data(), step_.count, step_.dtype, to, comm, stream);
  if (result == 0) {
    result = api.receive(receive_.data(), step_.count, step_.dtype, from, comm, stream);
  }
  const int ended = api.group_end();
  return result != 0 ? result : ended;
}

const NcclApi& InterposedNccl() {
  static const NcclApi api = [] {
    NcclApi made{};
    made.all_gather = &ncclAllGather;
    made.all_to_all = &ncclAlltoAll;
    made.broadcast = &ncclBroadcast;
    made.gather = &ncclGather;
    made.scatter = &ncclScatter;
    made.all_reduce = &ncclAllReduce;
    made.reduce_scatter = &ncclReduceScatter;
    made.reduce = &ncclReduce;
    made.send = &ncclSend;
    made.receive = &ncclRecv;
    made.group_start = &ncclGroupStart;
    made.group_end = &ncclGroupEnd;
    return made;
  }();
  return api;
}

}  // namespace cinch::testing
