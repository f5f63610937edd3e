// SPDX-License-Identifier: Apache-2.0
// Reads arbitrary bytes as what `cinch send` and `cinch recv` say to each other: the announcement
// of files and the answer. Whatever is accepted must be safe to act on and survive a round trip.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "exchange.h"

namespace {

using namespace cinch::cli;  // The target is about one namespace only.

void Require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
  }
}

void CheckManifest(const std::string& json) {
  exchange::Manifest manifest;
  const Outcome outcome = exchange::DecodeManifest(json, &manifest);
  if (!outcome.ok()) {
    Require(!outcome.message.empty(), "a refusal has a reason");
    Require(manifest.files.empty(), "a refusal leaves the output alone");
    return;
  }
  std::set<std::string> names;
  for (const exchange::FileEntry& file : manifest.files) {
    Require(exchange::CheckName(file.name).ok(), "every name is safe");
    Require(file.name.find('/') == std::string::npos && file.name.front() != '.' &&
                file.name.find('\0') == std::string::npos,
            "no name leaves the directory");
    Require(names.insert(file.name).second, "no name comes twice");
    Require(file.chunks <= file.size_bytes, "no chunk is empty");
    Require(file.size_bytes == 0 || file.size_bytes / manifest.chunk_bytes <= file.chunks,
            "chunks hold the file");
  }
  Require(manifest.total_bytes() >= manifest.files.front().size_bytes, "totals do not overflow");
  exchange::Manifest again;
  Require(exchange::DecodeManifest(exchange::EncodeManifest(manifest), &again).ok(),
          "what was read can be written and read again");
  Require(again.files.size() == manifest.files.size() &&
              again.total_bytes() == manifest.total_bytes() &&
              again.total_chunks() == manifest.total_chunks(),
          "all files survive");
}

void CheckAnswer(const std::string& json) {
  const Outcome outcome = exchange::DecodeAnswer(json);
  const Outcome again = exchange::DecodeAnswer(exchange::EncodeAnswer(outcome));
  Require(again.ok() == outcome.ok() && again.code == outcome.code, "the verdict survives");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::string input(reinterpret_cast<const char*>(data), size_bytes);
  CheckManifest(input);
  CheckAnswer(input);
  return 0;
}
