#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the two transfers of scripts/demo took, from the reports in a directory."""

import json
import sys
from pathlib import Path


def load(directory, policy, end):
    return json.loads((Path(directory) / f"{policy}.{end}.json").read_text(encoding="utf-8"))


def hidden(*reports):
    """Percent of both ends' codec time in which the wire was busy."""
    busy = sum(report["codec_busy_seconds"] for report in reports)
    overlapped = sum(report["codec_busy_seconds"] * (report["hidden_codec_fraction"] or 0)
                     for report in reports)
    return f"{100 * overlapped / busy:.1f} %" if busy else "-"


def column(directory, policy, raw_seconds):
    send, receive = (load(directory, policy, end) for end in ("send", "recv"))
    return [policy, f"{send['payload_bytes']:,}", f"{send['wire_bytes']:,}",
            f"{100 * send['kept_fraction']:.2f} %", f"{send['seconds']:.3f} s",
            f"{send['goodput_gbps']:.3f} Gbit/s", f"{raw_seconds / send['seconds']:.3f} x",
            hidden(send, receive), f"{100 * send['wire_busy_fraction']:.1f} %", send["path"]]


def main(directory):
    raw_seconds = load(directory, "raw", "send")["seconds"]
    names = ["", "payload bytes", "bytes on the wire", "kept", "time", "goodput", "speed-up",
             "codec time hidden", "wire busy", "path"]
    columns = [names] + [column(directory, policy, raw_seconds) for policy in ("raw", "compressed")]
    widths = [max(map(len, cells)) for cells in columns]
    for row in zip(*columns):
        print(f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
