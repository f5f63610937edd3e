// SPDX-License-Identifier: Apache-2.0
// Engines, listeners, endpoints, regions and statistics of cinch/transfer.h.
#include <algorithm>
#include <cstring>

#include "base/guarded.h"
#include "base/log.h"
#include "transfer/grown_struct.h"
#include "transfer/handles.h"
#if CINCH_HAVE_UCX
#include "transfer/ucx/ucx_backend.h"
#endif

namespace {

using namespace cinch::transfer;
using cinch::Deadline;
using cinch::Guarded;
using cinch::GuardedOr;
using cinch::Status;

Status CopyText(const std::string& text, char* destination, size_t capacity_bytes) {
  if (destination == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > capacity_bytes) return CINCH_ERROR_DESTINATION_TOO_SMALL;
  std::memcpy(destination, text.c_str(), text.size() + 1);
  return CINCH_OK;
}

Status ParseAddress(const Engine& engine, const char* text, HostPort& address) {
  CINCH_RETURN_IF_ERROR(ParseHostPort(text, address));
  if (address.host.empty()) address.host = engine.settings().listen_host;
  return CINCH_OK;
}

// What came from the parent stays as it is: nothing of it can be ended here.
bool InChild(const Engine& engine) { return engine.InThisProcess() != CINCH_OK; }

// Needs the engine's lock.
bool EarlierAreUnused(cinch_region& region) {
  std::erase_if(region.earlier, [](const auto& each) { return each->users == 0; });
  return region.earlier.empty();
}

bool Valid(const cinch_policy_stats* stats) {
  return stats != nullptr && stats->struct_size == sizeof(*stats);
}

bool Valid(const cinch_transfer_stats* stats) { return stats != nullptr && HasKnownSize(*stats); }

}  // namespace

void cinch_engine_options_init(cinch_engine_options* options) {
  if (options == nullptr) return;
  *options = cinch_engine_options{};
  options->struct_size = sizeof(*options);
  options->dtype = CINCH_DTYPE_AUTO;
}

