# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/benchmarks.md about collectives over the GPUs of one host. Used by bench_tables."""

from bench_results import load, size_text, table
from gpu_tables import origin

RANKS = (2, 4, 8)
# What a link is called in the model, by what the device's name has.
LINKS = {"H100": "NVLink 4", "H200": "NVLink 4", "B200": "NVLink 5", "B300": "NVLink 5"}


def name(ranks):
    return f"nvlink_{ranks}"


def measured(lines):
    return [line for line in lines if line.get("bench") == "collectives"]


def predictions(lines):
    """The model's speed-up by link, wire bytes and whether it is one way."""
    found = {}
    for line in lines:
        for row in line.get("rows", []):
            one_way = "--one-way" in line.get("command", "")
            found[row["link"], row["bytes"], one_way] = row["speed_up"]
    return found


def predicted(found, line):
    link = next((link for word, link in LINKS.items() if word in line["device"]), None)
    speed_up = found.get((link, line["wire_bytes"], line["one_way"]))
    return "-" if speed_up is None else f"{speed_up:.2f}"


def groups(lines):
    """The lines of one operation and size, in the order of the operations, then sizes."""
    operations = list(dict.fromkeys(line["operation"] for line in lines))
    keys = sorted({(operations.index(line["operation"]), line["bytes"]) for line in lines})
    for operation, size in keys:
        yield [line for line in lines
               if line["operation"] == operations[operation] and line["bytes"] == size]


def rate(group, method, sms=None):
    return next((line["gbps"] for line in group if line["method"] == method
                 and (sms is None or line["sms"] == sms)), None)


def best_fused(group):
    return max((line["gbps"] for line in group if line["method"].startswith("fused")), default=None)


def gain(group):
    """The best of fused to NCCL; None when one of them is not there."""
    nccl, fused = rate(group, "nccl"), best_fused(group)
    return fused / nccl if nccl and fused else None


def verdict(group):
    """The target, and whether it is met."""
    target, found = group[0].get("target"), gain(group)
    if target is None or found is None:
        return "-"
    return f"{target:.2f} {'met' if found >= target else 'missed'}"


def pays_from(lines):
    """By operation the least size at which fused gained and from which on it never lost more than
    3 %; None where there is none. What src/collectives/fused/choice.cc goes by."""
    found = {}
    for group in groups(lines):
        operation, factor = group[0]["operation"], gain(group)
        if factor is None:
            continue
        if factor < 0.97 or (found.get(operation) is None and factor < 1):
            found[operation] = None
        elif found.get(operation) is None:
            found[operation] = group[0]["bytes"]
    return found


def pays_text(lines):
    return "Fused pays from: " + ", ".join(
        f"{operation} {size_text(size) if size else 'never'}"
        for operation, size in pays_from(lines).items()) + ".\n"


def text(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


def rows_of(lines, found, methods):
    rows = []
    for group in groups(lines):
        plain = [rate(group, method) for method in ("nccl", "wrapped", "copies")]
        wrong = any(line.get("same_bits") is False for line in group)
        rows.append([group[0]["operation"] + (" (RESULTS DIFFER)" if wrong else ""),
                     size_text(group[0]["bytes"]), *map(text, plain),
                     *(text(rate(group, method, sms)) for method, sms in methods),
                     text(gain(group), 2), verdict(group), predicted(found, group[0])])
    return rows


def nvlink(lines):
    """A table for each kind of data."""
    found = predictions(lines)
    mine = measured(lines)
    parts = [origin(lines)]
    for data, dtype in dict.fromkeys((line["data"], line["dtype"]) for line in mine):
        some = [line for line in mine if (line["data"], line["dtype"]) == (data, dtype)]
        methods = list(dict.fromkeys((line["method"], line["sms"]) for line in some
                                     if "sms" in line))
        heads = [f"{method}, {sms} SMs" for method, sms in methods]
        first = some[0]
        parts.append(f"{first['ranks']} x {first['device']}, NCCL {first.get('nccl', '-')}, "
                     f"{dtype}, {data}, GB/s of original bytes:\n")
        parts.append(table(["operation", "size", "NCCL", "with the interposer", "copies", *heads,
                            "best of fused to NCCL", "target", "predicted"],
                           rows_of(some, found, methods)) + "\n")
        if pays_from(some):
            parts.append(pays_text(some))
    return "\n".join(parts).rstrip("\n")


def of_ranks(ranks):
    return name(ranks), lambda root: nvlink(load(root, name(ranks)))


PARTS = {name(ranks): of_ranks(ranks) for ranks in RANKS}
