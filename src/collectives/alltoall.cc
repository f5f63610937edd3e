// SPDX-License-Identifier: Apache-2.0
// All-to-all, gather and scatter, taken apart into sends and receives. A rank's own part is copied.
#include "collectives/algorithms.h"

namespace cinch::collectives {
namespace {

Operation MakePair(const Operation& whole, Kind kind, int peer, uint64_t offset_bytes) {
  Operation pair = whole;
  pair.kind = kind;
  pair.peer = peer;
  pair.send = kind == Kind::kSend ? User(whole.send, offset_bytes).In(nullptr) : nullptr;
  pair.receive = kind == Kind::kReceive ? User(whole.receive, offset_bytes).In(nullptr) : nullptr;
  return pair;
}

}  // namespace

bool IsPairwise(Kind kind) {
  return kind == Kind::kAllToAll || kind == Kind::kGather || kind == Kind::kScatter;
}

void SplitIntoPairs(const Operation& operation, std::vector<Operation>* pairs, LocalCopy* own) {
  const Communicator& comm = *operation.comm;
  const uint64_t part = operation.count * NcclDtypeBytes(operation.dtype);
  const bool root = comm.rank() == operation.peer;
  const bool sends_many =
      operation.kind == Kind::kAllToAll || (operation.kind == Kind::kScatter && root);
  const bool receives_many =
      operation.kind == Kind::kAllToAll || (operation.kind == Kind::kGather && root);
  for (int peer = 0; peer < comm.ranks(); ++peer) {
    const uint64_t offset = part * static_cast<uint64_t>(peer);
    if (peer == comm.rank()) {
      if (!sends_many && !receives_many) continue;
      *own = {User(operation.receive, receives_many ? offset : 0),
              User(operation.send, sends_many ? offset : 0), part};
      continue;
    }
    const bool with_root = !root && peer == operation.peer;
    if (sends_many || (operation.kind == Kind::kGather && with_root)) {
      pairs->push_back(MakePair(operation, Kind::kSend, peer, sends_many ? offset : 0));
    }
    if (receives_many || (operation.kind == Kind::kScatter && with_root)) {
      pairs->push_back(MakePair(operation, Kind::kReceive, peer, receives_many ? offset : 0));
    }
  }
}

}  // namespace cinch::collectives
