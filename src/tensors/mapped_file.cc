// SPDX-License-Identifier: Apache-2.0
#include "tensors/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"

namespace cinch::tensors {
namespace {

Status FailedToOpen(const std::string& path, int error, std::string* message) {
  *message = "cannot open '" + path + "': " + std::strerror(error);
  if (error == ENOENT) {
    *message += "; check the path";
  } else if (error == EACCES || error == EPERM) {
    *message += "; make the file readable for this user";
  }
  return CINCH_ERROR_IO;
}

}  // namespace

MappedFile::~MappedFile() { Unmap(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    path_ = std::move(other.path_);
  }
  return *this;
}

void MappedFile::Unmap() {
  if (data_ != nullptr) {
    munmap(const_cast<std::byte*>(data_), size_bytes_);
    data_ = nullptr;
    size_bytes_ = 0;
  }
}

Status MappedFile::Open(const std::string& path, MappedFile* file, std::string* message) {
  // Without O_NONBLOCK, opening a FIFO that nobody writes to would wait for ever.
  const UniqueFd descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) {
    return FailedToOpen(path, errno, message);
  }
  struct stat info {};
  if (fstat(descriptor.get(), &info) != 0) {
    return FailedToOpen(path, errno, message);
  }
  if (!S_ISREG(info.st_mode)) {
    *message = "'" + path + "' is not a regular file; name a file, not a directory, pipe or device";
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  MappedFile opened;
  opened.path_ = path;
  opened.size_bytes_ = static_cast<size_t>(info.st_size);
  if (opened.size_bytes_ > 0) {
    void* address = mmap(nullptr, opened.size_bytes_, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      *message = "cannot map '" + path + "' (" + std::to_string(opened.size_bytes_) +
                 " bytes): " + std::strerror(error);
      return error == ENOMEM ? CINCH_ERROR_OUT_OF_MEMORY : CINCH_ERROR_IO;
    }
    opened.data_ = static_cast<const std::byte*>(address);
    // Tensors are read front to back; advice that fails costs only read-ahead.
    madvise(address, opened.size_bytes_, MADV_SEQUENTIAL);
  }
  *file = std::move(opened);
  return CINCH_OK;
}

bool IsSameFile(const std::string& first, const std::string& second) {
  struct stat first_info {};
  struct stat second_info {};
  return stat(first.c_str(), &first_info) == 0 && stat(second.c_str(), &second_info) == 0 &&
         first_info.st_dev == second_info.st_dev && first_info.st_ino == second_info.st_ino;
}

}  // namespace cinch::tensors
