// SPDX-License-Identifier: Apache-2.0
#include "collectives/pinned_pages.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace cinch::collectives {
namespace {

struct Pool {
  std::mutex mutex;
  std::map<std::pair<Device*, PageUse>, std::vector<void*>> pages;
};

Pool& ThePool() {
  static auto* const pool = new Pool;
  return *pool;
}

}  // namespace

void* TakePinnedPage(Device* device, PageUse use) {
  Pool& pool = ThePool();
  const std::lock_guard lock(pool.mutex);
  std::vector<void*>& pages = pool.pages[{device, use}];
  if (!pages.empty()) {
    void* page = pages.back();
    pages.pop_back();
    return page;
  }
  void* page = nullptr;
  return device->AllocatePinned(kPinnedPageBytes, &page) == CINCH_OK ? page : nullptr;
}

void ReturnPinnedPage(Device* device, void* page, PageUse use) {
  Pool& pool = ThePool();
  const std::lock_guard lock(pool.mutex);
  pool.pages[{device, use}].push_back(page);
}

}  // namespace cinch::collectives
