// SPDX-License-Identifier: Apache-2.0
// An NCCL that does nothing, at once: what is left of a call is what stands in front of it.
#include <cstddef>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

char handles[1 << 10];
int next_handle = 0;

int MakeHandle(void** comm) {
  *comm = &handles[next_handle++ % static_cast<int>(sizeof(handles))];
  return 0;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
EXPORT int ncclAllGather(const void*, void*, size_t, int, void*, void*) { return 0; }
EXPORT int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*) { return 0; }
EXPORT int ncclBroadcast(const void*, void*, size_t, int, int, void*, void*) { return 0; }
EXPORT int ncclSend(const void*, size_t, int, int, void*, void*) { return 0; }
EXPORT int ncclRecv(void*, size_t, int, int, void*, void*) { return 0; }
EXPORT int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
EXPORT int ncclGroupStart() { return 0; }
EXPORT int ncclGroupEnd() { return 0; }
EXPORT int ncclCommGetAsyncError(void*, int* error) {
  *error = 0;
  return 0;
}
EXPORT int ncclCommInitAll(void** comms, int count, const int*) {
  for (int i = 0; i < count; ++i) MakeHandle(comms + i);
  return 0;
}
EXPORT int ncclCommSplit(void*, int, int, void** child, void*) { return MakeHandle(child); }
EXPORT int ncclCommCount(void*, int* count) {
  *count = 2;
  return 0;
}
EXPORT int ncclCommUserRank(void*, int* rank) {
  *rank = 0;
  return 0;
}
EXPORT int ncclCommCuDevice(void*, int* device) {
  *device = 0;
  return 0;
}
EXPORT int ncclCommDestroy(void*) { return 0; }
EXPORT int ncclCommAbort(void*) { return 0; }
// NOLINTEND(readability-identifier-naming)
