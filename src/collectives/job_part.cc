// SPDX-License-Identifier: Apache-2.0
#include "collectives/job_part.h"

#include <algorithm>

#include "base/status.h"
#include "collectives/algorithms.h"

namespace cinch::collectives {
namespace {

class SelectedDevice {
 public:
  explicit SelectedDevice(Communicator* comm)
      : device_(comm->device()), previous_(device_.Select(comm->ordinal())) {}
  SelectedDevice(const SelectedDevice&) = delete;
  SelectedDevice& operator=(const SelectedDevice&) = delete;
  ~SelectedDevice() { device_.Select(previous_); }

 private:
  Device& device_;
  int previous_;
};

}  // namespace

void JobPart::AddStream(Stream stream) {
  if (stream == stream_ || std::ranges::count(other_streams_, stream) != 0) return;
  other_streams_.push_back(stream);
}

Status JobPart::Lower(const Operation& operation, bool lone) {
  Lowering lowering{operation, {}, {nullptr, nullptr}};
  KeyHistory* key = operation.key;
  if (key == nullptr) {
    LowerPlain(lowering, &plan_);
    return CINCH_OK;
  }
  lowering.decision = key->decision(operation.ticket.index);
  while (KeyRecord* used = key->TakeUsedRecord()) comm_->Recycle(used);
  if (key->IsCarrier(operation.ticket.index)) {
    const size_t records = operation.kind == Kind::kAllReduce ? 2 : 1;
    for (size_t i = 0; i < records; ++i) {
      lowering.records[i] = comm_->NewKeyRecord();
      if (lowering.records[i] == nullptr) return CINCH_ERROR_OUT_OF_MEMORY;
      records_.push_back(lowering.records[i]);
    }
    key->Attach(operation.ticket, lowering.records[0], lowering.records[1]);
  }
  if (lone && key->IsTimed(operation.ticket.index)) {
    timed_key_ = key;
    timed_bytes_ = operation.count * NcclDtypeBytes(operation.dtype);
    timed_compressed_ = lowering.decision.compressed;
  }
  comm_->counters().operations.fetch_add(1, std::memory_order_relaxed);
  if (KeyHistory::IsFirst(operation.ticket.index)) PrepareRepairs(operation, &plan_.At(0));
  if (lowering.decision.compressed) {
    comm_->counters().compressed_operations.fetch_add(1, std::memory_order_relaxed);
    if (key->TakeNovelty()) comm_->wait_wanted = true;
    LowerCompressed(lowering);
  } else {
    LowerPlain(lowering, &plan_);
  }
  return CINCH_OK;
}

void JobPart::LowerCompressed(const Lowering& lowering) {
  switch (lowering.operation.kind) {
    case Kind::kAllGather:
      return LowerAllGather(lowering, &plan_);
    case Kind::kBroadcast:
      return LowerBroadcast(lowering, &plan_);
    case Kind::kReduceScatter:
      return LowerReduceScatter(lowering, &plan_);
    case Kind::kAllReduce:
      return LowerAllReduce(lowering, &plan_);
    case Kind::kReceive:
      return LowerReceive(lowering, &plan_);
    case Kind::kSend:
      return LowerSend(lowering, &plan_);
    default:
      return LowerPlain(lowering, &plan_);
  }
}

Status JobPart::JoinStreams(bool entering) const {
  Device& device = comm_->device();
  for (Stream other : other_streams_) {
    Event event = nullptr;
    CINCH_RETURN_IF_ERROR(device.CreateEvent(&event));
    Status status = device.RecordEvent(event, entering ? other : stream_);
    if (status == CINCH_OK) status = device.WaitEvent(entering ? stream_ : other, event);
    device.DestroyEvent(event);
    CINCH_RETURN_IF_ERROR(status);
  }
  return CINCH_OK;
}

Status JobPart::Begin() {
  CINCH_RETURN_IF_ERROR(JoinStreams(true));
  if (timed_key_ != nullptr) timing_ = comm_->StartTiming(stream_);
  return CINCH_OK;
}

Status JobPart::CopyOwn(const std::vector<LocalCopy>& copies) const {
  for (const LocalCopy& copy : copies) {
    CINCH_RETURN_IF_ERROR(comm_->device().Copy(stream_, copy.destination.In(nullptr),
                                               copy.source.In(nullptr), copy.bytes));
  }
  return CINCH_OK;
}

Status JobPart::End() {
  if (timing_ != nullptr) {
    comm_->StopTiming(stream_, timing_, timed_key_, timed_compressed_, timed_bytes_);
    timing_ = nullptr;
  }
  if (staged_) CINCH_RETURN_IF_ERROR(comm_->Release(stream_));
  return JoinStreams(false);
}

Status JobPart::BeforeWires(size_t index) {
  if (index >= plan_.steps.size()) return CINCH_OK;
  const SelectedDevice selected(comm_);
  if (index == 0) CINCH_RETURN_IF_ERROR(Begin());
  const Step& step = plan_.steps[index];
  return step.staging_bytes == 0 ? CINCH_OK : EncodeStep(step);
}

Status JobPart::EncodeStep(const Step& step) {
  Device& device = comm_->device();
  staged_ = true;
  CINCH_RETURN_IF_ERROR(
      comm_->Reserve(stream_, step.staging_bytes, Items(step), InputBytes(step), &staging_));
  Count(step);
  if (step.out.empty()) return CINCH_OK;
  return device.Encode(stream_, comm_->workspace(), ResolveOut(step, staging_), ResolveUses(step));
}

void JobPart::Count(const Step& step) const {
  uint64_t original = 0;
  uint64_t wire = 0;
  for (const Outgoing& out : step.out) {
    if (out.sampled) continue;
    const auto copies = out.peer == kAllPeers ? static_cast<uint64_t>(comm_->ranks() - 1) : 1;
    original += copies * out.bytes;
    wire += copies * out.wire_bytes;
  }
  comm_->counters().original_bytes.fetch_add(original, std::memory_order_relaxed);
  comm_->counters().wire_bytes.fetch_add(wire, std::memory_order_relaxed);
}

NcclResult JobPart::PostWire(const Wire& wire) const {
  const NcclComm nccl = comm_->nccl();
  const NcclApi& api = comm_->api();
  const void* send = wire.send.In(staging_);
  void* receive = wire.receive.In(staging_);
  switch (wire.type) {
    case Wire::Type::kAllGather:
      return api.all_gather(send, receive, wire.bytes, kNcclUint8, nccl, stream_);
    case Wire::Type::kBroadcast:
      return api.broadcast(send, receive, wire.bytes, kNcclUint8, wire.peer, nccl, stream_);
    case Wire::Type::kSend:
      return api.send(send, wire.bytes, kNcclUint8, wire.peer, nccl, stream_);
    case Wire::Type::kReceive:
      return api.receive(receive, wire.bytes, kNcclUint8, wire.peer, nccl, stream_);
    case Wire::Type::kCall:
      break;
  }
  Operation call = wire.operation;
  // Its own stream waits for this one.
  call.stream = stream_;
  return CallNccl(api, nccl, call);
}

NcclResult JobPart::PostWires(size_t index) const {
  if (index >= plan_.steps.size()) return kNcclSuccess;
  for (const Wire& wire : plan_.steps[index].wires) {
    const NcclResult result = PostWire(wire);
    if (result != kNcclSuccess) return result;
  }
  return kNcclSuccess;
}

void JobPart::AddPreparation(size_t index, Preparation* preparation) const {
  if (index >= plan_.steps.size() || plan_.steps[index].shadow_wires.empty()) return;
  preparation->Add(comm_->shared_from_this(), plan_.steps[index].shadow_wires);
}

Status JobPart::AfterWires(size_t index, Watcher* watcher) {
  if (index >= plan_.steps.size()) return CINCH_OK;
  const SelectedDevice selected(comm_);
  const Step& step = plan_.steps[index];
  // Not before NCCL has taken the group: an error must leave the application's memory alone.
  if (index == 0) CINCH_RETURN_IF_ERROR(CopyOwn(own_copies_));
  CINCH_RETURN_IF_ERROR(CopyOwn(step.copies));
  return step.staging_bytes == 0 ? CINCH_OK : DecodeStep(step, watcher);
}

Status JobPart::Complete(size_t index) {
  if (index >= plan_.steps.size()) return CINCH_OK;
  const SelectedDevice selected(comm_);
  if (settled_flag_ != nullptr) {
    CINCH_RETURN_IF_ERROR(comm_->device().WaitFlag(stream_, settled_flag_, settled_target_));
    settled_flag_ = nullptr;
  }
  CINCH_RETURN_IF_ERROR(Reduce(plan_.steps[index]));
  return index + 1 == plan_.steps.size() ? End() : CINCH_OK;
}

void JobPart::Abandon() {
  if (timing_ != nullptr) comm_->CancelTiming(timing_);
  timing_ = nullptr;
  if (staged_) {
    // What was enqueued before the failure may still use the staging memory.
    const SelectedDevice selected(comm_);
    if (settled_flag_ != nullptr) {
      (void)comm_->device().WaitFlag(stream_, settled_flag_, settled_target_);
    }
    (void)comm_->Release(stream_);
  }
  for (KeyRecord* record : records_) {
    record->ratio = kRatioOne;
    __atomic_store_n(&record->ready, 1U, __ATOMIC_RELEASE);
  }
}

Status JobPart::DecodeStep(const Step& step, Watcher* watcher) {
  Device& device = comm_->device();
  StepRecord* record = nullptr;
  if (MovesFrames(step)) {
    record = comm_->NewStepRecord();
    if (record == nullptr) return CINCH_ERROR_OUT_OF_MEMORY;
  }
  CINCH_RETURN_IF_ERROR(device.Decode(stream_, comm_->workspace(), ResolveOut(step, staging_),
                                      ResolveIn(step, staging_), ResolveUses(step), record));
  if (record == nullptr) return CINCH_OK;
  WatchedStep watched;
  watched.comm = comm_->shared_from_this();
  watched.step.out = step.out;
  watched.step.in = step.in;
  watched.staging = staging_;
  watched.workspace = comm_->workspace();
  watched.record = record;
  settled_flag_ = &record->flag;
  settled_target_ = record->target;
  watcher->Watch(std::move(watched));
  return CINCH_OK;
}

Status JobPart::Reduce(const Step& step) const {
  for (const PlannedReduction& planned : step.reductions) {
    std::vector<const void*> sources;
    for (const Place& source : planned.sources) sources.push_back(source.In(staging_));
    const Reduction reduction{sources.data(),
                              static_cast<uint32_t>(sources.size()),
                              planned.output.In(staging_),
                              planned.elements,
                              planned.dtype,
                              planned.scale};
    CINCH_RETURN_IF_ERROR(comm_->device().Reduce(stream_, reduction));
  }
  return CINCH_OK;
}

}  // namespace cinch::collectives
