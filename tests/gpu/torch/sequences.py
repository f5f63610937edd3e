#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random sequences of collectives whose results are known: run with and without the interposer.

    sequences.py RANKS COUNT [SEED]

Every rank draws the same operations, and knows from seeds what the others sent. Data movement must
give the same bits, with two ranks reductions as well. Prints one line; exits 1 on a difference.
"""

import random
import sys

import torch
import torch.distributed as dist

import ranks

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.uint8, torch.int64]
SIZES = [0, 1, 3, 1000, 65536, 65537, (1 << 19) + 7, 1 << 20, (1 << 20) + 1, 3 << 20]
KINDS = ["weights", "weights", "weights", "noise", "zeros"]


def make(seed, elements, dtype, kind):
    generator = ranks.seeded(seed)
    if kind == "zeros":
        return torch.zeros(elements, device="cuda", dtype=dtype)
    if kind == "noise" or not dtype.is_floating_point:
        size = torch.empty(0, dtype=dtype).element_size() * elements
        raw = torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda", generator=generator)
        return raw.view(dtype)
    return (torch.randn(elements, device="cuda", generator=generator) * 0.02).to(dtype)


class Case:
    """One operation: what is sent, the call and what must come out."""

    def __init__(self, rank, world, draw, step):
        self.rank, self.world, self.step = rank, world, step
        self.operation = draw.choice(["gather", "broadcast", "exchange", "ring", "scatter", "reduce"])
        self.dtype = draw.choice(DTYPES)
        self.elements = draw.choice(SIZES)
        self.kind = draw.choice(KINDS)
        self.root = draw.randrange(world)
        if self.operation in ("scatter", "reduce"):
            self.dtype = draw.choice([torch.bfloat16, torch.float32, torch.float16])
            self.kind = "weights"

    def data(self, rank, parts=1):
        return make(self.step * 64 + rank, self.elements * parts, self.dtype, self.kind)

    def part(self, tensor, index):
        return tensor[index * self.elements:(index + 1) * self.elements]

    def total(self, tensors):
        total = tensors[0].float()
        for tensor in tensors[1:]:
            total = total + tensor.float()
        return total.to(self.dtype)

    def run(self):
        """Returns (result, expected)."""
        return getattr(self, self.operation)()

    def gather(self):
        out = torch.empty(self.elements * self.world, device="cuda", dtype=self.dtype)
        own = self.part(out, self.rank)
        if self.step % 3 == 0:
            own.copy_(self.data(self.rank))
        dist.all_gather_into_tensor(out, own if self.step % 3 == 0 else self.data(self.rank))
        return out, torch.cat([self.data(r) for r in range(self.world)])

    def broadcast(self):
        out = self.data(self.rank)
        dist.broadcast(out, self.root)
        return out, self.data(self.root)

    def exchange(self):
        out = torch.empty(self.elements * self.world, device="cuda", dtype=self.dtype)
        dist.all_to_all_single(out, self.data(self.rank, self.world))
        sent = [self.data(r, self.world) for r in range(self.world)]
        return out, torch.cat([self.part(tensor, self.rank) for tensor in sent])

    def ring(self):
        out = torch.empty(self.elements, device="cuda", dtype=self.dtype)
        send = dist.P2POp(dist.isend, self.data(self.rank), (self.rank + 1) % self.world)
        receive = dist.P2POp(dist.irecv, out, (self.rank - 1) % self.world)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
        return out, self.data((self.rank - 1) % self.world)

    def scatter(self):
        out = torch.empty(self.elements, device="cuda", dtype=self.dtype)
        dist.reduce_scatter_tensor(out, self.data(self.rank, self.world))
        sent = [self.part(self.data(r, self.world), self.rank) for r in range(self.world)]
        return out, self.total(sent)

    def reduce(self):
        out = self.data(self.rank)
        dist.all_reduce(out)
        return out, self.total([self.data(r) for r in range(self.world)])


def same(case, result, expected):
    exact = case.world == 2 or case.operation not in ("scatter", "reduce")
    if exact:
        return torch.equal(ranks.bits(result), ranks.bits(expected))
    # More ranks: NCCL's own order, for what was not compressed.
    return torch.allclose(result.float(), expected.float(), rtol=0.02, atol=1e-2)


def body(rank, world, count, seed):
    draw = random.Random(seed)
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    wrong = 0
    for step in range(count):
        case = Case(rank, world, draw, step + seed * 100000)
        stream = draw.choice(streams)
        with torch.cuda.stream(stream):
            result, expected = case.run()
            if not same(case, result, expected):
                wrong += 1
                print(f"rank {rank} step {step}: {case.operation} {case.dtype} {case.elements} "
                      f"{case.kind} differs", flush=True)
    torch.cuda.synchronize()
    print(f"sequences: rank {rank} of {world}, {count} operations, {wrong} wrong", flush=True)
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    ranks.run(int(sys.argv[1]), body, int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
