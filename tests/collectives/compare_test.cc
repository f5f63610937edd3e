// SPDX-License-Identifier: Apache-2.0
// The comparison of collectives on doubles of CUDA, of the fused communicator and of NCCL: whether
// both sides are asked for the same operation, with the same places and sizes, on all ranks. Times
// mean nothing here.
#include "bench/collectives/compare.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/status.h"
#include "bench/collectives/nccl_peer.h"
#include "collectives/fused/communicator.h"
#include "collectives/host_stream.h"

namespace {

using cinch::testing::HostStream;
using Clock = std::chrono::steady_clock;

int visible_gpus = 4;

}  // namespace

// What the comparison uses of the CUDA runtime; device memory is the host's.
extern "C" {
cudaError_t cudaGetDeviceCount(int* count) {
  *count = visible_gpus;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device < visible_gpus ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  std::strcpy(properties->name, "a double");
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t /*error*/) { return "an error"; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int /*to_device*/, const void* from, int /*from_device*/,
                                size_t bytes, cudaStream_t stream) {
  reinterpret_cast<HostStream*>(stream)->Enqueue([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = reinterpret_cast<cudaStream_t>(new HostStream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  reinterpret_cast<HostStream*>(stream)->Synchronize();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new Clock::time_point);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto* time = reinterpret_cast<Clock::time_point*>(event);
  reinterpret_cast<HostStream*>(stream)->Enqueue([time] { *time = Clock::now(); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  const auto time = [](cudaEvent_t event) { return *reinterpret_cast<Clock::time_point*>(event); };
  *milliseconds = std::chrono::duration<float, std::milli>(time(stop) - time(start)).count();
  return cudaSuccess;
}
}  // extern "C"

namespace cinch::fused {
namespace {

/// What the double of the fused communicator moves bytes with, and the faults that it is to have.
struct Mover {
  void* library = dlopen(CINCH_NCCL_DOUBLE, RTLD_NOW | RTLD_LOCAL);
  template <typename Call>
  Call Find(const char* name) const {
    return reinterpret_cast<Call>(dlsym(library, name));
  }
  std::mutex mutex;
  std::map<const Communicator*, void*> comms;
};
Mover& TheMover() {
  static Mover mover;
  return mover;
}
bool forget_last_byte = false;

struct Id {
  char internal[128];
};

void* CommOf(const Communicator* communicator) {
  const std::lock_guard lock(TheMover().mutex);
  return TheMover().comms[communicator];
}

constexpr int kByte = 1;
int NcclType(cinch_dtype dtype) { return dtype == CINCH_DTYPE_FP32 ? 7 : 9; }
Status Of(int result) { return result == 0 ? CINCH_OK : CINCH_ERROR_DEVICE; }

using MoveCall = int (*)(void*, size_t, int, int, void*, cudaStream_t);
using GroupCall = int (*)();
using SumCall = int (*)(const void*, void*, size_t, int, int, void*, cudaStream_t);
using GatherCall = int (*)(const void*, void*, size_t, int, void*, cudaStream_t);

Status Post(const Communicator* self, const char* name, const void* memory, uint64_t bytes,
            uint32_t peer, cudaStream_t stream) {
  if (bytes == 0) return CINCH_OK;
  if (forget_last_byte) --bytes;
  return Of(TheMover().Find<MoveCall>(name)(const_cast<void*>(memory), bytes, kByte,
                                            static_cast<int>(peer), CommOf(self), stream));
}

}  // namespace

Status Communicator::Create(const CommunicatorOptions& options,
                            std::unique_ptr<Communicator>* made) {
  made->reset(new Communicator(options));
  Id id{};
  if (options.rank == 0) TheMover().Find<int (*)(Id*)>("ncclGetUniqueId")(&id);
  std::vector<Id> all(options.ranks);
  options.bootstrap.all_gather(options.bootstrap.context, &id, all.data(), sizeof id);
  void* comm = nullptr;
  const int result = TheMover().Find<int (*)(void**, int, Id, int)>("ncclCommInitRank")(
      &comm, static_cast<int>(options.ranks), all[0], static_cast<int>(options.rank));
  const std::lock_guard lock(TheMover().mutex);
  TheMover().comms[made->get()] = comm;
  return Of(result);
}
Communicator::~Communicator() = default;
PeerWindows::~PeerWindows() = default;

Status Communicator::AllGather(const void* send, void* receive, uint64_t bytes, cinch_dtype,
                               cudaStream_t stream) {
  return Of(TheMover().Find<GatherCall>("ncclAllGather")(send, receive, bytes, kByte, CommOf(this),
                                                         stream));
}
Status Communicator::Broadcast(void* buffer, uint64_t bytes, uint32_t root, cinch_dtype,
                               cudaStream_t stream) {
  using Call = int (*)(const void*, void*, size_t, int, int, void*, cudaStream_t);
  return Of(TheMover().Find<Call>("ncclBroadcast")(buffer, buffer, bytes, kByte,
                                                   static_cast<int>(root), CommOf(this), stream));
}
Status Communicator::Exchange(const Route* routes, cinch_dtype, cudaStream_t stream) {
  TheMover().Find<GroupCall>("ncclGroupStart")();
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const Route& route = routes[peer];
    CINCH_RETURN_IF_ERROR(Post(this, "ncclSend", route.send, route.send_bytes, peer, stream));
    CINCH_RETURN_IF_ERROR(Post(this, "ncclRecv", route.receive, route.receive_bytes, peer, stream));
  }
  return Of(TheMover().Find<GroupCall>("ncclGroupEnd")());
}
Status Communicator::Send(const void* send, uint64_t bytes, uint32_t peer, cinch_dtype,
                          cudaStream_t stream) {
  return Post(this, "ncclSend", send, bytes, peer, stream);
}
Status Communicator::Receive(void* receive, uint64_t bytes, uint32_t peer, cinch_dtype,
                             cudaStream_t stream) {
  return Post(this, "ncclRecv", receive, bytes, peer, stream);
}
Status Communicator::ReduceScatter(const void* send, void* receive, uint64_t elements,
                                   cinch_dtype dtype, cudaStream_t stream) {
  return Of(TheMover().Find<SumCall>("ncclReduceScatter")(send, receive, elements, NcclType(dtype),
                                                          0, CommOf(this), stream));
}
Status Communicator::AllReduce(const void* send, void* receive, uint64_t elements,
                               cinch_dtype dtype, cudaStream_t stream) {
  return Of(TheMover().Find<SumCall>("ncclAllReduce")(send, receive, elements, NcclType(dtype), 0,
                                                      CommOf(this), stream));
}
Status Communicator::Check(Report* /*report*/) const { return CINCH_OK; }

}  // namespace cinch::fused

namespace cinch::bench {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int status = 0;
  std::vector<nlohmann::json> lines;
  std::string errors;
};

Outcome RunWith(const std::vector<std::string>& arguments) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = Compare(arguments);
  std::istringstream lines(::testing::internal::GetCapturedStdout());
  for (std::string line; std::getline(lines, line);) {
    outcome.lines.push_back(nlohmann::json::parse(line));
  }
  outcome.errors = ::testing::internal::GetCapturedStderr();
  return outcome;
}

class CompareOverRanks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { visible_gpus = GetParam(); }
  void TearDown() override { fused::forget_last_byte = false; }
};

TEST_P(CompareOverRanks, EveryMethodHasNcclsResult) {
  const Outcome outcome = RunWith({"--sizes", "384K", "--nccl", CINCH_NCCL_DOUBLE, "--wrapped",
                                   CINCH_NCCL_DOUBLE, "--sms", "64,16"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.lines.size(), 7U * 6U + 5U);
  for (const nlohmann::json& line : outcome.lines) {
    EXPECT_EQ(line["ranks"], GetParam());
    EXPECT_GT(line["seconds"].get<double>(), 0);
    EXPECT_GE(line["seconds"], line["fastest_seconds"]);
    const std::string operation = line["operation"];
    const bool one_result = GetParam() == 2 || operation.find("reduce") == std::string::npos;
    EXPECT_EQ(line.contains("same_bits"), one_result && line["method"] != "nccl") << line;
    EXPECT_TRUE(line.value("same_bits", true)) << line;
  }
}

TEST_P(CompareOverRanks, OneGpuIsTriedWithoutNccl) {
  visible_gpus = 1;
  const Outcome outcome = RunWith({"--share-gpu", "--gpus", std::to_string(GetParam()), "--sizes",
                                   "256K", "--nccl", "/nowhere"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  for (const nlohmann::json& line : outcome.lines) {
    EXPECT_EQ(line["shared_gpu"], true);
    EXPECT_NE(line["method"], "nccl");
    EXPECT_TRUE(line.value("same_bits", true)) << line;
  }
}

TEST_P(CompareOverRanks, Fp32IsNotCoded) {
  const Outcome outcome =
      RunWith({"--sizes", "1M", "--nccl", CINCH_NCCL_DOUBLE, "--dtype", "fp32", "--operations",
               "all-reduce,all-to-all,send-receive", "--data", "heavy_tailed"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  std::set<std::string> methods;
  for (const nlohmann::json& line : outcome.lines) {
    methods.insert(line["method"]);
    EXPECT_TRUE(line.value("same_bits", true)) << line;
  }
  EXPECT_EQ(methods, (std::set<std::string>{"copies", "nccl", "fused raw"}));
}

TEST_P(CompareOverRanks, AWrongByteIsNoticed) {
  fused::forget_last_byte = true;
  const Outcome outcome = RunWith({"--sizes", "1M", "--nccl", CINCH_NCCL_DOUBLE, "--sms", "16",
                                   "--operations", "send,send-receive,all-to-all"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("DIFFER"));
  for (const nlohmann::json& line : outcome.lines) {
    EXPECT_EQ(line.value("same_bits", true), !line.contains("sms")) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CompareOverRanks, ::testing::Values(2, 3, 4));

TEST(Compare, EndsWhenTimeIsUp) {
  visible_gpus = 2;
  const Outcome outcome = RunWith({"--seconds", "0", "--nccl", CINCH_NCCL_DOUBLE, "--sizes", "1M"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.lines.empty());
  EXPECT_THAT(outcome.errors, HasSubstr("left out"));
}

TEST(Compare, SaysWhatItNeeds) {
  visible_gpus = 1;
  EXPECT_EQ(RunWith({}).status, 3);
  EXPECT_THAT(RunWith({}).errors, HasSubstr("needs 2 GPUs, and 1"));
  EXPECT_EQ(RunWith({"--fast"}).status, 2);
  EXPECT_FALSE(RunWith({"--dry"}).lines.empty());
}

}  // namespace
}  // namespace cinch::bench
