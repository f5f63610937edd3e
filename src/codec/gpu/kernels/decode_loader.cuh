// SPDX-License-Identifier: Apache-2.0
/// @file decode_loader.cuh
/// The warps that look after payloads, each after a slot: while one block is decoded, the next
/// one's payload arrives and is looked at.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_decode_plan.cuh"
#include "codec/gpu/kernels/decode_shared.cuh"
#include "codec/gpu/kernels/progress.cuh"
#include "codec/gpu/kernels/tally.cuh"

namespace cinch::codec::gpu {

/// Takes one of every kLoaders errands out of their boxes. In the registers of all lanes of a warp.
class ErrandReader {
 public:
  /// For the loader that has turns loader, loader + kLoaders, ...
  __device__ __forceinline__ explicit ErrandReader(uint32_t loader) : next_(loader) {}

  /// Copies the loader's next errand to `job`; false, now and for ever, when there are no more.
  __device__ __forceinline__ bool WarpNext(DecodeShared* shared, Job* job) {
    const uint32_t lane = threadIdx.x % 32;
    while (next_ >= count_ && !ended_) {
      if (boxes_ != 0 && lane == 0) {
        Arrive(SharedAddress(&shared->taken[(boxes_ - 1) % kErrandBoxes]));
      }
      AwaitPhase(SharedAddress(&shared->posted[boxes_ % kErrandBoxes]),
                 ParityOf(boxes_, kErrandBoxes));
      next_ -= count_;
      count_ = shared->boxes[boxes_ % kErrandBoxes].count;
      ended_ = count_ == 0;
      ++boxes_;
    }
    if (ended_) return false;
    const Errand* errand = &shared->boxes[(boxes_ - 1) % kErrandBoxes].errands[next_];
    next_ += kLoaders;
    if (lane < kErrandWords) {
      reinterpret_cast<uint32_t*>(&job->errand)[lane] =
          reinterpret_cast<const uint32_t*>(errand)[lane];
    }
    __syncwarp();
    return true;
  }

