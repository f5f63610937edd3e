// SPDX-License-Identifier: Apache-2.0
// The C ABI of cinch/codec.h.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

#include "base/config.h"
#include "base/guarded.h"
#include "base/status.h"
#include "cinch/codec.h"
#include "codec/frame/frame_codec.h"

struct cinch_codec {
  std::unique_ptr<cinch::codec::FrameCodec> frames;
  std::atomic<bool> busy{false};
};

namespace cinch::codec {
namespace {

/// Items from this size up are shared out block by block; smaller ones item by item.
constexpr uint64_t kLargeItemBytes = uint64_t{4} << 20;
constexpr uint32_t kMaxThreads = 1024;

/// Keeps a second thread out of a handle that is in use.
class BusyGuard {
 public:
  explicit BusyGuard(cinch_codec* codec) : codec_(codec) {
    acquired_ = !codec->busy.exchange(true, std::memory_order_acquire);
  }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;
  ~BusyGuard() {
    if (acquired_) codec_->busy.store(false, std::memory_order_release);
  }
  bool acquired() const { return acquired_; }

 private:
  cinch_codec* codec_;
  bool acquired_;
};

bool Overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

Status CheckBuffers(const void* input, uint64_t input_bytes, const void* output,
                    uint64_t output_capacity_bytes) {
  if ((input == nullptr && input_bytes != 0) || (output == nullptr && output_capacity_bytes != 0)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  return Overlap(input, input_bytes, output, output_capacity_bytes) ? CINCH_ERROR_OVERLAP
                                                                    : CINCH_OK;
}

constexpr cinch_base kNoBase = {nullptr, 0, 0, 1};

/// The checks that both directions have.
Status CheckItem(const cinch_batch_item& item, const cinch_base& base) {
  if (base.bytes == nullptr && base.size_bytes != 0) return CINCH_ERROR_INVALID_ARGUMENT;
  CINCH_RETURN_IF_ERROR(
      CheckBuffers(item.input, item.input_bytes, item.output, item.output_capacity_bytes));
  return Overlap(base.bytes, base.size_bytes, item.output, item.output_capacity_bytes)
             ? CINCH_ERROR_OVERLAP
             : CINCH_OK;
}

Status CheckCompress(const cinch_batch_item& item, const cinch_base& base) {
  const bool delta = base.bytes != nullptr;
  if (!format::IsFrameDtype(static_cast<uint32_t>(item.dtype)) ||
      (delta && base.size_bytes != item.input_bytes)) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  return CheckItem(item, base);
}

/// Whether a frame may be a delta frame: whether its base's hash is worth finding out.
bool MayBeDelta(const cinch_batch_item& item) {
  constexpr uint64_t kFlags = offsetof(format::FrameHeader, flags);
  const auto* frame = static_cast<const uint8_t*>(item.input);
  return item.input_bytes > kFlags && (frame[kFlags] & format::kFlagDelta) != 0;
}

/// `hash(bytes, size_bytes)` finds out what is not known.
template <typename Hash>
FrameBase BaseOf(const cinch_base& base, Hash hash) {
  const auto* bytes = static_cast<const uint8_t*>(base.bytes);
  return {bytes, base.size_bytes,
          base.hash_known != 0 ? base.content_hash : hash(bytes, base.size_bytes)};
}

FrameInput InputOf(const cinch_batch_item& item, bool checksum, const FrameBase& base) {
  return {static_cast<const uint8_t*>(item.input),
          item.input_bytes,
          static_cast<uint32_t>(item.dtype),
          checksum || base.bytes != nullptr,
          base.bytes,
          base.bytes == nullptr ? 0 : base.content_hash};
}

FrameOutput OutputOf(const cinch_batch_item& item) {
  return {static_cast<uint8_t*>(item.output), item.output_capacity_bytes};
}

void Conclude(Status status, const FrameOutput& output, cinch_batch_item* item) {
  item->status = status;
  item->output_bytes = status == CINCH_OK ? output.size_bytes : 0;
}

/// Runs `large(item)` for large items one by one, which may use all threads, and
/// `small(item, worker)` for the others in parallel.
template <typename Large, typename Small>
Status ForEachItem(FrameCodec& frames, cinch_batch_item* items, uint64_t item_count, Large large,
                   Small small) {
  const auto is_large = [&](const cinch_batch_item& item) {
    return item_count == 1 || item.input_bytes >= kLargeItemBytes;
  };
  frames.pool().ParallelFor(item_count, [&](size_t i, uint32_t worker) noexcept {
    if (!is_large(items[i])) small(&items[i], worker);
  });
  for (uint64_t i = 0; i < item_count; ++i) {
    if (is_large(items[i])) large(&items[i]);
  }
  const auto* bad = std::find_if(items, items + item_count, [](const cinch_batch_item& item) {
    return item.status != CINCH_OK;
  });
  return bad == items + item_count ? CINCH_OK : bad->status;
}

}  // namespace
}  // namespace cinch::codec

using namespace cinch::codec;
using cinch::Guarded;
using cinch::GuardedOr;
using cinch::Status;

extern "C" {

void cinch_codec_options_init(cinch_codec_options* options) {
  if (options != nullptr) *options = {sizeof *options, CINCH_BACKEND_CPU, 1};
}

void cinch_compress_options_init(cinch_compress_options* options) {
  Guarded([&] {
    if (options == nullptr) return;
    *options = {sizeof *options, CINCH_DTYPE_AUTO, cinch::ProcessConfig().checksum ? 1 : 0};
  });
}

cinch_status cinch_codec_create(const cinch_codec_options* options, cinch_codec** codec) {
  return Guarded([&]() -> Status {
    cinch_codec_options chosen;
    cinch_codec_options_init(&chosen);
    if (options != nullptr) chosen = *options;
    if (codec == nullptr || chosen.struct_size != sizeof chosen || chosen.threads > kMaxThreads) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const BlockCodec* block_codec = nullptr;
    switch (chosen.backend) {
      case CINCH_BACKEND_CPU:
        block_codec = &CpuBlockCodec();
        break;
      case CINCH_BACKEND_REFERENCE:
        block_codec = &ReferenceBlockCodec();
        break;
      case CINCH_BACKEND_CUDA:
        return CINCH_ERROR_UNSUPPORTED;
      default:
        return CINCH_ERROR_INVALID_ARGUMENT;
    }
    CINCH_RETURN_IF_ERROR(cinch::ProcessConfigStatus());
    const uint32_t threads = chosen.threads != 0 ? chosen.threads : cinch::ProcessConfig().threads;
    std::unique_ptr<cinch_codec> created(new (std::nothrow) cinch_codec);
    if (created == nullptr) return CINCH_ERROR_OUT_OF_MEMORY;
    created->frames = FrameCodec::Create(*block_codec, threads);
    if (created->frames == nullptr) return CINCH_ERROR_OUT_OF_MEMORY;
    *codec = created.release();
    return CINCH_OK;
  });
}

void cinch_codec_destroy(cinch_codec* codec) { delete codec; }

uint64_t cinch_compress_bound(uint64_t input_bytes) {
  return GuardedOr(uint64_t{0}, [&]() -> uint64_t {
    return input_bytes > CINCH_MAX_FRAME_INPUT_BYTES ? 0 : cinch::format::FrameBound(input_bytes);
  });
}

cinch_status cinch_content_hash(cinch_codec* codec, const void* bytes, uint64_t size_bytes,
                                uint64_t* content_hash) {
  return Guarded([&]() -> Status {
    if (codec == nullptr || content_hash == nullptr || (bytes == nullptr && size_bytes != 0)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    if (size_bytes > CINCH_MAX_FRAME_INPUT_BYTES) return CINCH_ERROR_TOO_LARGE;
    const BusyGuard guard(codec);
    if (!guard.acquired()) return CINCH_ERROR_BUSY;
    *content_hash = codec->frames->ContentHash(static_cast<const uint8_t*>(bytes), size_bytes);
    return CINCH_OK;
  });
}

cinch_status cinch_compress(cinch_codec* codec, const cinch_compress_options* options,
                            const void* input, uint64_t input_bytes, void* output,
                            uint64_t output_capacity_bytes, uint64_t* output_bytes) {
  return Guarded([&]() -> Status {
    if (output_bytes == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    const cinch_dtype dtype = options == nullptr ? CINCH_DTYPE_AUTO : options->dtype;
    cinch_batch_item item{input, input_bytes, output, output_capacity_bytes, 0, dtype, CINCH_OK};
    CINCH_RETURN_IF_ERROR(cinch_compress_batch(codec, options, &item, 1));
    *output_bytes = item.output_bytes;
    return CINCH_OK;
  });
}

cinch_status cinch_compress_delta(cinch_codec* codec, const cinch_compress_options* options,
                                  const void* input, uint64_t input_bytes, const cinch_base* base,
                                  void* output, uint64_t output_capacity_bytes,
                                  uint64_t* output_bytes) {
  return Guarded([&]() -> Status {
    if (output_bytes == nullptr || base == nullptr || base->size_bytes != input_bytes) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const cinch_dtype dtype = options == nullptr ? CINCH_DTYPE_AUTO : options->dtype;
    cinch_batch_item item{input, input_bytes, output, output_capacity_bytes, 0, dtype, CINCH_OK};
    CINCH_RETURN_IF_ERROR(cinch_compress_delta_batch(codec, options, &item, base, 1));
    *output_bytes = item.output_bytes;
    return CINCH_OK;
  });
}

cinch_status cinch_decompress(cinch_codec* codec, const void* frame, uint64_t frame_bytes,
                              void* output, uint64_t output_capacity_bytes,
                              uint64_t* output_bytes) {
  return cinch_decompress_delta(codec, frame, frame_bytes, nullptr, output, output_capacity_bytes,
                                output_bytes);
}

cinch_status cinch_decompress_delta(cinch_codec* codec, const void* frame, uint64_t frame_bytes,
                                    const cinch_base* base, void* output,
                                    uint64_t output_capacity_bytes, uint64_t* output_bytes) {
  return Guarded([&]() -> Status {
    if (output_bytes == nullptr) return CINCH_ERROR_INVALID_ARGUMENT;
    cinch_batch_item item{frame, frame_bytes,       output,  output_capacity_bytes,
                          0,     CINCH_DTYPE_BYTES, CINCH_OK};
    CINCH_RETURN_IF_ERROR(cinch_decompress_delta_batch(codec, &item, base, 1));
    *output_bytes = item.output_bytes;
    return CINCH_OK;
  });
}

cinch_status cinch_compress_batch(cinch_codec* codec, const cinch_compress_options* options,
                                  cinch_batch_item* items, uint64_t item_count) {
  return cinch_compress_delta_batch(codec, options, items, nullptr, item_count);
}

cinch_status cinch_compress_delta_batch(cinch_codec* codec, const cinch_compress_options* options,
                                        cinch_batch_item* items, const cinch_base* bases,
                                        uint64_t item_count) {
  return Guarded([&]() -> Status {
    cinch_compress_options chosen;
    cinch_compress_options_init(&chosen);
    if (options != nullptr) chosen = *options;
    if (codec == nullptr || chosen.struct_size != sizeof chosen ||
        (items == nullptr && item_count != 0)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const BusyGuard guard(codec);
    if (!guard.acquired()) return CINCH_ERROR_BUSY;
    FrameCodec& frames = *codec->frames;
    const bool checksum = chosen.checksum != 0;
    const auto encode = [&](cinch_batch_item* item, auto&& hash, auto&& run) noexcept {
      const cinch_base& base = bases == nullptr ? kNoBase : bases[item - items];
      FrameOutput output = OutputOf(*item);
      cinch::Status status = CheckCompress(*item, base);
      if (status == CINCH_OK) status = run(InputOf(*item, checksum, BaseOf(base, hash)), &output);
      Conclude(status, output, item);
    };
    return ForEachItem(
        frames, items, item_count,
        [&](cinch_batch_item* item) noexcept {
          encode(
              item,
              [&](const uint8_t* bytes, uint64_t size) { return frames.ContentHash(bytes, size); },
              [&](const FrameInput& input, FrameOutput* output) {
                return frames.Encode(input, output);
              });
        },
        [&](cinch_batch_item* item, uint32_t worker) noexcept {
          encode(
              item,
              [&](const uint8_t* bytes, uint64_t size) {
                return frames.ContentHashAlone(bytes, size);
              },
              [&](const FrameInput& input, FrameOutput* output) {
                return frames.EncodeAlone(input, output, worker);
              });
        });
  });
}

cinch_status cinch_decompress_batch(cinch_codec* codec, cinch_batch_item* items,
                                    uint64_t item_count) {
  return cinch_decompress_delta_batch(codec, items, nullptr, item_count);
}

cinch_status cinch_decompress_delta_batch(cinch_codec* codec, cinch_batch_item* items,
                                          const cinch_base* bases, uint64_t item_count) {
  return Guarded([&]() -> Status {
    if (codec == nullptr || (items == nullptr && item_count != 0)) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const BusyGuard guard(codec);
    if (!guard.acquired()) return CINCH_ERROR_BUSY;
    FrameCodec& frames = *codec->frames;
    const auto decode = [&](cinch_batch_item* item, auto&& hash, auto&& run) noexcept {
      cinch_base base = bases == nullptr ? kNoBase : bases[item - items];
      FrameOutput output = OutputOf(*item);
      cinch::Status status = CheckItem(*item, base);
      if (status == CINCH_OK) {
        if (!MayBeDelta(*item)) base = kNoBase;
        status = run(static_cast<const uint8_t*>(item->input), item->input_bytes,
                     BaseOf(base, hash), &output);
      }
      Conclude(status, output, item);
    };
    return ForEachItem(
        frames, items, item_count,
        [&](cinch_batch_item* item) noexcept {
          decode(
              item,
              [&](const uint8_t* bytes, uint64_t size) { return frames.ContentHash(bytes, size); },
              [&](const uint8_t* frame, uint64_t frame_bytes, const FrameBase& base,
                  FrameOutput* output) { return frames.Decode(frame, frame_bytes, base, output); });
        },
        [&](cinch_batch_item* item, uint32_t) noexcept {
          decode(
              item,
              [&](const uint8_t* bytes, uint64_t size) {
                return frames.ContentHashAlone(bytes, size);
              },
              [&](const uint8_t* frame, uint64_t frame_bytes, const FrameBase& base,
                  FrameOutput* output) {
                return frames.DecodeAlone(frame, frame_bytes, base, output);
              });
        });
  });
}

}  // extern "C"
