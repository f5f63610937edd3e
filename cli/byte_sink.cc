// SPDX-License-Identifier: Apache-2.0
#include "byte_sink.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "interrupt.h"
#include "tensors/mapped_file.h"

namespace cinch::cli {
namespace {

/// Space is reserved in steps of what is there, up to this: rarely enough to cost nothing.
constexpr uint64_t kMaxGrowBytes = uint64_t{64} << 20;

}  // namespace

bool NameExists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

Outcome FileSink::Create(const std::string& path, uint64_t expected_bytes, bool force,
                         std::unique_ptr<ByteSink>* sink) {
  if (!force && NameExists(path)) {
    return Refuse(ExitCode::kExists,
                  fmt::format("'{}' exists already; choose another name or give --force", path));
  }
  // Renaming onto a device or a pipe would remove it.
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return Refuse(ExitCode::kUsage,
                  fmt::format("'{}' is not a regular file; write to standard output with '-o -' "
                              "and redirect it",
                              path));
  }
  auto created = std::make_unique<FileSink>();
  const auto if_exists =
      force ? tensors::AtomicFile::IfExists::kReplace : tensors::AtomicFile::IfExists::kFail;
  std::string message;
  const Status status =
      tensors::AtomicFile::Create(path, expected_bytes, if_exists, &created->file_, &message);
  if (status != CINCH_OK) {
    return FromStatus(status, message);
  }
  *sink = std::move(created);
  return {};
}

Outcome FileSink::Write(std::span<const std::byte> bytes) {
  std::string message;
  if (bytes.size() > file_.size_bytes() - written_bytes_) {
    const uint64_t needed_bytes = written_bytes_ + bytes.size();
    Status status = file_.Resize(needed_bytes + std::min(written_bytes_, kMaxGrowBytes), &message);
    if (status != CINCH_OK) {
      // The last bytes of a disk are for data.
      status = file_.Resize(needed_bytes, &message);
    }
    if (status != CINCH_OK) {
      return FromStatus(status, message);
    }
  }
  const Status status = file_.WriteAt(written_bytes_, bytes, &message);
  written_bytes_ += bytes.size();
  return FromStatus(status, message);
}

Outcome FileSink::Finish() {
  std::string message;
  Status status = CINCH_OK;
  if (written_bytes_ != file_.size_bytes()) {
    status = file_.Resize(written_bytes_, &message);
  }
  if (status == CINCH_OK) {
    status = file_.Commit(&message);
  }
  return FromStatus(status, message);
}

Outcome DescriptorSink::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR && !Interrupted()) {
      continue;
    }
    if (written <= 0) {
      const int error = written == 0 ? ENOSPC : errno;
      return FromStatus(error == ENOSPC ? CINCH_ERROR_NO_SPACE : CINCH_ERROR_IO,
                        fmt::format("cannot write to standard output: {}", std::strerror(error)));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Outcome OpenSink(const std::string& input, const std::string& output, uint64_t expected_bytes,
                 bool force, std::unique_ptr<ByteSink>* sink) {
  if (output == "-") {
    if (isatty(STDOUT_FILENO) == 1) {
      return Refuse(ExitCode::kUsage,
                    "standard output is a terminal; redirect it or name a file with -o");
    }
    *sink = std::make_unique<DescriptorSink>(STDOUT_FILENO);
    return {};
  }
  if (tensors::IsSameFile(input, output)) {
    return Refuse(ExitCode::kUsage,
                  fmt::format("'{}' is input and output; name another output with -o", output));
  }
  return FileSink::Create(output, expected_bytes, force, sink);
}

}  // namespace cinch::cli
