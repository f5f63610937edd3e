# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/benchmarks.md about the GPU's codec. Used by bench_tables."""

from bench_results import load, size_text, table

PEERS = ["DietGPU", "nvCOMP ANS", "nvCOMP Bitcomp"]
KIND_NAMES = {"weight": "weights", "gradient": "gradients", "k_cache": "K cache", "v_cache": "V cache",
              "gated_mlp": "gated MLP activations", "relu_mlp": "activations after ReLU",
              "mlp_input": "input of the MLP", "residual": "residual stream",
              "adam_first": "Adam, first moment", "adam_second": "Adam, second moment",
              "weight fp32": "master weights", "weight fp16": "weights as fp16",
              "weight fp8": "weights as fp8"}


def origin(lines):
    seen = dict.fromkeys(f"{line['machine']}; commit {line['commit']}" for line in lines
                         if "machine" in line)
    return "\n".join(f"Measured on: {text}.\n" for text in seen)


def is_plain(line):
    """The default settings: everything, told the dtype, one item."""
    return (line["bench"] == "gpu_codec" and line["item_bytes"] == 0
            and line.get("told", line["dtype"]) == line["dtype"] and not line.get("max_ctas")
            and line.get("checksum", True))


def microseconds(line, field):
    return f"{1e6 * line[field]:.1f}"


def rate(line, field):
    return f"{line[field] / 1000:.2f}"


def sizes(lines):
    """bf16 by size: cinch and its peers."""
    rows = []
    for line in lines:
        if not (is_plain(line) and line["dtype"] == "bf16" and line["data"].startswith("gaussian")):
            continue
        copy = microseconds(line, "copy_seconds") if "copy_seconds" in line else ""
        rows.append((line["bytes"], [size_text(line["bytes"]), line["codec"],
                                     microseconds(line, "encode_seconds"),
                                     microseconds(line, "decode_seconds"),
                                     rate(line, "encode_gbps"), rate(line, "decode_gbps"),
                                     f"{line['kept_fraction']:.4f}", copy]))
    rows.sort(key=lambda row: row[0])
    return origin(lines) + "\n" + table(
        ["size", "codec", "encode us", "decode us", "encode TB/s", "decode TB/s", "kept",
         "device copy us"], [row for _, row in rows])


def settings_text(line):
    words = []
    if line.get("told", line["dtype"]) != line["dtype"]:
        words.append(f"told {line['told']}")
    if line["item_bytes"]:
        words.append(f"{line['bytes'] // line['item_bytes']:,} items of "
                     f"{size_text(line['item_bytes'])}")
    if line.get("max_ctas"):
        words.append(f"{line['max_ctas']} thread blocks")
    if not line.get("checksum", True):
        words.append("no checksum")
    return ", ".join(words)


def settings(lines):
    """Everything that is not the plain bf16 table: dtypes, batches, budgets, real data."""
    base = {line["codec"]: line for line in lines
            if is_plain(line) and line["dtype"] == "bf16" and line["bytes"] == 256 << 20
            and line["data"].startswith("gaussian")}
    rows = []
    for line in lines:
        if line["bench"] != "gpu_codec" or (is_plain(line) and line["dtype"] == "bf16"
                                            and line["data"].startswith("gaussian")):
            continue
        relative = base.get(line["codec"])
        data = "" if line["data"].startswith("gaussian") else line["data"].split(":", 1)[1]
        rows.append([line["codec"], line["dtype"], size_text(line["bytes"]),
                     ", ".join(filter(None, [data, settings_text(line)])) or "one item",
                     rate(line, "encode_gbps"), rate(line, "decode_gbps"),
                     f"{line['kept_fraction']:.4f}",
                     *(f"{100 * line[field] / relative[field]:.0f} %" if relative else "-"
                       for field in ("encode_gbps", "decode_gbps"))])
    return table(["codec", "dtype", "size", "what", "encode TB/s", "decode TB/s", "kept",
                  "encode / 256 MiB bf16", "decode / 256 MiB bf16"], rows)


