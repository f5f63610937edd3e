// SPDX-License-Identifier: Apache-2.0
/// @file replay_main.cc
/// Runs a fuzz target over files, for builds without libFuzzer: a corpus is a test everywhere.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes);

namespace {

void Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> input{std::istreambuf_iterator<char>(file), {}};
  // A failing target ends the process, so the last name printed is the culprit.
  std::printf("%s (%zu bytes)\n", path.c_str(), input.size());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argument_count, char** arguments) {
  int replayed = 0;
  for (int i = 1; i < argument_count; ++i) {
    if (std::filesystem::is_directory(arguments[i])) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[i])) {
        if (entry.is_regular_file()) {
          Replay(entry.path());
          ++replayed;
        }
      }
    } else {
      Replay(arguments[i]);
      ++replayed;
    }
  }
  std::printf("%d inputs replayed\n", replayed);
  // An empty corpus means a wrong path, and a test that cannot fail.
  return replayed > 0 ? 0 : 1;
}
