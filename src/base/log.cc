// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "base/config.h"
#include "base/log_level_state.h"

namespace cinch {
namespace {

constexpr int kLevelNotRead = -1;
std::atomic<int> g_level{kLevelNotRead};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return spdlog::level::off;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::off;
}

// Never destroyed, so that what runs at exit can still log. Not in spdlog's registry, which
// belongs to the application.
spdlog::logger& Logger() {
  static spdlog::logger* logger = [] {
    auto* created = new spdlog::logger("cinch", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("%Y-%m-%dT%H:%M:%S.%e cinch[%P] %l: %v");
    created->set_level(spdlog::level::debug);
    return created;
  }();
  return *logger;
}

}  // namespace

void InitializeLogLevel(LogLevel level) {
  int expected = kLevelNotRead;
  g_level.compare_exchange_strong(expected, static_cast<int>(level), std::memory_order_relaxed);
}

void SetLogLevel(LogLevel level) {
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

LogLevel CurrentLogLevel() {
  const int level = g_level.load(std::memory_order_relaxed);
  if (level != kLevelNotRead) return static_cast<LogLevel>(level);
  return ProcessConfig().log_level;
}

void WriteLog(LogLevel level, std::string_view message) noexcept {
  try {
    Logger().log(SpdlogLevel(level), spdlog::string_view_t(message.data(), message.size()));
  } catch (...) {
  }
}

}  // namespace cinch