def host(lines):
    rows = [[size_text(line["bytes"]), f"{line['wire_write_gbps']:.1f}",
             f"{line['plain_write_gbps']:.1f}", f"{100 * line['write_fraction']:.1f} %",
             f"{line['wire_read_gbps']:.1f}", f"{line['plain_read_gbps']:.1f}",
             f"{100 * line['read_fraction']:.1f} %"]
            for line in lines if line["bench"] == "gpu_host_output"]
    return table(["input", "frame written GB/s", "plain kernel writes GB/s", "share",
                  "frame read GB/s", "plain kernel reads GB/s", "share"], rows)


def profile(lines):
    rows = []
    for line in lines:
        stalls = ", ".join(f"{name.replace('_', ' ')} {value:.2f}"
                           for name, value in list(line["stalls"].items())[:3])
        rows.append([line["kernel"].removesuffix("Kernel"), line["dtype"],
                     f"{line['instructions_per_1024']:.0f}",
                     f"{line['thread_instructions_per_element']:.1f}",
                     f"{line['issue_percent']:.0f} %", f"{line['dram_percent']:.0f} %",
                     f"{line['warps_active']:.0f}", f"{line['registers']:.0f}", stalls])
    return origin(lines) + "\n" + table(
        ["kernel", "dtype", "warp instructions for 1,024 elements", "instructions an element",
         "issue slots used", "memory's rate used", "warps", "registers", "stalls"], rows)


def trained(lines):
    rows = []
    tensors = [line for line in lines if line["bench"] == "trained_tensors"]
    for kind in dict.fromkeys(line["kind"] for line in tensors):
        mine = sorted((line for line in tensors if line["kind"] == kind),
                      key=lambda line: line["distance_percent"])
        total = sum(line["bytes"] for line in mine)
        bound, kept, auto = (sum(line["bytes"] * line[field] for line in mine) / total for field in
                             ("bound_fraction", "kept_fraction", "auto_kept_fraction"))
        rows.append([KIND_NAMES.get(kind, kind), mine[0]["dtype"], str(len(mine)),
                     f"{total / 1e6:.0f}", f"{bound:.4f}", f"{kept:.4f}", f"{auto:.4f}",
                     f"{100 * (kept / bound - 1):.2f} %",
                     f"{mine[len(mine) // 2]['distance_percent']:.2f} %",
                     f"{mine[-1]['distance_percent']:.2f} %"])
    return origin(lines) + "\n" + table(
        ["tensors", "dtype", "count", "MB", "bound", "kept", "kept, told auto", "distance",
         "median distance", "largest"], rows)


def trained_speed(lines):
    return table(
        ["tensors", "dtype", "MB", "encode TB/s", "decode TB/s", "kept", "encode TB/s, told auto",
         "decode TB/s, told auto", "kept, told auto"],
        [[KIND_NAMES.get(line["kind"], line["kind"]), line["dtype"], f"{line['bytes'] / 1e6:.0f}",
          rate(line, "encode_gbps"), rate(line, "decode_gbps"), f"{line['kept_fraction']:.4f}",
          rate(line, "auto_encode_gbps"), rate(line, "auto_decode_gbps"),
          f"{line['auto_kept_fraction']:.4f}"]
         for line in lines if line["bench"] == "trained_tensors_speed"])


def versions(lines):
    return table(
        ["learning rate of the step", "weights changed", "groups of 32 touched",
         "kept of the XOR, told bf16", "told auto"],
        [[f"{line['learning_rate']:g}", f"{100 * line['changed_fraction']:.1f} %",
          f"{100 * line['touched_groups_fraction']:.1f} %", f"{line['xor_kept_fraction']:.3f}",
          f"{line['xor_auto_kept_fraction']:.3f}"]
         for line in lines if line["bench"] == "trained_tensors_versions"])


def of_file(name, make):
    """A part of bench_tables: its file, and what it makes of the tree's root."""
    return name, lambda root: make(load(root, name))


PARTS = {"gpu_sizes": of_file("gpu_codec", sizes), "gpu_settings": of_file("gpu_codec", settings),
         "gpu_host": of_file("gpu_codec", host), "gpu_profile": of_file("gpu_profile", profile),
         "trained": of_file("trained", trained), "trained_speed": of_file("trained", trained_speed),
         "versions": of_file("trained", versions)}
