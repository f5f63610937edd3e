// SPDX-License-Identifier: Apache-2.0
#include "tensors/safetensors_header.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

namespace cinch::tensors {
namespace {

using Json = nlohmann::json;

/// Where in the header the parser stands. The deepest legal place is a number in an array of a
/// tensor of the header, so every deeper nesting is refused where it begins.
enum class Place { kStart, kHeader, kMetadata, kTensor, kShape, kOffsets, kEnd };

enum Key : unsigned { kNoKey = 0, kDtypeKey = 1, kShapeKey = 2, kOffsetsKey = 4, kAllKeys = 7 };

/// Receives the parser's events and builds entries, refusing at the first broken rule. A tree of
/// JSON values would silently keep only one of two equal keys.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  HeaderHandler(std::vector<HeaderEntry>* entries, Metadata* metadata)
      : entries_(entries), metadata_(metadata) {}

  Status status() const { return status_; }
  const std::string& message() const { return message_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not whole or exceeds 64 bits");
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (Entry().shape.size() == kMaxRank) {
        return Refuse("tensor " + Quoted(Entry().name) + " has more than " +
                      std::to_string(kMaxRank) + " dimensions");
      }
      Entry().shape.push_back(value);
      return true;
    }
    if (place_ == Place::kOffsets && offset_count_ < 2) {
      (offset_count_ == 0 ? Entry().begin_bytes : Entry().end_bytes) = value;
      ++offset_count_;
      return true;
    }
    return place_ == Place::kOffsets ? RefuseOffsets() : Unexpected("a number");
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      (*metadata_)[metadata_key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || key_ != kDtypeKey) {
      return Unexpected("a string");
    }
    if (!ParseFileDtype(value, &Entry().dtype)) {
      status_ = CINCH_ERROR_UNSUPPORTED;
      message_ = "tensor " + Quoted(Entry().name) + " has the unknown dtype " + Quoted(value) +
                 "; a newer version may know it, or treat the file as raw bytes";
      return false;
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kHeader;
      return true;
    }
    if (place_ != Place::kHeader) {
      return Unexpected("an object");
    }
    place_ = in_metadata_ ? Place::kMetadata : Place::kTensor;
    seen_keys_ = 0;
    key_ = kNoKey;
    return true;
  }

  bool key(string_t& value) override {
    switch (place_) {
      case Place::kHeader:
        return HeaderKey(value);
      case Place::kMetadata:
        if (metadata_->contains(value)) {
          return Refuse("__metadata__ has the key " + Quoted(value) + " twice");
        }
        metadata_key_ = value;
        return true;
      default:
        return TensorKey(value);
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor && seen_keys_ != kAllKeys) {
      return Refuse("tensor " + Quoted(Entry().name) + " lacks one of dtype, shape, data_offsets");
    }
    place_ = place_ == Place::kHeader ? Place::kEnd : Place::kHeader;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kTensor && key_ == kShapeKey) {
      place_ = Place::kShape;
      return true;
    }
    if (place_ == Place::kTensor && key_ == kOffsetsKey) {
      place_ = Place::kOffsets;
      offset_count_ = 0;
      return true;
    }
    return Unexpected("an array");
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offset_count_ != 2) {
      return RefuseOffsets();
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Refuse("the header is not valid JSON at its byte " + std::to_string(position));
  }

 private:
  HeaderEntry& Entry() { return entries_->back(); }

  bool HeaderKey(const std::string& value) {
    in_metadata_ = value == "__metadata__";
    if (!in_metadata_) {
      entries_->emplace_back();
      Entry().name = value;
      return true;
    }
    if (has_metadata_) {
      return Refuse("the header has __metadata__ twice");
    }
    has_metadata_ = true;
    return true;
  }

  bool TensorKey(const std::string& value) {
    key_ = value == "dtype"          ? kDtypeKey
           : value == "shape"        ? kShapeKey
           : value == "data_offsets" ? kOffsetsKey
                                     : kNoKey;
    if (key_ == kNoKey) {
      return Refuse("tensor " + Quoted(Entry().name) + " has the unknown key " + Quoted(value));
    }
    if ((seen_keys_ & key_) != 0) {
      return Refuse("tensor " + Quoted(Entry().name) + " has the key " + Quoted(value) + " twice");
    }
    seen_keys_ |= key_;
    return true;
  }

  bool RefuseOffsets() {
    return Refuse("data_offsets of tensor " + Quoted(Entry().name) +
                  " are not exactly two numbers, begin and end");
  }

  bool Unexpected(const char* what) {
    if (place_ == Place::kMetadata || (place_ == Place::kHeader && in_metadata_)) {
      return Refuse(std::string("__metadata__ must be an object of strings; found ") + what);
    }
    if (place_ == Place::kStart) {
      return Refuse(std::string("the header is not an object but ") + what);
    }
    return Refuse("tensor " + Quoted(Entry().name) + " has " + what + " where " + Expected() +
                  " belongs");
  }

  const char* Expected() const {
    if (place_ == Place::kShape || place_ == Place::kOffsets) {
      return "a whole number from 0 to 2^64 - 1";
    }
    if (place_ == Place::kHeader) {
      return "an object of dtype, shape and data_offsets";
    }
    return key_ == kDtypeKey ? "a dtype's name" : "an array of numbers";
  }

  bool Refuse(std::string why) {
    status_ = CINCH_ERROR_FILE_FORMAT;
    message_ = std::move(why);
    return false;
  }

  std::vector<HeaderEntry>* entries_;
  Metadata* metadata_;
  Place place_ = Place::kStart;
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  std::string metadata_key_;
  unsigned seen_keys_ = 0;
  Key key_ = kNoKey;
  int offset_count_ = 0;
  Status status_ = CINCH_OK;
  std::string message_;
};

