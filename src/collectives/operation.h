// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "cinch/codec.h"
#include "collectives/device.h"
#include "collectives/key_history.h"
#include "collectives/nccl_api.h"

namespace cinch::collectives {

class Communicator;

enum class Kind : uint8_t {
  kAllGather,
  kAllReduce,
  kAllToAll,
  kBroadcast,
  kGather,
  kReduce,
  kReduceScatter,
  kReceive,
  kScatter,
  kSend
};

/// A call as the application made it.
struct Operation {
  Kind kind = Kind::kSend;
  Communicator* comm = nullptr;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  int dtype = 0;
  int reduction = 0;
  int peer = 0;  ///< The peer of send and receive, or the root.
  Stream stream = nullptr;

  /// Set when the operation may travel compressed.
  KeyHistory* key = nullptr;
  Ticket ticket = {};
};

/// 0 for values that are not ncclDataType_t.
[[nodiscard]] size_t NcclDtypeBytes(int dtype);

/// As what the codec should look at elements of an ncclDataType_t. Bytes may hold anything:
/// bucketing hides what they are.
[[nodiscard]] cinch_dtype CodecDtype(int dtype);

/// False for integers, of which nothing is known that a float codec could use.
[[nodiscard]] bool IsCodable(int dtype);

/// Makes the call as it is, on `comm`.
[[nodiscard]] NcclResult CallNccl(const NcclApi& api, NcclComm comm, const Operation& operation);

}  // namespace cinch::collectives
