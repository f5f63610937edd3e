// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::collectives {

/// ncclComm_t and ncclResult_t; the values are those of nccl.h and have never changed.
using NcclComm = void*;
using NcclResult = int;

inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclUnhandledCudaError = 1;
inline constexpr NcclResult kNcclSystemError = 2;
inline constexpr NcclResult kNcclInternalError = 3;
inline constexpr NcclResult kNcclInvalidArgument = 4;
inline constexpr NcclResult kNcclInvalidUsage = 5;
inline constexpr NcclResult kNcclInProgress = 7;

/// ncclDataType_t.
enum NcclDtype : int {
  kNcclInt8,
  kNcclUint8,
  kNcclInt32,
  kNcclUint32,
  kNcclInt64,
  kNcclUint64,
  kNcclFloat16,
  kNcclFloat32,
  kNcclFloat64,
  kNcclBfloat16,
  kNcclFloat8e4m3,
  kNcclFloat8e5m2,
  kNcclDtypeCount
};

/// ncclRedOp_t: the built-in ones; from kNcclReductionCount on, those that the application has
/// made.
enum NcclReduction : int {
  kNcclSum,
  kNcclProduct,
  kNcclMaximum,
  kNcclMinimum,
  kNcclAverage,
  kNcclReductionCount
};

/// What is called of NCCL. Found by name in a library that is loaded at run time, never linked.
struct NcclApi {
  using DataCall = NcclResult (*)(const void* send, void* receive, size_t count, int dtype,
                                  NcclComm comm, void* stream);
  using RootCall = NcclResult (*)(const void* send, void* receive, size_t count, int dtype,
                                  int root, NcclComm comm, void* stream);
  using ReduceCall = NcclResult (*)(const void* send, void* receive, size_t count, int dtype,
                                    int reduction, NcclComm comm, void* stream);

  DataCall all_gather;
  DataCall all_to_all;
  RootCall broadcast;
  RootCall gather;
  RootCall scatter;
  ReduceCall all_reduce;
  ReduceCall reduce_scatter;
  NcclResult (*reduce)(const void* send, void* receive, size_t count, int dtype, int reduction,
                       int root, NcclComm comm, void* stream);
  NcclResult (*send)(const void* buffer, size_t count, int dtype, int peer, NcclComm comm,
                     void* stream);
  NcclResult (*receive)(void* buffer, size_t count, int dtype, int peer, NcclComm comm,
                        void* stream);
  NcclResult (*group_start)();
  NcclResult (*group_end)();
  NcclResult (*comm_split)(NcclComm comm, int color, int key, NcclComm* child, void* config);
  NcclResult (*comm_count)(NcclComm comm, int* count);
  NcclResult (*comm_rank)(NcclComm comm, int* rank);
  NcclResult (*comm_device)(NcclComm comm, int* device);
  NcclResult (*comm_destroy)(NcclComm comm);
  NcclResult (*comm_abort)(NcclComm comm);
  /// Null before 2.28.7.
  NcclResult (*comm_revoke)(NcclComm comm, int flags);
};

}  // namespace cinch::collectives
