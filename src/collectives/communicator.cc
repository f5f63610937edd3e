// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator.h"

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "base/status.h"
#include "collectives/algorithms.h"
#include "collectives/pinned_pages.h"

namespace cinch::collectives {
namespace {

constexpr uint64_t kRecordBytes = 64;  // a line each, so that nobody polls another's
static_assert(sizeof(KeyRecord) <= kRecordBytes && sizeof(StepRecord) <= kRecordBytes);
constexpr uint64_t kMaxTimings = 64;
// A pair, or a rank's part of a reduction, smaller than this does not repay its frames.
constexpr uint64_t kMinPartBytes = uint64_t{256} << 10;
// Of what one launch takes as its parameters, and of a reduction's sources.
constexpr int kMaxDirectRanks = kMaxReduceSources;

bool IsReduction(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduceScatter; }

bool CanReduce(const Operation& operation) {
  const bool floats = operation.dtype == kNcclFloat16 || operation.dtype == kNcclBfloat16 ||
                      operation.dtype == kNcclFloat32;
  return floats && (operation.reduction == kNcclSum || operation.reduction == kNcclAverage);
}

bool HasPeer(Kind kind) {
  return kind == Kind::kSend || kind == Kind::kReceive || kind == Kind::kBroadcast;
}

}  // namespace

std::shared_ptr<Communicator> Communicator::Create(const NcclApi& api, Device* device,
                                                   NcclComm nccl,
                                                   const CommunicatorOptions& options) {
  int ranks = 0;
  if (api.comm_count(nccl, &ranks) != kNcclSuccess || ranks < 2) return nullptr;
  NcclComm shadow = nullptr;
  const NcclResult result = api.comm_split(nccl, 0, 0, &shadow, nullptr);
  if (result != kNcclSuccess || shadow == nullptr) {
    Log(LogLevel::kError, "splitting a communicator failed with NCCL error {}", result);
    return nullptr;
  }
  return std::make_shared<Communicator>(api, device, nccl, shadow, options);
}

Communicator::Communicator(const NcclApi& api, Device* device, NcclComm nccl, NcclComm shadow,
                           const CommunicatorOptions& options)
    : api_(api), device_(device), nccl_(nccl), shadow_(shadow), options_(options) {
  api.comm_count(nccl, &ranks_);
  api.comm_rank(nccl, &rank_);
  api.comm_device(nccl, &ordinal_);
  const int previous = device_->Select(ordinal_);
  if (device_->CreateStream(&helper_stream_) != CINCH_OK) helper_stream_ = nullptr;
  if (device_->CreateStream(&repair_stream_) != CINCH_OK) repair_stream_ = nullptr;
  if (device_->CreateEvent(&last_use_) != CINCH_OK) last_use_ = nullptr;
  device_->Select(previous);
}

Communicator::~Communicator() {
  const int previous = device_->Select(ordinal_);
  // In the order of the streams: what is enqueued may still use it.
  if (helper_stream_ != nullptr) {
    if (used_) (void)device_->WaitEvent(helper_stream_, last_use_);
    if (staging_ != nullptr) device_->Free(helper_stream_, staging_);
    if (workspace_.memory != nullptr) device_->Free(helper_stream_, workspace_.memory);
    device_->DestroyStream(helper_stream_);
  }
  if (repair_stream_ != nullptr) device_->DestroyStream(repair_stream_);
  for (const Timing& timing : timings_) {
    device_->DestroyEvent(timing.start);
    device_->DestroyEvent(timing.stop);
  }
  for (Event event : free_events_) device_->DestroyEvent(event);
  if (last_use_ != nullptr) device_->DestroyEvent(last_use_);
  if (last_peer_use_ != nullptr) device_->DestroyEvent(last_peer_use_);
  KeepPeerPath(std::move(peer_path_));
  // Flags and targets stay in the pages of step records and go on from there.
  for (void* page : key_pages_) ReturnPinnedPage(device_, page, PageUse::kKeyRecords);
  for (void* page : step_pages_) ReturnPinnedPage(device_, page, PageUse::kStepRecords);
  device_->Select(previous);
}

NcclResult Communicator::RunOverPeers(const Operation& operation) {
  CheckPeerPath();
  if (error.load() != kNcclSuccess) return error.load();
  const int previous = device_->Select(ordinal_);
  // Calls of a path are ordered by their streams.
  Status status = CINCH_OK;
  if (last_peer_use_ == nullptr) status = device_->CreateEvent(&last_peer_use_);
  if (status == CINCH_OK && peer_path_used_ && last_peer_stream_ != operation.stream) {
    status = device_->WaitEvent(operation.stream, last_peer_use_);
  }
  if (status == CINCH_OK) status = peer_path_->Enqueue(operation);
  if (status == CINCH_OK) status = device_->RecordEvent(last_peer_use_, operation.stream);
  device_->Select(previous);
  last_peer_stream_ = operation.stream;
  peer_path_used_ = true;
  counters_.over_peers.fetch_add(1, std::memory_order_relaxed);
  if (status == CINCH_OK) return kNcclSuccess;
  Log(LogLevel::kError, "rank {} of {}: an operation over peer memory could not be enqueued: {}",
      rank_, ranks_, cinch_status_text(status));
  return kNcclUnhandledCudaError;
}

void Communicator::CheckPeerPath() {
  if (peer_path_ == nullptr || error.load() != kNcclSuccess) return;
  const Status status = peer_path_->Check();
  if (status == CINCH_OK) return;
  Log(LogLevel::kError, "rank {} of {}: an operation over peer memory failed: {}", rank_, ranks_,
      cinch_status_text(status));
  error.store(kNcclSystemError);
}

Plain Communicator::WhyPlain(const Operation& operation) const {
  if (options_.policy == PolicyMode::kRaw || !usable()) return Plain::kOff;
  if (operation.kind == Kind::kReduce) return Plain::kReduction;
  if (!IsCodable(operation.dtype)) return Plain::kDtype;
  const uint64_t bytes = operation.count * NcclDtypeBytes(operation.dtype);
  if (bytes == 0) return Plain::kSmall;
  if (IsReduction(operation.kind)) return WhyPlainReduction(operation, bytes);
  const bool pair = operation.kind == Kind::kSend || operation.kind == Kind::kReceive;
  if (pair && operation.peer == rank_) return Plain::kOwnRank;
  return bytes >= options_.min_bytes ? Plain::kNone : Plain::kSmall;
}

Plain Communicator::WhyPlainReduction(const Operation& operation, uint64_t bytes) const {
  if (!CanReduce(operation)) return Plain::kReduction;
  if (ranks_ > kMaxDirectRanks) return Plain::kRanks;
  const auto ranks = static_cast<uint64_t>(ranks_);
  const bool scatters = operation.kind == Kind::kReduceScatter;
  const uint64_t part = scatters ? bytes : bytes / ranks;
  const uint64_t whole = scatters ? bytes * ranks : bytes;
  const bool small = part < std::min(kMinPartBytes, options_.min_bytes) || part == 0;
  return small || whole < options_.min_bytes ? Plain::kSmall : Plain::kNone;
}

void Communicator::Admit(Operation* operation) {
  const uint64_t bytes = operation->count * NcclDtypeBytes(operation->dtype);
  // What is added up has other exponents than what is copied, so dtypes are apart there; the ends
  // of a pair need only agree about bytes.
  const int dtype = IsReduction(operation->kind) ? operation->dtype : 0;
  const int peer = HasPeer(operation->kind) ? operation->peer : dtype;
  const KeyId id{operation->kind, static_cast<int>(std::bit_width(bytes)), peer};
  std::unique_ptr<KeyHistory>& key = keys_[id];
  if (key == nullptr) key = std::make_unique<KeyHistory>(options_.policy);
  operation->key = key.get();
  operation->ticket = key->Take();
}

Status Communicator::Reserve(Stream stream, uint64_t staging_bytes, uint64_t items,
                             uint64_t input_bytes, uint8_t** staging) {
  if (used_ && stream != last_stream_) {
    CINCH_RETURN_IF_ERROR(device_->WaitEvent(stream, last_use_));
  }
  if (staging_bytes > staging_bytes_) {
    if (staging_ != nullptr) device_->Free(stream, staging_);
    staging_ = nullptr;
    staging_bytes_ = 0;
    CINCH_RETURN_IF_ERROR(device_->Allocate(stream, staging_bytes, &staging_));
    staging_bytes_ = staging_bytes;
  }
  if (items > workspace_.max_items || input_bytes > workspace_.max_input_bytes) {
    Workspace larger;
    larger.max_items = std::max(items, workspace_.max_items);
    larger.max_input_bytes = std::max(input_bytes, workspace_.max_input_bytes);
    larger.memory_bytes = device_->WorkspaceBytes(larger.max_items, larger.max_input_bytes);
    if (workspace_.memory != nullptr) device_->Free(stream, workspace_.memory);
    workspace_ = {};
    CINCH_RETURN_IF_ERROR(device_->Allocate(stream, larger.memory_bytes, &larger.memory));
    workspace_ = larger;
    CINCH_RETURN_IF_ERROR(device_->PrepareWorkspace(stream, workspace_));
  }
  *staging = static_cast<uint8_t*>(staging_);
  return CINCH_OK;
}

Status Communicator::Release(Stream stream) {
  used_ = true;
  last_stream_ = stream;
  return device_->RecordEvent(last_use_, stream);
}

bool Communicator::AddRecords(PageUse use, std::vector<void*>* pages, std::vector<void*>* free) {
  void* page = TakePinnedPage(device_, use);
  if (page == nullptr) return false;
  pages->push_back(page);
  for (uint64_t at = 0; at < kPinnedPageBytes; at += kRecordBytes) {
    free->push_back(static_cast<uint8_t*>(page) + at);
  }
  return true;
}

KeyRecord* Communicator::NewKeyRecord() {
  const std::lock_guard lock(records_mutex_);
  if (free_key_records_.empty() &&
      !AddRecords(PageUse::kKeyRecords, &key_pages_, &free_key_records_))
    return nullptr;
  auto* record = static_cast<KeyRecord*>(free_key_records_.back());
  free_key_records_.pop_back();
  *record = {};
  return record;
}

StepRecord* Communicator::NewStepRecord() {
  const std::lock_guard lock(records_mutex_);
  while (!later_step_records_.empty()) {
    StepRecord* later = later_step_records_.front();
    if (__atomic_load_n(&later->flag, __ATOMIC_ACQUIRE) != later->target) break;
    free_step_records_.push_back(later);
    later_step_records_.pop_front();
  }
  if (free_step_records_.empty() &&
      !AddRecords(PageUse::kStepRecords, &step_pages_, &free_step_records_))
    return nullptr;
  auto* record = static_cast<StepRecord*>(free_step_records_.back());
  free_step_records_.pop_back();
  ++record->target;
  return record;
}

void Communicator::Recycle(KeyRecord* record) {
  const std::lock_guard lock(records_mutex_);
  free_key_records_.push_back(record);
}

void Communicator::Recycle(StepRecord* record) {
  const std::lock_guard lock(records_mutex_);
  free_step_records_.push_back(record);
}

void Communicator::RecycleLater(StepRecord* record) {
  const std::lock_guard lock(records_mutex_);
  later_step_records_.push_back(record);
}

Event Communicator::NewEvent() {
  Event event = nullptr;
  if (!free_events_.empty()) {
    event = free_events_.back();
    free_events_.pop_back();
  } else if (device_->CreateEvent(&event) != CINCH_OK) {
    return nullptr;
  }
  return event;
}

Event Communicator::StartTiming(Stream stream) {
  CollectTimings();
  if (timings_.size() >= kMaxTimings) return nullptr;
  Event event = NewEvent();
  if (event != nullptr) (void)device_->RecordEvent(event, stream);
  return event;
}

void Communicator::StopTiming(Stream stream, Event start, KeyHistory* key, bool compressed,
                              uint64_t bytes) {
  Event stop = NewEvent();
  if (stop == nullptr) {
    free_events_.push_back(start);
    return;
  }
  (void)device_->RecordEvent(stop, stream);
  timings_.push_back({start, stop, key, compressed, bytes});
}

void Communicator::CollectTimings() {
  while (!timings_.empty() && device_->QueryEvent(timings_.front().stop) == CINCH_OK) {
    const Timing& timing = timings_.front();
    const double seconds = device_->SecondsBetween(timing.start, timing.stop);
    if (seconds > 0) timing.key->AddTiming(timing.compressed, seconds, timing.bytes);
    free_events_.push_back(timing.start);
    free_events_.push_back(timing.stop);
    timings_.pop_front();
  }
}

}  // namespace cinch::collectives
