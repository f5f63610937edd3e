// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/nvcomp_codec.h"

#include <dlfcn.h>

#include <nvcomp/ans.h>
#include <nvcomp/bitcomp.h>
#include <cstring>
#include <optional>

namespace cinch::bench {
namespace {

/// The functions and options of one of nvCOMP's coders; they differ in name and option types only.
template <typename CompressOptions, typename DecompressOptions>
struct Coder {
  using CompressTempSize = nvcompStatus_t (*)(size_t, size_t, CompressOptions, size_t*, size_t,
                                              cudaStream_t);
  using MaxOutput = nvcompStatus_t (*)(size_t, CompressOptions, size_t*);
  using Compress = nvcompStatus_t (*)(const void* const*, const size_t*, size_t, size_t, void*,
                                      size_t, void* const*, size_t*, CompressOptions,
                                      nvcompStatus_t*, cudaStream_t);
  using DecompressTempSize = nvcompStatus_t (*)(size_t, size_t, DecompressOptions, size_t*, size_t,
                                                cudaStream_t);
  using Decompress = nvcompStatus_t (*)(const void* const*, const size_t*, const size_t*, size_t*,
                                        size_t, void*, size_t, void* const*, DecompressOptions,
                                        nvcompStatus_t*, cudaStream_t);
  CompressOptions compress_options;
  DecompressOptions decompress_options;
  CompressTempSize compress_temp_size = nullptr;
  MaxOutput max_output = nullptr;
  Compress compress = nullptr;
  DecompressTempSize decompress_temp_size = nullptr;
  Decompress decompress = nullptr;

  bool Load(const std::string& path, const std::string& name) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return false;
    }
    const auto find = [&](const char* what, auto* function) {
      const std::string symbol = "nvcompBatched" + name + what;
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
          dlsym(library, symbol.c_str()));
      return *function != nullptr;
    };
    return find("CompressGetTempSize", &compress_temp_size) &&
           find("CompressGetMaxOutputChunkSize", &max_output) && find("CompressAsync", &compress) &&
           find("DecompressGetTempSize", &decompress_temp_size) &&
           find("DecompressAsync", &decompress);
  }
};

void CheckNvcomp(nvcompStatus_t status, const char* what) {
  if (status != nvcompSuccess) {
    std::fprintf(stderr, "nvCOMP: %s: status %d\n", what, static_cast<int>(status));
    std::exit(1);
  }
}

template <typename AnyCoder>
class NvcompCodec : public DeviceCodec {
 public:
  NvcompCodec(const AnyCoder& coder, const Problem& problem)
      : coder_(coder), problem_(problem), count_(problem.item_count()) {
    size_t room = 0;
    CheckNvcomp(coder_.max_output(problem.item_bytes, coder_.compress_options, &room), "bound");
    room_bytes_ = (room + 255) / 256 * 256;
    size_t compress_temp = 0;
    size_t decompress_temp = 0;
    CheckNvcomp(coder_.compress_temp_size(count_, problem.item_bytes, coder_.compress_options,
                                          &compress_temp, problem.data.size(), nullptr),
                "temporary memory");
    CheckNvcomp(coder_.decompress_temp_size(count_, problem.item_bytes, coder_.decompress_options,
                                            &decompress_temp, problem.data.size(), nullptr),
                "temporary memory");
    temp_bytes_ = std::max(compress_temp, decompress_temp);
    temp_ = Allocate(temp_bytes_);
    std::vector<size_t> sizes(count_);
    for (uint64_t i = 0; i < count_; ++i) {
      sizes[i] = problem.item_size_bytes(i);
    }
    sizes_ = Upload(sizes);
    statuses_ = Allocate(count_ * sizeof(nvcompStatus_t));
    output_sizes_ = Allocate(count_ * sizeof(size_t));
    copies_.resize(problem.copies());
    for (Copy& copy : copies_) {
      Prepare(&copy);
    }
  }

  void Compress(uint32_t index) override {
    Copy& copy = copies_[index];
    CheckNvcomp(
        coder_.compress(Pointers(copy.input_pointers), Sizes(sizes_), problem_.item_bytes, count_,
                        temp_.get(), temp_bytes_, Targets(copy.frame_pointers),
                        Sizes(copy.frame_sizes), coder_.compress_options, Statuses(), nullptr),
        "compress");
  }

  void Decompress(uint32_t index) override {
    Copy& copy = copies_[index];
    CheckNvcomp(coder_.decompress(Pointers(copy.frame_pointers), Sizes(copy.frame_sizes),
                                  Sizes(sizes_), Sizes(output_sizes_), count_, temp_.get(),
                                  temp_bytes_, Targets(copy.output_pointers),
                                  coder_.decompress_options, Statuses(), nullptr),
                "decompress");
  }

  uint64_t CompressedBytes(uint32_t index) override {
    std::vector<size_t> sizes(count_);
    Check(cudaMemcpy(sizes.data(), copies_[index].frame_sizes.get(), count_ * sizeof(size_t),
                     cudaMemcpyDeviceToHost),
          "sizes");
    uint64_t total_bytes = 0;
    for (const size_t size_bytes : sizes) {
      total_bytes += size_bytes;
    }
    return total_bytes;
  }

