// SPDX-License-Identifier: Apache-2.0
#include "collectives/fused/communicator.h"

#include <cmath>

#include "base/status.h"
#include "collectives/fused/kernels.h"
#include "collectives/fused/protocol.h"
#include "collectives/windows/runtime.h"

namespace cinch::fused {
namespace {

// A warp a channel, or a channel for every group of warps that sends and receives.
constexpr Roles kOneWaySender{1, 0};
constexpr Roles kOneWayReceiver{0, 1};
constexpr Roles kBothWays{1, 1};
/// With many peers, data that is coded once is decoded many times.
constexpr Roles kOneToMany{1, 3};

uint32_t WarpsOf(const Roles& roles) { return roles.sends + roles.receiver_teams; }

class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    if (cudaGetDevice(&previous_) != cudaSuccess) return;
    if (previous_ != device) cudaSetDevice(device);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() { cudaSetDevice(previous_); }

 private:
  int previous_ = 0;
};

const uint8_t* At(const void* base, uint64_t offset) {
  return base == nullptr ? nullptr : static_cast<const uint8_t*>(base) + offset;
}
uint8_t* At(void* base, uint64_t offset) {
  return base == nullptr ? nullptr : static_cast<uint8_t*>(base) + offset;
}

uint32_t ElementBytes(cinch_dtype dtype) {
  switch (dtype) {
    case CINCH_DTYPE_BF16:
    case CINCH_DTYPE_FP16:
      return 2;
    case CINCH_DTYPE_FP32:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

Status Communicator::Create(const CommunicatorOptions& options,
                            std::unique_ptr<Communicator>* made) {
  if (options.ranks < 2 || options.ranks > kMaxRanks || options.rank >= options.ranks ||
      options.max_ctas == 0 || options.max_ctas > 1024 || options.bootstrap.all_gather == nullptr ||
      !std::isfinite(options.timeout_seconds) || options.timeout_seconds <= 0 ||
      options.timeout_seconds > 1e9) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  std::unique_ptr<Communicator> communicator(new Communicator(options));
  // A rank that cannot go on meets the others all the same, in PeerWindows::Create.
  const Status prepared = communicator->Prepare();
  const Status status =
      PeerWindows::Create(options.rank, options.ranks, communicator->Layout().Bytes(),
                          options.bootstrap, &communicator->windows_);
  CINCH_RETURN_IF_ERROR(prepared);
  CINCH_RETURN_IF_ERROR(status);
  *made = std::move(communicator);
  return CINCH_OK;
}

Status Communicator::Prepare() {
  CINCH_RETURN_IF_ERROR(StatusOfRuntime(PrepareKernels()));
  void* words = nullptr;
  CINCH_RETURN_IF_ERROR(StatusOfRuntime(
      cudaHostAlloc(&words, sizeof(HostWords), cudaHostAllocMapped | cudaHostAllocPortable)));
  words_ = new (words) HostWords{};
  words_->mark = options_.rank + 1;
  return StatusOfRuntime(cudaStreamCreateWithFlags(&abort_stream_, cudaStreamNonBlocking));
}

Communicator::~Communicator() {
  if (abort_stream_ != nullptr) {
    cudaStreamSynchronize(abort_stream_);
    cudaStreamDestroy(abort_stream_);
  }
  if (words_ != nullptr) cudaFreeHost(words_);
}

WindowLayout Communicator::Layout() const {
  return {options_.ranks, options_.max_ctas * kWarps, options_.ranks == 2 ? 4U : 2U};
}

Parameters Communicator::MakeParameters(const Roles& roles, cinch_dtype dtype) const {
  Parameters parameters{};
  parameters.layout = Layout();
  parameters.rank = options_.rank;
  parameters.channels_per_cta = kWarps / WarpsOf(roles);
  parameters.channels = ctas_ * parameters.channels_per_cta;
  parameters.sends = roles.sends;
  parameters.receiver_teams = roles.receiver_teams;
  parameters.coded =
      options_.compress && (dtype == CINCH_DTYPE_BF16 || dtype == CINCH_DTYPE_AUTO) ? 1 : 0;
  parameters.direct = options_.direct ? 1 : 0;
  parameters.measure = measure_;
  parameters.min_coded_bytes = options_.min_coded_bytes;
  parameters.wait.report = &words_->report;
  parameters.wait.host_stop = &words_->stop;
  parameters.wait.timeout_nanoseconds = static_cast<uint64_t>(options_.timeout_seconds * 1e9);
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    parameters.window[rank] = windows_->window(rank);
  }
  return parameters;
}

Status Communicator::LaunchExchange(const Parameters& parameters, cudaStream_t stream) {
  CINCH_RETURN_IF_ERROR(Check(nullptr));
  const CurrentDevice device(windows_->device());
  return StatusOfRuntime(LaunchExchangeKernel(parameters, ctas_, stream));
}

Status Communicator::LaunchReduce(const Parameters& parameters, cinch_dtype dtype,
                                  cudaStream_t stream) {
  CINCH_RETURN_IF_ERROR(Check(nullptr));
  const CurrentDevice device(windows_->device());
  return StatusOfRuntime(LaunchReduceKernel(parameters, dtype, ctas_, stream));
}

Status Communicator::AllGather(const void* send, void* receive, uint64_t bytes, cinch_dtype dtype,
                               cudaStream_t stream) {
  if (bytes != 0 && (send == nullptr || receive == nullptr)) return CINCH_ERROR_INVALID_ARGUMENT;
  if (bytes == 0) return Check(nullptr);
  Parameters parameters = MakeParameters(ranks() > 2 ? kOneToMany : kBothWays, dtype);
  parameters.same_data = 1;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    Route& route = parameters.routes[rank];
    route.receive = At(receive, rank * bytes);
    route.receive_bytes = bytes;
  }
  Route& own = parameters.routes[rank()];
  own.send = At(send, 0);
  own.send_bytes = bytes;
  if (own.receive == own.send) own.receive = nullptr;
  return LaunchExchange(parameters, stream);
}

Status Communicator::Broadcast(void* buffer, uint64_t bytes, uint32_t root, cinch_dtype dtype,
                               cudaStream_t stream) {
  if (root >= ranks() || (bytes != 0 && buffer == nullptr)) return CINCH_ERROR_INVALID_ARGUMENT;
  if (bytes == 0) return Check(nullptr);
  const bool sends = root == rank();
  Parameters parameters = MakeParameters(sends ? kOneWaySender : kOneWayReceiver, dtype);
  parameters.same_data = 1;
  Route& route = parameters.routes[root];
  if (sends) {
    route.send = At(buffer, 0);
    route.send_bytes = bytes;
  } else {
    route.receive = At(buffer, 0);
    route.receive_bytes = bytes;
  }
  return LaunchExchange(parameters, stream);
}

Status Communicator::Exchange(const Route* routes, cinch_dtype dtype, cudaStream_t stream) {
  Parameters parameters = MakeParameters(kBothWays, dtype);
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    const Route& route = routes[rank];
    if ((route.send_bytes != 0 && route.send == nullptr) ||
        (route.receive_bytes != 0 && route.receive == nullptr)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    parameters.routes[rank] = route;
  }
  Route& own = parameters.routes[rank()];
  if (own.send_bytes != own.receive_bytes) return CINCH_ERROR_INVALID_ARGUMENT;
  if (own.receive == own.send) own.receive = nullptr;
  return LaunchExchange(parameters, stream);
}

Status Communicator::Send(const void* send, uint64_t bytes, uint32_t peer, cinch_dtype dtype,
                          cudaStream_t stream) {
  if (peer >= ranks() || peer == rank() || (bytes != 0 && send == nullptr)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  if (bytes == 0) return Check(nullptr);
  Parameters parameters = MakeParameters(kOneWaySender, dtype);
  parameters.routes[peer].send = At(send, 0);
  parameters.routes[peer].send_bytes = bytes;
  return LaunchExchange(parameters, stream);
}

Status Communicator::Receive(void* receive, uint64_t bytes, uint32_t peer, cinch_dtype dtype,
                             cudaStream_t stream) {
  if (peer >= ranks() || peer == rank() || (bytes != 0 && receive == nullptr)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  if (bytes == 0) return Check(nullptr);
  Parameters parameters = MakeParameters(kOneWayReceiver, dtype);
  parameters.routes[peer].receive = At(receive, 0);
  parameters.routes[peer].receive_bytes = bytes;
  return LaunchExchange(parameters, stream);
}

Status Communicator::ReduceScatter(const void* send, void* receive, uint64_t elements,
                                   cinch_dtype dtype, cudaStream_t stream) {
  const uint32_t element_bytes = ElementBytes(dtype);
  if (element_bytes == 0) return CINCH_ERROR_UNSUPPORTED;
  if (elements != 0 && (send == nullptr || receive == nullptr)) return CINCH_ERROR_INVALID_ARGUMENT;
  if (elements == 0) return Check(nullptr);
  const uint64_t bytes = elements * element_bytes;
  const bool alone = (measure_ & kReceiversOnly) != 0;
  Parameters parameters = MakeParameters(alone ? kOneWayReceiver : kBothWays, dtype);
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    parameters.routes[rank] = {At(send, rank * bytes), bytes, nullptr, 0};
  }
  parameters.routes[rank()].receive = At(receive, 0);
  return LaunchReduce(parameters, dtype, stream);
}

Status Communicator::AllReduce(const void* send, void* receive, uint64_t elements,
                               cinch_dtype dtype, cudaStream_t stream) {
  const uint32_t element_bytes = ElementBytes(dtype);
  if (element_bytes == 0) return CINCH_ERROR_UNSUPPORTED;
  if (elements != 0 && (send == nullptr || receive == nullptr)) return CINCH_ERROR_INVALID_ARGUMENT;
  if (elements == 0) return Check(nullptr);
  const uint64_t bytes = elements * element_bytes;
  Parameters reduce = MakeParameters(kBothWays, dtype);
  Parameters gather = MakeParameters(ranks() > 2 ? kOneToMany : kBothWays, dtype);
  gather.same_data = 1;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    const Share share = ShareOfRank(bytes, ranks(), rank);
    const uint64_t part = share.end - share.begin;
    reduce.routes[rank] = {At(send, share.begin), part, nullptr, 0};
    gather.routes[rank] = {nullptr, 0, At(receive, share.begin), part};
  }
  const Share own = ShareOfRank(bytes, ranks(), rank());
  reduce.routes[rank()].receive = At(receive, own.begin);
  gather.routes[rank()] = {At(receive, own.begin), own.end - own.begin, nullptr, 0};
  CINCH_RETURN_IF_ERROR(LaunchReduce(reduce, dtype, stream));
  return LaunchExchange(gather, stream);
}

Status Communicator::SetNumbersBeforeWrap() {
  const WindowLayout layout = Layout();
  uint8_t* own = windows_->window(rank());
  CINCH_RETURN_IF_ERROR(StatusOfRuntime(
      cudaMemset(own + layout.SentBase(), 0xFF, layout.SlotBase() - layout.SentBase())));
  return StatusOfRuntime(cudaDeviceSynchronize());
}

void Communicator::Abort() {
  if (aborted_.exchange(true)) return;
  __atomic_store_n(&words_->stop, 1U, __ATOMIC_RELEASE);
  const CurrentDevice device(windows_->device());
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    cudaMemcpyAsync(windows_->window(rank) + kStopOffset, &words_->mark, sizeof words_->mark,
                    cudaMemcpyDefault, abort_stream_);
  }
}

Status Communicator::Check(Report* report) const {
  if (report != nullptr) *report = {};
  if (__atomic_load_n(&words_->report.state, __ATOMIC_ACQUIRE) == 2) {
    if (report != nullptr) *report = words_->report;
    return static_cast<Status>(words_->report.status);
  }
  return aborted_.load() ? CINCH_ERROR_CANCELLED : CINCH_OK;
}

}  // namespace cinch::fused
