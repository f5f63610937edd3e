// SPDX-License-Identifier: Apache-2.0
// The GPU codec's speed and ratio by size, dtype, number of thread blocks and size of the items:
// one line each, and the same as a line of JSON with --json. With --quick, no case of 1 GB; with
// --plain, without checksums; with a dtype's name and a number of megabytes, that case alone (for
// profilers).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "cinch/cuda.h"
#include "tensors/generators.h"

namespace {

struct Case {
  cinch_dtype dtype;       ///< What the encoder is told.
  cinch_dtype data_dtype;  ///< What the data are.
  uint64_t megabytes;
  uint64_t item_bytes;
  uint32_t max_ctas;
};

constexpr uint32_t kRepeats = 20;

std::vector<Case> Cases(bool quick) {
  std::vector<Case> cases;
  for (const uint64_t megabytes : {4, 16, 64, 256, 1024}) {
    if (quick && megabytes == 1024) continue;
    cases.push_back({CINCH_DTYPE_BF16, CINCH_DTYPE_BF16, megabytes, 0, 0});
  }
  for (const cinch_dtype dtype : {CINCH_DTYPE_FP16, CINCH_DTYPE_FP32, CINCH_DTYPE_FP64,
                                  CINCH_DTYPE_FP8_E4M3FN, CINCH_DTYPE_FP8_E5M2}) {
    cases.push_back({dtype, dtype, 256, 0, 0});
  }
  cases.push_back({CINCH_DTYPE_AUTO, CINCH_DTYPE_BF16, 256, 0, 0});
  for (const uint64_t item_bytes : {4096, 16384, 65536}) {
    cases.push_back({CINCH_DTYPE_BF16, CINCH_DTYPE_BF16, 256, item_bytes, 0});
  }
  for (const uint32_t max_ctas : {4, 16, 32}) {
    cases.push_back({CINCH_DTYPE_BF16, CINCH_DTYPE_BF16, 64, 0, max_ctas});
  }
  return cases;
}

struct Arguments {
  bool json = false;
  bool quick = false;
  bool plain = false;
  const char* dtype = nullptr;
  uint64_t megabytes = 0;
};

bool IsChosen(const Case& one, const Arguments& arguments) {
  if (arguments.dtype == nullptr) return true;
  return std::strcmp(arguments.dtype, cinch_dtype_name(one.dtype)) == 0 &&
         one.megabytes == arguments.megabytes && one.item_bytes == 0 && one.max_ctas == 0;
}

bool Run(const Case& one, const std::vector<std::byte>& data, const Arguments& arguments) {
  cinch_cuda_options options;
  cinch_cuda_options_init(&options);
  options.checksum = arguments.plain ? 0 : 1;
  options.max_ctas = one.max_ctas;
  cinch_cuda_speed speed{};
  speed.struct_size = sizeof speed;
  const uint64_t bytes = one.megabytes << 20;
  const cinch_status status =
      cinch_cuda_measure(&options, one.dtype, data.data(), bytes, one.item_bytes, kRepeats, &speed);
  if (status != CINCH_OK) {
    std::fprintf(stderr, "%s\n", cinch_status_text(status));
    return false;
  }
  const auto size = static_cast<double>(bytes);
  const char* format =
      arguments.json
          ? "{\"dtype\": \"%s\", \"data\": \"%s\", \"megabytes\": %llu, \"item_bytes\": %llu, "
            "\"max_ctas\": %u, \"copy_us\": %.2f, \"compress_us\": %.2f, \"decompress_us\": %.2f, "
            "\"compress_tb_s\": %.4f, \"decompress_tb_s\": %.4f, \"kept\": %.5f}\n"
          : "%-11s %-11s %5llu %8llu %5u  %8.2f %8.2f %8.2f  %7.4f %7.4f  %.5f\n";
  std::printf(format, cinch_dtype_name(one.dtype), cinch_dtype_name(one.data_dtype),
              static_cast<unsigned long long>(one.megabytes),
              static_cast<unsigned long long>(one.item_bytes), one.max_ctas,
              1e6 * speed.copy_seconds, 1e6 * speed.compress_seconds,
              1e6 * speed.decompress_seconds, 1e-12 * size / speed.compress_seconds,
              1e-12 * size / speed.decompress_seconds,
              static_cast<double>(speed.frame_bytes) / size);
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      arguments.json = true;
    } else if (std::strcmp(argv[i], "--quick") == 0) {
      arguments.quick = true;
    } else if (std::strcmp(argv[i], "--plain") == 0) {
      arguments.plain = true;
    } else if (i + 1 < argc) {
      arguments.dtype = argv[i];
      arguments.megabytes = std::strtoull(argv[++i], nullptr, 10);
    }
  }
  if (!arguments.json) {
    std::printf("%-11s %-11s %5s %8s %5s  %8s %8s %8s  %7s %7s  %s\n", "dtype", "data", "MB",
                "item", "CTAs", "copy us", "enc us", "dec us", "enc", "TB/s dec", "kept");
  }
  std::vector<std::byte> data;
  cinch_dtype made = CINCH_DTYPE_AUTO;
  for (const Case& one : Cases(arguments.quick)) {
    if (!IsChosen(one, arguments)) continue;
    const uint64_t bytes = one.megabytes << 20;
    if (made != one.data_dtype || data.size() < bytes) {
      data.resize(bytes);
      const cinch::tensors::DataSpec gaussian;
      if (cinch::tensors::GenerateData(gaussian, one.data_dtype, 1, 0, std::span(data)) !=
          CINCH_OK) {
        return 1;
      }
      made = one.data_dtype;
    }
    if (!Run(one, data, arguments)) return 1;
  }
  return 0;
}
