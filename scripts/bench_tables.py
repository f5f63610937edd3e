# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/benchmarks.md from bench/results: what stands between the markers
`<!-- NAME -->` and `<!-- /NAME -->`. Used by scripts/plot."""

import re

import gpu_tables
import nvlink_tables
from bench_results import load, size_text, table


def time_text(seconds):
    if seconds is None:
        return "-"
    if seconds >= 1:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def origin(lines):
    """Where the lines come from, once for each machine and commit."""
    seen = dict.fromkeys(f"{line['machine']}; commit {line['commit']}" for line in lines)
    return "\n".join(f"Measured on: {text}.\n" for text in seen)


def data_text(line):
    text = line["data"]
    if text.startswith("file:"):
        path, _, tensor = text[5:].partition(":")
        return f"{path.rsplit('/', 1)[-1]} {tensor}".strip()
    return text


def codec_row(line):
    return [data_text(line), line["dtype"], size_text(line["bytes"]), str(line["threads"]),
            f"{line['kept_fraction']:.4f}", f"{line['bound_fraction']:.4f}",
            f"{line['encode_gbps']:.2f}", f"{line['decode_gbps']:.2f}", f"{line['memcpy_gbps']:.2f}",
            f"{line['encode_to_memcpy']:.2f}", f"{line['decode_to_memcpy']:.2f}"]


CODEC_HEAD = ["data", "dtype", "size", "threads", "kept", "bound", "encode GB/s", "decode GB/s",
              "memcpy GB/s", "encode / memcpy", "decode / memcpy"]


def codec(root):
    lines = load(root, "codec")
    return origin(lines) + "\n" + table(CODEC_HEAD, [
        codec_row(line) for line in lines if line["backend"] == "cpu"])


def targets(root):
    rows = [[line["simd"], *codec_row(line)[4:]] for line in load(root, "targets")]
    rows += [["plain codec (the oracle)", *codec_row(line)[4:]]
             for line in load(root, "codec") if line["backend"] == "reference"]
    return table(["SIMD target", *CODEC_HEAD[4:]], rows)


def peers(root):
    rows = []
    lines = load(root, "peers")
    for theirs, ours in zip(lines[::2], lines[1::2]):
        rows.append([
            data_text(ours), size_text(ours["bytes"]), f"{theirs['kept_fraction']:.4f}",
            f"{ours['kept_fraction']:.4f}", f"{theirs['encode_gbps']:.2f}",
            f"{ours['encode_gbps']:.2f}", f"{ours['encode_gbps'] / theirs['encode_gbps']:.1f} x",
            f"{theirs['decode_gbps']:.2f}", f"{ours['decode_gbps']:.2f}",
            f"{ours['decode_gbps'] / theirs['decode_gbps']:.1f} x"])
    return origin(lines) + "\n" + table(
        ["bf16 data", "size", "ZipNN kept", "cinch kept", "ZipNN encode GB/s", "cinch encode GB/s",
         "faster", "ZipNN decode GB/s", "cinch decode GB/s", "faster"], rows)


def models(root):
    lines = load(root, "models")
    rows = []
    for file in dict.fromkeys(line["file"] for line in lines):
        mine = [line for line in lines if line["file"] == file]
        tensors = [line for line in mine if line["kind"] == "tensor"]
        total = next(line for line in mine if line["kind"] == "total")
        distances = sorted(line["distance_percent"] for line in tensors)
        rows.append([file, size_text(total["bytes"]), f"{total['kept_fraction']:.4f}",
                     f"{total['bound_fraction']:.4f}", str(len(tensors)),
                     f"{distances[len(distances) // 2]:.2f} %" if distances else "-",
                     f"{distances[-1]:.2f} %" if distances else "-"])
    return table(["file", "size", "kept", "bound", "tensors of 1 MB or more",
                  "their median distance", "largest distance"], rows)


def p2p(root):
    lines = load(root, "p2p")
    rows = []
    for line in lines:
        overlap = line["overlap_efficiency"]
        rows.append([size_text(line["bytes"]), f"{line['kept_fraction']:.4f}",
                     time_text(line["raw_seconds"]), time_text(line["compressed_seconds"]),
                     time_text(line["ideal_seconds"]), f"{line['speedup']:.3f}", line["policy"],
                     f"{line['auto_speedup']:.3f}",
                     "-" if overlap is None else f"{100 * overlap:.1f} %",
                     f"{100 * line['wire_busy_fraction']:.1f} %"])
    # The size from which compression wins, and goes on winning.
    wins = None
    for line in reversed(lines):
        if line["speedup"] <= 1:
            break
        wins = line["bytes"]
    text = f"Compression wins from {size_text(wins)} on.\n\n" if wins else ""
    return origin(lines) + "\n" + text + table(
        ["size", "on the wire", "raw", "compressed", "ideal", "speed-up", "policy chose",
         "speed-up with policy", "codec time hidden", "wire busy"], rows)


def latency(root):
    lines = load(root, "latency")
    return table(["size", "raw", "compressed", "with policy", "raw / compressed", "raw / policy"], [
        [size_text(line["bytes"]), time_text(line["raw_seconds"]),
         time_text(line["compressed_seconds"]), time_text(line["auto_seconds"]),
         f"{line['speedup']:.3f}", f"{line['auto_speedup']:.3f}"] for line in lines])


PARTS = {"codec": codec, "targets": targets, "peers": peers, "models": models, "p2p": p2p,
         "latency": latency}
# The parts that are named like their file, and those that share one.
ALL_PARTS = {**{name: (name, make) for name, make in PARTS.items()}, **gpu_tables.PARTS,
             **nvlink_tables.PARTS}


def write(root):
    path = root / "docs" / "benchmarks.md"
    text = path.read_text(encoding="utf-8")
    for name, (file, make) in ALL_PARTS.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if not load(root, file) or begin not in text:
            continue
        content = f"{begin}\n{make(root)}\n{end}"
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, new=content: new, text,
                      flags=re.DOTALL)
    path.write_text(text, encoding="utf-8")
