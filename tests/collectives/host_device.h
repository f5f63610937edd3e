// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/device.h"

namespace cinch::testing {

/// A device that is the host: memory is host memory, streams are HostStreams, the codec is the
/// CPU's.
class HostDevice : public collectives::Device {
 public:
  HostDevice();
  ~HostDevice() override;

  int Select(int device) override;
  bool IsCapturing(collectives::Stream stream) override;
  Status Allocate(collectives::Stream stream, uint64_t bytes, void** memory) override;
  void Free(collectives::Stream stream, void* memory) override;
  Status AllocatePinned(uint64_t bytes, void** memory) override;
  void FreePinned(void* memory) override;
  Status CreateStream(collectives::Stream* stream) override;
  void DestroyStream(collectives::Stream stream) override;
  Status CreateEvent(collectives::Event* event) override;
  void DestroyEvent(collectives::Event event) override;
  Status RecordEvent(collectives::Event event, collectives::Stream stream) override;
  Status WaitEvent(collectives::Stream stream, collectives::Event event) override;
  Status QueryEvent(collectives::Event event) override;
  double SecondsBetween(collectives::Event start, collectives::Event stop) override;
  Status Copy(collectives::Stream stream, void* destination, const void* source,
              uint64_t bytes) override;
  Status WaitFlag(collectives::Stream stream, uint32_t* flag, uint32_t value) override;
  Status SetFlag(collectives::Stream stream, uint32_t* flag, uint32_t value) override;
  uint64_t WorkspaceBytes(uint64_t max_items, uint64_t max_input_bytes) override;
  Status PrepareWorkspace(collectives::Stream stream,
                          const collectives::Workspace& workspace) override;
  Status Encode(collectives::Stream stream, const collectives::Workspace& workspace,
                std::span<const collectives::OutSlot> out,
                std::span<const collectives::SlotUse> uses) override;
  Status Decode(collectives::Stream stream, const collectives::Workspace& workspace,
                std::span<const collectives::OutSlot> out, std::span<const collectives::InSlot> in,
                std::span<const collectives::SlotUse> uses,
                collectives::StepRecord* record) override;
  Status DecodeWhole(collectives::Stream stream, const collectives::Workspace& workspace,
                     std::span<const collectives::WholeFrame> frames,
                     collectives::StepRecord* record) override;
  Status Reduce(collectives::Stream stream, const collectives::Reduction& reduction) override;

  /// What IsCapturing says of every stream.
  std::atomic<bool> capturing{false};
  std::atomic<int64_t> live_allocations{0};
};

}  // namespace cinch::testing
