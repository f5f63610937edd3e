// SPDX-License-Identifier: Apache-2.0
#include "collectives/windows/peer_windows.h"

#include <cuda_runtime_api.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "base/status.h"
#include "collectives/windows/runtime.h"

namespace cinch::fused {
namespace {

/// What a rank tells the others.
struct Card {
  uint64_t process;  ///< The same for ranks of one process only.
  uint64_t address;
  uint64_t bytes;
  int32_t device;
  int32_t status;
  cudaIpcMemHandle_t handle;
};

uint64_t ProcessToken() {
  static const uint64_t token = [] {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) random = 0;
    return random ^ (static_cast<uint64_t>(getpid()) << 32);
  }();
  return token;
}

Status ReachDevice(int own, int peer) {
  if (own == peer) return CINCH_OK;
  int reachable = 0;
  CINCH_RETURN_IF_ERROR(StatusOfRuntime(cudaDeviceCanAccessPeer(&reachable, own, peer)));
  if (reachable == 0) return CINCH_ERROR_UNSUPPORTED;
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return CINCH_OK;
  }
  return StatusOfRuntime(error);
}

}  // namespace

/// Making the windows known to each other.
class Introduction {
 public:
  Introduction(PeerWindows* windows, const Bootstrap& bootstrap)
      : windows_(windows), bootstrap_(bootstrap), cards_(windows->windows_.size()) {}

  /// `status` is how this rank is; the first bad one of all ranks comes back on all of them.
  Status Exchange(uint64_t bytes, Status status) {
    Card card{};
    card.process = ProcessToken();
    card.bytes = bytes;
    card.device = windows_->device_;
    uint8_t* own = windows_->windows_[windows_->rank_];
    card.address = reinterpret_cast<uint64_t>(own);
    if (status == CINCH_OK && cudaIpcGetMemHandle(&card.handle, own) != cudaSuccess) {
      // Only ranks of other processes will miss it.
      cudaGetLastError();
      std::memset(&card.handle, 0, sizeof card.handle);
    }
    card.status = status;
    CINCH_RETURN_IF_ERROR(Gather(card));
    for (const Card& other : cards_) {
      if (other.bytes != bytes) return CINCH_ERROR_INVALID_ARGUMENT;
    }
    return CINCH_OK;
  }

  Status MapPeers() {
    for (size_t rank = 0; rank < cards_.size(); ++rank) {
      if (rank != windows_->rank_) CINCH_RETURN_IF_ERROR(MapPeer(rank));
    }
    return CINCH_OK;
  }

  /// A barrier that carries statuses.
  Status Agree(Status status) {
    Card card{};
    card.status = status;
    return Gather(card);
  }

 private:
  Status Gather(const Card& card) {
    if (bootstrap_.all_gather(bootstrap_.context, &card, cards_.data(), sizeof card) != 0) {
      return CINCH_ERROR_PEER_LOST;
    }
    for (const Card& other : cards_) {
      if (other.status != CINCH_OK) return static_cast<Status>(other.status);
    }
    return CINCH_OK;
  }

  Status MapPeer(size_t rank) {
    const Card& card = cards_[rank];
    if (card.process == ProcessToken()) {
      windows_->windows_[rank] = reinterpret_cast<uint8_t*>(card.address);
      return ReachDevice(windows_->device_, card.device);
    }
    void* mapped = nullptr;
    const cudaError_t error =
        cudaIpcOpenMemHandle(&mapped, card.handle, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess) {
      cudaGetLastError();
      return CINCH_ERROR_UNSUPPORTED;
    }
    windows_->windows_[rank] = static_cast<uint8_t*>(mapped);
    windows_->mapped_[rank] = true;
    return CINCH_OK;
  }

  PeerWindows* windows_;
  const Bootstrap& bootstrap_;
  std::vector<Card> cards_;
};

Status PeerWindows::Allocate(uint64_t bytes) {
  CINCH_RETURN_IF_ERROR(StatusOfRuntime(cudaGetDevice(&device_)));
  void* memory = nullptr;
  CINCH_RETURN_IF_ERROR(StatusOfRuntime(cudaMalloc(&memory, bytes)));
  windows_[rank_] = static_cast<uint8_t*>(memory);
  CINCH_RETURN_IF_ERROR(StatusOfRuntime(cudaMemset(memory, 0, bytes)));
  return StatusOfRuntime(cudaDeviceSynchronize());
}

Status PeerWindows::Create(uint32_t rank, uint32_t ranks, uint64_t bytes,
                           const Bootstrap& bootstrap, std::unique_ptr<PeerWindows>* windows) {
  std::unique_ptr<PeerWindows> made(new PeerWindows(rank, ranks));
  Introduction introduction(made.get(), bootstrap);
  CINCH_RETURN_IF_ERROR(introduction.Exchange(bytes, made->Allocate(bytes)));
  CINCH_RETURN_IF_ERROR(introduction.Agree(introduction.MapPeers()));
  *windows = std::move(made);
  return CINCH_OK;
}

PeerWindows::~PeerWindows() {
  int previous = 0;
  if (cudaGetDevice(&previous) != cudaSuccess) return;
  cudaSetDevice(device_);
  for (size_t rank = 0; rank < windows_.size(); ++rank) {
    if (mapped_[rank]) cudaIpcCloseMemHandle(windows_[rank]);
  }
  cudaFree(windows_[rank_]);
  cudaSetDevice(previous);
}

}  // namespace cinch::fused
