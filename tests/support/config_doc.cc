// SPDX-License-Identifier: Apache-2.0
// Writes docs/configuration.md from the table of settings, or checks that the file agrees with it.
//   config_doc --write FILE | --check FILE
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "base/config.h"

int main(int argument_count, char** arguments) {
  const bool write = argument_count == 3 && std::strcmp(arguments[1], "--write") == 0;
  const bool check = argument_count == 3 && std::strcmp(arguments[1], "--check") == 0;
  if (!write && !check) {
    std::fputs("usage: config_doc --write FILE | --check FILE\n", stderr);
    return 2;
  }
  const std::string expected = cinch::ConfigDocumentation();
  if (write) {
    std::ofstream file(arguments[2], std::ios::binary | std::ios::trunc);
    file << expected;
    file.close();
    return file ? 0 : 1;
  }
  std::ifstream file(arguments[2], std::ios::binary);
  const std::string found{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (found == expected) return 0;
  std::fprintf(stderr, "%s is out of date: run `cmake --build --preset dev --target docs`\n",
               arguments[2]);
  return 1;
}
