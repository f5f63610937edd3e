#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer and brings each step's weights (bf16) to two other processes in three
ways: whole and raw, whole and compressed, and as a patch of the step before. The receivers compute
the loss of a fixed batch with what they got; it must be the trainer's, bit for bit, and so must the
weights. Where there are several GPUs, every process takes another one.

    weight_sync.py [--device cuda|cpu] [--steps 10] [--learning-rate 3e-6] [--gbps 0]
"""
import argparse
import pathlib
import struct
import subprocess
import sys
import time

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import cinch  # noqa: E402
import tiny_model  # noqa: E402

RECEIVERS = 2
DATA, VERDICT, GO = 20, 21, 22
TRANSPORTS = "posix,cma,self"


def sync(device):
    if device == "cuda":
        torch.cuda.synchronize()


def make_model(device, dtype=torch.float32):
    torch.manual_seed(1)
    return tiny_model.TinyModel(context=256).to(device=device, dtype=dtype)


def text_batch(device, step, size=16, length=128):
    """Real text: the sources of these examples."""
    folder = pathlib.Path(__file__).resolve().parents[1]
    text = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    data = torch.tensor(list(text), dtype=torch.long)
    starts = torch.randint(len(data) - length - 1, (size,),
                           generator=torch.Generator().manual_seed(step))
    rows = torch.stack([data[at:at + length + 1] for at in starts.tolist()])
    return rows.to(device)


def loss_of(model, rows):
    logits = model(rows[:, :-1])
    return functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


def flat_weights(model):
    """All weights in bf16, one after another."""
    return torch.cat([p.detach().to(torch.bfloat16).flatten() for p in model.parameters()])


def load_flat(model, flat):
    at = 0
    for parameter in model.parameters():
        parameter.data.copy_(flat[at:at + parameter.numel()].view_as(parameter))
        at += parameter.numel()


def checksum(flat):
    """Depends on every bit and its place."""
    words = flat.view(torch.int16).long()
    places = torch.arange(1, len(words) + 1, device=words.device)
    return int(((words + 32769) * (places % 65521)).sum()) & (2**63 - 1)


@torch.no_grad()
def verdict(model, flat, device):
    load_flat(model, flat)
    sync(device)
    loss = loss_of(model, text_batch(device, 0))
    return struct.pack("<Qf", checksum(flat), float(loss))


def receive(arguments):
    """A receiver."""
    device = arguments.device
    model = make_model(device, torch.bfloat16)
    count = sum(p.numel() for p in model.parameters())
    buffers = [torch.zeros(count, dtype=torch.bfloat16, device=device) for _ in range(3)]
    size = 2 * count
    sync(device)
    engine = cinch.Engine(TRANSPORTS, arguments.gbps, 4 << 20)
    peer = engine.connect(arguments.receive)
    subscriber = cinch.Subscriber(peer)
    subscriber.subscribe("weights", buffers[1].data_ptr(), buffers[2].data_ptr(), size)
    for step in range(1, arguments.steps + 1):
        for _ in range(2):  # Raw, then compressed.
            peer.recv(buffers[0].data_ptr(), size, DATA).wait()
            peer.send_bytes(verdict(model, buffers[0], device), VERDICT)
        peer.recv(None, 0, GO).wait()
        fetched = subscriber.fetch("weights", step)
        peer.send_bytes(struct.pack("<QI", fetched.payload_bytes, fetched.source), GO)
        which = 1 if fetched.data == buffers[1].data_ptr() else 2
        peer.send_bytes(verdict(model, buffers[which], device), VERDICT)
    subscriber.close()
    peer.close()
    engine.close()


class Trainer:
    """Trains, publishes and checks."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.engine = cinch.Engine(TRANSPORTS, arguments.gbps, 4 << 20)
        listener, address = self.engine.listen()
        self.children = [subprocess.Popen(
            [sys.executable, __file__, "--device", arguments.device, "--steps",
             str(arguments.steps), "--gbps", str(arguments.gbps), "--receive", address, "--place",
             str(receiver + 1)]) for receiver in range(RECEIVERS)]
        self.publisher = cinch.Publisher()
        self.peers = [self.engine.accept(listener) for _ in range(RECEIVERS)]
        for peer in self.peers:
            self.publisher.serve(peer)
        self.model = make_model(arguments.device)
        self.judge = make_model(arguments.device, torch.bfloat16)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=arguments.learning_rate)
        self.bad = 0

    def train(self, step):
        self.optimizer.zero_grad()
        loss = loss_of(self.model, text_batch(self.arguments.device, step))
        loss.backward()
        self.optimizer.step()
        sync(self.arguments.device)
        return float(loss)

    def judge_receivers(self, expected):
        for peer in self.peers:
            self.bad += peer.recv_bytes(12, VERDICT) != expected

    def whole(self, flat, policy, expected):
        """Sends everything to all receivers; returns seconds and wire bytes of one of them."""
        begin = time.perf_counter()
        sent = [peer.send(flat.data_ptr(), 2 * len(flat), DATA, policy) for peer in self.peers]
        stats = [each.wait() for each in sent]
        seconds = time.perf_counter() - begin
        self.judge_receivers(expected)
        return seconds, stats[0].wire_bytes

    def patched(self, flat, step, expected):
        """Publishes; the receivers fetch. Seconds include making the patch."""
        begin = time.perf_counter()
        self.publisher.publish("weights", flat.data_ptr(), 2 * len(flat), step)
        published = time.perf_counter() - begin
        for peer in self.peers:
            peer.send(None, 0, GO).wait()
        answers = [struct.unpack("<QI", peer.recv_bytes(12, GO)) for peer in self.peers]
        seconds = time.perf_counter() - begin
        self.judge_receivers(expected)
        return seconds, published, answers[0][0], cinch.SOURCES[answers[0][1]]

    def run(self):
        before = None
        print(f"{'step':>4} {'loss':>8} {'changed':>8} | {'raw ms':>8} {'MB':>7} | "
              f"{'compressed':>10} {'MB':>7} | {'version ms':>10} {'publish':>8} {'MB':>7} how")
        for step in range(1, self.arguments.steps + 1):
            loss = self.train(step)
            flat = flat_weights(self.model)
            changed = 1.0 if before is None else float(
                (flat.view(torch.int16) != before.view(torch.int16)).float().mean())
            before = flat
            expected = verdict(self.judge, flat, self.arguments.device)
            raw, raw_bytes = self.whole(flat, cinch.POLICY_RAW, expected)
            coded, coded_bytes = self.whole(flat, cinch.POLICY_COMPRESSED, expected)
            patch, published, patch_bytes, source = self.patched(flat, step, expected)
            print(f"{step:4} {loss:8.4f} {100 * changed:7.2f}% | {1e3 * raw:8.2f} "
                  f"{raw_bytes / 1e6:7.2f} | {1e3 * coded:10.2f} {coded_bytes / 1e6:7.2f} | "
                  f"{1e3 * patch:10.2f} {1e3 * published:8.2f} {patch_bytes / 1e6:7.2f} {source}")
        codes = [child.wait() for child in self.children]
        print("weights and losses of the receivers:",
              "bit-identical" if self.bad == 0 else f"{self.bad} DIFFERENT")
        self.publisher.close()
        for peer in self.peers:
            peer.close()
        self.engine.close()
        return 1 if self.bad or any(codes) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=3e-6)
    parser.add_argument("--gbps", type=float, default=0, help="pace each link: an imitated NIC")
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.device == "cuda":
        torch.cuda.set_device(arguments.place % torch.cuda.device_count())
    return receive(arguments) if arguments.receive else Trainer(arguments).run()


if __name__ == "__main__":
    sys.exit(main())
