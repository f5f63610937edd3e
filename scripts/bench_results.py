# SPDX-License-Identifier: Apache-2.0
"""Reading bench/results and writing tables of them. Used by scripts/plot."""

import json


def load(root, name):
    """The lines of one result file; none when it is not there."""
    path = root / "bench" / "results" / f"{name}.json"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def size_text(size):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B" if size < 10000 else f"{size / 1e6:.2f} MB"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
