#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is special: graphs, a rank that dies, misfits, memory. Run with the interposer.

    special.py graph|kill|misfit|memory
"""

import os
import sys
import time

import torch
import torch.distributed as dist

import ranks

ELEMENTS = 4 << 20


def weights(rank, step):
    return (torch.randn(ELEMENTS, device="cuda", generator=ranks.seeded(step * 8 + rank)) * 0.02).bfloat16()


def noise(rank, step):
    generator = ranks.seeded(step * 8 + rank)
    return torch.randint(0, 65536, (ELEMENTS,), device="cuda", generator=generator,
                         dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def graph(rank, world):
    """A captured all-gather, replayed with other data, between ones that are not captured."""
    source = weights(rank, 0)
    out = torch.empty(ELEMENTS * world, device="cuda", dtype=torch.bfloat16)
    for _ in range(8):
        dist.all_gather_into_tensor(out, source)
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        dist.all_gather_into_tensor(out, source)
    wrong = 0
    for step in range(1000):
        if step % 100 == 0:
            source.copy_(weights(rank, step))
        recorded.replay()
        if step % 100 == 50:
            wrong += not all(torch.equal(out[r * ELEMENTS:(r + 1) * ELEMENTS], weights(r, step - 50))
                             for r in range(world))
            dist.all_gather_into_tensor(out, source)
    torch.cuda.synchronize()
    del recorded
    print(f"graph: rank {rank}, 1000 replays, {wrong} wrong", flush=True)


def kill(rank, world):
    """Rank 1 dies in the middle; abort must return."""
    out = torch.empty(ELEMENTS * world, device="cuda", dtype=torch.bfloat16)
    for step in range(20):
        if rank == 1 and step == 10:
            os._exit(0)
        dist.all_gather_into_tensor(out, weights(rank, step))
        if rank == 0 and step == 12:
            start = time.monotonic()
            time.sleep(2)
            dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda")).abort()
            print(f"kill: rank 0 aborted after {time.monotonic() - start:.1f} s", flush=True)
            os._exit(0)


def misfit(rank, world):
    """Learns small slots from weights, then meets noise on one rank, or on all, without waiting."""
    wrong = 0
    for first in range(0, 48, 8):
        results = []
        for step in range(first, first + 8):
            def data(r, s=step):
                return noise(r, s) if (s % 6 == 4 and r == 0) or s % 6 == 5 else weights(r, s)
            out = torch.empty(ELEMENTS * world, device="cuda", dtype=torch.bfloat16)
            dist.all_gather_into_tensor(out, data(rank))
            got = torch.empty(ELEMENTS, device="cuda", dtype=torch.bfloat16)
            peers = [dist.P2POp(dist.isend, data(rank), (rank + 1) % world),
                     dist.P2POp(dist.irecv, got, (rank - 1) % world)]
            for work in dist.batch_isend_irecv(peers):
                work.wait()
            results.append((out, got, data))
        for out, got, data in results:
            expected = torch.cat([data(r) for r in range(world)])
            wrong += not torch.equal(ranks.bits(out), ranks.bits(expected))
            wrong += not torch.equal(ranks.bits(got), ranks.bits(data((rank - 1) % world)))
    print(f"misfit: rank {rank}, 96 operations, {wrong} wrong", flush=True)


def memory(rank, world):
    """Three groups and streams at once; the device's free memory must not shrink."""
    groups = [dist.new_group() for _ in range(3)]
    streams = [torch.cuda.Stream() for _ in groups]
    size = 1 << 20
    source = weights(rank, 0)[:size]
    outs = [torch.empty(size * world, device="cuda", dtype=torch.bfloat16) for _ in groups]
    expected = torch.cat([weights(r, 0)[:size] for r in range(world)])
    free, wrong, rounds, start = [], 0, 0, time.monotonic()
    # The ranks have to agree when it is enough.
    while rounds < 10000:
        for group, stream, out in zip(groups, streams, outs):
            with torch.cuda.stream(stream):
                dist.all_gather_into_tensor(out, source, group=group)
        rounds += 1
        if rounds % 100 == 0:
            torch.cuda.synchronize()
            wrong += not all(torch.equal(out, expected) for out in outs)
            free.append(torch.cuda.mem_get_info()[0] >> 20)
            stop = torch.tensor([float(time.monotonic() - start > float(sys.argv[2]))], device="cuda")
            dist.all_reduce(stop)
            if stop.item():
                break
    print(f"memory: rank {rank}, {rounds} rounds of 3, {wrong} wrong, free MiB {free[0]} .. {free[-1]}",
          flush=True)


if __name__ == "__main__":
    ranks.run(2, {"graph": graph, "kill": kill, "misfit": misfit, "memory": memory}[sys.argv[1]])
