#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures ZipNN (PyPI) with one thread on a file of bf16 values, as a line like cinch's own.

    zipnn.py FILE [--repeat N]

Installs zipnn into a virtual environment under the user's cache when it cannot be imported. Times are
medians; the decompressed bytes are compared. `gbps` is 10^9 original bytes a second.
"""

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path

# This file is called like the package.
sys.path.pop(0)

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cinch-bench" / "zipnn"


def run_in_environment():
    """Starts this script again with an interpreter that has zipnn."""
    python = CACHE / "bin" / "python"
    if not python.exists():
        venv.create(CACHE, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "zipnn"],
                   check=True, stdout=sys.stderr)
    os.execv(python, [str(python), *sys.argv])


def measure(data, repeat):
    from zipnn import ZipNN  # pylint: disable=import-outside-toplevel

    coder = ZipNN(input_format="byte", bytearray_dtype="bfloat16", threads=1)
    encode, decode = [], []
    compressed = restored = None
    for _ in range(repeat):
        # It rotates bits of its input in place.
        original = bytearray(data)
        start = time.perf_counter()
        compressed = coder.compress(original)
        middle = time.perf_counter()
        restored = coder.decompress(compressed)
        decode.append(time.perf_counter() - middle)
        encode.append(middle - start)
    return encode, decode, len(compressed), bytes(restored) == data


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    data = Path(options.file).read_bytes()
    encode, decode, size, verified = measure(data, options.repeat)
    print(json.dumps({
        "bench": "codec", "backend": "zipnn", "version": importlib.metadata.version("zipnn"),
        "dtype": "bf16", "data": f"file:{options.file}", "bytes": len(data), "threads": 1,
        "repeat": options.repeat, "compressed_bytes": size, "kept_fraction": size / len(data),
        "encode_seconds": statistics.median(encode), "decode_seconds": statistics.median(decode),
        "encode_gbps": len(data) / statistics.median(encode) / 1e9,
        "decode_gbps": len(data) / statistics.median(decode) / 1e9, "verified": verified}))


if __name__ == "__main__":
    try:
        import zipnn  # noqa: F401
    except ImportError:
        run_in_environment()
    main()