cinch_status cinch_engine_create(const cinch_engine_options* options, cinch_engine** engine) {
  if (engine == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  *engine = nullptr;
#if CINCH_HAVE_UCX
  return Guarded([&]() -> Status {
    CINCH_RETURN_IF_ERROR(cinch::ProcessConfigStatus());
    Settings settings;
    CINCH_RETURN_IF_ERROR(ResolveSettings(options, cinch::ProcessConfig(), settings));
    auto handle = std::make_unique<cinch_engine>();
    CINCH_RETURN_IF_ERROR(Engine::Create(
        std::move(settings), {CreateUcxBackend, CreateCpuSegmentCodec, CudaDeviceRuntime()},
        handle->engine));
    *engine = handle.release();
    return CINCH_OK;
  });
#else
  static_cast<void>(options);
  cinch::Log(cinch::LogLevel::kError, "this build of cinch has no UCX and cannot transfer");
  return CINCH_ERROR_UNSUPPORTED;
#endif
}

void cinch_engine_destroy(cinch_engine* engine) {
  Guarded([&] {
    if (engine == nullptr || InChild(*engine->engine)) return;
    engine->engine->Shutdown();
    delete engine;
  });
}

cinch_status cinch_listen(cinch_engine* engine, const char* address, cinch_listener** listener) {
  if (engine == nullptr || address == nullptr || listener == nullptr) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  *listener = nullptr;
  return Guarded([&]() -> Status {
    CINCH_RETURN_IF_ERROR(engine->engine->InThisProcess());
    HostPort parsed;
    CINCH_RETURN_IF_ERROR(ParseAddress(*engine->engine, address, parsed));
    auto handle = std::make_unique<cinch_listener>();
    CINCH_RETURN_IF_ERROR(Listener::Create(engine->engine, parsed, handle->listener));
    *listener = handle.release();
    return CINCH_OK;
  });
}

cinch_status cinch_listener_address(const cinch_listener* listener, char* address,
                                    size_t capacity_bytes) {
  return Guarded([&]() -> Status {
    if (listener == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    return CopyText(listener->listener->address(), address, capacity_bytes);
  });
}

cinch_status cinch_accept(cinch_listener* listener, double timeout_seconds,
                          cinch_endpoint** endpoint) {
  if (listener == nullptr || endpoint == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
  *endpoint = nullptr;
  return Guarded([&]() -> Status {
    CINCH_RETURN_IF_ERROR(listener->listener->engine()->InThisProcess());
    auto handle = std::make_unique<cinch_endpoint>();
    handle->engine = listener->listener->engine();
    CINCH_RETURN_IF_ERROR(listener->listener->Accept(timeout_seconds, handle->endpoint));
    *endpoint = handle.release();
    return CINCH_OK;
  });
}

uint64_t cinch_listener_refused(const cinch_listener* listener, cinch_status* last_reason) {
  return GuardedOr(uint64_t{0}, [&]() -> uint64_t {
    if (listener == nullptr) return 0;
    if (last_reason != nullptr) *last_reason = listener->listener->last_reason();
    return listener->listener->refused();
  });
}

void cinch_listener_release(cinch_listener* listener) {
  Guarded([&] {
    if (listener == nullptr || InChild(*listener->listener->engine())) return;
    listener->listener->Stop();
    delete listener;
  });
}

cinch_status cinch_connect(cinch_engine* engine, const char* address, double timeout_seconds,
                           cinch_endpoint** endpoint) {
  if (engine == nullptr || address == nullptr || endpoint == nullptr) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  *endpoint = nullptr;
  return Guarded([&]() -> Status {
    CINCH_RETURN_IF_ERROR(engine->engine->InThisProcess());
    HostPort parsed;
    CINCH_RETURN_IF_ERROR(ParseAddress(*engine->engine, address, parsed));
    auto handle = std::make_unique<cinch_endpoint>();
    handle->engine = engine->engine;
    CINCH_RETURN_IF_ERROR(Connect(engine->engine, parsed, timeout_seconds, handle->endpoint));
    *endpoint = handle.release();
    return CINCH_OK;
  });
}

void cinch_endpoint_release(cinch_endpoint* endpoint) {
  Guarded([&] {
    if (endpoint == nullptr || InChild(*endpoint->engine)) return;
    Engine& engine = *endpoint->engine;
    const std::shared_ptr<Endpoint> closing = endpoint->endpoint;
    {
      const Engine::Guard guard(engine);
      closing->SayGoodbye();
    }
    if (!engine.on_progress_thread()) {
      static_cast<void>(engine.WaitFor([&] { return !closing->open(); },
                                       Deadline::After(engine.goodbye_seconds())));
    }
    {
      const Engine::Guard guard(engine);
      closing->Fail(CINCH_ERROR_CANCELLED);
    }
    delete endpoint;
  });
}

cinch_status cinch_endpoint_state(const cinch_endpoint* endpoint) {
  return Guarded([&]() -> Status {
    if (endpoint == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    CINCH_RETURN_IF_ERROR(endpoint->engine->InThisProcess());
    return endpoint->endpoint->state();
  });
}

cinch_status cinch_region_register(cinch_engine* engine, void* address, uint64_t bytes,
                                   uint32_t access, cinch_region** region) {
  constexpr uint32_t kAllAccess = CINCH_REGION_READ | CINCH_REGION_WRITE;
  if (engine == nullptr || region == nullptr || (address == nullptr && bytes > 0) || access == 0 ||
      (access & ~kAllAccess) != 0) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  *region = nullptr;
  return Guarded([&]() -> Status {
    CINCH_RETURN_IF_ERROR(engine->engine->InThisProcess());
    auto handle = std::make_unique<cinch_region>();
    handle->engine = engine->engine;
    PieceList whole(address, bytes);
    if (DeviceRuntime* devices = engine->engine->devices()) {
      CINCH_RETURN_IF_ERROR(devices->Locate(whole));
    }
    const Engine::Guard guard(*engine->engine);
    CINCH_RETURN_IF_ERROR(
        engine->engine->regions().Register(address, bytes, access, whole.place(), handle->entry));
    *region = handle.release();
    return CINCH_OK;
  });
}

cinch_status cinch_region_describe(const cinch_region* region, cinch_remote_region* remote) {
  return Guarded([&]() -> Status {
    if (region == nullptr || remote == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    CINCH_RETURN_IF_ERROR(region->engine->InThisProcess());
    const Engine::Guard guard(*region->engine);
    *remote = DescribeRegion(*region->entry);
    return CINCH_OK;
  });
}

cinch_status cinch_remote_region_generation(const cinch_remote_region* remote,
                                            uint64_t* generation) {
  return Guarded([&]() -> Status {
    if (remote == nullptr || generation == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    return ReadGeneration(*remote, *generation);
  });
}

cinch_status cinch_region_renew(cinch_region* region, double timeout_seconds) {
  return Guarded([&]() -> Status {
    if (region == nullptr || region->engine->on_progress_thread()) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    Engine& engine = *region->engine;
    CINCH_RETURN_IF_ERROR(engine.InThisProcess());
    {
      const Engine::Guard guard(engine);
      region->earlier.push_back(region->entry);
      if (const Status status = engine.regions().Renew(region->entry); status != CINCH_OK) {
        region->earlier.pop_back();
        return status;
      }
    }
    return engine.WaitFor([&] { return EarlierAreUnused(*region); },
                          Deadline::After(timeout_seconds))
               ? CINCH_OK
               : CINCH_ERROR_TIMEOUT;
  });
}

cinch_status cinch_region_release(cinch_region* region, double timeout_seconds) {
  return Guarded([&]() -> Status {
    if (region == nullptr) return CINCH_OK;
    Engine& engine = *region->engine;
    CINCH_RETURN_IF_ERROR(engine.InThisProcess());
    {
      const Engine::Guard guard(engine);
      engine.regions().Unregister(*region->entry);
    }
    const auto unused = [&] { return region->entry->users == 0 && EarlierAreUnused(*region); };
    if (!engine.WaitFor(unused, Deadline::After(timeout_seconds))) return CINCH_ERROR_TIMEOUT;
    delete region;
    return CINCH_OK;
  });
}

cinch_status cinch_endpoint_get_stats(const cinch_endpoint* endpoint, cinch_transfer_stats* stats) {
  return Guarded([&]() -> Status {
    if (endpoint == nullptr || !Valid(stats)) return CINCH_ERROR_INVALID_ARGUMENT;
    CINCH_RETURN_IF_ERROR(endpoint->engine->InThisProcess());
    const Engine::Guard guard(*endpoint->engine);
    ExportStats(endpoint->endpoint->metrics(), endpoint->engine->settings().link_gbps, *stats);
    return CINCH_OK;
  });
}

cinch_status cinch_engine_get_stats(const cinch_engine* engine, cinch_transfer_stats* stats) {
  return Guarded([&]() -> Status {
    if (engine == nullptr || !Valid(stats)) return CINCH_ERROR_INVALID_ARGUMENT;
    CINCH_RETURN_IF_ERROR(engine->engine->InThisProcess());
    const Engine::Guard guard(*engine->engine);
    ExportStats(engine->engine->metrics(), engine->engine->settings().link_gbps, *stats);
    return CINCH_OK;
  });
}

cinch_status cinch_endpoint_get_policy_stats(const cinch_endpoint* endpoint,
                                             cinch_policy_stats* stats) {
  return Guarded([&]() -> Status {
    if (endpoint == nullptr || !Valid(stats)) return CINCH_ERROR_INVALID_ARGUMENT;
    constexpr double kGigabits = 8e-9;
    CINCH_RETURN_IF_ERROR(endpoint->engine->InThisProcess());
    const Engine::Guard guard(*endpoint->engine);
    const cinch::policy::MessagePolicy& policy = endpoint->endpoint->sender().policy();
    const auto& counters = policy.counters();
    const auto& plan = policy.last_plan();
    *stats = {sizeof(*stats),
              counters.raw_messages,
              counters.compressed_messages,
              counters.small_messages,
              counters.changes,
              policy.link_bytes_per_second() * kGigabits,
              policy.encode_bytes_per_second() * kGigabits,
              policy.decode_bytes_per_second() * kGigabits,
              plan.kept_fraction,
              plan.estimate.raw_seconds,
              plan.estimate.compressed_seconds};
    return CINCH_OK;
  });
}

cinch_status cinch_endpoint_path(const cinch_endpoint* endpoint, char* path,
                                 size_t capacity_bytes) {
  return Guarded([&]() -> Status {
    if (endpoint == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    CINCH_RETURN_IF_ERROR(endpoint->engine->InThisProcess());
    const Engine::Guard guard(*endpoint->engine);
    return CopyText(endpoint->endpoint->path(), path, capacity_bytes);
  });
}

const char* cinch_transport_version(void) {
  return GuardedOr(static_cast<const char*>(""), [&] {
#if CINCH_HAVE_UCX
    return UcxVersion();
#else
  return "none";
#endif
  });
}

cinch_status cinch_transport_list(char* text, size_t capacity_bytes) {
#if CINCH_HAVE_UCX
  return Guarded([&]() -> Status {
    std::string list;
    CINCH_RETURN_IF_ERROR(ListUcxTransports(list));
    return CopyText(list, text, capacity_bytes);
  });
#else
  return text == nullptr || capacity_bytes == 0 ? CINCH_ERROR_INVALID_ARGUMENT
                                                : CINCH_ERROR_UNSUPPORTED;
#endif
}