/// Sorting keeps the cost fixed, whatever names an attacker chooses; a hash table would not.
const std::string* FindDuplicateName(const std::vector<HeaderEntry>& entries) {
  std::vector<const std::string*> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) {
    names.push_back(&entry.name);
  }
  std::sort(names.begin(), names.end(),
            [](const std::string* left, const std::string* right) { return *left < *right; });
  const auto twin = std::adjacent_find(
      names.begin(), names.end(),
      [](const std::string* left, const std::string* right) { return *left == *right; });
  return twin == names.end() ? nullptr : *twin;
}

Status Parse(std::string_view json, std::vector<HeaderEntry>* entries, Metadata* metadata,
             std::string* message) {
  // The parser takes a NUL byte for the end of its input and would ignore what follows.
  if (json.find('\0') != std::string_view::npos) {
    *message = "the header contains a NUL byte, which JSON does not allow";
    return CINCH_ERROR_FILE_FORMAT;
  }
  HeaderHandler handler(entries, metadata);
  if (!Json::sax_parse(json.begin(), json.end(), &handler)) {
    *message = handler.message();
    return handler.status() == CINCH_OK ? CINCH_ERROR_FILE_FORMAT : handler.status();
  }
  if (const std::string* name = FindDuplicateName(*entries); name != nullptr) {
    *message = "the header has the tensor " + Quoted(*name) + " twice";
    return CINCH_ERROR_FILE_FORMAT;
  }
  return CINCH_OK;
}

}  // namespace

std::string Quoted(std::string_view name) {
  constexpr size_t kShownBytes = 120;
  std::string quoted = "'";
  for (const char character : name.substr(0, kShownBytes)) {
    const auto code = static_cast<unsigned char>(character);
    quoted += code < 0x20 || code == 0x7f ? '?' : character;
  }
  return quoted + (name.size() > kShownBytes ? "...'" : "'");
}

Status ParseHeader(std::string_view json, std::vector<HeaderEntry>* entries, Metadata* metadata,
                   std::string* message) {
  try {
    return Parse(json, entries, metadata, message);
  } catch (const std::bad_alloc&) {
    *message = "not enough memory for the header";
    return CINCH_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    *message = std::string("the header cannot be parsed: ") + error.what();
    return CINCH_ERROR_FILE_FORMAT;
  }
}

}  // namespace cinch::tensors
