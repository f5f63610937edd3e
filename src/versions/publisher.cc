// SPDX-License-Identifier: Apache-2.0
#include "versions/publisher.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

namespace cinch::versions {
namespace {

// Beyond this a patch saves too little over the tensor as the codec sends it.
constexpr double kMostPatchFraction = 0.6;

constexpr auto kRetry = std::chrono::milliseconds(1);

}  // namespace

std::vector<std::shared_ptr<const PatchStep>> StepsFor(const VersionRequest& request,
                                                       const PublishedVersion& newest) {
  if (request.has_version == 0) return {};
  const auto& steps = newest.steps;
  const auto first = std::ranges::find_if(steps, [&](const auto& step) {
    return step->from_version == request.held && step->base_hash == request.held_hash;
  });
  std::vector<std::shared_ptr<const PatchStep>> found(first, steps.end());
  uint64_t bytes = 0;
  for (const auto& step : found) bytes += step->bytes;
  const auto most = static_cast<uint64_t>(kMostPatchFraction * static_cast<double>(newest.bytes));
  if (bytes > most || found.size() > CINCH_MAX_PATCH_STEPS) return {};
  return found;
}

/// What a callback of a client's receive gets.
struct Publisher::CallbackData {
  std::weak_ptr<Publisher> publisher;
  std::shared_ptr<Client> client;
};

/// Keeps what is sent until it is.
struct Publisher::Shipment {
  VersionAnswer answer;
  std::shared_ptr<const PublishedVersion> version;
  std::vector<std::shared_ptr<const PatchStep>> steps;
};

Status Publisher::Start() {
  try {
    thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error&) {
    return CINCH_ERROR_OUT_OF_MEMORY;
  }
  ::pthread_setname_np(thread_.native_handle(), "cinch-publish");
  return CINCH_OK;
}

void Publisher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  clients_.clear();
}

Status Publisher::Publish(const std::string& name, const void* data, uint64_t bytes,
                          cinch_dtype dtype, uint64_t version, void* stream) {
  std::shared_ptr<Tensor> tensor;
  {
    const std::lock_guard lock(mutex_);
    auto& entry = tensors_[name];
    if (entry == nullptr) entry = std::make_shared<Tensor>();
    tensor = entry;
  }
  const std::lock_guard publishing(tensor->publishing);
  const transfer::MemoryPlace place = PlaceOf(data, bytes);
  if (tensor->memory == nullptr) {
    CINCH_RETURN_IF_ERROR(OpenTensorMemory(place, tensor->memory));
    tensor->place = place;
  }
  std::shared_ptr<const PublishedVersion> before;
  {
    const std::lock_guard lock(mutex_);
    before = tensor->newest;
  }
  const bool fits = place == tensor->place &&
                    (before == nullptr || (before->bytes == bytes && before->version < version));
  if (!fits || version == 0) return CINCH_ERROR_INVALID_ARGUMENT;
  auto made = std::make_shared<PublishedVersion>();
  made->version = version;
  made->bytes = bytes;
  made->dtype = dtype;
  CINCH_RETURN_IF_ERROR(MakeVersion(*tensor, data, stream, before.get(), *made));
  if (before != nullptr) tensor->previous = before->data;
  before.reset();
  {
    const std::lock_guard lock(mutex_);
    tensor->newest = std::move(made);
  }
  changed_.notify_all();
  return CINCH_OK;
}

Status Publisher::MakeVersion(Tensor& tensor, const void* data, void* stream,
                              const PublishedVersion* before, PublishedVersion& made) {
  // Whoever still sends the version before last holds it.
  if (tensor.previous != nullptr && tensor.previous.use_count() == 1) {
    made.data = std::move(tensor.previous);
  }
  tensor.previous.reset();
  if (made.data == nullptr) CINCH_RETURN_IF_ERROR(tensor.memory->Allocate(made.bytes, made.data));
  CINCH_RETURN_IF_ERROR(tensor.memory->Copy(made.data->data(), data, made.bytes, stream));
  if (before == nullptr) {
    return tensor.memory->ContentHash(made.data->data(), made.bytes, made.content_hash);
  }
  return MakePatch(tensor, *before, made);
}

