# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes on one GPU, made different hosts for NCCL, which then uses its sockets."""

import os
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

warnings.filterwarnings("ignore")


def _start(rank, world, port, body, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_HOSTID=f"host{rank}",
                      NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", RANK=str(rank),
                      WORLD_SIZE=str(world))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    body(rank, world, *arguments)
    dist.destroy_process_group()


def run(world, body, *arguments):
    """Runs body(rank, world, *arguments) on each rank."""
    port = 20000 + os.getpid() % 10000  # several runs at once do not meet
    mp.spawn(_start, (world, port, body, arguments), world)


def bits(tensor):
    """The tensor's bytes, to compare what may hold NaN."""
    return tensor.contiguous().view(torch.uint8)


def seeded(seed):
    generator = torch.Generator("cuda")
    generator.manual_seed(seed)
    return generator
