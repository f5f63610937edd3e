// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "tensors/safetensors.h"
#include "tensors/safetensors_header.h"

namespace cinch::tensors {
namespace {

constexpr size_t kHeaderAlignmentBytes = 8;

/// Keeps keys in the order of insertion, so that the header lists tensors in the file's order.
using Json = nlohmann::ordered_json;

Status Invalid(std::string why, std::string* message) {
  *message = std::move(why);
  return CINCH_ERROR_INVALID_ARGUMENT;
}

void SortAsInFile(std::vector<TensorSpec>* tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const TensorSpec& left, const TensorSpec& right) {
    if (left.file_dtype != right.file_dtype) {
      return left.file_dtype > right.file_dtype;
    }
    return left.name < right.name;
  });
}

Status CheckNames(const std::vector<TensorSpec>& tensors, std::string* message) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    if (tensor.name == "__metadata__") {
      return Invalid("a tensor cannot be named __metadata__: the format reserves it", message);
    }
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) {
    return Invalid("two tensors are named " + Quoted(*twin) + "; names must differ", message);
  }
  return CINCH_OK;
}

/// Gives every tensor its range, relative to the data section.
Status PlaceTensors(std::vector<TensorSpec>&& specs, std::vector<TensorInfo>* tensors,
                    uint64_t* data_bytes, std::string* message) {
  *data_bytes = 0;
  tensors->reserve(specs.size());
  for (TensorSpec& spec : specs) {
    TensorInfo info;
    info.name = std::move(spec.name);
    info.dtype = CodecDtype(spec.file_dtype);
    info.file_dtype = spec.file_dtype;
    info.shape = std::move(spec.shape);
    info.offset_bytes = *data_bytes;
    if (info.shape.size() > kMaxRank ||
        !TensorBytes(info.file_dtype, info.shape, &info.size_bytes) ||
        __builtin_add_overflow(*data_bytes, info.size_bytes, data_bytes) ||
        *data_bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 2) {
      return Invalid("tensor " + Quoted(info.name) +
                         " has a shape whose size overflows or does not fill whole bytes",
                     message);
    }
    tensors->push_back(std::move(info));
  }
  return CINCH_OK;
}

/// The entries one by one: a tree of all of them would look every key up in all earlier ones.
std::string HeaderJson(const std::vector<TensorInfo>& tensors, const Metadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":" + Json(metadata).dump();
  }
  for (const TensorInfo& tensor : tensors) {
    Json entry;
    entry["dtype"] = FileDtypeName(tensor.file_dtype);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes};
    json += (json.size() > 1 ? "," : "") + Json(tensor.name).dump() + ":" + entry.dump();
  }
  json += "}";
  json.resize(
      (json.size() + kHeaderAlignmentBytes - 1) / kHeaderAlignmentBytes * kHeaderAlignmentBytes,
      ' ');
  return json;
}

Status Plan(std::vector<TensorSpec> specs, const Metadata& metadata, SafetensorsPlan* plan,
            std::string* message) {
  CINCH_RETURN_IF_ERROR(CheckNames(specs, message));
  SortAsInFile(&specs);
  SafetensorsPlan planned;
  uint64_t data_bytes = 0;
  CINCH_RETURN_IF_ERROR(
      PlaceTensors(std::move(specs), &planned.layout.tensors, &data_bytes, message));
  const std::string json = HeaderJson(planned.layout.tensors, metadata);
  if (json.size() > kMaxHeaderBytes) {
    *message = "the header would have " + std::to_string(json.size()) +
               " bytes, over the limit of " + std::to_string(kMaxHeaderBytes) +
               "; write several files";
    return CINCH_ERROR_TOO_LARGE;
  }
  for (unsigned i = 0; i < kHeaderAlignmentBytes; ++i) {
    planned.head += static_cast<char>((static_cast<uint64_t>(json.size()) >> (8 * i)) & 0xff);
  }
  planned.head += json;
  planned.layout.metadata = metadata;
  planned.layout.data_offset_bytes = planned.head.size();
  planned.layout.file_bytes = planned.head.size() + data_bytes;
  for (TensorInfo& tensor : planned.layout.tensors) {
    tensor.offset_bytes += planned.layout.data_offset_bytes;
  }
  *plan = std::move(planned);
  return CINCH_OK;
}

}  // namespace

