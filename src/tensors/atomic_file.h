// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "cinch/status.h"

namespace cinch::tensors {

/// A file that appears under its name complete or not at all.
///
/// Bytes go to a file in the same directory that has no name (or a temporary one, where the file
/// system knows no nameless files), whose whole size is reserved at the start so
/// that a full disk shows before any data are accepted. Commit() names it. An object that is
/// destroyed without a successful Commit() removes it. Move-only; distinct ranges
/// may be written from several threads at once.
class AtomicFile {
 public:
  enum class IfExists {
    kReplace,  ///< An older file of that name is replaced, in one step.
    kFail,     ///< Commit() gives an error and leaves the older file.
  };

  AtomicFile() = default;
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Creates the file beside `path` and reserves `size_bytes`.
  /// OK, INVALID_ARGUMENT (`path` is a directory), NO_SPACE, IO.
  [[nodiscard]] static Status Create(const std::string& path, uint64_t size_bytes,
                                     IfExists if_exists, AtomicFile* file, std::string* message);

  /// Writes `bytes` at `offset_bytes`. Does not move any position: any order, any thread.
  /// OK, INVALID_ARGUMENT (the range leaves the file), NO_SPACE, IO.
  [[nodiscard]] Status WriteAt(uint64_t offset_bytes, std::span<const std::byte> bytes,
                               std::string* message);

  /// Reserves or gives back space, for a file whose size shows only while it is written: grow it in
  /// large steps and cut it before Commit(). No other call at the same time.
  /// OK, INVALID_ARGUMENT (not open), NO_SPACE, IO.
  [[nodiscard]] Status Resize(uint64_t size_bytes, std::string* message);

  /// Flushes to the disk and gives the file its name. Ranges never written read as zeros.
  /// OK, INVALID_ARGUMENT (the name is taken and kFail was asked), NO_SPACE, IO. On an error
  /// nothing is left behind.
  [[nodiscard]] Status Commit(std::string* message);

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  void Discard();

  UniqueFd descriptor_;
  uint64_t size_bytes_ = 0;
  IfExists if_exists_ = IfExists::kReplace;
  std::string path_;
  /// Empty while the file has no name.
  std::string temporary_path_;
};

}  // namespace cinch::tensors
