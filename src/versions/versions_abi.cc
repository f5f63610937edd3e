// SPDX-License-Identifier: Apache-2.0
// The calls of cinch/versions.h.
#include <cstring>

#include "base/fork_count.h"
#include "base/guarded.h"
#include "versions/publisher.h"
#include "versions/subscriber.h"

using cinch::Deadline;
using cinch::Guarded;
using cinch::Status;

struct cinch_publisher {
  const uint32_t forks = cinch::ForkCount();
  std::shared_ptr<cinch::versions::Publisher> publisher;
};

struct cinch_subscriber {
  explicit cinch_subscriber(cinch_endpoint* endpoint) : subscriber(endpoint) {}
  const uint32_t forks = cinch::ForkCount();
  cinch::versions::Subscriber subscriber;
};

namespace {

bool IsName(const char* name) {
  return name != nullptr && name[0] != 0 &&
         ::strnlen(name, CINCH_MAX_TENSOR_NAME + 1) <= CINCH_MAX_TENSOR_NAME;
}

// A parent's: its thread is not here, and its locks may be held for ever.
template <typename Handle>
bool InChild(const Handle& handle) {
  return handle.forks != cinch::ForkCount();
}

}  // namespace

cinch_status cinch_publisher_create(cinch_publisher** publisher) {
  if (publisher == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  *publisher = nullptr;
  return Guarded([&]() -> Status {
    auto handle = std::make_unique<cinch_publisher>();
    handle->publisher = std::make_shared<cinch::versions::Publisher>();
    CINCH_RETURN_IF_ERROR(handle->publisher->Start());
    *publisher = handle.release();
    return CINCH_OK;
  });
}

void cinch_publisher_destroy(cinch_publisher* publisher) {
  Guarded([&] {
    if (publisher == nullptr || InChild(*publisher)) return;
    publisher->publisher->Stop();
    delete publisher;
  });
}

cinch_status cinch_publisher_serve(cinch_publisher* publisher, cinch_endpoint* endpoint) {
  if (publisher == nullptr || endpoint == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  if (InChild(*publisher)) return CINCH_ERROR_UNSUPPORTED;
  return Guarded([&] { return publisher->publisher->Serve(endpoint); });
}

void cinch_publisher_forget(cinch_publisher* publisher, const cinch_endpoint* endpoint) {
  Guarded([&] {
    if (publisher == nullptr || endpoint == nullptr || InChild(*publisher)) return;
    publisher->publisher->Forget(endpoint);
  });
}

cinch_status cinch_publish(cinch_publisher* publisher, const char* name, const void* data,
                           uint64_t bytes, cinch_dtype dtype, uint64_t version, void* stream) {
  if (publisher == nullptr || !IsName(name) || (data == nullptr && bytes > 0) ||
      cinch_dtype_size(dtype) == 0 || bytes > CINCH_MAX_FRAME_INPUT_BYTES) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  if (InChild(*publisher)) return CINCH_ERROR_UNSUPPORTED;
  return Guarded(
      [&] { return publisher->publisher->Publish(name, data, bytes, dtype, version, stream); });
}

cinch_status cinch_subscriber_create(cinch_endpoint* endpoint, cinch_subscriber** subscriber) {
  if (endpoint == nullptr || subscriber == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  *subscriber = nullptr;
  return Guarded([&]() -> Status {
    *subscriber = std::make_unique<cinch_subscriber>(endpoint).release();
    return CINCH_OK;
  });
}

void cinch_subscriber_destroy(cinch_subscriber* subscriber) {
  Guarded([&] {
    if (subscriber != nullptr && !InChild(*subscriber)) delete subscriber;
  });
}

cinch_status cinch_subscribe(cinch_subscriber* subscriber, const char* name, void* first_buffer,
                             void* second_buffer, uint64_t bytes, cinch_dtype dtype) {
  if (subscriber == nullptr || !IsName(name) || cinch_dtype_size(dtype) == 0 ||
      ((first_buffer == nullptr || second_buffer == nullptr) && bytes > 0) ||
      bytes > CINCH_MAX_FRAME_INPUT_BYTES) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  if (InChild(*subscriber)) return CINCH_ERROR_UNSUPPORTED;
  return Guarded([&] {
    return subscriber->subscriber.Subscribe(name, first_buffer, second_buffer, bytes, dtype);
  });
}

cinch_status cinch_fetch(cinch_subscriber* subscriber, const char* name, uint64_t version,
                         void* stream, double timeout_seconds, cinch_version* fetched) {
  if (subscriber == nullptr || !IsName(name) || fetched == nullptr ||
      fetched->struct_size != sizeof(*fetched)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  if (InChild(*subscriber)) return CINCH_ERROR_UNSUPPORTED;
  return Guarded([&] {
    return subscriber->subscriber.Fetch(name, version, stream, Deadline::After(timeout_seconds),
                                        *fetched);
  });
}