  const std::byte* Output(uint32_t index) const override { return copies_[index].output.get(); }

 private:
  struct Copy {
    DeviceMemory input;
    DeviceMemory frames;
    DeviceMemory output;
    DeviceMemory input_pointers;
    DeviceMemory frame_pointers;
    DeviceMemory output_pointers;
    DeviceMemory frame_sizes;
  };

  void Prepare(Copy* copy) {
    copy->input = Allocate(problem_.data.size());
    Check(cudaMemcpy(copy->input.get(), problem_.data.data(), problem_.data.size(),
                     cudaMemcpyHostToDevice),
          "upload");
    copy->output = Allocate(problem_.data.size());
    copy->frames = Allocate(count_ * room_bytes_);
    copy->frame_sizes = Allocate(count_ * sizeof(size_t));
    copy->input_pointers = PointersInto(copy->input, problem_.item_bytes);
    copy->output_pointers = PointersInto(copy->output, problem_.item_bytes);
    copy->frame_pointers = PointersInto(copy->frames, room_bytes_);
  }

  DeviceMemory PointersInto(const DeviceMemory& memory, uint64_t stride_bytes) const {
    std::vector<std::byte*> pointers(count_);
    for (uint64_t i = 0; i < count_; ++i) {
      pointers[i] = memory.get() + i * stride_bytes;
    }
    return Upload(pointers);
  }

  static const void* const* Pointers(const DeviceMemory& memory) {
    return reinterpret_cast<const void* const*>(memory.get());
  }
  static void* const* Targets(const DeviceMemory& memory) {
    return reinterpret_cast<void* const*>(memory.get());
  }
  static size_t* Sizes(const DeviceMemory& memory) {
    return reinterpret_cast<size_t*>(memory.get());
  }
  nvcompStatus_t* Statuses() const { return reinterpret_cast<nvcompStatus_t*>(statuses_.get()); }

  AnyCoder coder_;
  Problem problem_;
  uint64_t count_;
  uint64_t room_bytes_ = 0;
  size_t temp_bytes_ = 0;
  DeviceMemory temp_;
  DeviceMemory sizes_;
  DeviceMemory statuses_;
  DeviceMemory output_sizes_;
  std::vector<Copy> copies_;
};

/// ANS has types of its own for floats: FLOAT16 stands for all 16-bit ones.
std::optional<nvcompType_t> AnsType(cinch_dtype dtype) {
  switch (dtype) {
    case CINCH_DTYPE_BF16:
    case CINCH_DTYPE_FP16:
      return NVCOMP_TYPE_FLOAT16;
    case CINCH_DTYPE_FP32:
      return NVCOMP_TYPE_FLOAT32;
    case CINCH_DTYPE_FP8_E4M3FN:
      return NVCOMP_TYPE_FLOAT8_E4M3;
    case CINCH_DTYPE_FP8_E5M2:
      return NVCOMP_TYPE_UCHAR;
    default:
      return std::nullopt;
  }
}

/// Bitcomp's float types are for lossy coding or IEEE's formats; integers of the width fit all.
std::optional<nvcompType_t> BitcompType(cinch_dtype dtype) {
  switch (cinch_dtype_size(dtype)) {
    case 1:
      return NVCOMP_TYPE_UCHAR;
    case 2:
      return NVCOMP_TYPE_USHORT;
    case 4:
      return NVCOMP_TYPE_UINT;
    default:
      return std::nullopt;
  }
}

template <typename AnyCoder>
std::unique_ptr<DeviceCodec> Make(AnyCoder coder, const std::string& library, const char* name,
                                  std::optional<nvcompType_t> type, const Problem& problem) {
  if (!type || !coder.Load(library, name)) return nullptr;
  coder.compress_options.data_type = *type;
  return std::make_unique<NvcompCodec<AnyCoder>>(coder, problem);
}

}  // namespace

std::unique_ptr<DeviceCodec> MakeNvcompAns(const std::string& library, const Problem& problem) {
  Coder<nvcompBatchedANSCompressOpts_t, nvcompBatchedANSDecompressOpts_t> coder{
      .compress_options = nvcompBatchedANSCompressDefaultOpts,
      .decompress_options = nvcompBatchedANSDecompressDefaultOpts};
  return Make(coder, library, "ANS", AnsType(problem.dtype), problem);
}

std::unique_ptr<DeviceCodec> MakeNvcompBitcomp(const std::string& library, const Problem& problem) {
  Coder<nvcompBatchedBitcompCompressOpts_t, nvcompBatchedBitcompDecompressOpts_t> coder{
      .compress_options = nvcompBatchedBitcompCompressDefaultOpts,
      .decompress_options = nvcompBatchedBitcompDecompressDefaultOpts};
  return Make(coder, library, "Bitcomp", BitcompType(problem.dtype), problem);
}

}  // namespace cinch::bench
