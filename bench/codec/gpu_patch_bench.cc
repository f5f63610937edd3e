// SPDX-License-Identifier: Apache-2.0
// How fast patches are created and applied on a GPU, and how small they are.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "cinch/patch.h"
#include "support/gpu_data.h"

namespace {

constexpr int kRepeats = 15;

struct Case {
  uint64_t megabytes;
  double fraction;
  int bits;
};

void Check(const char* what, bool good) {
  if (good) return;
  std::fprintf(stderr, "%s failed: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  std::_Exit(1);
}

double MedianSeconds(cudaStream_t stream, const std::function<void()>& run) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  Check("event", cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess);
  std::vector<float> times;
  for (int i = 0; i < kRepeats + 2; ++i) {
    cudaEventRecord(begin, stream);
    run();
    cudaEventRecord(end, stream);
    Check("run", cudaStreamSynchronize(stream) == cudaSuccess);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    if (i >= 2) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  return 1e-3 * static_cast<double>(times[times.size() / 2]);
}

void Run(const Case& one) {
  const uint64_t bytes = one.megabytes << 20;
  void* base = nullptr;
  void* data = nullptr;
  void* output = nullptr;
  void* patch = nullptr;
  void* scratch = nullptr;
  cinch_cuda_patch_result* result = nullptr;
  cudaStream_t stream = nullptr;
  const uint64_t room = cinch_patch_bound(bytes);
  Check("memory",
        cudaMalloc(&base, bytes) == cudaSuccess && cudaMalloc(&data, bytes) == cudaSuccess &&
            cudaMalloc(&output, bytes) == cudaSuccess && cudaMalloc(&patch, room) == cudaSuccess &&
            cudaMalloc(&scratch, cinch_cuda_patch_scratch_bytes(bytes)) == cudaSuccess &&
            cudaMallocHost(reinterpret_cast<void**>(&result), sizeof(*result)) == cudaSuccess &&
            cudaStreamCreate(&stream) == cudaSuccess);
  cinch::bench::FillNormalBf16(base, bytes, 3, stream);
  cudaMemcpyAsync(data, base, bytes, cudaMemcpyDeviceToDevice, stream);
  if (one.fraction > 0) {
    cinch::bench::ChangeElements(data, bytes, one.fraction, one.bits, 11, stream);
  }
  const double create = MedianSeconds(stream, [&] {
    Check("create", cinch_cuda_patch_create(base, data, bytes, patch, room, result, scratch,
                                            stream) == CINCH_OK);
  });
  Check("created", result->status == CINCH_OK);
  const cinch_cuda_patch_result created = *result;
  const double apply = MedianSeconds(stream, [&] {
    Check("apply", cinch_cuda_patch_apply(base, created.base_hash, patch, created.patch_bytes,
                                          output, bytes, result, scratch, stream) == CINCH_OK);
  });
  Check("applied", result->status == CINCH_OK && result->result_hash == created.result_hash);
  const double copy = MedianSeconds(
      stream, [&] { cudaMemcpyAsync(output, base, bytes, cudaMemcpyDeviceToDevice, stream); });
  const auto size = static_cast<double>(bytes);
  std::printf(
      "%5llu MB %6.3f changed in %2d bits: patch %.5f create %8.1f us %.3f TB/s apply "
      "%8.1f us %.3f TB/s copy %.3f TB/s\n",
      static_cast<unsigned long long>(one.megabytes), one.fraction, one.bits,
      static_cast<double>(created.patch_bytes) / size, 1e6 * create, size / create * 1e-12,
      1e6 * apply, size / apply * 1e-12, size / copy * 1e-12);
  for (void* memory : {base, data, output, patch, scratch}) cudaFree(memory);
  cudaFreeHost(result);
  cudaStreamDestroy(stream);
}

}  // namespace

int main() {
  for (const uint64_t megabytes : {16, 256, 1024}) {
    Run({megabytes, 0.01, 16});
  }
  for (const double fraction : {0.0, 0.001, 0.05, 0.2}) Run({1024, fraction, 16});
  for (const int bits : {2, 4, 7, 16}) Run({1024, 1.0, bits});
  return 0;
}
