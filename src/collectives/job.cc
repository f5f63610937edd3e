// SPDX-License-Identifier: Apache-2.0
#include "collectives/job.h"

#include <algorithm>

#include "base/guarded.h"
#include "base/log.h"
#include "collectives/algorithms.h"
#include "collectives/job_part.h"

namespace cinch::collectives {
namespace {

class Runner {
 public:
  Runner(const Job& job, bool on_helper_streams)
      : job_(job), on_helper_streams_(on_helper_streams) {}

  Status Lower();
  NcclResult Run(bool group_is_open, Watcher* watcher);
  /// After a failure.
  void Abandon();

 private:
  JobPart& PartOf(Communicator* comm, Stream stream);
  NcclResult RunSteps(bool group_is_open, Watcher* watcher);
  NcclResult Exchange(size_t index, bool group_is_open) const;
  NcclResult PrepareRepairs(size_t index, Watcher* watcher) const;

  const Job& job_;
  bool on_helper_streams_;
  std::vector<JobPart> parts_;
};

JobPart& Runner::PartOf(Communicator* comm, Stream stream) {
  if (on_helper_streams_) stream = comm->helper_stream();
  for (JobPart& part : parts_) {
    if (part.comm() != comm) continue;
    part.AddStream(stream);
    return part;
  }
  return parts_.emplace_back(comm, stream);
}

Status Runner::Lower() {
  for (const Job::OwnCopy& copy : job_.copies) {
    PartOf(copy.comm, copy.stream).AddOwnCopy(copy.copy);
  }
  const bool lone = job_.operations.size() == 1;
  for (const Operation& operation : job_.operations) {
    const Status status = PartOf(operation.comm, operation.stream).Lower(operation, lone);
    if (status != CINCH_OK) return status;
  }
  return CINCH_OK;
}

NcclResult Failed(Status status) {
  Log(LogLevel::kError, "a collective could not be enqueued: {}", cinch_status_text(status));
  return status == CINCH_ERROR_DEVICE ? kNcclUnhandledCudaError : kNcclSystemError;
}

NcclResult Runner::Exchange(size_t index, bool group_is_open) const {
  const NcclApi& api = parts_.front().comm()->api();
  NcclResult result = group_is_open ? kNcclSuccess : api.group_start();
  if (result != kNcclSuccess) return result;
  for (const JobPart& part : parts_) {
    if (result == kNcclSuccess) result = part.PostWires(index);
  }
  // Closed in any case; the group has an error of its own then.
  const NcclResult ended = api.group_end();
  return result != kNcclSuccess ? result : ended;
}

NcclResult Runner::PrepareRepairs(size_t index, Watcher* watcher) const {
  auto preparation = std::make_shared<Preparation>();
  for (const JobPart& part : parts_) part.AddPreparation(index, preparation.get());
  if (preparation->empty()) return kNcclSuccess;
  if (preparation->IsNext()) return preparation->Post();
  for (size_t i = 0; i < preparation->parts(); ++i) preparation->comm(i)->wait_wanted = true;
  watcher->Prepare(std::move(preparation));
  return kNcclSuccess;
}

NcclResult Runner::RunSteps(bool group_is_open, Watcher* watcher) {
  size_t steps = 0;
  for (const JobPart& part : parts_) steps = std::max(steps, part.steps());
  for (size_t index = 0; index < steps; ++index) {
    Status status = CINCH_OK;
    for (JobPart& part : parts_) {
      // Guarded here, so that the group is ended whatever happens.
      if (status == CINCH_OK) status = Guarded([&] { return part.BeforeWires(index); });
    }
    if (status != CINCH_OK) {
      if (index == 0 && group_is_open) (void)parts_.front().comm()->api().group_end();
      return Failed(status);
    }
    NcclResult result = Exchange(index, group_is_open && index == 0);
    if (result == kNcclSuccess) result = PrepareRepairs(index, watcher);
    if (result != kNcclSuccess) return result;
    for (JobPart& part : parts_) {
      if (status == CINCH_OK) status = part.AfterWires(index, watcher);
    }
    for (JobPart& part : parts_) {
      if (status == CINCH_OK) status = part.Complete(index);
    }
    if (status != CINCH_OK) return Failed(status);
  }
  return kNcclSuccess;
}

NcclResult Runner::Run(bool group_is_open, Watcher* watcher) {
  NcclResult result = kNcclSystemError;
  Guarded([&] { result = RunSteps(group_is_open, watcher); });
  if (result != kNcclSuccess) Abandon();
  return result;
}

void Runner::Abandon() {
  for (JobPart& part : parts_) part.Abandon();
}

}  // namespace

void Admit(const Operation& operation, Job* job) {
  Communicator& comm = *operation.comm;
  if (comm.TakesPeerPath(operation)) {
    job->peer_operations.push_back(operation);
    return;
  }
  const bool eligible = comm.IsEligible(operation);
  if (!eligible || !IsPairwise(operation.kind)) {
    Operation& added = job->operations.emplace_back(operation);
    if (eligible) comm.Admit(&added);
    return;
  }
  std::vector<Operation> pairs;
  LocalCopy own{};
  SplitIntoPairs(operation, &pairs, &own);
  if (own.bytes != 0 && own.source.In(nullptr) != own.destination.In(nullptr)) {
    job->copies.push_back({&comm, operation.stream, own});
  }
  for (Operation& pair : pairs) {
    comm.Admit(&pair);
    job->operations.push_back(pair);
  }
}

NcclResult RunPeerOperations(Job* job) {
  NcclResult result = kNcclSuccess;
  for (const Operation& operation : job->peer_operations) {
    if (result != kNcclSuccess) break;
    const std::lock_guard lock(operation.comm->mutex());
    result = operation.comm->RunOverPeers(operation);
  }
  job->peer_operations.clear();
  return result;
}

bool IsDecided(const Job& job) {
  return std::ranges::all_of(job.operations, [](const Operation& operation) {
    return operation.key == nullptr || operation.key->Ready(operation.ticket.index);
  });
}

std::vector<Communicator*> CommunicatorsOf(const Job& job) {
  std::vector<Communicator*> comms;
  for (const Operation& operation : job.operations) comms.push_back(operation.comm);
  for (const Job::OwnCopy& copy : job.copies) comms.push_back(copy.comm);
  std::ranges::sort(comms);
  comms.erase(std::unique(comms.begin(), comms.end()), comms.end());
  return comms;
}

NcclResult RunJob(const Job& job, bool group_is_open, bool on_helper_streams, Watcher* watcher) {
  Runner runner(job, on_helper_streams);
  const Status status = Guarded([&] { return runner.Lower(); });
  if (status == CINCH_OK) return runner.Run(group_is_open, watcher);
  runner.Abandon();
  if (group_is_open) (void)CommunicatorsOf(job).front()->api().group_end();
  return Failed(status);
}

}  // namespace cinch::collectives
