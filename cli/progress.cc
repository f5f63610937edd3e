// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "units.h"

namespace cinch::cli {
namespace {

/// Often enough to look smooth, rarely enough to cost nothing.
constexpr std::chrono::milliseconds kDrawInterval{100};
constexpr int kMinBarColumns = 8;
constexpr int kMaxBarColumns = 40;

}  // namespace

int TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

Progress::Progress(std::string label, uint64_t total_bytes, bool wanted)
    : label_(std::move(label)),
      total_bytes_(total_bytes),
      active_(wanted && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { Finish(); }

void Progress::Set(uint64_t done_bytes) {
  done_bytes_ = done_bytes;
  if (!active_) {
    return;
  }
  const Clock::time_point now = Clock::now();
  if (now >= next_draw_) {
    next_draw_ = now + kDrawInterval;
    Draw();
  }
}

void Progress::Finish() {
  if (drawn_) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
    drawn_ = false;
  }
  active_ = false;
}

void Progress::Draw() {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_bytes_) / seconds : 0;
  std::string numbers =
      fmt::format(" {}  {}/s", FormatBytes(done_bytes_), FormatBytes(static_cast<uint64_t>(rate)));
  std::string bar;
  if (total_bytes_ > 0) {
    const double fraction =
        std::min(1.0, static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_));
    if (rate > 0) {
      const auto left = static_cast<double>(total_bytes_ - std::min(total_bytes_, done_bytes_));
      numbers += "  " + FormatRemaining(left / rate) + " left";
    }
    numbers = fmt::format(" {:3.0f}%", 100 * fraction) + numbers;
    const int room = TerminalColumns() - static_cast<int>(label_.size() + numbers.size()) - 4;
    if (room >= kMinBarColumns) {
      const auto columns = static_cast<size_t>(std::min(room, kMaxBarColumns));
      const auto filled = static_cast<size_t>(fraction * static_cast<double>(columns));
      bar = " [" + std::string(filled, '#') + std::string(columns - filled, '.') + "]";
    }
  }
  std::string line = label_ + bar + numbers;
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(1, TerminalColumns() - 1))));
  std::fputs(("\r" + line + "\033[K").c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace cinch::cli
