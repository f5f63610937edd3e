// SPDX-License-Identifier: Apache-2.0
#include "versions/subscriber.h"

#include "cinch/patch.h"

namespace cinch::versions {
namespace {

cinch_transfer_options OptionsFor(uint64_t tag) {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = tag;
  options.tag_mask = ~uint64_t{0};
  options.stream = CINCH_NO_STREAM;
  return options;
}

// As good as for ever: the engine itself ends operations that stall.
constexpr double kWaitSeconds = 24 * 3600;

}  // namespace

Subscriber::~Subscriber() {
  for (auto& [name, tensor] : tensors_) {
    if (tensor.asked == nullptr) continue;
    // The answer goes to this object's memory: it must not come any more.
    static_cast<void>(cinch_cancel(tensor.asked));
    static_cast<void>(cinch_wait(tensor.asked, kWaitSeconds));
    cinch_operation_release(tensor.asked);
  }
}

Status Subscriber::Subscribe(const std::string& name, void* first, void* second, uint64_t bytes,
                             cinch_dtype dtype) {
  const std::lock_guard lock(mutex_);
  const transfer::MemoryPlace place = PlaceOf(first, bytes);
  if (PlaceOf(second, bytes) != place || tensors_.contains(name)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  std::unique_ptr<TensorMemory> memory;
  CINCH_RETURN_IF_ERROR(OpenTensorMemory(place, memory));
  Tensor& tensor = tensors_[name];
  tensor.buffers[0] = first;
  tensor.buffers[1] = second;
  tensor.bytes = bytes;
  tensor.dtype = dtype;
  tensor.memory = std::move(memory);
  return CINCH_OK;
}

void Subscriber::Describe(const Tensor& tensor, cinch_version& fetched) {
  fetched.data = tensor.buffers[tensor.current];
  fetched.bytes = tensor.bytes;
  fetched.version = tensor.version;
  fetched.content_hash = tensor.content_hash;
}

Status Subscriber::Fetch(const std::string& name, uint64_t wanted, void* stream, Deadline deadline,
                         cinch_version& fetched) {
  const std::lock_guard lock(mutex_);
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return CINCH_ERROR_INVALID_ARGUMENT;
  Tensor& tensor = found->second;
  if (wanted != 0 && tensor.has_version && tensor.version >= wanted) {
    Describe(tensor, fetched);
    fetched.source = CINCH_VERSION_HELD;
    fetched.payload_bytes = 0;
    return CINCH_OK;
  }
  while (true) {
    if (tensor.asked == nullptr) CINCH_RETURN_IF_ERROR(Ask(name, tensor, wanted));
    Status status = cinch_wait(tensor.asked, deadline.remaining_seconds());
    if (status == CINCH_IN_PROGRESS) return CINCH_ERROR_TIMEOUT;
    cinch_operation_info info{};
    info.struct_size = sizeof(info);
    if (status == CINCH_OK) status = cinch_operation_get_info(tensor.asked, &info);
    cinch_operation_release(tensor.asked);
    tensor.asked = nullptr;
    CINCH_RETURN_IF_ERROR(status);
    CINCH_RETURN_IF_ERROR(CheckAnswer(tensor.answer, info.message_bytes, tensor.request));
    const bool enough = tensor.request.wanted >= wanted || tensor.answer.version >= wanted;
    CINCH_RETURN_IF_ERROR(Take(tensor, stream, fetched));
    // An answer to an earlier, more modest request may not be enough.
    if (enough) return CINCH_OK;
  }
}

Status Subscriber::Ask(const std::string& name, Tensor& tensor, uint64_t wanted) {
  VersionRequest& request = tensor.request;
  request = {};
  request.has_version = tensor.has_version && !tensor.wants_full ? 1 : 0;
  request.number = next_number_++ & kNumberMask;
  request.wanted = wanted;
  request.held = tensor.version;
  request.held_hash = tensor.content_hash;
  request.bytes = tensor.bytes;
  name.copy(request.name, CINCH_MAX_TENSOR_NAME);
  tensor.wants_full = false;
  cinch_transfer_options options = OptionsFor(kAnswerTag | request.number);
  options.timeout_seconds = CINCH_NO_TIMEOUT;
  CINCH_RETURN_IF_ERROR(
      cinch_recv(endpoint_, &tensor.answer, sizeof(tensor.answer), &options, &tensor.asked));
  options = OptionsFor(kRequestTag | request.number);
  cinch_operation* sent = nullptr;
  Status status = cinch_send(endpoint_, &request, sizeof(request), &options, &sent);
  if (status == CINCH_OK) {
    status = cinch_wait(sent, kWaitSeconds);
    cinch_operation_release(sent);
  }
  if (status == CINCH_OK) return CINCH_OK;
  static_cast<void>(cinch_cancel(tensor.asked));
  static_cast<void>(cinch_wait(tensor.asked, kWaitSeconds));
  cinch_operation_release(tensor.asked);
  tensor.asked = nullptr;
  return status;
}

// Takes what an answer, which has been checked, says is coming.
Status Subscriber::Take(Tensor& tensor, void* stream, cinch_version& fetched) {
  const VersionAnswer& answer = tensor.answer;
  fetched.source = static_cast<cinch_version_source>(answer.source);
  fetched.payload_bytes = 0;
  Status status = CINCH_OK;
  if (fetched.source != CINCH_VERSION_HELD) {
    CINCH_RETURN_IF_ERROR(tensor.memory->WaitFor(stream));
    status = fetched.source == CINCH_VERSION_FULL ? TakeFull(tensor, fetched)
                                                  : TakePatches(tensor, fetched);
  }
  tensor.wants_full = status != CINCH_OK;
  CINCH_RETURN_IF_ERROR(status);
  if (fetched.source != CINCH_VERSION_HELD) {
    tensor.current = 1 - tensor.current;  // From now on it is seen.
    tensor.has_version = true;
    tensor.version = answer.version;
    tensor.content_hash = answer.content_hash;
  }
  Describe(tensor, fetched);
  return CINCH_OK;
}

Status Subscriber::ReceivePayload(Tensor& tensor, void* to, uint64_t bytes, cinch_dtype dtype,
                                  uint64_t& wire_bytes) {
  cinch_transfer_options options = OptionsFor(kPayloadTag | tensor.request.number);
  options.dtype = dtype;
  cinch_operation* operation = nullptr;
  CINCH_RETURN_IF_ERROR(cinch_recv(endpoint_, to, bytes, &options, &operation));
  Status status = cinch_wait(operation, kWaitSeconds);
  cinch_operation_info info{};
  info.struct_size = sizeof(info);
  cinch_transfer_stats stats{};
  stats.struct_size = sizeof(stats);
  if (status == CINCH_OK) status = cinch_operation_get_info(operation, &info);
  if (status == CINCH_OK) status = cinch_operation_get_stats(operation, &stats);
  if (status == CINCH_OK && info.message_bytes != bytes) status = CINCH_ERROR_PROTOCOL;
  wire_bytes += stats.wire_bytes;
  cinch_operation_release(operation);
  return status;
}

Status Subscriber::TakeFull(Tensor& tensor, cinch_version& fetched) {
  void* spare = tensor.buffers[1 - tensor.current];
  CINCH_RETURN_IF_ERROR(
      ReceivePayload(tensor, spare, tensor.bytes, tensor.dtype, fetched.payload_bytes));
  uint64_t hash = 0;
  CINCH_RETURN_IF_ERROR(tensor.memory->ContentHash(spare, tensor.bytes, hash));
  return hash == tensor.answer.content_hash ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
}

Status Subscriber::TakePatches(Tensor& tensor, cinch_version& fetched) {
  void* spare = tensor.buffers[1 - tensor.current];
  const void* base = tensor.buffers[tensor.current];
  uint64_t hash = tensor.content_hash;
  Status result = CINCH_OK;
  for (uint32_t i = 0; i < tensor.answer.payloads; ++i) {
    const uint64_t bytes = tensor.answer.payload_bytes[i];
    if (tensor.patch == nullptr || tensor.patch->bytes() < bytes) {
      tensor.patch.reset();
      CINCH_RETURN_IF_ERROR(tensor.memory->Allocate(bytes, tensor.patch));
    }
    CINCH_RETURN_IF_ERROR(ReceivePayload(tensor, tensor.patch->data(), bytes, CINCH_DTYPE_BYTES,
                                         fetched.payload_bytes));
    // What follows a bad patch is received all the same, and dropped.
    if (result != CINCH_OK) continue;
    result = tensor.memory->ApplyPatch(base, hash, tensor.patch->data(), bytes, spare, tensor.bytes,
                                       hash);
    base = spare;
  }
  CINCH_RETURN_IF_ERROR(result);
  return hash == tensor.answer.content_hash ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM;
}

}  // namespace cinch::versions
