// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cinch/transfer.h"
#include "commands.h"
#include "outcome.h"

namespace cinch::cli {

/// What both ends tell of a transfer of files.
struct TransferReport {
  struct File {
    std::string name;
    uint64_t size_bytes = 0;
    std::string digest;
  };
  /// "sent" or "received".
  const char* verb = "sent";
  std::vector<File> files;
  uint64_t payload_bytes = 0;
  /// From the first data message to the last one's confirmation.
  double seconds = 0;
  /// With announcing, checking and committing.
  double total_seconds = 0;
  cinch_transfer_stats stats{};
  cinch_policy_stats policy{};
  std::string path;
};

/// Reads the endpoint's statistics into the report.
void ReadStatistics(const cinch_endpoint* endpoint, TransferReport* report);

/// The share of codec time in which the wire was busy too; negative when nothing was coded.
double HiddenCodecFraction(const cinch_transfer_stats& stats);
/// The share of the elapsed time in which the wire was busy.
double WireBusyFraction(const cinch_transfer_stats& stats);

/// Adds --report.
void AddReportOption(CLI::App* command, std::string* path);

/// Prints the report as a table or as a line of JSON, and writes the line to `path` unless that is
/// empty.
Outcome PrintReport(const TransferReport& report, const OutputStyle& style,
                    const std::string& path);

}  // namespace cinch::cli
