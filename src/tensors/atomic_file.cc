// SPDX-License-Identifier: Apache-2.0
#include "tensors/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

namespace cinch::tensors {
namespace {

/// Linux writes at most 2^31 - 4096 bytes a call.
constexpr size_t kWriteChunkBytes = size_t{1} << 30;
constexpr int kNameAttempts = 100;

Status Failed(const char* what, const std::string& path, int error, std::string* message) {
  *message = std::string("cannot ") + what + " '" + path + "': " + std::strerror(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      *message += "; free space there or choose another directory";
      return CINCH_ERROR_NO_SPACE;
    case ENOENT:
      *message += "; create the directory first";
      return CINCH_ERROR_IO;
    case EACCES:
    case EPERM:
    case EROFS:
      *message += "; choose a directory that this user may write to";
      return CINCH_ERROR_IO;
    default:
      return CINCH_ERROR_IO;
  }
}

Status NameIsTaken(const std::string& path, std::string* message) {
  *message = "'" + path + "' exists already; remove it or choose another name";
  return CINCH_ERROR_INVALID_ARGUMENT;
}

/// Two processes, or two threads of one, never get the same name. Every name that a file may have
/// leaves room for it: a long one is cut.
std::string TemporaryName(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  const std::string suffix = ".part-" + std::to_string(getpid()) + "-" +
                             std::to_string(counter.fetch_add(1, std::memory_order_relaxed));
  const size_t name_begin = path.rfind('/') + 1;  // npos + 1 is 0.
  const size_t name_bytes = path.size() - name_begin;
  // A name that is too long itself stays so and is refused.
  const bool must_cut = name_bytes <= NAME_MAX && name_bytes + suffix.size() > NAME_MAX;
  return path.substr(0, must_cut ? name_begin + NAME_MAX - suffix.size() : path.size()) + suffix;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

/// A file without a name beside `path`: even a process that is killed leaves nothing behind. -1
/// where the file system has no such files, or where one could not be given a name later.
int OpenNameless(const std::string& path) {
  if (access("/proc/self/fd", X_OK) != 0) {
    return -1;
  }
  return open(DirectoryOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

/// Gives a file without a name the name `temporary`. Returns 0 or an errno.
int NameIt(int descriptor, const std::string& temporary) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return linkat(AT_FDCWD, link.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) == 0
             ? 0
             : errno;
}

/// Sets the size and reserves the space. posix_fallocate() returns its error instead of setting
/// errno; file systems that cannot reserve get the size alone.
int Reserve(int descriptor, uint64_t size_bytes) {
  if (size_bytes == 0) {
    return 0;
  }
  int error = 0;
  do {
    error = posix_fallocate(descriptor, 0, static_cast<off_t>(size_bytes));
  } while (error == EINTR);
  if (error == EOPNOTSUPP || error == EINVAL) {
    error = ftruncate(descriptor, static_cast<off_t>(size_bytes)) == 0 ? 0 : errno;
  }
  return error;
}

/// Renames in one step. Returns 0 or an errno; on an error the temporary file is still there.
int GiveName(const std::string& temporary, const std::string& path,
             AtomicFile::IfExists if_exists) {
  if (if_exists == AtomicFile::IfExists::kReplace) {
    return rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  }
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return errno;
  }
  // File systems without that flag: link() refuses a taken name too.
  if (link(temporary.c_str(), path.c_str()) != 0) {
    return errno;
  }
  unlink(temporary.c_str());
  return 0;
}

/// Makes a rename durable. Some file systems cannot; the data are safe all the same.
void SyncDirectoryOf(const std::string& path) {
  const UniqueFd descriptor(open(DirectoryOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.valid()) {
    fsync(descriptor.get());
  }
}

}  // namespace

AtomicFile::~AtomicFile() { Discard(); }

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      if_exists_(other.if_exists_),
      path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    Discard();
    descriptor_ = std::move(other.descriptor_);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    if_exists_ = other.if_exists_;
    path_ = std::move(other.path_);
    temporary_path_ = std::exchange(other.temporary_path_, {});
  }
  return *this;
}

void AtomicFile::Discard() {
  descriptor_.reset();
  if (!temporary_path_.empty()) {
    unlink(temporary_path_.c_str());
    temporary_path_.clear();
  }
}

Status AtomicFile::Create(const std::string& path, uint64_t size_bytes, IfExists if_exists,
                          AtomicFile* file, std::string* message) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      *message = "'" + path + "' is a directory; name a file";
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    if (if_exists == IfExists::kFail) {
      return NameIsTaken(path, message);
    }
  }
  if (size_bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    return Failed("create", path, EFBIG, message);
  }
  AtomicFile created;
  created.path_ = path;
  created.size_bytes_ = size_bytes;
  created.if_exists_ = if_exists;
  created.descriptor_.reset(OpenNameless(path));
  for (int attempt = 0; attempt < kNameAttempts && !created.descriptor_.valid(); ++attempt) {
    const std::string name = TemporaryName(path);
    created.descriptor_.reset(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (created.descriptor_.valid()) {
      created.temporary_path_ = name;
    } else if (errno != EEXIST) {
      return Failed("create", path, errno, message);
    }
  }
  if (!created.descriptor_.valid()) {
    return Failed("create", path, EEXIST, message);
  }
  if (const int error = Reserve(created.descriptor_.get(), size_bytes); error != 0) {
    return Failed("reserve space for", path, error, message);
  }
  *file = std::move(created);
  return CINCH_OK;
}

