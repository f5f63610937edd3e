# SPDX-License-Identifier: Apache-2.0
"""Figures of docs/benchmarks.md from bench/results. Used by scripts/plot."""

import matplotlib
from matplotlib import pyplot, ticker

from bench_results import load, size_text
from bench_tables import data_text
from gpu_tables import is_plain
import nvlink_tables

matplotlib.use("svg")
# The same results give the same file.
matplotlib.rcParams.update({"svg.hashsalt": "cinch", "font.size": 10, "axes.grid": True,
                            "grid.alpha": 0.3, "axes.spines.top": False,
                            "axes.spines.right": False, "figure.constrained_layout.use": True})

RAW, COMPRESSED, IDEAL, BOUND = "#4c72b0", "#c44e52", "#555555", "#999999"


def save(root, figure, name):
    path = root / "docs" / "figures" / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def size_axis(axes):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda size, _: size_text(int(size))))
    axes.tick_params(axis="x", rotation=45)
    axes.set_xlabel("payload")


def draw_p2p(root):
    lines = load(root, "p2p")
    if not lines:
        return
    sizes = [line["bytes"] for line in lines]
    figure, (times, gains) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    times.loglog(sizes, [line["raw_seconds"] for line in lines], "o-", color=RAW, label="raw")
    times.loglog(sizes, [line["compressed_seconds"] for line in lines], "o-", color=COMPRESSED,
                 label="compressed")
    if lines[0]["raw_ideal_seconds"]:
        times.loglog(sizes, [line["raw_ideal_seconds"] for line in lines], ":", color=RAW,
                     label="ideal, raw")
        times.loglog(sizes, [line["ideal_seconds"] for line in lines], ":", color=COMPRESSED,
                     label="ideal, compressed")
    times.set_ylabel("seconds until the receiver has it")
    times.set_title(f"A link of {lines[0]['link_gbps']:g} Gbit/s")
    times.legend()
    size_axis(times)
    gains.plot(sizes, [line["speedup"] for line in lines], "o-", color=COMPRESSED,
               label="compressed")
    gains.plot(sizes, [line["auto_speedup"] for line in lines], "s--", color=RAW,
               label="as the policy decides")
    gains.plot(sizes, [1 / line["kept_fraction"] for line in lines], ":", color=IDEAL,
               label="ideal: 1 / kept fraction")
    gains.axhline(1, color=BOUND, linewidth=1)
    gains.set_ylabel("times faster than raw")
    gains.set_ylim(bottom=0)
    gains.set_title("Speed-up")
    gains.legend(loc="lower right")
    size_axis(gains)
    save(root, figure, "p2p")


def draw_codec(root):
    lines = [line for line in load(root, "codec")
             if line["backend"] == "cpu" and line["threads"] == 1]
    if not lines:
        return
    names = [f"{data_text(line)[-40:]} ({line['dtype']}, {size_text(line['bytes'])})"
             for line in lines]
    places = range(len(lines))
    figure, axes = pyplot.subplots(figsize=(10, 0.42 * len(lines) + 1.5))
    axes.barh([place - 0.2 for place in places],
              [line["encode_to_memcpy"] for line in lines], 0.4, color=RAW,
              label="encode")
    axes.barh([place + 0.2 for place in places],
              [line["decode_to_memcpy"] for line in lines], 0.4,
              color=COMPRESSED, label="decode")
    axes.set_yticks(list(places), names)
    axes.invert_yaxis()
    axes.set_xlabel("speed of one thread, relative to memcpy of the same bytes in the same run")
    axes.legend()
    save(root, figure, "codec")


