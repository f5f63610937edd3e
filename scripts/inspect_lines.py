#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints one line for each tensor of at least 1 MB of a file, from `cinch inspect`.

    inspect_lines.py CINCH FILE
"""

import json
import os
import subprocess
import sys


def main(cinch, path):
    output = subprocess.run([cinch, "inspect", "--json", path], check=True, capture_output=True)
    result = json.loads(output.stdout)
    for tensor in result["tensors"]:
        if tensor["bytes"] >= 1_000_000 and tensor["kind"] == "tensor":
            print(json.dumps({"bench": "inspect", "file": os.path.basename(path), **tensor}))
    print(json.dumps({"bench": "inspect", "file": os.path.basename(path), "name": "total",
                      "kind": "total", **result["total"]}))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
