// SPDX-License-Identifier: Apache-2.0
#include "collectives/operation.h"

namespace cinch::collectives {

size_t NcclDtypeBytes(int dtype) {
  switch (dtype) {
    case kNcclInt8:
    case kNcclUint8:
    case kNcclFloat8e4m3:
    case kNcclFloat8e5m2:
      return 1;
    case kNcclFloat16:
    case kNcclBfloat16:
      return 2;
    case kNcclInt32:
    case kNcclUint32:
    case kNcclFloat32:
      return 4;
    case kNcclInt64:
    case kNcclUint64:
    case kNcclFloat64:
      return 8;
    default:
      return 0;
  }
}

cinch_dtype CodecDtype(int dtype) {
  switch (dtype) {
    case kNcclFloat16:
      return CINCH_DTYPE_FP16;
    case kNcclBfloat16:
      return CINCH_DTYPE_BF16;
    case kNcclFloat32:
      return CINCH_DTYPE_FP32;
    case kNcclFloat64:
      return CINCH_DTYPE_FP64;
    case kNcclFloat8e4m3:
      return CINCH_DTYPE_FP8_E4M3FN;
    case kNcclFloat8e5m2:
      return CINCH_DTYPE_FP8_E5M2;
    default:
      return CINCH_DTYPE_AUTO;
  }
}

bool IsCodable(int dtype) {
  return dtype == kNcclInt8 || dtype == kNcclUint8 ||
         (dtype >= kNcclFloat16 && dtype < kNcclDtypeCount);
}

namespace {

/// A library may lack what is newer than it.
template <typename Function, typename... Arguments>
NcclResult CallIfThere(Function function, Arguments... arguments) {
  return function == nullptr ? kNcclInvalidUsage : function(arguments...);
}

}  // namespace

NcclResult CallNccl(const NcclApi& api, NcclComm comm, const Operation& o) {
  switch (o.kind) {
    case Kind::kAllGather:
      return CallIfThere(api.all_gather, o.send, o.receive, o.count, o.dtype, comm, o.stream);
    case Kind::kAllReduce:
      return CallIfThere(api.all_reduce, o.send, o.receive, o.count, o.dtype, o.reduction, comm,
                         o.stream);
    case Kind::kAllToAll:
      return CallIfThere(api.all_to_all, o.send, o.receive, o.count, o.dtype, comm, o.stream);
    case Kind::kBroadcast:
      return CallIfThere(api.broadcast, o.send, o.receive, o.count, o.dtype, o.peer, comm,
                         o.stream);
    case Kind::kGather:
      return CallIfThere(api.gather, o.send, o.receive, o.count, o.dtype, o.peer, comm, o.stream);
    case Kind::kReduce:
      return CallIfThere(api.reduce, o.send, o.receive, o.count, o.dtype, o.reduction, o.peer, comm,
                         o.stream);
    case Kind::kReduceScatter:
      return CallIfThere(api.reduce_scatter, o.send, o.receive, o.count, o.dtype, o.reduction, comm,
                         o.stream);
    case Kind::kReceive:
      return CallIfThere(api.receive, o.receive, o.count, o.dtype, o.peer, comm, o.stream);
    case Kind::kScatter:
      return CallIfThere(api.scatter, o.send, o.receive, o.count, o.dtype, o.peer, comm, o.stream);
    case Kind::kSend:
      return CallIfThere(api.send, o.send, o.count, o.dtype, o.peer, comm, o.stream);
  }
  return kNcclInternalError;
}

}  // namespace cinch::collectives