Status Publisher::MakePatch(Tensor& tensor, const PublishedVersion& before,
                            PublishedVersion& made) {
  constexpr uint64_t kLeastRoom = uint64_t{64} << 10;
  if (tensor.patch_room == nullptr) {
    const auto room = static_cast<uint64_t>(kMostPatchFraction * static_cast<double>(made.bytes));
    CINCH_RETURN_IF_ERROR(tensor.memory->Allocate(room + kLeastRoom, tensor.patch_room));
  }
  PatchOutcome outcome;
  const Status status =
      tensor.memory->CreatePatch(before.data->data(), made.data->data(), made.bytes,
                                 tensor.patch_room->data(), tensor.patch_room->bytes(), outcome);
  made.content_hash = outcome.result_hash;
  if (status == CINCH_ERROR_DESTINATION_TOO_SMALL) return CINCH_OK;  // Too much has changed.
  CINCH_RETURN_IF_ERROR(status);
  auto step = std::make_shared<PatchStep>();
  step->from_version = before.version;
  step->base_hash = outcome.base_hash;
  step->bytes = outcome.patch_bytes;
  CINCH_RETURN_IF_ERROR(tensor.memory->Allocate(step->bytes, step->patch));
  CINCH_RETURN_IF_ERROR(tensor.memory->Copy(step->patch->data(), tensor.patch_room->data(),
                                            step->bytes, CINCH_NO_STREAM));
  made.steps = before.steps;
  made.steps.push_back(std::move(step));
  while (made.steps.size() > CINCH_MAX_PATCH_STEPS) made.steps.pop_front();
  return CINCH_OK;
}

Status Publisher::Serve(cinch_endpoint* endpoint) {
  CINCH_RETURN_IF_ERROR(cinch_endpoint_state(endpoint));
  auto client = std::make_shared<Client>();
  client->endpoint = endpoint;
  {
    const std::lock_guard lock(mutex_);
    clients_.push_back(client);
  }
  return Listen(client);
}

void Publisher::Forget(const cinch_endpoint* endpoint) {
  std::unique_lock lock(mutex_);
  const auto is_it = [&](const auto& each) {
    return each != nullptr && each->endpoint == endpoint;
  };
  std::erase_if(clients_, is_it);
  changed_.wait(lock, [&] { return !is_it(serving_); });
}

// Awaits the client's next request.
Status Publisher::Listen(const std::shared_ptr<Client>& client) {
  cinch_transfer_options options;
  cinch_transfer_options_init(&options);
  options.tag = kRequestTag;
  options.tag_mask = ~kNumberMask;
  options.timeout_seconds = CINCH_NO_TIMEOUT;
  auto data = std::make_unique<CallbackData>(CallbackData{weak_from_this(), client});
  options.callback_data = data.get();
  options.callback = [](cinch_operation* operation, cinch_status status, void* raw) {
    const std::unique_ptr<CallbackData> owned(static_cast<CallbackData*>(raw));
    cinch_operation_info info{};
    info.struct_size = sizeof(info);
    if (cinch_operation_get_info(operation, &info) == CINCH_OK) {
      owned->client->request_bytes = info.message_bytes;
    }
    if (const auto publisher = owned->publisher.lock()) {
      publisher->OnRequest(owned->client, status);
    }
  };
  cinch_operation* operation = nullptr;
  CINCH_RETURN_IF_ERROR(cinch_recv(client->endpoint, &client->request, sizeof(client->request),
                                   &options, &operation));
  static_cast<void>(data.release());  // The callback's.
  cinch_operation_release(operation);
  return CINCH_OK;
}

void Publisher::OnRequest(const std::shared_ptr<Client>& client, cinch_status status) {
  {
    const std::lock_guard lock(mutex_);
    const bool valid = status == CINCH_OK && IsRequest(client->request, client->request_bytes);
    client->state = valid ? Client::State::kAsked : Client::State::kGone;
  }
  changed_.notify_all();
}

std::shared_ptr<const PublishedVersion> Publisher::Find(const VersionRequest& request) {
  const auto found = tensors_.find(request.name);
  if (found == tensors_.end() || found->second->newest == nullptr) return nullptr;
  const auto& newest = found->second->newest;
  return newest->version >= request.wanted ? newest : nullptr;
}

