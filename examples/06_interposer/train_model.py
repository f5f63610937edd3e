#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary training script, one rank a GPU, that knows nothing of cinch: its sums of gradients
(DDP) or its gathers of weights (FSDP) are what the interposer compresses.

    torchrun --nproc-per-node 2 train_model.py [--kind ddp|fsdp] [--steps 10]
    LD_PRELOAD=/usr/lib/cinch/libnccl.so.2 torchrun --nproc-per-node 2 train_model.py ...

Both print the time of a step and the losses. With two ranks, and wherever no order of additions is
involved, the losses are the same to the last bit.
"""

import argparse
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tiny_model  # noqa: E402

BATCH, LENGTH = 8, 256


def make_model(arguments, device):
    torch.manual_seed(1)
    model = tiny_model.TinyModel(arguments.vocabulary, arguments.width, arguments.width // 64,
                                 arguments.layers).to(device, torch.bfloat16)
    if arguments.kind == "ddp":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def batch(arguments, device, step, rank):
    """Tokens, and what follows each of them by a rule that can be learnt."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    tokens = torch.randint(arguments.vocabulary // 8, (BATCH, LENGTH), generator=random)
    return tokens.to(device), (tokens * 7 % arguments.vocabulary).to(device)


def train(arguments, device):
    model = make_model(arguments, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses, seconds = [], []
    for step in range(arguments.steps):
        tokens, following = batch(arguments, device, step, dist.get_rank())
        start = time.perf_counter()
        loss = functional.cross_entropy(model(tokens).flatten(0, 1).float(), following.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    late = sorted(seconds[len(seconds) // 2:])
    return losses, late[len(late) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if arguments.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if arguments.device == "cuda" else "gloo")
    torch.use_deterministic_algorithms(True, warn_only=True)
    losses, seconds = train(arguments, device)
    if dist.get_rank() == 0:
        print(f"{arguments.kind}, {dist.get_world_size()} ranks: {seconds * 1e3:.2f} ms a step, "
              "losses " + " ".join(f"{loss:.9g}" for loss in losses), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
