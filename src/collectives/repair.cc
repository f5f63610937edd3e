// SPDX-License-Identifier: Apache-2.0
#include "collectives/repair.h"

#include <map>

#include "base/log.h"
#include "base/status.h"
#include "collectives/pinned_pages.h"
#include "collectives/slot_check.h"

namespace cinch::collectives {
namespace {

// After a frame that did not fit.
constexpr int32_t kCautiousJobs = 64;
constexpr size_t kHeadersInPage = kPinnedPageBytes / sizeof(SlotHeader);

uint32_t Load(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

}  // namespace

Repair::~Repair() {
  Device& device = step_.comm->device();
  if (headers_read_ != nullptr) device.DestroyEvent(headers_read_);
  for (void* page : header_pages_) ReturnPinnedPage(&device, page, PageUse::kHeaders);
}

void Repair::GiveUp() { __atomic_store_n(&step_.record->flag, target_, __ATOMIC_RELEASE); }

bool Repair::Settle() {
  step_.comm->Recycle(step_.record);
  return true;
}

void Repair::Fail(NcclResult error, const char* what) {
  Communicator& comm = *step_.comm;
  // What was in flight when the application aborted is not worth a word.
  if (!comm.aborted.load()) {
    Log(LogLevel::kError, "rank {} of {}: {}", comm.rank(), comm.ranks(), what);
  }
  comm.error.store(error);
  GiveUp();
}

bool Repair::NeedsDevice() const {
  if (phase_ == Phase::kReadingHeaders) return true;
  const StepRecord* record = step_.record;
  return phase_ == Phase::kWatching && Load(&record->outcome_target) == target_ &&
         static_cast<Outcome>(Load(&record->outcome)) == Outcome::kOverflow;
}

bool Repair::Advance() {
  const StepRecord* record = step_.record;
  if (phase_ == Phase::kReadingHeaders) {
    if (step_.comm->device().QueryEvent(headers_read_) == CINCH_IN_PROGRESS) return false;
    phase_ = Phase::kReceivingEnds;
    const NcclResult result = ExchangeEnds();
    if (result == kNcclSuccess) return false;
    Fail(result, "the end of a frame could not be exchanged");
    return true;  // The record is lost: the device may still write it.
  }
  if (Load(&record->outcome_target) != target_) return false;
  const auto outcome = static_cast<Outcome>(Load(&record->outcome));
  if (outcome == Outcome::kGood) return Settle();
  if (outcome == Outcome::kOverflow && phase_ == Phase::kWatching) {
    step_.comm->counters().overflows.fetch_add(1, std::memory_order_relaxed);
    step_.comm->caution.store(kCautiousJobs);
    phase_ = Phase::kReadingHeaders;
    if (ReadHeaders() == CINCH_OK) return false;
    Fail(kNcclUnhandledCudaError, "the headers of a step could not be read");
    return true;
  }
  Fail(kNcclInternalError, "a frame arrived damaged");
  return Settle();
}

SlotHeader* Repair::Header(size_t index) const {
  return static_cast<SlotHeader*>(header_pages_[index / kHeadersInPage]) + index % kHeadersInPage;
}

Status Repair::ReadHeaders() {
  Communicator& comm = *step_.comm;
  Device& device = comm.device();
  device.Select(comm.ordinal());
  CINCH_RETURN_IF_ERROR(device.CreateEvent(&headers_read_));
  std::vector<const uint8_t*> slots;
  for (const Outgoing& out : step_.step.out) slots.push_back(out.slot.In(step_.staging));
  for (const Incoming& in : step_.step.in) slots.push_back(in.slot.In(step_.staging));
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i % kHeadersInPage == 0) {
      header_pages_.push_back(TakePinnedPage(&device, PageUse::kHeaders));
      if (header_pages_.back() == nullptr) return CINCH_ERROR_OUT_OF_MEMORY;
    }
    CINCH_RETURN_IF_ERROR(
        device.Copy(comm.repair_stream(), Header(i), slots[i], sizeof(SlotHeader)));
  }
  return device.RecordEvent(headers_read_, comm.repair_stream());
}

uint64_t Repair::MissingOut(size_t index) const {
  const Outgoing& out = step_.step.out[index];
  return out.sampled ? 0 : MissingBytes(*Header(index), out.wire_bytes);
}

uint64_t Repair::MissingIn(size_t index) const {
  const Incoming& in = step_.step.in[index];
  return in.header_only ? 0 : MissingBytes(*Header(step_.step.out.size() + index), in.wire_bytes);
}

