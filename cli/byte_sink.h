// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "outcome.h"
#include "tensors/atomic_file.h"

namespace cinch::cli {

/// Where the output of a command goes, front to back.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Outcome Write(std::span<const std::byte> bytes) = 0;
  /// Makes the output final. Without it, a file does not come into being.
  virtual Outcome Finish() = 0;
};

/// Writes a file that appears complete or not at all.
class FileSink : public ByteSink {
 public:
  /// `expected_bytes` is reserved at once (0: not known); without `force` an existing file is
  /// refused.
  static Outcome Create(const std::string& path, uint64_t expected_bytes, bool force,
                        std::unique_ptr<ByteSink>* sink);

  Outcome Write(std::span<const std::byte> bytes) override;
  Outcome Finish() override;

 private:
  tensors::AtomicFile file_;
  uint64_t written_bytes_ = 0;
};

/// Writes to a descriptor that stays open, e.g. standard output.
class DescriptorSink : public ByteSink {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}

  Outcome Write(std::span<const std::byte> bytes) override;
  Outcome Finish() override { return {}; }

 private:
  int descriptor_;
};

/// The sink for a command's -o: "-" is standard output (refused when that is a terminal), anything
/// else a file. Refuses an output that is the input.
Outcome OpenSink(const std::string& input, const std::string& output, uint64_t expected_bytes,
                 bool force, std::unique_ptr<ByteSink>* sink);

/// Whether something, a dangling link included, has that name.
bool NameExists(const std::string& path);

}  // namespace cinch::cli
