// SPDX-License-Identifier: Apache-2.0
/// @file device.h
/// What the collectives need of a device: memory, streams and the coding of slots. The real one is
/// cuda/cuda_device.cu; tests have one that works on host memory, at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cinch/codec.h"
#include "cinch/status.h"
#include "collectives/slot.h"
#include "format/layout.h"

namespace cinch::collectives {

using Stream = void*;
using Event = void*;

/// Memory in which slots are coded; belongs to a communicator, used by one step at a time.
struct Workspace {
  void* memory = nullptr;
  uint64_t memory_bytes = 0;
  uint64_t max_items = 0;        ///< Frames of one step.
  uint64_t max_input_bytes = 0;  ///< Original bytes of one step.
};

/// Original bytes to be encoded into a slot. A sampled slot is a header alone: some of the input is
/// encoded to learn its ratio, and the frames are of no further use.
struct OutSlot {
  const void* source;
  uint64_t bytes;
  uint8_t* slot;  ///< OutSlotBytes() of memory, aligned to 16 bytes.
  uint64_t wire_bytes;
  cinch_dtype dtype;
  uint32_t use;  ///< Index of the operation's entry in the step's uses.
  bool sampled;
};

/// A slot that came from a peer. A header alone has no destination.
struct InSlot {
  const uint8_t* slot;
  uint64_t wire_bytes;
  void* destination;
  uint64_t bytes;
  uint32_t use;
};

/// What an operation wants in its headers, and where their combination goes (null: nowhere).
struct SlotUse {
  uint64_t raw_nanoseconds;
  uint64_t compressed_nanoseconds;
  KeyRecord* record;
};

/// A whole frame, put together again after it did not fit its slot.
struct WholeFrame {
  const uint8_t* frame;
  uint64_t frame_bytes;
  void* destination;
  uint64_t bytes;
};

inline constexpr uint32_t kMaxReduceSources = 128;

/// output[i] = sum over sources[s][i], s ascending, in fp32, times `scale`, rounded once.
struct Reduction {
  const void* const* sources;
  uint32_t source_count;
  void* output;
  uint64_t elements;
  int dtype;  ///< kNcclFloat16, kNcclBfloat16 or kNcclFloat32.
  float scale;
};

/// How a sample is taken: slices at equal distances.
inline constexpr uint64_t kSampleSliceBytes = uint64_t{128} << 10;
inline constexpr uint32_t kSampleSlices = 8;

/// Slices of a sample of `bytes`, and the frames that a slot has.
[[nodiscard]] inline uint32_t SampleSlices(uint64_t bytes) {
  const uint64_t slices = bytes / kSampleSliceBytes;
  return slices == 0 ? 1 : static_cast<uint32_t>(slices < kSampleSlices ? slices : kSampleSlices);
}
[[nodiscard]] inline uint64_t SampleSliceLength(uint64_t bytes) {
  return bytes < kSampleSliceBytes ? bytes : kSampleSliceBytes;
}
[[nodiscard]] inline uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
/// Memory that an out slot takes.
[[nodiscard]] inline uint64_t OutSlotBytes(uint64_t bytes, bool sampled) {
  const uint64_t frame =
      AlignUp(format::FrameBound(sampled ? SampleSliceLength(bytes) : bytes), 256);
  return sizeof(SlotHeader) + (sampled ? SampleSlices(bytes) : 1) * frame;
}

/// All calls enqueue on `stream` and return, unless said otherwise; the communicator's device is
/// current. Thread-safe for different streams and workspaces.
class Device {
 public:
  virtual ~Device() = default;

  /// Makes `device` current for this thread and returns the one that was.
  virtual int Select(int device) = 0;
  /// True as well when it cannot be told.
  virtual bool IsCapturing(Stream stream) = 0;

  virtual Status Allocate(Stream stream, uint64_t bytes, void** memory) = 0;
  virtual void Free(Stream stream, void* memory) = 0;
  /// Zeroed host memory that the device reaches by the same address; waits.
  virtual Status AllocatePinned(uint64_t bytes, void** memory) = 0;
  virtual void FreePinned(void* memory) = 0;
  virtual Status CreateStream(Stream* stream) = 0;
  virtual void DestroyStream(Stream stream) = 0;
  virtual Status CreateEvent(Event* event) = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual Status RecordEvent(Event event, Stream stream) = 0;
  virtual Status WaitEvent(Stream stream, Event event) = 0;
  /// OK when it has passed, IN_PROGRESS when not.
  virtual Status QueryEvent(Event event) = 0;
  virtual double SecondsBetween(Event start, Event stop) = 0;
  virtual Status Copy(Stream stream, void* destination, const void* source, uint64_t bytes) = 0;
  /// The stream waits until `*flag`, pinned, has reached `value` (modulo 2^32).
  virtual Status WaitFlag(Stream stream, uint32_t* flag, uint32_t value) = 0;
  virtual Status SetFlag(Stream stream, uint32_t* flag, uint32_t value) = 0;

  /// Memory that steps of `max_items` frames and `max_input_bytes` take.
  virtual uint64_t WorkspaceBytes(uint64_t max_items, uint64_t max_input_bytes) = 0;
  virtual Status PrepareWorkspace(Stream stream, const Workspace& workspace) = 0;

  /// Encodes and writes the headers.
  virtual Status Encode(Stream stream, const Workspace& workspace, std::span<const OutSlot> out,
                        std::span<const SlotUse> uses) = 0;
  /// Combines the headers of out and in, decodes what came, then writes the uses' records and
  /// `record` (may be null), whose flag it sets only if everything is good.
  virtual Status Decode(Stream stream, const Workspace& workspace, std::span<const OutSlot> out,
                        std::span<const InSlot> in, std::span<const SlotUse> uses,
                        StepRecord* record) = 0;
  /// Decodes and writes `record` as Decode does.
  virtual Status DecodeWhole(Stream stream, const Workspace& workspace,
                             std::span<const WholeFrame> frames, StepRecord* record) = 0;
  virtual Status Reduce(Stream stream, const Reduction& reduction) = 0;
};

/// The CUDA device; null in builds without.
[[nodiscard]] Device* CudaDevice();

}  // namespace cinch::collectives