Status AtomicFile::WriteAt(uint64_t offset_bytes, std::span<const std::byte> bytes,
                           std::string* message) {
  if (!descriptor_.valid() || offset_bytes > size_bytes_ ||
      bytes.size() > size_bytes_ - offset_bytes) {
    *message =
        "a write to '" + path_ + "' leaves the file's " + std::to_string(size_bytes_) + " bytes";
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(descriptor_.get(), bytes.data(), std::min(bytes.size(), kWriteChunkBytes),
               static_cast<off_t>(offset_bytes));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return Failed("write", path_, written == 0 ? ENOSPC : errno, message);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset_bytes += static_cast<uint64_t>(written);
  }
  return CINCH_OK;
}

Status AtomicFile::Resize(uint64_t size_bytes, std::string* message) {
  if (!descriptor_.valid()) {
    *message = "'" + path_ + "' is not open for writing";
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  if (size_bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    return Failed("reserve space for", path_, EFBIG, message);
  }
  int error = 0;
  if (size_bytes > size_bytes_) {
    error = Reserve(descriptor_.get(), size_bytes);
  } else if (ftruncate(descriptor_.get(), static_cast<off_t>(size_bytes)) != 0) {
    error = errno;
  }
  if (error != 0) {
    return Failed("reserve space for", path_, error, message);
  }
  size_bytes_ = size_bytes;
  return CINCH_OK;
}

Status AtomicFile::Commit(std::string* message) {
  if (!descriptor_.valid()) {
    *message = "'" + path_ + "' is not open for writing";
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  // Delayed allocation reports a full disk here, on file systems that could not reserve.
  if (fsync(descriptor_.get()) != 0 && errno != EINVAL && errno != EROFS) {
    const Status status = Failed("write", path_, errno, message);
    Discard();
    return status;
  }
  for (int attempt = 0; attempt < kNameAttempts && temporary_path_.empty(); ++attempt) {
    const std::string name = TemporaryName(path_);
    if (const int error = NameIt(descriptor_.get(), name); error == 0) {
      temporary_path_ = name;
    } else if (error != EEXIST || attempt + 1 == kNameAttempts) {
      Discard();
      return Failed("create", path_, error, message);
    }
  }
  if (const int error = GiveName(temporary_path_, path_, if_exists_); error != 0) {
    Discard();
    return error == EEXIST ? NameIsTaken(path_, message) : Failed("create", path_, error, message);
  }
  temporary_path_.clear();
  Discard();
  SyncDirectoryOf(path_);
  return CINCH_OK;
}

}  // namespace cinch::tensors