void Publisher::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const bool served = ServeOne();
    lock.lock();
    if (!served && !stopping_) {
      // Requests that could not be answered are looked at again when something changes; clients
      // that are gone, now and then.
      constexpr auto kLook = std::chrono::milliseconds(200);
      changed_.wait_for(lock, kLook);
    }
  }
}

// Answers one request that can be; false when there is none.
bool Publisher::ServeOne() {
  std::shared_ptr<const PublishedVersion> newest;
  std::shared_ptr<Client> client;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(clients_, [](const auto& each) { return each->state == Client::State::kGone; });
    for (const auto& each : clients_) {
      if (each->state != Client::State::kAsked) continue;
      newest = Find(each->request);
      if (newest == nullptr) continue;
      client = each;
      break;
    }
    if (client == nullptr) return false;
    serving_ = client;
  }
  Answer(client, newest);
  {
    const std::lock_guard lock(mutex_);
    client->state = Client::State::kListening;
  }
  const Status status = Listen(client);
  {
    const std::lock_guard lock(mutex_);
    if (status != CINCH_OK) client->state = Client::State::kGone;
    serving_.reset();
  }
  changed_.notify_all();
  return true;
}

void Publisher::Answer(const std::shared_ptr<Client>& client,
                       const std::shared_ptr<const PublishedVersion>& newest) {
  const VersionRequest request = client->request;
  auto shipment = std::make_shared<Shipment>();
  shipment->version = newest;
  VersionAnswer& answer = shipment->answer;
  answer.version = newest->version;
  answer.content_hash = newest->content_hash;
  answer.bytes = newest->bytes;
  const bool held = request.has_version != 0 && request.held == newest->version &&
                    request.held_hash == newest->content_hash;
  if (request.bytes != newest->bytes) {
    answer.status = CINCH_ERROR_INVALID_ARGUMENT;
  } else if (held) {
    answer.source = CINCH_VERSION_HELD;
  } else {
    shipment->steps = StepsFor(request, *newest);
    answer.source = shipment->steps.empty() ? CINCH_VERSION_FULL : CINCH_VERSION_PATCH;
    answer.payloads = shipment->steps.empty() ? 1 : static_cast<uint32_t>(shipment->steps.size());
    answer.payload_bytes[0] = newest->bytes;
    for (size_t i = 0; i < shipment->steps.size(); ++i) {
      answer.payload_bytes[i] = shipment->steps[i]->bytes;
    }
  }
  const auto send = [&](const void* data, uint64_t bytes, uint64_t tag, bool raw) {
    cinch_transfer_options options;
    cinch_transfer_options_init(&options);
    options.tag = tag | (request.number & kNumberMask);
    options.dtype = raw ? CINCH_DTYPE_BYTES : newest->dtype;
    options.policy = raw ? CINCH_POLICY_RAW : CINCH_POLICY_DEFAULT;
    options.stream = CINCH_NO_STREAM;
    options.name = request.name;
    options.callback = [](cinch_operation* /*operation*/, cinch_status /*status*/, void* raw_data) {
      delete static_cast<std::shared_ptr<Shipment>*>(raw_data);
    };
    auto keeper = std::make_unique<std::shared_ptr<Shipment>>(shipment);
    options.callback_data = keeper.get();
    cinch_operation* operation = nullptr;
    Status status = CINCH_ERROR_BUSY;
    while ((status = cinch_send(client->endpoint, data, bytes, &options, &operation)) ==
           CINCH_ERROR_BUSY) {
      std::this_thread::sleep_for(kRetry);
    }
    if (status != CINCH_OK) return;  // The peer is gone, and so will be its next request.
    static_cast<void>(keeper.release());
    cinch_operation_release(operation);
  };
  send(&answer, sizeof(answer), kAnswerTag, true);
  if (shipment->steps.empty() && answer.payloads > 0) {
    send(newest->data->data(), newest->bytes, kPayloadTag, false);
  }
  for (const auto& step : shipment->steps) {
    send(step->patch->data(), step->bytes, kPayloadTag, true);
  }
}

}  // namespace cinch::versions
