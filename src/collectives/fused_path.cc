// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/status.h"
#include "collectives/peer_path.h"

namespace cinch::collectives {
namespace {

class FusedPath final : public PeerPath {
 public:
  FusedPath(cinch_fused* fused, int ranks) : fused_(fused), ranks_(ranks) {}
  ~FusedPath() override { cinch_fused_destroy(fused_); }

  [[nodiscard]] bool Takes(const Operation& operation) const override {
    return FusedPays(operation, ranks_);
  }
  Status Enqueue(const Operation& o) override {
    const uint64_t bytes = o.count * NcclDtypeBytes(o.dtype);
    const cinch_dtype dtype = CodecDtype(o.dtype);
    switch (o.kind) {
      case Kind::kAllGather:
        return cinch_fused_all_gather(fused_, o.send, o.receive, bytes, dtype, o.stream);
      case Kind::kAllToAll:
        return cinch_fused_all_to_all(fused_, o.send, o.receive, bytes, dtype, o.stream);
      case Kind::kReduceScatter:
        return cinch_fused_reduce_scatter(fused_, o.send, o.receive, o.count, dtype, o.stream);
      case Kind::kAllReduce:
        return cinch_fused_all_reduce(fused_, o.send, o.receive, o.count, dtype, o.stream);
      default:
        return CINCH_ERROR_UNSUPPORTED;
    }
  }
  Status Check() override { return cinch_fused_check(fused_, nullptr); }
  void Abort() override { cinch_fused_abort(fused_); }

 private:
  cinch_fused* fused_;
  int ranks_;
};

/// False for what a fused operation does not do at all.
bool FindOperation(const Operation& operation, cinch_fused_operation* found) {
  const bool sums = operation.reduction == kNcclSum;
  switch (operation.kind) {
    case Kind::kAllGather:
      *found = CINCH_FUSED_ALL_GATHER;
      return true;
    case Kind::kAllToAll:
      *found = CINCH_FUSED_ALL_TO_ALL;
      return true;
    case Kind::kReduceScatter:
      *found = CINCH_FUSED_REDUCE_SCATTER;
      return sums;
    case Kind::kAllReduce:
      *found = CINCH_FUSED_ALL_REDUCE;
      return sums;
    default:
      // Pairs: whether two ranks send to each other at the same time is not known to both.
      return false;
  }
}

}  // namespace

bool FusedPays(const Operation& operation, int ranks) {
  cinch_fused_operation fused{};
  // Other types travel as they are, which NCCL does as well.
  if (operation.dtype != kNcclBfloat16 || ranks < 2 || ranks > CINCH_FUSED_MAX_RANKS ||
      !FindOperation(operation, &fused)) {
    return false;
  }
  const uint64_t bytes = operation.count * NcclDtypeBytes(operation.dtype);
  const uint64_t parts = fused == CINCH_FUSED_ALL_REDUCE ? 1 : static_cast<uint64_t>(ranks);
  return cinch_fused_pays(fused, bytes * parts) != 0;
}

std::unique_ptr<PeerPath> MakeFusedPath(const PeerMeeting& meeting) {
  cinch_fused_options options;
  cinch_fused_options_init(&options);
  options.rank = static_cast<uint32_t>(meeting.rank);
  options.ranks = static_cast<uint32_t>(meeting.ranks);
  // What was measured: 64 multiprocessors.
  options.max_ctas = 128;
  options.timeout_seconds = meeting.timeout_seconds;
  options.all_gather = meeting.all_gather;
  options.context = meeting.context;
  cinch_fused* fused = nullptr;
  const Status status = cinch_fused_create(&options, &fused);
  if (status == CINCH_OK) return std::make_unique<FusedPath>(fused, meeting.ranks);
  Log(LogLevel::kInfo, "rank {} of {}: no path over peer memory: {}", meeting.rank, meeting.ranks,
      cinch_status_text(status));
  return nullptr;
}

}  // namespace cinch::collectives
