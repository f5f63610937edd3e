// SPDX-License-Identifier: Apache-2.0
#include "nccl/interposer/real_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/config.h"
#include "base/log.h"

namespace cinch::nccl {
namespace {

constexpr const char* kSystemFolders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib64",         "/usr/lib", "/usr/local/lib",
    "/usr/local/cuda/lib64",     "/usr/local/nccl/lib"};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kOpenFlags = RTLD_NOW | RTLD_GLOBAL;  // the sanitizers refuse RTLD_DEEPBIND
#else
constexpr int kOpenFlags = RTLD_NOW | RTLD_GLOBAL | RTLD_DEEPBIND;
#endif
constexpr const char* kPackageFolders[] = {"site-packages/", "dist-packages/"};

std::string& ForcedPath() {
  static auto* const path = new std::string;
  return *path;
}

int AddObject(dl_phdr_info* info, size_t /*size*/, void* names) {
  if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0') {
    static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
  }
  return 0;
}

std::string Folder(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

std::string OwnPath() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&RealLibraryCandidates), &info) == 0) return {};
  return info.dli_fname == nullptr ? std::string() : std::string(info.dli_fname);
}

bool IsSameFile(const std::string& a, const std::string& b) {
  char* left = realpath(a.c_str(), nullptr);
  char* right = realpath(b.c_str(), nullptr);
  const bool same = left != nullptr && right != nullptr && std::string_view(left) == right;
  free(left);
  free(right);
  return same;
}

void AddBeside(const std::string& object, std::vector<std::string>* candidates) {
  for (const char* folder : kPackageFolders) {
    const size_t at = object.find(folder);
    if (at == std::string::npos) continue;
    const std::string packages = object.substr(0, at + std::string_view(folder).size());
    candidates->push_back(packages + "nvidia/nccl/lib/libnccl.so.2");
    candidates->push_back(packages + "nvidia/cu13/lib/libnccl.so.2");
  }
}

template <typename Function>
void Find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
}

void FillApi(void* handle, collectives::NcclApi* api) {
  Find(handle, "ncclAllGather", &api->all_gather);
  Find(handle, "ncclAlltoAll", &api->all_to_all);
  Find(handle, "ncclBroadcast", &api->broadcast);
  Find(handle, "ncclGather", &api->gather);
  Find(handle, "ncclScatter", &api->scatter);
  Find(handle, "ncclAllReduce", &api->all_reduce);
  Find(handle, "ncclReduceScatter", &api->reduce_scatter);
  Find(handle, "ncclReduce", &api->reduce);
  Find(handle, "ncclSend", &api->send);
  Find(handle, "ncclRecv", &api->receive);
  Find(handle, "ncclGroupStart", &api->group_start);
  Find(handle, "ncclGroupEnd", &api->group_end);
  Find(handle, "ncclCommSplit", &api->comm_split);
  Find(handle, "ncclCommCount", &api->comm_count);
  Find(handle, "ncclCommUserRank", &api->comm_rank);
  Find(handle, "ncclCommCuDevice", &api->comm_device);
  Find(handle, "ncclCommDestroy", &api->comm_destroy);
  Find(handle, "ncclCommAbort", &api->comm_abort);
  Find(handle, "ncclCommRevoke", &api->comm_revoke);
}

/// What compressed collectives are made of.
const char* MissingFunction(const collectives::NcclApi& api) {
  const struct {
    bool there;
    const char* name;
  } functions[] = {{api.all_gather != nullptr, "ncclAllGather"},
                   {api.broadcast != nullptr, "ncclBroadcast"},
                   {api.send != nullptr, "ncclSend"},
                   {api.receive != nullptr, "ncclRecv"},
                   {api.comm_split != nullptr, "ncclCommSplit"},
                   {api.comm_count != nullptr, "ncclCommCount"},
                   {api.comm_rank != nullptr, "ncclCommUserRank"},
                   {api.comm_device != nullptr, "ncclCommCuDevice"},
                   {api.comm_destroy != nullptr, "ncclCommDestroy"},
                   {api.comm_abort != nullptr, "ncclCommAbort"}};
  for (const auto& function : functions) {
    if (!function.there) return function.name;
  }
  return nullptr;
}

