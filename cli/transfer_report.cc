// SPDX-License-Identifier: Apache-2.0
#include "transfer_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "byte_sink.h"
#include "engine_handles.h"
#include "table.h"
#include "units.h"

namespace cinch::cli {
namespace {

using Json = nlohmann::json;

/// Longer lists help nobody; --json has them all.
constexpr size_t kMaxFilesShown = 20;

double KeptFraction(const TransferReport& report) {
  return report.payload_bytes == 0 ? 1
                                   : static_cast<double>(report.stats.wire_bytes) /
                                         static_cast<double>(report.payload_bytes);
}

std::string HiddenText(const cinch_transfer_stats& stats) {
  const double hidden = HiddenCodecFraction(stats);
  return hidden < 0 ? "nothing was coded" : fmt::format("{:.1f} % of the codec time", 100 * hidden);
}

std::string PolicyText(const TransferReport& report) {
  const cinch_policy_stats& policy = report.policy;
  if (policy.raw_messages + policy.compressed_messages + policy.small_messages == 0) {
    // The sender decides; the receiver sees what came.
    return fmt::format("{} raw segments, {} compressed", report.stats.raw_segments,
                       report.stats.compressed_segments);
  }
  return fmt::format("{} messages raw, {} compressed, {} too small to ask, {} changes",
                     policy.raw_messages, policy.compressed_messages, policy.small_messages,
                     policy.changes);
}

Outcome PrintText(const TransferReport& report) {
  Table files({"file", "bytes", "xxh3-128"});
  for (size_t index = 0; index < std::min(kMaxFilesShown, report.files.size()); ++index) {
    const TransferReport::File& file = report.files[index];
    files.Add({file.name, std::to_string(file.size_bytes), file.digest});
  }
  if (report.files.size() > kMaxFilesShown) {
    files.Add({fmt::format("... and {} more", report.files.size() - kMaxFilesShown)});
  }
  std::string text = files.Format() + '\n';
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<16}{}\n", name, value);
  };
  add("payload", fmt::format("{} bytes in {} files, {} and verified", report.payload_bytes,
                             report.files.size(), report.verb));
  add("on the wire",
      fmt::format("{} bytes, {:.2f} % kept", report.stats.wire_bytes, 100 * KeptFraction(report)));
  add("time", fmt::format("{} (with checks and commit {})", FormatSeconds(report.seconds),
                          FormatSeconds(report.total_seconds)));
  add("goodput",
      fmt::format("{:.3f} Gbit/s", GigabitsPerSecond(report.payload_bytes, report.seconds)));
  add("hidden", HiddenText(report.stats));
  add("wire busy", fmt::format("{:.1f} % of the time", 100 * WireBusyFraction(report.stats)));
  add("policy", PolicyText(report));
  add("path", report.path);
  return Print(text);
}

Json PolicyJson(const cinch_policy_stats& policy) {
  return {{"raw_messages", policy.raw_messages},
          {"compressed_messages", policy.compressed_messages},
          {"small_messages", policy.small_messages},
          {"changes", policy.changes},
          {"link_gbps", policy.link_gbps},
          {"encode_gbps", policy.encode_gbps},
          {"decode_gbps", policy.decode_gbps},
          {"predicted_kept_fraction", policy.predicted_kept_fraction}};
}

std::string JsonLine(const TransferReport& report) {
  Json files = Json::array();
  for (const TransferReport::File& file : report.files) {
    files.push_back({{"name", file.name}, {"bytes", file.size_bytes}, {"xxh3_128", file.digest}});
  }
  const double hidden = HiddenCodecFraction(report.stats);
  const Json line = {{"direction", report.verb},
                     {"files", std::move(files)},
                     {"payload_bytes", report.payload_bytes},
                     {"wire_bytes", report.stats.wire_bytes},
                     {"kept_fraction", KeptFraction(report)},
                     {"seconds", report.seconds},
                     {"total_seconds", report.total_seconds},
                     {"goodput_gbps", GigabitsPerSecond(report.payload_bytes, report.seconds)},
                     {"hidden_codec_fraction", hidden < 0 ? Json() : Json(hidden)},
                     {"codec_busy_seconds", report.stats.codec_busy_seconds},
                     {"wire_busy_fraction", WireBusyFraction(report.stats)},
                     {"raw_segments", report.stats.raw_segments},
                     {"compressed_segments", report.stats.compressed_segments},
                     {"policy", PolicyJson(report.policy)},
                     {"path", report.path}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Outcome WriteLine(const std::string& path, const std::string& line) {
  std::unique_ptr<ByteSink> sink;
  Outcome outcome = FileSink::Create(path, 0, true, &sink);
  if (outcome.ok()) {
    outcome = sink->Write(std::as_bytes(std::span(line)));
  }
  return outcome.ok() ? sink->Finish() : outcome;
}

}  // namespace

void ReadStatistics(const cinch_endpoint* endpoint, TransferReport* report) {
  report->stats.struct_size = sizeof(report->stats);
  report->policy.struct_size = sizeof(report->policy);
  if (cinch_endpoint_get_stats(endpoint, &report->stats) != CINCH_OK) {
    report->stats = {};
  }
  if (cinch_endpoint_get_policy_stats(endpoint, &report->policy) != CINCH_OK) {
    report->policy = {};
  }
  report->path = PathOf(endpoint);
}

double HiddenCodecFraction(const cinch_transfer_stats& stats) {
  return stats.codec_busy_seconds > 0 ? stats.hidden_codec_seconds / stats.codec_busy_seconds : -1;
}

double WireBusyFraction(const cinch_transfer_stats& stats) {
  return stats.elapsed_seconds > 0 ? std::min(1.0, stats.wire_busy_seconds / stats.elapsed_seconds)
                                   : 0;
}

void AddReportOption(CLI::App* command, std::string* path) {
  command->add_option("--report", *path, "Also write what --json prints to this file");
}

Outcome PrintReport(const TransferReport& report, const OutputStyle& style,
                    const std::string& path) {
  const std::string line = JsonLine(report);
  if (!path.empty()) {
    if (Outcome outcome = WriteLine(path, line); !outcome.ok()) {
      return outcome;
    }
  }
  if (style.quiet) {
    return {};
  }
  return style.json ? Print(line) : PrintText(report);
}

}  // namespace cinch::cli
