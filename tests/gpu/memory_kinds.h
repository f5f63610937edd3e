// SPDX-License-Identifier: Apache-2.0
// Memory of every kind that programs have on machines with a GPU.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

namespace cinch::gpu_test {

enum class MemoryKind : uint32_t { kDevice, kAsync, kMapped, kManaged, kPinned, kPlain };
inline constexpr MemoryKind kAllKinds[] = {MemoryKind::kDevice, MemoryKind::kAsync,
                                           MemoryKind::kMapped, MemoryKind::kManaged,
                                           MemoryKind::kPinned, MemoryKind::kPlain};
inline const char* NameOf(MemoryKind kind) {
  constexpr const char* kNames[] = {"cudaMalloc", "cudaMallocAsync", "cuMemMap",
                                    "managed",    "pinned",          "plain"};
  return kNames[static_cast<uint32_t>(kind)];
}

/// A function of the driver, which the runtime has loaded.
template <typename Function>
Function Driver(const char* name) {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  EXPECT_NE(library, nullptr);
  return reinterpret_cast<Function>(::dlsym(library, name));
}

/// `bytes` of one kind on device 0.
class Memory {
 public:
  Memory(MemoryKind kind, uint64_t bytes) : kind_(kind), bytes_(bytes) {
    switch (kind) {
      case MemoryKind::kDevice:
        EXPECT_EQ(cudaMalloc(&data_, bytes), cudaSuccess);
        break;
      case MemoryKind::kAsync:
        EXPECT_EQ(cudaMallocAsync(&data_, bytes, nullptr), cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
        break;
      case MemoryKind::kMapped:
        Map();
        break;
      case MemoryKind::kManaged:
        EXPECT_EQ(cudaMallocManaged(&data_, bytes, cudaMemAttachGlobal), cudaSuccess);
        break;
      case MemoryKind::kPinned:
        EXPECT_EQ(cudaMallocHost(&data_, bytes), cudaSuccess);
        break;
      case MemoryKind::kPlain:
        data_ = std::malloc(bytes);
        break;
    }
  }
  ~Memory() {
    switch (kind_) {
      case MemoryKind::kDevice:
      case MemoryKind::kManaged:
        cudaFree(data_);
        break;
      case MemoryKind::kAsync:
        cudaFreeAsync(data_, nullptr);
        break;
      case MemoryKind::kMapped:
        Unmap();
        break;
      case MemoryKind::kPinned:
        cudaFreeHost(data_);
        break;
      case MemoryKind::kPlain:
        std::free(data_);
        break;
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  void Map() {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);  // The context.
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    size_t granularity = 1;
    EXPECT_EQ(Driver<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
                  &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
              CUDA_SUCCESS);
    mapped_bytes_ = (bytes_ + granularity - 1) / granularity * granularity;
    CUdeviceptr address = 0;
    EXPECT_EQ(Driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&address, mapped_bytes_,
                                                                            0, 0, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(
        Driver<decltype(&cuMemCreate)>("cuMemCreate")(&handle_, mapped_bytes_, &properties, 0),
        CUDA_SUCCESS);
    EXPECT_EQ(Driver<decltype(&cuMemMap)>("cuMemMap")(address, mapped_bytes_, 0, handle_, 0),
              CUDA_SUCCESS);
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(
        Driver<decltype(&cuMemSetAccess)>("cuMemSetAccess")(address, mapped_bytes_, &access, 1),
        CUDA_SUCCESS);
    data_ = reinterpret_cast<void*>(address);
  }
  void Unmap() {
    const auto address = reinterpret_cast<CUdeviceptr>(data_);
    Driver<decltype(&cuMemUnmap)>("cuMemUnmap")(address, mapped_bytes_);
    Driver<decltype(&cuMemRelease)>("cuMemRelease")(handle_);
    Driver<decltype(&cuMemAddressFree)>("cuMemAddressFree")(address, mapped_bytes_);
  }

  MemoryKind kind_;
  uint64_t bytes_;
  void* data_ = nullptr;
  uint64_t mapped_bytes_ = 0;
  CUmemGenericAllocationHandle handle_{};
};

}  // namespace cinch::gpu_test