void JudgeVersion(RealLibrary* library) {
  int (*get_version)(int*) = nullptr;
  Find(library->handle, "ncclGetVersion", &get_version);
  int version = 0;
  if (get_version == nullptr || get_version(&version) != collectives::kNcclSuccess) version = 0;
  library->version = version;
  const char* missing = MissingFunction(library->api);
  if (version <= 0) {
    library->obstacle = "it does not tell its version";
  } else if (version < kOldestNccl) {
    library->obstacle =
        fmt::format("{} is older than {}", NcclVersionText(version), NcclVersionText(kOldestNccl));
  } else if (missing != nullptr) {
    library->obstacle = fmt::format("it has no {}", missing);
  }
  if (version > kNewestNccl) {
    library->note = fmt::format("{} is newer than {}: functions that it added are not intercepted",
                                NcclVersionText(version), NcclVersionText(kNewestNccl));
  }
  if (!library->obstacle.empty()) {
    Log(LogLevel::kWarn, "{}: nothing is compressed: {}", library->path, library->obstacle);
  }
}

/// Null, with the reason in `error`, when `path` is not a library that could stand behind this one.
void* OpenCandidate(const std::string& path, const std::string& own, std::string* error) {
  if (access(path.c_str(), R_OK) != 0) {
    *error = fmt::format("{}: {}", path, std::strerror(errno));
    return nullptr;
  }
  if (IsSameFile(path, own)) {
    *error = fmt::format("{} is the interposer itself", path);
    return nullptr;
  }
  // By its own names first, or its calls to itself would come back here; global, so that names
  // which are newer than this library are found.
  void* handle = dlopen(path.c_str(), kOpenFlags);
  if (handle == nullptr) {
    *error = dlerror();
    return nullptr;
  }
  if (dlsym(handle, "ncclGroupStart") != nullptr && dlsym(handle, "ncclGroupEnd") != nullptr) {
    return handle;
  }
  *error = fmt::format("{} is not an NCCL", path);
  dlclose(handle);
  return nullptr;
}

RealLibrary* OpenRealLibrary() {
  auto* library = new RealLibrary;
  const std::string own = OwnPath();
  const std::vector<std::string> candidates = RealLibraryCandidates();
  for (const std::string& path : candidates) {
    std::string error;
    library->handle = OpenCandidate(path, own, &error);
    if (library->handle == nullptr) {
      // What was asked for by name, or is there but cannot be used.
      if (candidates.size() == 1 || access(path.c_str(), R_OK) == 0) library->error = error;
      continue;
    }
    library->error.clear();
    library->path = path;
    FillApi(library->handle, &library->api);
    JudgeVersion(library);
    Log(LogLevel::kInfo, "NCCL is {}, {}", path, NcclVersionText(library->version));
    return library;
  }
  if (library->error.empty()) library->error = "no libnccl.so.2 was found; set CINCH_NCCL_LIB";
  Log(LogLevel::kError, "NCCL: {}", library->error);
  return library;
}

}  // namespace

std::vector<std::string> RealLibraryCandidates() {
  if (!ForcedPath().empty()) return {ForcedPath()};
  const std::string& configured = ProcessConfig().nccl_library;
  if (!configured.empty()) return {configured};
  std::vector<std::string> objects;
  dl_iterate_phdr(AddObject, &objects);
  std::vector<std::string> candidates;
  // A real one that is loaded already, by whatever name.
  for (const std::string& object : objects) {
    if (object.find("/libnccl.so") != std::string::npos) candidates.push_back(object);
  }
  for (const std::string& object : objects) {
    AddBeside(object, &candidates);
    if (object.find("/libtorch") != std::string::npos) {
      candidates.push_back(Folder(object) + "libnccl.so.2");
    }
  }
  for (const char* folder : kSystemFolders) {
    candidates.push_back(std::string(folder) + "/libnccl.so.2");
  }
  std::vector<std::string> distinct;
  for (std::string& candidate : candidates) {
    if (std::ranges::find(distinct, candidate) == distinct.end()) {
      distinct.push_back(std::move(candidate));
    }
  }
  return distinct;
}

std::string NcclVersionText(int version) {
  if (version <= 0) return "unknown version";
  const int major = version < 10000 ? 1000 : 10000;  // as the macro NCCL_VERSION changed with 2.9
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

const RealLibrary& TheRealLibrary() {
  static const RealLibrary* const library = OpenRealLibrary();
  return *library;
}

void SetRealLibraryPath(const std::string& path) { ForcedPath() = path; }

void* FindRealFunction(const char* name) {
  void* handle = TheRealLibrary().handle;
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

}  // namespace cinch::nccl
