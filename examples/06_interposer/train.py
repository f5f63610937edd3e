#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary PyTorch script: it gathers sharded weights again and again and knows nothing of cinch.

    torchrun --nproc-per-node 2 train.py
    LD_PRELOAD=/usr/lib/cinch/libnccl.so.2 CINCH_NCCL_REPORT=stderr torchrun --nproc-per-node 2 train.py

The second command sends about a third fewer bytes, and both print the same sum.
"""

import os
import time

import torch
import torch.distributed as dist

ELEMENTS = 32 << 20
ROUNDS = 20


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl")
    torch.manual_seed(rank)
    shard = (torch.randn(ELEMENTS, device="cuda") * 0.02).bfloat16()
    weights = torch.empty(ELEMENTS * world, device="cuda", dtype=torch.bfloat16)
    for measured in (False, True):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(ROUNDS):
            dist.all_gather_into_tensor(weights, shard)
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - start) / ROUNDS
        if measured and rank == 0:
            print(f"all-gather of {ELEMENTS * 2 >> 20} MiB a rank: {seconds * 1e3:.2f} ms, "
                  f"sum {weights.double().sum().item():.12g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
