#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer with DDP or FSDP and prints its losses: run with and without the
interposer and compare. The script knows nothing of it.

    training.py ddp|fsdp RANKS STEPS
"""

import sys
import time

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ranks

WIDTH, LAYERS, VOCABULARY, LENGTH, BATCH = 1024, 4, 8192, 256, 8


def make_model():
    torch.manual_seed(1)
    layer = lambda: nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, dropout=0.0, batch_first=True,
                                               norm_first=True)
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *[layer() for _ in range(LAYERS)],
                          nn.Linear(WIDTH, VOCABULARY, bias=False))
    return model.to("cuda", torch.bfloat16)


def wrap(model, kind):
    if kind == "ddp":
        return DistributedDataParallel(model, device_ids=[0])
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def body(rank, world, kind, steps):
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = wrap(make_model(), kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses, times = [], []
    for step in range(steps):
        generator = ranks.seeded(step * 1000 + rank)
        tokens = torch.randint(0, VOCABULARY // 8, (BATCH, LENGTH), device="cuda", generator=generator)
        start = time.perf_counter()
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(),
                                           (tokens[:, 1:] * 7 % VOCABULARY).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    if rank == 0:
        median = sorted(times[len(times) // 2:])[len(times) // 4]
        print(f"{kind} {world} ranks step {median * 1e3:.1f} ms losses "
              + " ".join(f"{loss:.9g}" for loss in losses), flush=True)


if __name__ == "__main__":
    ranks.run(int(sys.argv[2]), body, sys.argv[1], int(sys.argv[3]))
