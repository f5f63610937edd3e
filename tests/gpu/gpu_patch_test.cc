// SPDX-License-Identifier: Apache-2.0
// Patches of device memory: the bytes and the verdicts of the host's.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "cinch/patch.h"
#include "codec/patch/patch_codec.h"
#include "transfer/pattern.h"

namespace cinch {
namespace {

using transfer_test::Changed;
using transfer_test::Pattern;

/// Device memory with a guard of known bytes behind it.
class Device {
 public:
  Device(const std::vector<uint8_t>& bytes, size_t shift, size_t room)
      : shift_(shift), room_(room) {
    const size_t all = shift + room + kGuardBytes;
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory_), all), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, kGuard, all), cudaSuccess);
    if (!bytes.empty()) {
      EXPECT_EQ(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                cudaSuccess);
    }
  }
  ~Device() { cudaFree(memory_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] uint8_t* data() const { return memory_ + shift_; }
  /// The first `bytes`; fails when the guard has been touched.
  [[nodiscard]] std::vector<uint8_t> Read(size_t bytes) const {
    std::vector<uint8_t> all(shift_ + room_ + kGuardBytes);
    EXPECT_EQ(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = shift_ + room_; i < all.size(); ++i) EXPECT_EQ(all[i], kGuard) << i;
    for (size_t i = 0; i < shift_; ++i) EXPECT_EQ(all[i], kGuard) << i;
    return {all.begin() + static_cast<long>(shift_),
            all.begin() + static_cast<long>(shift_ + bytes)};
  }

 private:
  static constexpr uint8_t kGuard = 0xC3;
  static constexpr size_t kGuardBytes = 256;
  uint8_t* memory_ = nullptr;
  size_t shift_;
  size_t room_;
};

class GpuPatch : public testing::Test {
 public:
  void SetUp() override {
    ASSERT_EQ(cudaMalloc(&scratch_, cinch_cuda_patch_scratch_bytes(kMostBytes)), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&result_), sizeof(*result_)), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override {
    cudaStreamDestroy(stream_);
    cudaFree(scratch_);
    cudaFreeHost(result_);
  }

  std::vector<uint8_t> HostPatch(const std::vector<uint8_t>& base,
                                 const std::vector<uint8_t>& data) {
    std::vector<uint8_t> patch(cinch_patch_bound(base.size()));
    uint64_t bytes = 0;
    EXPECT_EQ(cinch_patch_create(base.data(), data.data(), base.size(), patch.data(), patch.size(),
                                 &bytes),
              CINCH_OK);
    patch.resize(bytes);
    return patch;
  }
  cinch_status Create(const Device& base, const Device& data, size_t bytes, const Device& patch,
                      size_t room) {
    EXPECT_EQ(cinch_cuda_patch_create(base.data(), data.data(), bytes, patch.data(), room, result_,
                                      scratch_, stream_),
              CINCH_OK);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return result_->status;
  }
  cinch_status Apply(const Device& base, uint64_t base_hash, const Device& patch,
                     size_t patch_bytes, const Device& data, size_t bytes) {
    EXPECT_EQ(cinch_cuda_patch_apply(base.data(), base_hash, patch.data(), patch_bytes, data.data(),
                                     bytes, result_, scratch_, stream_),
              CINCH_OK);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return result_->status;
  }

