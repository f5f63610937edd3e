// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cinch/status.h"

namespace cinch::tensors {

/// A regular file, mapped read-only for as long as the object lives. Move-only.
///
/// Renaming or deleting the file does no harm; a process that shortens it while it is mapped makes
/// later reads of the missing pages fail with SIGBUS, as with every mapped file.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Maps `path` into `file`, which is replaced only on success. An empty file is valid.
  /// OK, INVALID_ARGUMENT (not a regular file), IO (missing, unreadable), OUT_OF_MEMORY (no address
  /// space). On an error `message` says what to do.
  [[nodiscard]] static Status Open(const std::string& path, MappedFile* file, std::string* message);

  /// The whole file. Valid while this object lives.
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  const std::string& path() const { return path_; }

 private:
  void Unmap();

  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  std::string path_;
};

/// Whether both paths lead to one file (through links too). False when either does not exist.
bool IsSameFile(const std::string& first, const std::string& second);

}  // namespace cinch::tensors