def draw_ratio(root):
    lines = [line for line in load(root, "models") if line["kind"] == "tensor"]
    if not lines:
        return
    figure, axes = pyplot.subplots(figsize=(8, 4))
    for file, color in zip(dict.fromkeys(line["file"] for line in lines),
                           (RAW, COMPRESSED, "#55a868", "#8172b2")):
        mine = [line for line in lines if line["file"] == file]
        axes.semilogx([line["bytes"] for line in mine],
                      [line["distance_percent"] for line in mine], "o", color=color, label=file,
                      alpha=0.7)
    axes.axhline(2.5, color=BOUND, linestyle=":", label="2.5 %")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("bytes of the tensor")
    axes.set_ylabel("kept bytes above the entropy bound, %")
    axes.legend()
    save(root, figure, "ratio")


# The same colour for a codec in every figure.
CODECS = {"cinch": COMPRESSED, "DietGPU": RAW, "nvCOMP ANS": "#55a868", "nvCOMP Bitcomp": "#8172b2"}


def gpu_lines(root):
    """bf16 N(0, 0.02), one item, default settings: what codecs are compared by."""
    return [line for line in load(root, "gpu_codec")
            if is_plain(line) and line["dtype"] == "bf16" and line["data"].startswith("gaussian")]


def draw_gpu_sizes(root):
    lines = gpu_lines(root)
    if not lines:
        return
    figure, both = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axes, field, title in zip(both, ("encode_gbps", "decode_gbps"), ("Encode", "Decode")):
        for codec, color in CODECS.items():
            mine = sorted((line["bytes"], line[field] / 1000) for line in lines
                          if line["codec"] == codec)
            if mine:
                axes.plot(*zip(*mine), "o-", color=color, label=codec)
        copies = sorted((line["bytes"], line["copy_gbps"] / 1000) for line in lines
                        if "copy_gbps" in line)
        axes.plot(*zip(*copies), ":", color=IDEAL, label="device copy")
        axes.set_title(title)
        axes.set_ylim(bottom=0)
        size_axis(axes)
    both[0].set_ylabel("TB/s of original bytes")
    both[0].legend()
    save(root, figure, "gpu_throughput_by_size")


def draw_gpu_ratio(root):
    lines = [line for line in gpu_lines(root) if line["bytes"] == 256 << 20]
    if not lines:
        return
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for line in lines:
        color = CODECS.get(line["codec"], BOUND)
        for field, marker, name in (("encode_gbps", "o", "encode"), ("decode_gbps", "s", "decode")):
            axes.plot(line[field] / 1000, line["kept_fraction"], marker, color=color,
                      label=f"{line['codec']}, {name}", markersize=8)
    axes.axhline(0.6590, color=BOUND, linestyle=":", label="bound")
    axes.set_xlim(left=0)
    axes.set_xlabel("TB/s of original bytes, 256 MiB of bf16")
    axes.set_ylabel("kept fraction (lower is better)")
    axes.legend(fontsize=8)
    save(root, figure, "gpu_ratio_by_throughput")


def draw_nvlink(root, ranks):
    """The best of fused to NCCL, by operation and size."""
    lines = [line for line in nvlink_tables.measured(load(root, nvlink_tables.name(ranks)))
             if line["dtype"] == "bf16" and line["data"].startswith("gaussian")]
    if not lines:
        return
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for operation in dict.fromkeys(line["operation"] for line in lines):
        mine = [line for line in lines if line["operation"] == operation]
        points = [(group[0]["bytes"], nvlink_tables.gain(group))
                  for group in nvlink_tables.groups(mine)]
        points = [point for point in points if point[1] is not None]
        if points:
            axes.plot(*zip(*points), "o-", label=operation)
    axes.axhline(1, color=BOUND, linewidth=1)
    axes.set_ylabel("times faster than NCCL")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{ranks} GPUs ({lines[0]['device']}), the best of fused")
    axes.legend(fontsize=8)
    size_axis(axes)
    save(root, figure, nvlink_tables.name(ranks))


def draw(root):
    for ranks in nvlink_tables.RANKS:
        draw_nvlink(root, ranks)
    draw_gpu_sizes(root)
    draw_gpu_ratio(root)
    draw_p2p(root)
    draw_codec(root)
    draw_ratio(root)
