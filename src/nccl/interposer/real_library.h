// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "collectives/nccl_api.h"

namespace cinch::nccl {

/// The NCCL that does the work.
struct RealLibrary {
  void* handle = nullptr;  ///< Null: none was found; `error` says why.
  std::string path;
  std::string error;
  int version = 0;  ///< As ncclGetVersion has it; 0 when it does not say.
  /// Why its communicators pass through; empty when they are compressed.
  std::string obstacle;
  /// What else a user should know; may be empty.
  std::string note;
  collectives::NcclApi api{};
};

/// The versions whose functions are known here.
inline constexpr int kOldestNccl = 22800;
inline constexpr int kNewestNccl = 23007;

/// "2.28.9" of 22809; older ones counted differently.
[[nodiscard]] std::string NcclVersionText(int version);

/// Where NCCL may be, likeliest first: CINCH_NCCL_LIB alone when it is set, else what lies beside
/// the libraries that the process has loaded, and the system's directories.
[[nodiscard]] std::vector<std::string> RealLibraryCandidates();

/// Opens the first candidate that is not this library, once a process. Never fails loudly: without
/// a library every call returns an error. Thread-safe.
[[nodiscard]] const RealLibrary& TheRealLibrary();

/// For tests: takes `path` from now on; before anything has used the real library.
void SetRealLibraryPath(const std::string& path);

/// A function of the real library; null when it has none of that name.
[[nodiscard]] void* FindRealFunction(const char* name);

}  // namespace cinch::nccl
