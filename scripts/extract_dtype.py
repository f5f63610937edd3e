#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tensors of one dtype of a safetensors file one after another, as a raw file.

    extract_dtype.py SOURCE DTYPE DESTINATION BYTES

They are repeated or cut to BYTES bytes. Exits 1 when there are none.
"""

import json
import struct
import sys


def main(source, dtype, destination, size):
    with open(source, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    ranges = [entry["data_offsets"] for entry in header.values() if entry["dtype"] == dtype]
    content = b"".join(data[begin:end] for begin, end in ranges)
    if not content:
        sys.exit(1)
    size = int(size)
    with open(destination, "wb") as file:
        file.write((content * (size // len(content) + 1))[:size])


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
