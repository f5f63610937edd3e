#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer and measures what cinch keeps of its tensors.

    trained_tensors.py LIBCINCH [--output LINES] [--steps N] [--sample FILE] [--dump DIRECTORY]

Needs PyTorch; with a GPU it takes about a minute. LIBCINCH is libcinch.so, with CUDA or without.
Weights, gradients, K/V cache, activations and optimizer state of the trained model are compressed,
decompressed and compared, and held against the order-0 bound: the entropy of the exponents in the
tensor, and all other bits as they are. Prints a summary; --output gets a line of JSON a tensor.
"""

import argparse
import json
import os
import struct
import sys
import time

import torch

from cinch_library import Library
from small_transformer import Shape, train, train_step

# Percent above the bound that a kind of tensor may keep.
BARS = {"weight": 2.5, "weight fp32": 2.5, "weight fp16": 2.5, "weight fp8": 2.5, "gradient": 2.5,
        "k_cache": 2.5, "v_cache": 2.5, "gated_mlp": 4.0, "relu_mlp": 4.0}
# Exponent's place and bits, and the dtype's name in a safetensors header.
FIELDS = {"bf16": (7, 8, "BF16"), "fp16": (10, 5, "F16"), "fp32": (23, 8, "F32"),
          "fp8_e4m3fn": (3, 4, "F8_E4M3")}
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
LEAST_BYTES = 1_000_000


def words(tensor):
    return tensor.contiguous().view(INTEGERS[tensor.element_size()]).flatten()


def as_bytes(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).cpu().numpy()


def bound_fraction(tensor, dtype):
    place, bits, _ = FIELDS[dtype]
    width = 8 * tensor.element_size()
    exponents = (words(tensor).int() >> place) & ((1 << bits) - 1)
    counts = torch.bincount(exponents, minlength=1 << bits).double()
    shares = counts[counts > 0] / counts.sum()
    return (-(shares * shares.log2()).sum().item() + width - bits) / width


def collect(model, adam, language):
    """(kind, name, dtype, tensor) of everything that is measured."""
    names = [name for name, _ in model.named_parameters()]
    kept = {}
    batch = language.batches(1)[0, :8]
    with torch.no_grad():
        model(batch[:, :-1], kept)
    # The gradients of the last training step.
    for name, parameter, first, second in zip(names, adam.parameters, adam.first, adam.second):
        yield "weight", name, "bf16", parameter.detach()
        yield "gradient", name, "bf16", parameter.grad
        yield "adam_first", name, "bf16", first.bfloat16()
        yield "adam_second", name, "bf16", second.bfloat16()
    for name, tensor in kept.items():
        yield name.rsplit(".", 1)[1], name, "bf16", tensor
    for name, master in zip(names, adam.masters):
        if "mlp" in name or "up" in name or "projection" in name:
            yield "weight fp32", name, "fp32", master
            yield "weight fp16", name, "fp16", master.half()
            scaled = master * (448 / master.abs().max())
            yield "weight fp8", name, "fp8_e4m3fn", scaled.to(torch.float8_e4m3fn)


def measure(library, kind, name, dtype, tensor):
    data, bound = as_bytes(tensor), bound_fraction(tensor, dtype)
    kept = library.kept_bytes(data, dtype) / data.nbytes
    return {"bench": "trained_tensors", "kind": kind, "name": name, "dtype": dtype,
            "bytes": data.nbytes, "bound_fraction": bound, "kept_fraction": kept,
            "auto_kept_fraction": library.kept_bytes(data, "auto") / data.nbytes,
            "distance_percent": 100 * (kept / bound - 1)}


def measure_speed(library, kind, dtype, parts, most_bytes=256 << 20):
    """The GPU's speed on a kind's tensors one after another, told the dtype and not told."""
    data = torch.cat([words(part) for part in parts])[: most_bytes // parts[0].element_size()]
    data = as_bytes(data)
    line = {"bench": "trained_tensors_speed", "kind": kind, "dtype": dtype, "bytes": data.nbytes}
    for prefix, told in (("", dtype), ("auto_", "auto")):
        speed = library.cuda_speed(data, told)
        if speed is None:
            return None
        line[prefix + "kept_fraction"] = speed.frame_bytes / data.nbytes
        line[prefix + "encode_gbps"] = data.nbytes / speed.compress_seconds / 1e9
        line[prefix + "decode_gbps"] = data.nbytes / speed.decompress_seconds / 1e9
    return line


def measure_versions(library, model, adam, language):
    """What one more step changes in the weights, and what is kept of the difference."""
    batches = language.batches(3)
    for rate, batch in zip((1e-6, 1e-5, 3e-4), batches):
        before = [words(parameter.detach()).clone() for parameter in adam.parameters]
        train_step(model, adam, batch, rate)
        pairs = zip(before, adam.parameters)
        change = torch.cat([old ^ words(parameter.detach()) for old, parameter in pairs])
        touched = change[: change.numel() // 32 * 32].view(-1, 32).ne(0).any(1).float().mean()
        data = as_bytes(change)
        yield {"bench": "trained_tensors_versions", "learning_rate": rate, "bytes": data.nbytes,
               "changed_fraction": change.ne(0).float().mean().item(),
               "touched_groups_fraction": touched.item(),
               "xor_kept_fraction": library.kept_bytes(data, "bf16") / data.nbytes,
               "xor_auto_kept_fraction": library.kept_bytes(data, "auto") / data.nbytes}


def summary(lines):
    """A row a kind, and whether every bar is met."""
    print(f"{'kind':<12} {'dtype':<10} {'tensors':>7} {'MB':>6} {'bound':>7} {'kept':>7} {'auto':>7}"
          f" {'total %':>7} {'median %':>8} {'worst %':>7}  bar  worst tensor")
    all_met = True
    for kind in dict.fromkeys(line["kind"] for line in lines):
        mine = sorted((line for line in lines if line["kind"] == kind),
                      key=lambda line: line["distance_percent"])
        total = sum(line["bytes"] for line in mine)
        bound, kept, auto = (sum(line["bytes"] * line[field] for line in mine) / total
                             for field in ("bound_fraction", "kept_fraction", "auto_kept_fraction"))
        worst, bar = mine[-1], BARS.get(kind)
        met = bar is None or worst["distance_percent"] <= bar
        all_met &= met
        print(f"{kind:<12} {worst['dtype']:<10} {len(mine):>7} {total / 1e6:>6.0f} {bound:>7.4f}"
              f" {kept:>7.4f} {auto:>7.4f} {100 * (kept / bound - 1):>7.2f}"
              f" {mine[len(mine) // 2]['distance_percent']:>8.2f}"
              f" {worst['distance_percent']:>7.2f}  {'-' if bar is None else bar}"
              f"{'' if met else ' MISSED'}  {worst['name']}")
    return all_met


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, tensor)."""
    header, offset = {}, 0
    for name, (dtype, tensor) in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": FIELDS[dtype][2], "shape": list(tensor.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in tensors.values():
            file.write(as_bytes(tensor).tobytes())