Status PlanSafetensors(std::vector<TensorSpec> tensors, const Metadata& metadata,
                       SafetensorsPlan* plan, std::string* message) {
  try {
    return Plan(std::move(tensors), metadata, plan, message);
  } catch (const std::bad_alloc&) {
    *message = "not enough memory for the header";
    return CINCH_ERROR_OUT_OF_MEMORY;
  } catch (const nlohmann::json::exception&) {
    return Invalid("a tensor's name or the metadata is not valid UTF-8; rename it", message);
  }
}

Status SafetensorsWriter::Create(const std::string& path, std::vector<TensorSpec> tensors,
                                 const Metadata& metadata, AtomicFile::IfExists if_exists,
                                 SafetensorsWriter* writer, std::string* message) {
  SafetensorsWriter created;
  Status status = PlanSafetensors(std::move(tensors), metadata, &created.plan_, message);
  if (status != CINCH_OK) {
    return status;
  }
  const SafetensorsLayout& layout = created.plan_.layout;
  status = AtomicFile::Create(path, layout.file_bytes, if_exists, &created.file_, message);
  if (status != CINCH_OK) {
    return status;
  }
  status = created.file_.WriteAt(0, std::as_bytes(std::span(created.plan_.head)), message);
  if (status != CINCH_OK) {
    return status;
  }
  created.missing_bytes_ = layout.file_bytes - layout.data_offset_bytes;
  *writer = std::move(created);
  return CINCH_OK;
}

Status SafetensorsWriter::Write(size_t index, uint64_t offset_bytes,
                                std::span<const std::byte> bytes, std::string* message) {
  if (index >= tensors().size() || offset_bytes > tensors()[index].size_bytes ||
      bytes.size() > tensors()[index].size_bytes - offset_bytes) {
    return Invalid("a write leaves its tensor", message);
  }
  const Status status = file_.WriteAt(tensors()[index].offset_bytes + offset_bytes, bytes, message);
  if (status == CINCH_OK) {
    missing_bytes_ -= std::min<uint64_t>(missing_bytes_, bytes.size());
  }
  return status;
}

Status SafetensorsWriter::Commit(std::string* message) {
  if (missing_bytes_ != 0) {
    return Invalid("'" + file_.path() + "' still lacks " + std::to_string(missing_bytes_) +
                       " bytes of its tensors",
                   message);
  }
  return file_.Commit(message);
}

Status WriteSafetensors(const std::string& path, std::span<const TensorData> tensors,
                        const Metadata& metadata, AtomicFile::IfExists if_exists,
                        std::string* message) {
  std::vector<TensorSpec> specs;
  std::map<std::string_view, const TensorData*> by_name;
  for (const TensorData& tensor : tensors) {
    specs.push_back(tensor.spec);
    by_name[tensor.spec.name] = &tensor;
  }
  SafetensorsWriter writer;
  Status status =
      SafetensorsWriter::Create(path, std::move(specs), metadata, if_exists, &writer, message);
  for (size_t i = 0; status == CINCH_OK && i < writer.tensors().size(); ++i) {
    const TensorInfo& info = writer.tensors()[i];
    const std::span<const std::byte> bytes = by_name[info.name]->bytes;
    if (bytes.size() != info.size_bytes) {
      return Invalid("tensor " + Quoted(info.name) + " was given " + std::to_string(bytes.size()) +
                         " bytes, but its dtype and shape ask for " +
                         std::to_string(info.size_bytes),
                     message);
    }
    status = writer.Write(i, 0, bytes, message);
  }
  return status == CINCH_OK ? writer.Commit(message) : status;
}

}  // namespace cinch::tensors
