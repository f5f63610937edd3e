// SPDX-License-Identifier: Apache-2.0
/// @file sm_share.h
/// A stream whose kernels run on a few multiprocessors only, where the driver can do that.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace cinch::bench {

/// Found at run time, so that the program starts where there is no driver.
class SmShare {
 public:
  explicit SmShare(unsigned count) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr || cudaFree(nullptr) != cudaSuccess) return;
    const auto get = reinterpret_cast<decltype(&cuDeviceGetDevResource)>(
        dlsym(driver, "cuDeviceGetDevResource"));
    const auto split = reinterpret_cast<decltype(&cuDevSmResourceSplitByCount)>(
        dlsym(driver, "cuDevSmResourceSplitByCount"));
    const auto describe = reinterpret_cast<decltype(&cuDevResourceGenerateDesc)>(
        dlsym(driver, "cuDevResourceGenerateDesc"));
    const auto create =
        reinterpret_cast<decltype(&cuGreenCtxCreate)>(dlsym(driver, "cuGreenCtxCreate"));
    const auto make_stream = reinterpret_cast<decltype(&cuGreenCtxStreamCreate)>(
        dlsym(driver, "cuGreenCtxStreamCreate"));
    if (get == nullptr || split == nullptr || describe == nullptr || create == nullptr ||
        make_stream == nullptr) {
      return;
    }
    CUdevResource all{};
    CUdevResource part{};
    unsigned groups = 1;
    CUdevResourceDesc description = nullptr;
    CUgreenCtx context = nullptr;
    CUstream made = nullptr;
    if (get(0, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
        split(&part, &groups, &all, nullptr, 0, count) != CUDA_SUCCESS ||
        part.sm.smCount != count || describe(&description, &part, 1) != CUDA_SUCCESS ||
        create(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS ||
        make_stream(&made, context, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
      return;
    }
    stream_ = made;
  }

  /// Null when there is none.
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace cinch::bench
