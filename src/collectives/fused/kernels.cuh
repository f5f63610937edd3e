// SPDX-License-Identifier: Apache-2.0
/// @file kernels.cuh
/// Who does what in a thread block. A thread block has channels_per_cta channels, each of them a
/// warp that sends (if any does) and receiver_teams warps that receive, which share the peers.
///
/// Units go round robin to the channels. Every warp takes its channel's units in ascending order,
/// and within a unit the peers in the order of its lanes. So nobody waits in a circle: of all units
/// that are not yet consumed, take one with the smallest number. Its sender has either stored it,
/// or waits for room for a unit with a smaller number, which is consumed; and its receiver waits
/// for nothing else. Device only.
#pragma once

#include <cstdint>

#include "collectives/fused/parameters.h"
#include "collectives/fused/receiver.cuh"
#include "collectives/fused/reduce.cuh"
#include "collectives/fused/sender.cuh"

namespace cinch::fused {

/// A warp's part in a launch.
struct Part {
  uint32_t channel;
  bool sends;
  uint32_t team;  ///< Of those that receive.
};

__device__ __forceinline__ Part PartOf(const Parameters& parameters, uint32_t warp) {
  Part part;
  part.channel = blockIdx.x * parameters.channels_per_cta + warp % parameters.channels_per_cta;
  const uint32_t role = warp / parameters.channels_per_cta;
  part.sends = parameters.sends != 0 && role == 0;
  part.team = role - parameters.sends;
  return part;
}

/// Units of a message.
struct Cut {
  uint64_t bytes;
  uint32_t unit_bytes;
  uint64_t units;

  __device__ __forceinline__ Cut(uint64_t message_bytes, uint32_t channels)
      : bytes(message_bytes),
        unit_bytes(UnitBytes(message_bytes, channels)),
        units(UnitCount(message_bytes, unit_bytes)) {}
  __device__ __forceinline__ uint64_t Offset(uint64_t unit) const { return unit * unit_bytes; }
  __device__ __forceinline__ uint32_t Length(uint64_t unit) const {
    return LengthOfUnit(bytes, unit_bytes, unit);
  }
};

/// What a warp sends in one step: the same bytes to all peers, or to one rank its own.
struct SendStep {
  const Route* from;  ///< Has the bytes.
  uint8_t* copy;      ///< The rank's own place for them, or null.
  bool active;        ///< This lane's peer gets them.
  bool to_self;       ///< Nobody else does.
};

__device__ __forceinline__ SendStep StepOf(const Parameters& parameters, uint32_t step) {
  const uint32_t ranks = parameters.layout.ranks;
  const Route& own = parameters.routes[parameters.rank];
  if (parameters.same_data != 0) return {&own, own.receive, LaneId() < ranks - 1, false};
  const uint32_t to = (parameters.rank + 1 + step) % ranks;
  const Route& route = parameters.routes[to];
  const bool to_self = to == parameters.rank;
  const bool copies = to_self && route.receive_bytes != 0;
  return {&route, copies ? route.receive : nullptr, LaneId() == step, to_self};
}

template <bool kDirect>
__device__ __forceinline__ bool SendChannel(const Parameters& parameters, Sender<kDirect>* sender,
                                            uint32_t channel) {
  const uint32_t channels = parameters.channels;
  const uint32_t steps = parameters.same_data != 0 ? 1 : parameters.layout.ranks;
  uint64_t most_units = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    const uint64_t units = Cut(StepOf(parameters, step).from->send_bytes, channels).units;
    most_units = units > most_units ? units : most_units;
  }
#pragma unroll 1
  for (uint64_t unit = channel; unit < most_units; unit += channels) {
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step) {
      const SendStep now = StepOf(parameters, step);
      const Cut cut(now.from->send_bytes, channels);
      if (unit >= cut.units) continue;
      const uint8_t* source = now.from->send + cut.Offset(unit);
      const uint32_t bytes = cut.Length(unit);
      uint8_t* copy = now.copy == nullptr ? nullptr : now.copy + cut.Offset(unit);
      if (now.to_self) {
        if (copy != nullptr) WarpCopy(copy, source, bytes);
        continue;
      }
      // Loaded ahead when it is sure that it comes next.
      const uint8_t* next = nullptr;
      if (steps <= 2 && unit + channels < cut.units && cut.Length(unit + channels) >= kTileBytes) {
        next = source + uint64_t{channels} * cut.unit_bytes;
      }
      const bool coded = parameters.coded != 0 && cut.bytes >= parameters.min_coded_bytes;
      if (!sender->Send(now.active, coded, source, bytes, copy, next, unit)) return false;
    }
  }
  return true;
}

