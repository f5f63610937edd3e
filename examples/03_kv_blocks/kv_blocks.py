#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves the key-value cache of a small transformer from a process that has read the prompt to one
that generates, whose block table is another one, and shows that the tokens are the same.

    kv_blocks.py [--device cuda|cpu] [--prompt 768] [--tokens 64]
"""
import argparse
import ctypes
import pathlib
import random
import struct
import subprocess
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import cinch  # noqa: E402
import tiny_model  # noqa: E402

BLOCK_TOKENS, BLOCKS = 16, 200
REGION, TABLE, START, READY, RESULT = 10, 11, 12, 13, 14


def make_model(device):
    torch.manual_seed(1)
    return tiny_model.TinyModel().to(device=device, dtype=torch.bfloat16).eval()


def make_cache(model, device, seed):
    table = list(range(BLOCKS))
    random.Random(seed).shuffle(table)
    return tiny_model.PagedCache(model, BLOCKS, BLOCK_TOKENS, table, device)


def stream_of(device):
    return torch.cuda.current_stream().cuda_stream if device == "cuda" else None


def decode(arguments):
    """The process that generates: opens its pool, waits for the notification, goes on."""
    model = make_model(arguments.device)
    cache = make_cache(model, arguments.device, seed=22)
    if arguments.device == "cuda":
        torch.cuda.synchronize()
    engine = cinch.Engine()
    peer = engine.connect(arguments.decode)
    peer.send_bytes(engine.register(cache.pool.data_ptr(), cache.pool.numel() * 2), REGION)
    peer.send_bytes(struct.pack(f"<{BLOCKS}I", *cache.table), TABLE)
    tokens, first, count = struct.unpack("<III", peer.recv_bytes(12, START))
    peer.recv(None, 0, READY).wait()  # From here on kernels may read the blocks.
    cache.tokens = tokens
    generated = tiny_model.generate(model, cache, first, count)
    peer.send_bytes(struct.pack(f"<{count}I", *generated), RESULT)
    peer.close()
    engine.close()


@torch.no_grad()
def prefill(arguments):
    """The process that reads the prompt, moves the cache and checks what comes back."""
    engine = cinch.Engine()
    listener, address = engine.listen()
    child = subprocess.Popen([sys.executable, __file__, "--device", arguments.device, "--decode",
                              address])
    peer = engine.accept(listener)
    model = make_model(arguments.device)
    cache = make_cache(model, arguments.device, seed=11)
    prompt = torch.randint(256, (1, arguments.prompt), generator=torch.Generator().manual_seed(3))
    logits = model(prompt.to(arguments.device),
                   caches=[cache.of_layer(i) for i in range(model.layers)])
    cache.tokens = arguments.prompt
    first = int(logits[0, -1].argmax())

    region = cinch.Region()
    ctypes.memmove(ctypes.byref(region), peer.recv_bytes(64, REGION), 64)
    there = struct.unpack(f"<{BLOCKS}I", peer.recv_bytes(4 * BLOCKS, TABLE))
    here = cache.blocks_in_use()
    peer.send_bytes(struct.pack("<III", cache.tokens, first, arguments.tokens), START)
    pools = [(cache.pool[i].data_ptr(), i * cache.layer_bytes()) for i in range(model.layers)]
    begin = time.perf_counter()
    stats = peer.write_blocks(pools, cache.block_bytes(), here, BLOCKS, there[:len(here)], BLOCKS,
                              region, READY, stream_of(arguments.device)).wait()
    seconds = time.perf_counter() - begin

    moved = struct.unpack(f"<{arguments.tokens}I", peer.recv_bytes(4 * arguments.tokens, RESULT))
    stayed = tiny_model.generate(model, cache, first, arguments.tokens)
    size = len(here) * cache.block_bytes() * model.layers
    print(f"{len(here) * model.layers} blocks of {cache.block_bytes()} bytes, {size / 1e6:.1f} MB, "
          f"{stats.wire_bytes / size:.3f} of it on the wire, {1e3 * seconds:.2f} ms; "
          f"segments: {stats.shared_segments} shared, {stats.pinned_segments} pinned, "
          f"{stats.compressed_segments} compressed, {stats.raw_segments} raw")
    print(f"{arguments.tokens} tokens", "identical" if list(moved) == stayed else "DIFFERENT")
    peer.close()
    engine.close()
    return child.wait() or int(list(moved) != stayed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--prompt", type=int, default=768)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--decode", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return decode(arguments) if arguments.decode else prefill(arguments)


if __name__ == "__main__":
    sys.exit(main())