 private:
  uint32_t next_;
  uint32_t count_ = 0;
  uint32_t boxes_ = 0;
  bool ended_ = false;
};

/// By one warp: writes turn `turn`'s job down, as far as it is known before its payload is there.
__device__ __forceinline__ void WarpTakeErrand(uint32_t turn, ErrandReader* reader,
                                               DecodeShared* shared) {
  Job* job = &shared->jobs[turn % kJobs];
  const bool more = reader->WarpNext(shared, job);
  if (threadIdx.x % 32 == 0) job->route = more ? Route::kNothing : Route::kEnd;
  __syncwarp();
}

/// By one warp: starts bringing turn `turn`'s payload to its slot, which nobody reads any longer.
__device__ __forceinline__ void WarpFetch(uint32_t turn, DecodeShared* shared) {
  const Job* job = &shared->jobs[turn % kJobs];
  if (job->route == Route::kEnd) return;
  const Errand& errand = job->errand;
  const uint32_t barrier = SharedAddress(&shared->loaded[turn % kSlots]);
  if (errand.error_key == 0 && errand.item.blocks != 0) {
    WarpLoadAsync(SharedAddress(shared->slot(turn)), errand.payload, errand.payload_bytes, barrier);
  } else if (threadIdx.x % 32 == 0) {
    Arrive(barrier);
  }
}

/// What the loader finds in a payload.
struct Finding {
  uint32_t route;
  Status status;
};

/// By one warp, the same in all lanes: looks at the payload of `job`, in shared memory at `slot`.
__device__ __forceinline__ Finding WarpLook(const uint8_t* slot, const uint32_t* dtypes, Job* job) {
  const Errand& errand = job->errand;
  const uint32_t length_bytes = errand.length_bytes;
  const Finding invalid{Route::kNothing, CINCH_ERROR_FRAME_BLOCK};
  const Finding general{Route::kGeneral, CINCH_OK};
  if (length_bytes % FastDecode::kLengthStep != 0 || errand.item.base != nullptr) return general;
  const auto head = LoadAligned<Words4>(slot);
  const uint32_t tag = head.word[1];
  if ((tag & 0xFF) == static_cast<uint32_t>(format::BlockMode::kCascade)) {
    const DecodeVerdict verdict =
        WarpPlanDecode(slot, errand.payload_bytes, length_bytes, dtypes, &job->plan);
    if (!verdict.valid) return invalid;
    if (verdict.format == FastFormat::kNone) return general;
    return {RouteOf(verdict.format, verdict.wide), CINCH_OK};
  }
  if (threadIdx.x % 32 == 0) PlanUnits(length_bytes, &job->plan.fields);
  if (tag == static_cast<uint32_t>(format::BlockMode::kStored)) {
    const bool valid = errand.payload_bytes == format::StoredPayloadBytes(length_bytes) &&
                       (head.word[2] | head.word[3]) == 0;
    return valid ? Finding{Route::kStored, CINCH_OK} : invalid;
  }
  if (tag == static_cast<uint32_t>(format::BlockMode::kConstant)) {
    return errand.payload_bytes == format::kConstantPayloadBytes
               ? Finding{Route::kConstant, CINCH_OK}
               : invalid;
  }
  return general;
}

/// By one warp: waits for turn `turn`'s payload and hands the job to the decoders. False when there
/// is none, which they are told, too.
__device__ __forceinline__ bool WarpPrepare(uint32_t turn, DecodeShared* shared) {
  Job* job = &shared->jobs[turn % kJobs];
  const bool more = job->route != Route::kEnd;
  if (more) {
    AwaitPhase(SharedAddress(&shared->loaded[turn % kSlots]), ParityOf(turn, kSlots));
    Finding finding{Route::kNothing, CINCH_OK};
    if (job->errand.error_key == 0 && job->errand.item.blocks != 0) {
      finding = WarpLook(shared->slot(turn), shared->fast.dtypes, job);
    }
    __syncwarp();  // All have read the route that it had.
    if (threadIdx.x % 32 == 0) {
      job->route = finding.route;
      job->status = finding.status;
      job->checksum = LoadAligned<uint32_t>(shared->slot(turn));
    }
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) Arrive(SharedAddress(&shared->ready[turn % kSlots]));
  return more;
}

/// By all lanes: what became of a job that the decoders are done with. Valid in every lane.
struct Outcome {
  uint64_t error_key;
  uint64_t hash;
};
__device__ __forceinline__ Outcome WarpOutcome(const Job& job) {
  const Errand& errand = job.errand;
  if (errand.error_key != 0 || errand.item.blocks == 0) return {errand.error_key, 0};
  Status status = job.status;
  uint64_t hash = job.hash;
  if (job.route == Route::kNothing) hash = 0;
  if (job.route != Route::kGeneral && status == CINCH_OK) {
    hash = 0;
    if (errand.item.checksum != 0) {
      const uint32_t lane = threadIdx.x % 32;
      const CtaTeam<kDecodeTuning.threads> team;
      const uint64_t sum = team.WarpSum64(lane < FastDecode::kWarps ? job.hash_shares[lane] : 0);
      hash = format::FinishHash(sum, errand.length_bytes, errand.unit.block);
    }
    if (static_cast<uint32_t>(hash) != job.checksum) status = CINCH_ERROR_FRAME_CHECKSUM;
  }
  const uint64_t key =
      status == CINCH_OK ? 0 : ErrorKey(ErrorRank::kBlock, errand.unit.block, status);
  return {key, hash};
}

/// By one thread: the verdict on an item whose blocks are all done.
__device__ __forceinline__ void FinishOutput(const PlanItem& item, const ItemOutcome& outcome,
                                             cinch_cuda_result* result) {
  int32_t status = outcome.status;
  if (status == CINCH_OK && outcome.hash_sum != item.content_hash) {
    status = CINCH_ERROR_FRAME_CHECKSUM;
  }
  *result = {status == CINCH_OK ? item.original_bytes : 0, static_cast<cinch_status>(status), 0};
}

/// By one thread: adds a block's outcome up; `continues` when the next one is of the same item.
__device__ __forceinline__ void Account(const BatchParameters& batch, uint32_t epoch,
                                        const Errand& errand, const Outcome& outcome,
                                        bool continues, Tally* tally) {
  const PlanItem& item = errand.item;
  const Unit& unit = errand.unit;
  cinch_cuda_result* result = batch.results + unit.item;
  if (item.blocks == 0) {
    *result = {0, static_cast<cinch_status>(item.status), 0};
    return;
  }
  ItemState* state = batch.scratch.states + unit.item;
  if (batch.progress != nullptr && outcome.error_key == 0) {
    PublishBlock(item, unit.block, epoch, batch.scratch.block_states + unit.first_unit, state,
                 batch.progress + unit.item);
  }
  tally->Add(outcome.error_key, outcome.hash);
  if (continues) return;
  ItemOutcome of_item;
  const bool stateless = batch.progress == nullptr && batch.available_bytes == nullptr;
  const bool last = stateless && tally->IsAllOf(item) ? tally->Take(&of_item)
                                                      : tally->Flush(item, state, &of_item);
  if (last) FinishOutput(item, of_item, result);
}

/// By one warp: adds up a job that the decoders are done with; `next` is the loader's next one, or
/// null.
__device__ __forceinline__ void WarpAccount(const BatchParameters& batch, const Job& job,
                                            const Job* next, uint32_t epoch, Tally* tally) {
  const Outcome outcome = WarpOutcome(job);
  if (threadIdx.x % 32 == 0) {
    const bool continues = next != nullptr && next->route != Route::kEnd &&
                           next->errand.unit.item == job.errand.unit.item;
    Account(batch, epoch, job.errand, outcome, continues, tally);
  }
  __syncwarp();
}

/// All lanes of a loader, from the launch's start to its end. A slot's payload is on its way as
/// soon as the block before it has been decoded; only when frames may still be arriving, nothing
/// waits for a block that is not there but what needs it.
__device__ __forceinline__ void WarpLoader(const BatchParameters& batch, uint32_t loader,
                                           DecodeShared* shared) {
  const bool arriving = batch.available_bytes != nullptr;
  ErrandReader reader(loader);
  Tally tally;  // Lane 0's.
  for (uint32_t turn = loader;; turn += kLoaders) {
    const Job* job = &shared->jobs[turn % kJobs];
    const bool follows = turn >= kLoaders && !arriving;
    const uint32_t last = turn - kLoaders;
    WarpTakeErrand(turn, &reader, shared);
    if (follows) AwaitPhase(SharedAddress(&shared->done[last % kSlots]), ParityOf(last, kSlots));
    if (arriving) FenceLoads();  // The bytes may have come from elsewhere a moment ago.
    WarpFetch(turn, shared);
    if (follows) {
      WarpAccount(batch, shared->jobs[last % kJobs], job, shared->schedule.epoch, &tally);
    }
    if (!WarpPrepare(turn, shared)) return;
    if (!arriving) continue;
    AwaitPhase(SharedAddress(&shared->done[turn % kSlots]), ParityOf(turn, kSlots));
    WarpAccount(batch, *job, nullptr, shared->schedule.epoch, &tally);
  }
}

}  // namespace cinch::codec::gpu