def measure_all(library, everything, emit):
    """Measures every tensor; returns the lines and the tensors by kind."""
    lines, kinds = [], {}
    for kind, name, dtype, tensor in everything:
        if tensor.numel() * tensor.element_size() < LEAST_BYTES:
            continue
        lines.append(measure(library, kind, name, dtype, tensor))
        emit(lines[-1])
        kinds.setdefault((kind, dtype), {})[name] = tensor
    return lines, kinds


def save(options, kinds):
    """The middle of the largest tensors of each kind as a sample; all tensors as a dump."""
    if options.sample:
        sample = {}
        for (kind, dtype), tensors in kinds.items():
            name, tensor = max(tensors.items(), key=lambda item: item[1].numel())
            count = options.sample_bytes // tensor.element_size()
            middle = tensor.numel() // 2
            sample[f"{kind}.{name}"] = (dtype, tensor.flatten()[middle : middle + count])
        write_safetensors(options.sample, sample)
    if options.dump:
        os.makedirs(options.dump, exist_ok=True)
        for (kind, dtype), tensors in kinds.items():
            path = os.path.join(options.dump, kind.replace(" ", "_") + ".safetensors")
            write_safetensors(path, {name: (dtype, each) for name, each in tensors.items()})


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--output", help="file for the lines of JSON")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="a model for trying this script out")
    parser.add_argument("--sample", help="safetensors file for a piece of each kind of tensor")
    parser.add_argument("--sample-bytes", type=int, default=65536)
    parser.add_argument("--dump", help="directory for a safetensors file of each kind")
    return parser.parse_args()


def main():
    options = parse()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = Shape(width=384, heads=6, layers=2, vocabulary=2048, batch=4, context=128,
                  gated=1536, relu=1536) if options.tiny else Shape()
    library = Library(options.library)
    output = open(options.output, "w", encoding="utf-8") if options.output else None

    def emit(line):
        if output:
            output.write(json.dumps(line) + "\n")

    start = time.monotonic()
    model, adam, language, losses = train(shape, options.steps, device, options.seed)
    training = time.monotonic() - start
    lines, kinds = measure_all(library, collect(model, adam, language), emit)
    save(options, kinds)
    speeds = [measure_speed(library, kind, dtype, list(tensors.values()))
              for (kind, dtype), tensors in kinds.items()]
    versions = list(measure_versions(library, model, adam, language))
    for line in [*filter(None, speeds), *versions]:
        emit(line)
    parameters = sum(parameter.numel() for parameter in adam.parameters)
    print(f"{parameters / 1e6:.0f} M parameters, {options.steps} steps, loss {losses[0]:.2f} -> "
          f"{losses[1]:.2f}; training {training:.0f} s, all {time.monotonic() - start:.0f} s")
    met = summary(lines)
    for line in filter(None, speeds):
        print(f"{line['kind']:<12} {line['dtype']:<10} {line['bytes'] / 1e6:6.0f} MB on the GPU, "
              f"GB/s: encode {line['encode_gbps']:.0f} decode {line['decode_gbps']:.0f}; auto "
              f"{line['auto_encode_gbps']:.0f} {line['auto_decode_gbps']:.0f}")
    for line in versions:
        print("versions " + " ".join(f"{key}={value:.4g}" for key, value in line.items()
                                     if key != "bench"))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
