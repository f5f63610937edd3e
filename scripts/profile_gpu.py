#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles the GPU codec's two kernels with Nsight Compute; prints a line of JSON a kernel.

    profile_gpu.py CINCH [--dtype bf16]... [--size-megabytes 256]

CINCH is the command line tool of a build with CUDA. Needs ncu and the right to read counters.
`instructions_per_1024` are warps' instructions for 1,024 elements, `thread_instructions_per_element`
the same for one element and thread (32 threads a warp). Stalls are waiting warps for each
instruction that is issued, the largest first.
"""

import argparse
import csv
import json
import subprocess
import sys

STALL = "smsp__average_warps_issue_stalled_"
STALL_END = "_per_issue_active.ratio"
METRICS = {
    "gpu__time_duration.sum": "microseconds",
    "smsp__inst_executed.sum": "instructions",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue_percent",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "l2_percent",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed": "shared_percent",
    "sm__warps_active.avg.per_cycle_active": "warps_active",
    "launch__registers_per_thread": "registers",
    "launch__block_size": "threads",
    "launch__grid_size": "thread_blocks",
}
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8, "fp8_e4m3fn": 1, "fp8_e5m2": 1,
                 "auto": 2}
# Of a duration's unit, in microseconds.
UNITS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}


def run_ncu(cinch, dtype, megabytes):
    metrics = [*METRICS, f"regex:{STALL}.*_per_issue_active"]
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw",
               "--print-kernel-base", "function", "--metrics", ",".join(metrics), "--kernel-name", "regex:^(Encode|Decode)Kernel",
               "--launch-count", "2", cinch, "bench", "codec", "--backend", "cuda", "--dtype", dtype,
               "--size", f"{megabytes}M", "--repeat", "1", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"ncu failed: {result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    lines = result.stdout.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        sys.exit(f"ncu printed no table: {result.stdout[-2000:]}")
    rows = list(csv.DictReader(lines[start:]))
    return rows[0], rows[1:]


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def line_of(units, row, dtype, megabytes):
    line = {"bench": "gpu_profile", "kernel": row["Kernel Name"].split("(")[0].split("::")[-1], "dtype": dtype,
            "bytes": megabytes << 20}
    for metric, name in METRICS.items():
        value = number(row.get(metric, ""))
        if value is None:
            continue
        scale = UNITS.get(units[metric], 1) if name == "microseconds" else 1
        line[name] = value * scale
    elements = (megabytes << 20) / ELEMENT_BYTES[dtype]
    line["instructions_per_1024"] = line["instructions"] * 1024 / elements
    line["thread_instructions_per_element"] = line["instructions"] * 32 / elements
    stalls = {name[len(STALL):-len(STALL_END)]: number(value) for name, value in row.items()
              if name.startswith(STALL) and name.endswith(STALL_END)}
    stalls = {name: value for name, value in stalls.items() if value and "not_issued" not in name}
    line["stalls"] = dict(sorted(stalls.items(), key=lambda item: -item[1])[:6])
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cinch")
    parser.add_argument("--dtype", action="append", choices=ELEMENT_BYTES)
    parser.add_argument("--size-megabytes", type=int, default=256)
    options = parser.parse_args()
    for dtype in options.dtype or ["bf16"]:
        units, rows = run_ncu(options.cinch, dtype, options.size_megabytes)
        for row in rows:
            print(json.dumps(line_of(units, row, dtype, options.size_megabytes)), flush=True)


if __name__ == "__main__":
    main()