__device__ __forceinline__ bool ReceiveFromEach(const Parameters& parameters, Receiver* receiver,
                                                const Part& part) {
  const uint32_t peers = parameters.layout.ranks - 1;
  const uint32_t channels = parameters.channels;
  uint64_t most_units = 0;
  for (uint32_t lane = part.team; lane < peers; lane += parameters.receiver_teams) {
    const Route& route = parameters.routes[receiver->PeerOf(lane)];
    const uint64_t units = Cut(route.receive_bytes, channels).units;
    most_units = units > most_units ? units : most_units;
  }
#pragma unroll 1
  for (uint64_t unit = part.channel; unit < most_units; unit += channels) {
#pragma unroll 1
    for (uint32_t lane = part.team; lane < peers; lane += parameters.receiver_teams) {
      const Route& route = parameters.routes[receiver->PeerOf(lane)];
      const Cut cut(route.receive_bytes, channels);
      if (unit >= cut.units) continue;
      Arrived arrived;
      if (!receiver->Wait(lane, cut.Length(unit), unit, &arrived)) return false;
      if (!receiver->Store(arrived, route.receive + cut.Offset(unit))) {
        receiver->ReportBroken(lane, unit);
        return false;
      }
      receiver->Release(lane);
    }
  }
  return true;
}

template <bool kDirect>
__device__ __forceinline__ void RunSender(const Parameters& parameters, uint32_t channel,
                                          WarpMemory* memory) {
  Sender<kDirect> sender(parameters, channel, memory);
  SendChannel(parameters, &sender, channel);
  sender.Finish();
}

/// Sends and receives; nothing is added up. 2 CTAs a multiprocessor.
template <bool kDirect>
__global__ void __launch_bounds__(kThreads, 2)
    ExchangeKernel(const __grid_constant__ Parameters parameters) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  const uint32_t warp = threadIdx.x / 32;
  WarpMemory* memory = reinterpret_cast<WarpMemory*>(shared_bytes) + warp;
  const Part part = PartOf(parameters, warp);
  if (part.sends) {
    RunSender<kDirect>(parameters, part.channel, memory);
  } else if (part.team < parameters.receiver_teams) {
    Receiver receiver(parameters, part.channel, memory);
    ReceiveFromEach(parameters, &receiver, part);
    // Teams share the lanes' peers, and each keeps the state of its own.
    receiver.Finish(part.team, parameters.receiver_teams);
  }
}

/// Sends every rank its part of routes[].send; adds up what comes and the rank's own part, in fp32
/// and in the order of the ranks, into routes[rank].receive.
template <typename Element, bool kDirect>
__global__ void __launch_bounds__(kThreads, 1)
    ReduceScatterKernel(const __grid_constant__ Parameters parameters) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  const uint32_t warp = threadIdx.x / 32;
  WarpMemory* memory = reinterpret_cast<WarpMemory*>(shared_bytes) + warp;
  const Part part = PartOf(parameters, warp);
  if (part.sends) {
    RunSender<kDirect>(parameters, part.channel, memory);
  } else if (part.team == 0) {
    Receiver receiver(parameters, part.channel, memory);
    ReduceChannel<Element>(parameters, &receiver, part.channel);
    receiver.Finish(0, 1);
  }
}

}  // namespace cinch::fused