  static constexpr size_t kMostBytes = size_t{64} << 20;
  void* scratch_ = nullptr;
  cinch_cuda_patch_result* result_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

uint64_t HashOf(const std::vector<uint8_t>& data) {
  uint64_t hash = 0;
  EXPECT_EQ(cinch_patch_content_hash(data.data(), data.size(), &hash), CINCH_OK);
  return hash;
}

TEST_F(GpuPatch, EqualsTheHostsAtEverySizeAndAlignment) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{15}, size_t{4097},
                             size_t{32768}, size_t{32769}, size_t{200001}, size_t{3} << 20}) {
    for (const double fraction : {0.0, 0.01, 0.3, 1.0}) {
      for (const int bits : {1, 3, 7, 11, 16}) {
        for (const size_t shift : {size_t{0}, size_t{3}}) {
          SCOPED_TRACE(testing::Message() << bytes << " bytes, " << fraction << " of " << bits
                                          << " bits at " << shift);
          const std::vector<uint8_t> base = Pattern(bytes, bytes);
          const std::vector<uint8_t> data = Changed(base, fraction, bits, bytes + 1);
          const std::vector<uint8_t> expected = HostPatch(base, data);
          const Device device_base(base, shift, bytes);
          const Device device_data(data, shift, bytes);
          const size_t room = cinch_patch_bound(bytes);
          const Device patch({}, 0, room);
          ASSERT_EQ(Create(device_base, device_data, bytes, patch, room), CINCH_OK);
          ASSERT_EQ(result_->patch_bytes, expected.size());
          ASSERT_EQ(result_->base_hash, HashOf(base));
          ASSERT_EQ(result_->result_hash, HashOf(data));
          ASSERT_TRUE(patch.Read(expected.size()) == expected);
          const Device output({}, shift, bytes);
          ASSERT_EQ(Apply(device_base, HashOf(base), patch, expected.size(), output, bytes),
                    CINCH_OK);
          ASSERT_EQ(result_->result_hash, HashOf(data));
          ASSERT_TRUE(output.Read(bytes) == data);
          ASSERT_EQ(Apply(device_base, HashOf(base), patch, expected.size(), device_base, bytes),
                    CINCH_OK);
          ASSERT_TRUE(device_base.Read(bytes) == data);
        }
      }
    }
  }
}

TEST_F(GpuPatch, TooSmallARoomIsNeverOverrun) {
  const std::vector<uint8_t> base = Pattern(1, size_t{1} << 20);
  const std::vector<uint8_t> data = Changed(base, 0.2, 7, 5);
  const size_t whole = HostPatch(base, data).size();
  const Device device_base(base, 0, base.size());
  const Device device_data(data, 0, data.size());
  for (const size_t room : {whole - 16, whole / 2, size_t{64} + 128}) {
    const Device patch({}, 0, room);
    EXPECT_EQ(Create(device_base, device_data, base.size(), patch, room),
              CINCH_ERROR_DESTINATION_TOO_SMALL);
    static_cast<void>(patch.Read(0));
  }
  const Device patch({}, 0, whole);
  EXPECT_EQ(Create(device_base, device_data, base.size(), patch, whole), CINCH_OK);
}

TEST_F(GpuPatch, DamagedPatchesGetAVerdictAndTouchNothingElse) {
  const std::vector<uint8_t> base = Pattern(1, 100001);
  std::mt19937_64 random(7);
  for (const auto& [fraction, bits] :
       {std::pair{0.02, 16}, std::pair{1.0, 7}, std::pair{1.0, 11}}) {
    const std::vector<uint8_t> patch = HostPatch(base, Changed(base, fraction, bits, 5));
    const Device device_base(base, 0, base.size());
    const Device output({}, 0, base.size());
    std::vector<uint8_t> host_output(base.size());
    for (int i = 0; i < 400; ++i) {
      std::vector<uint8_t> damaged = patch;
      const size_t at = i < 150 ? static_cast<size_t>(i) : random() % patch.size();
      damaged[at] ^= static_cast<uint8_t>(1 + random() % 255);
      if (i % 2 == 1) {
        format::PatchHeader header;
        std::memcpy(&header, damaged.data(), sizeof(header));
        codec::SealPatchHeader(header);
        std::memcpy(damaged.data(), &header, sizeof(header));
      }
      const Device device_patch(damaged, 0, damaged.size());
      const cinch_status expected =
          cinch_patch_apply(base.data(), HashOf(base), damaged.data(), damaged.size(),
                            host_output.data(), host_output.size());
      const cinch_status status =
          Apply(device_base, HashOf(base), device_patch, damaged.size(), output, base.size());
      // Of several errors each names the one that it meets first.
      EXPECT_EQ(status == CINCH_OK, expected == CINCH_OK) << at << ": " << status << expected;
      if (status == CINCH_OK) {
        EXPECT_TRUE(output.Read(base.size()) == host_output);
      }
    }
    static_cast<void>(output.Read(0));
  }
  const Device device_base(base, 0, base.size());
  const Device output({}, 0, base.size());
  const std::vector<uint8_t> patch = HostPatch(base, base);
  const Device device_patch(patch, 0, patch.size());
  EXPECT_EQ(Apply(device_base, 1, device_patch, patch.size(), output, base.size()),
            CINCH_ERROR_FRAME_BASE_MISSING);
  EXPECT_EQ(Apply(device_base, HashOf(base), device_patch, patch.size() - 1, output, base.size()),
            CINCH_ERROR_FRAME_TRUNCATED);
}

}  // namespace
}  // namespace cinch
