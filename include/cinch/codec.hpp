// SPDX-License-Identifier: Apache-2.0
/// @file codec.hpp
/// A thin C++ wrapper of cinch/codec.h: ownership and spans, nothing else. Statuses and rules are
/// those of the C ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cinch/codec.h"

namespace cinch {

/// Owns a cinch_codec. One call at a time per object.
class Codec {
 public:
  /// An empty codec: every call gives CINCH_ERROR_INVALID_ARGUMENT until Create() filled it.
  Codec() = default;

  /// `threads` counts the caller; 0 takes all cores.
  [[nodiscard]] static Status Create(cinch_backend backend, uint32_t threads, Codec* codec) {
    cinch_codec_options options;
    cinch_codec_options_init(&options);
    options.backend = backend;
    options.threads = threads;
    cinch_codec* handle = nullptr;
    const Status status = cinch_codec_create(&options, &handle);
    if (status == CINCH_OK) codec->handle_.reset(handle);
    return status;
  }

  /// Compresses `input` into the front of `output`, which Bound(input.size()) bytes always fit.
  [[nodiscard]] Status Compress(std::span<const std::byte> input, cinch_dtype dtype, bool checksum,
                                std::span<std::byte> output, uint64_t* output_bytes) {
    cinch_compress_options options;
    cinch_compress_options_init(&options);
    options.dtype = dtype;
    options.checksum = checksum ? 1 : 0;
    return cinch_compress(handle_.get(), &options, input.data(), input.size(), output.data(),
                          output.size(), output_bytes);
  }

  /// Decompresses the frame that fills `frame` into the front of `output`.
  [[nodiscard]] Status Decompress(std::span<const std::byte> frame, std::span<std::byte> output,
                                  uint64_t* output_bytes) {
    return cinch_decompress(handle_.get(), frame.data(), frame.size(), output.data(), output.size(),
                            output_bytes);
  }

  /// Compresses `input` relative to `base`, of the same size.
  [[nodiscard]] Status CompressDelta(std::span<const std::byte> input,
                                     std::span<const std::byte> base, cinch_dtype dtype,
                                     std::span<std::byte> output, uint64_t* output_bytes) {
    cinch_compress_options options;
    cinch_compress_options_init(&options);
    options.dtype = dtype;
    const cinch_base held{base.data(), base.size(), 0, 0};
    return cinch_compress_delta(handle_.get(), &options, input.data(), input.size(), &held,
                                output.data(), output.size(), output_bytes);
  }

  /// Decompresses a delta frame, or any other, by `base`.
  [[nodiscard]] Status DecompressDelta(std::span<const std::byte> frame,
                                       std::span<const std::byte> base, std::span<std::byte> output,
                                       uint64_t* output_bytes) {
    const cinch_base held{base.data(), base.size(), 0, 0};
    return cinch_decompress_delta(handle_.get(), frame.data(), frame.size(), &held, output.data(),
                                  output.size(), output_bytes);
  }

  /// What a frame of `bytes` carries as its content hash.
  [[nodiscard]] Status ContentHash(std::span<const std::byte> bytes, uint64_t* content_hash) {
    return cinch_content_hash(handle_.get(), bytes.data(), bytes.size(), content_hash);
  }

  /// The largest frame of `input_bytes`; 0 when they are too many for one.
  [[nodiscard]] static uint64_t Bound(uint64_t input_bytes) {
    return cinch_compress_bound(input_bytes);
  }

  /// For the functions of the C ABI that have no wrapper.
  [[nodiscard]] cinch_codec* get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(cinch_codec* codec) const { cinch_codec_destroy(codec); }
  };
  std::unique_ptr<cinch_codec, Destroy> handle_;
};

}  // namespace cinch
