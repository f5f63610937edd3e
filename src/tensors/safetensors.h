// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cinch/status.h"
#include "tensors/atomic_file.h"
#include "tensors/tensor_info.h"

/// Reading and writing the safetensors format. A file is an 8-byte little-endian header length, a
/// JSON header, and the tensors' bytes without gaps. Nothing in a file is trusted: every rule is
/// checked before a TensorInfo comes out, so each one's range lies inside the file.
namespace cinch::tensors {

/// A longer header is refused, as by the format's own library.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
/// The most dimensions of one tensor; numerical libraries stop at 64.
inline constexpr size_t kMaxRank = 64;

using Metadata = std::map<std::string, std::string>;

/// What a header says.
struct SafetensorsLayout {
  /// By rising offset, tensors without bytes by name. Offsets are from the start of the file.
  std::vector<TensorInfo> tensors;
  /// The header's `__metadata__`; empty when there is none.
  Metadata metadata;
  /// Where the tensors' bytes begin: 8 + the header's length.
  uint64_t data_offset_bytes = 0;
  /// The size of the whole file.
  uint64_t file_bytes = 0;
};

/// Reads the header of the file whose contents are `file`; tensor bytes are not touched.
/// Thread-safe. `layout` changes only on success.
/// OK, FILE_FORMAT (any broken rule), UNSUPPORTED (a dtype that this version does not know),
/// OUT_OF_MEMORY. On an error `message` names the tensor and the rule, and what to do.
[[nodiscard]] Status ReadSafetensors(std::span<const std::byte> file, SafetensorsLayout* layout,
                                     std::string* message);

/// Bytes of a tensor of that dtype and shape. False when the product overflows 64 bits or the
/// bits do not fill whole bytes.
bool TensorBytes(FileDtype dtype, std::span<const uint64_t> shape, uint64_t* size_bytes);

/// What the writer needs to know of a tensor before its bytes.
struct TensorSpec {
  std::string name;
  FileDtype file_dtype = FileDtype::kU8;
  std::vector<uint64_t> shape;
};

/// A file's layout and its first `data_offset_bytes` bytes, fixed before any tensor is there.
struct SafetensorsPlan {
  SafetensorsLayout layout;
  /// The 8-byte length and the JSON header, padded with spaces to a multiple of 8.
  std::string head;
};

/// Lays out a file as the format's own library does: by falling alignment, then by name.
/// OK, INVALID_ARGUMENT (a name twice or reserved or not UTF-8, a size that overflows or does not
/// fill whole bytes), TOO_LARGE (header over kMaxHeaderBytes), OUT_OF_MEMORY.
[[nodiscard]] Status PlanSafetensors(std::vector<TensorSpec> tensors, const Metadata& metadata,
                                     SafetensorsPlan* plan, std::string* message);

/// Writes a file tensor by tensor, in any order; one call at a time. The file appears only at
/// Commit(), and only when every tensor's bytes were given.
class SafetensorsWriter {
 public:
  /// Creates the file at its full size and writes its header.
  /// As PlanSafetensors() and AtomicFile::Create().
  [[nodiscard]] static Status Create(const std::string& path, std::vector<TensorSpec> tensors,
                                     const Metadata& metadata, AtomicFile::IfExists if_exists,
                                     SafetensorsWriter* writer, std::string* message);

  /// In the order of the file, which is not the order given.
  const std::vector<TensorInfo>& tensors() const { return plan_.layout.tensors; }

  /// Writes part of tensor `index` of tensors(), `offset_bytes` into it.
  /// OK, INVALID_ARGUMENT (leaves the tensor), NO_SPACE, IO. Writing a range twice is a mistake
  /// that Commit() cannot see.
  [[nodiscard]] Status Write(size_t index, uint64_t offset_bytes, std::span<const std::byte> bytes,
                             std::string* message);

  /// As AtomicFile::Commit(); INVALID_ARGUMENT when bytes are missing.
  [[nodiscard]] Status Commit(std::string* message);

 private:
  SafetensorsPlan plan_;
  AtomicFile file_;
  uint64_t missing_bytes_ = 0;
};

/// A tensor with its bytes.
struct TensorData {
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

/// Writes a whole file at once. Statuses as above.
[[nodiscard]] Status WriteSafetensors(const std::string& path, std::span<const TensorData> tensors,
                                      const Metadata& metadata, AtomicFile::IfExists if_exists,
                                      std::string* message);

}  // namespace cinch::tensors
