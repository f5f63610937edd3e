// SPDX-License-Identifier: Apache-2.0
// Feeds the empty input and every file below the given folders to a fuzz target, without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes);

namespace {

size_t Replay(const std::filesystem::path& folder) {
  size_t file_count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    // Named before the run: a crash leaves no other trace.
    std::fprintf(stderr, "%s\n", entry.path().c_str());
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++file_count;
  }
  return file_count;
}

}  // namespace

int main(int argument_count, char** arguments) {
  LLVMFuzzerTestOneInput(nullptr, 0);
  size_t file_count = 0;
  for (int i = 1; i < argument_count; ++i) file_count += Replay(arguments[i]);
  std::printf("%zu inputs\n", file_count);
  return file_count > 0 ? 0 : 1;
}
