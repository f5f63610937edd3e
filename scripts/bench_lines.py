#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark and keeps its lines.

    bench_lines.py RESULT COMMAND...

Appends every JSON line that COMMAND prints to RESULT, with `machine`, `commit` and `command` added,
and prints it. COMMAND is recorded without the directories of its program and files.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit():
    described = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"],
                               capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


def readable(command):
    """The command as somebody would type it: without wrappers and absolute directories."""
    words = list(command)
    settings = []
    while words and (words[0] == "env" or "=" in words[0] or words[0] in ("ip", "netns", "exec")
                     or words[0].startswith("cinch-")):
        if "=" in words[0]:
            settings.append(words[0])
        words.pop(0)
    return " ".join(settings + [short(word) for word in words])


def short(word):
    """A path inside the project relative to it, any other without its directories."""
    prefix = "file:" if word.startswith("file:") else ""
    path = word[len(prefix):]
    root = os.getcwd() + "/"
    if path.startswith(root):
        return prefix + path[len(root):]
    if path.startswith("/"):
        head, separator, tail = path.partition(":")
        return prefix + os.path.basename(head) + separator + tail
    return word


def main(result, *command):
    facts = {"machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()} "
                        f"{'.'.join(platform.release().split('.')[:2])}",
             "commit": commit(), "command": readable(command)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, \
            open(result, "a", encoding="utf-8") as file:
        for line in process.stdout:
            entry = json.loads(line)
            if "data" in entry:
                entry["data"] = short(entry["data"])
            file.write(json.dumps({**entry, **facts}, sort_keys=True) + "\n")
            file.flush()
            sys.stdout.write(line)
            sys.stdout.flush()
    return process.returncode


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
