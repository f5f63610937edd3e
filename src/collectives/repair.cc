// SPDX-License-Identifier: Apache-2.0
#include "collectives/repair.h"

#include "base/log.h"
#include "base/status.h"

namespace cinch::collectives {
namespace {

uint32_t Load(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

/// Bytes of a frame that were not sent with its slot.
uint64_t MissingBytes(const SlotHeader& header, uint64_t wire_bytes) {
  const uint64_t sent = wire_bytes - sizeof(SlotHeader);
  return header.frame_bytes > sent ? header.frame_bytes - sent : 0;
}

bool IsSane(const SlotHeader& header, uint64_t bytes) {
  return header.magic == kSlotMagic && header.version == kSlotVersion &&
         header.original_bytes == bytes && header.frame_bytes <= cinch_compress_bound(bytes);
}

}  // namespace

Repair::~Repair() {
  Device& device = step_.comm->device();
  if (headers_read_ != nullptr) device.DestroyEvent(headers_read_);
  if (headers_ != nullptr) device.FreePinned(headers_);
}

void Repair::GiveUp() { __atomic_store_n(&step_.record->flag, target_, __ATOMIC_RELEASE); }

bool Repair::Settle() {
  step_.comm->Recycle(step_.record);
  return true;
}

void Repair::Fail(NcclResult error, const char* what) {
  Communicator& comm = *step_.comm;
  Log(LogLevel::kError, "rank {} of {}: {}", comm.rank(), comm.ranks(), what);
  comm.error.store(error);
  GiveUp();
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
    phase_ = Phase::kReadingHeaders;
    if (ReadHeaders() == CINCH_OK) return false;
    Fail(kNcclUnhandledCudaError, "the headers of a step could not be read");
    return true;
  }
  Fail(kNcclInternalError, "a frame arrived damaged");
  return Settle();
}

Status Repair::ReadHeaders() {
  Communicator& comm = *step_.comm;
  Device& device = comm.device();
  device.Select(comm.ordinal());
  const Step& step = step_.step;
  void* memory = nullptr;
  const uint64_t slots = step.out.size() + step.in.size();
  CINCH_RETURN_IF_ERROR(device.AllocatePinned(slots * sizeof(SlotHeader), &memory));
  headers_ = static_cast<SlotHeader*>(memory);
  CINCH_RETURN_IF_ERROR(device.CreateEvent(&headers_read_));
  SlotHeader* header = headers_;
  for (const Outgoing& out : step.out) {
    CINCH_RETURN_IF_ERROR(device.Copy(comm.helper_stream(), header++, out.slot.In(step_.staging),
                                      sizeof(SlotHeader)));
  }
  for (const Incoming& in : step.in) {
    CINCH_RETURN_IF_ERROR(device.Copy(comm.helper_stream(), header++, in.slot.In(step_.staging),
                                      sizeof(SlotHeader)));
  }
  return device.RecordEvent(headers_read_, comm.helper_stream());
}

Status Repair::PlaceFrames(std::vector<uint8_t*>* frames, std::vector<WholeFrame>* whole) {
  Communicator& comm = *step_.comm;
  Device& device = comm.device();
  for (size_t i = 0; i < step_.step.in.size(); ++i) {
    const Incoming& in = step_.step.in[i];
    const SlotHeader& header = InHeader(i);
    if (in.header_only || MissingBytes(header, in.wire_bytes) == 0) continue;
    if (!IsSane(header, in.bytes)) return CINCH_ERROR_PROTOCOL;
    void* memory = nullptr;
    CINCH_RETURN_IF_ERROR(device.Allocate(comm.helper_stream(), header.frame_bytes, &memory));
    (*frames)[i] = static_cast<uint8_t*>(memory);
    CINCH_RETURN_IF_ERROR(device.Copy(comm.helper_stream(), memory,
                                      in.slot.In(step_.staging) + sizeof(SlotHeader),
                                      in.wire_bytes - sizeof(SlotHeader)));
    whole->push_back(
        {(*frames)[i], header.frame_bytes, in.destination.In(step_.staging), in.bytes});
  }
  return CINCH_OK;
}

NcclResult Repair::PostEnds(const std::vector<uint8_t*>& frames) {
  Communicator& comm = *step_.comm;
  const NcclApi& api = comm.api();
  const auto send_to = [&](const Outgoing& out, uint64_t missing, int peer) {
    const uint8_t* end = out.slot.In(step_.staging) + out.wire_bytes;
    return api.send(end, missing, kNcclUint8, peer, comm.shadow(), comm.helper_stream());
  };
  NcclResult result = api.group_start();
  for (size_t i = 0; i < step_.step.out.size(); ++i) {
    const Outgoing& out = step_.step.out[i];
    const uint64_t missing = out.sampled ? 0 : MissingBytes(OutHeader(i), out.wire_bytes);
    if (missing == 0) continue;
    for (int peer = 0; peer < comm.ranks(); ++peer) {
      const bool meant = out.peer == kAllPeers ? peer != comm.rank() : peer == out.peer;
      if (meant && result == kNcclSuccess) result = send_to(out, missing, peer);
    }
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i] == nullptr || result != kNcclSuccess) continue;
    const Incoming& in = step_.step.in[i];
    result = api.receive(frames[i] + in.wire_bytes - sizeof(SlotHeader),
                         MissingBytes(InHeader(i), in.wire_bytes), kNcclUint8, in.peer,
                         comm.shadow(), comm.helper_stream());
  }
  const NcclResult ended = api.group_end();
  return result != kNcclSuccess ? result : ended;
}

NcclResult Repair::ExchangeEnds() {
  Communicator& comm = *step_.comm;
  Device& device = comm.device();
  device.Select(comm.ordinal());
  std::vector<uint8_t*> frames(step_.step.in.size(), nullptr);
  std::vector<WholeFrame> whole;
  if (PlaceFrames(&frames, &whole) != CINCH_OK) return kNcclSystemError;
  const NcclResult result = PostEnds(frames);
  if (result != kNcclSuccess) return result;
  // The same record again, with the outcome of the second attempt.
  __atomic_store_n(&step_.record->outcome_target, target_ - 1, __ATOMIC_RELEASE);
  const Status status =
      device.DecodeWhole(comm.helper_stream(), step_.workspace, whole, step_.record);
  for (uint8_t* frame : frames) {
    if (frame != nullptr) device.Free(comm.helper_stream(), frame);
  }
  return status == CINCH_OK ? kNcclSuccess : kNcclUnhandledCudaError;
}

}  // namespace cinch::collectives