Status Repair::PlaceFrames(std::vector<uint8_t*>* frames, std::vector<WholeFrame>* whole) {
  Communicator& comm = *step_.comm;
  Device& device = comm.device();
  for (size_t i = 0; i < step_.step.in.size(); ++i) {
    const Incoming& in = step_.step.in[i];
    if (MissingIn(i) == 0) continue;
    const SlotHeader& header = *Header(step_.step.out.size() + i);
    if (!IsSane(header, in.bytes)) return CINCH_ERROR_PROTOCOL;
    void* memory = nullptr;
    CINCH_RETURN_IF_ERROR(device.Allocate(comm.repair_stream(), header.frame_bytes, &memory));
    (*frames)[i] = static_cast<uint8_t*>(memory);
    CINCH_RETURN_IF_ERROR(device.Copy(comm.repair_stream(), memory,
                                      in.slot.In(step_.staging) + sizeof(SlotHeader),
                                      in.wire_bytes - sizeof(SlotHeader)));
    whole->push_back(
        {(*frames)[i], header.frame_bytes, in.destination.In(step_.staging), in.bytes});
  }
  return CINCH_OK;
}

NcclResult Repair::PostPairs(const std::vector<uint8_t*>& frames) {
  Communicator& comm = *step_.comm;
  const NcclApi& api = comm.api();
  NcclResult result = kNcclSuccess;
  for (size_t i = 0; i < step_.step.out.size(); ++i) {
    const Outgoing& out = step_.step.out[i];
    if (out.peer == kAllPeers || MissingOut(i) == 0 || result != kNcclSuccess) continue;
    const uint8_t* end = out.slot.In(step_.staging) + out.wire_bytes;
    result =
        api.send(end, MissingOut(i), kNcclUint8, out.peer, comm.shadow(), comm.repair_stream());
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    const Incoming& in = step_.step.in[i];
    if (in.for_all || MissingIn(i) == 0 || result != kNcclSuccess) continue;
    result = api.receive(frames[i] + in.wire_bytes - sizeof(SlotHeader), MissingIn(i), kNcclUint8,
                         in.peer, comm.shadow(), comm.repair_stream());
  }
  return result;
}

NcclResult Repair::PostBroadcasts(const std::vector<uint8_t*>& frames) {
  Communicator& comm = *step_.comm;
  // In the order of operations and ranks, which is the same everywhere.
  std::map<std::pair<uint32_t, int>, std::pair<uint8_t*, uint64_t>> ends;
  for (size_t i = 0; i < step_.step.out.size(); ++i) {
    const Outgoing& out = step_.step.out[i];
    if (out.peer != kAllPeers || MissingOut(i) == 0) continue;
    ends[{out.use, comm.rank()}] = {out.slot.In(step_.staging) + out.wire_bytes, MissingOut(i)};
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    const Incoming& in = step_.step.in[i];
    if (!in.for_all || MissingIn(i) == 0) continue;
    ends[{in.use, in.peer}] = {frames[i] + in.wire_bytes - sizeof(SlotHeader), MissingIn(i)};
  }
  NcclResult result = kNcclSuccess;
  for (const auto& [root, end] : ends) {
    if (result != kNcclSuccess) break;
    result = comm.api().broadcast(end.first, end.first, end.second, kNcclUint8, root.second,
                                  comm.shadow(), comm.repair_stream());
  }
  return result;
}

NcclResult Repair::PostEnds(const std::vector<uint8_t*>& frames) {
  const NcclApi& api = step_.comm->api();
  const std::lock_guard lock(step_.comm->shadow_mutex());
  if (step_.comm->aborted.load()) return kNcclSystemError;
  NcclResult result = api.group_start();
  if (result != kNcclSuccess) return result;
  result = PostBroadcasts(frames);
  if (result == kNcclSuccess) result = PostPairs(frames);
  const NcclResult ended = api.group_end();
  return result != kNcclSuccess ? result : ended;
}

NcclResult Repair::DecodeEnds(std::vector<uint8_t*>* frames) {
  Communicator& comm = *step_.comm;
  std::vector<WholeFrame> whole;
  if (PlaceFrames(frames, &whole) != CINCH_OK) return kNcclSystemError;
  const NcclResult result = PostEnds(*frames);
  if (result != kNcclSuccess) return result;
  // The same record again, with the outcome of the second attempt.
  __atomic_store_n(&step_.record->outcome_target, target_ - 1, __ATOMIC_RELEASE);
  const Status status =
      comm.device().DecodeWhole(comm.repair_stream(), step_.workspace, whole, step_.record);
  return status == CINCH_OK ? kNcclSuccess : kNcclUnhandledCudaError;
}

NcclResult Repair::ExchangeEnds() {
  Communicator& comm = *step_.comm;
  comm.device().Select(comm.ordinal());
  std::vector<uint8_t*> frames(step_.step.in.size(), nullptr);
  const NcclResult result = DecodeEnds(&frames);
  for (uint8_t* frame : frames) {
    if (frame != nullptr) comm.device().Free(comm.repair_stream(), frame);
  }
  return result;
}

}  // namespace cinch::collectives
