#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a larger safetensors file of a smaller one's tensors.

    repeat_tensors.py SOURCE DESTINATION BYTES

The tensors are repeated under new names until the file has at least BYTES bytes.
"""

import json
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return header, data


def main(source, destination, size):
    header, data = read(source)
    copies = max(1, -(-int(size) // len(data)))
    repeated = {}
    for copy in range(copies):
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            repeated[f"copy{copy}.{name}"] = {
                **entry, "data_offsets": [begin + copy * len(data), end + copy * len(data)]}
    text = json.dumps(repeated).encode()
    text += b" " * (-len(text) % 8)
    with open(destination, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(copies):
            file.write(data)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
