# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line tool share."""

import json
import os
import random
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = os.environ["TEST_TOOL"]
SAMPLE = Path(os.environ["TEST_SOURCE_DIR"]) / "tests" / "data" / "sample.safetensors"

OK, FAILED, USAGE, BAD_DATA, PEER, EXISTS, UNSUPPORTED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


def environment(**changes):
    """The process's environment without settings of cinch, with `changes`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CINCH_")}
    return {**kept, **changes}


def safetensors(tensors, metadata=None):
    """The bytes of a safetensors file. `tensors` maps names to (dtype, shape, bytes)."""
    header = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def weights(elements, seed=1):
    """bf16 values that look like trained weights."""
    generator = random.Random(seed)
    values = (generator.gauss(0, 0.02) for _ in range(elements))
    return b"".join(struct.pack("<f", value)[2:] for value in values)


class CliTest(unittest.TestCase):
    """Each test has an empty directory `self.directory`, which is the tool's working directory."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cinch-cli-")
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def path(self, name):
        return self.directory / name

    def write(self, name, content):
        self.path(name).write_bytes(content)
        return self.path(name)

    def names(self, directory=None):
        return sorted(entry.name for entry in (directory or self.directory).iterdir())

    def cinch(self, *arguments, expect=OK, **options):
        """Runs the tool and checks its exit code; a failure must say something on stderr."""
        options.setdefault("env", environment())
        options.setdefault("timeout", 120)
        result = subprocess.run([TOOL, *map(str, arguments)], cwd=self.directory,
                                stdin=subprocess.DEVNULL, stdout=options.pop("stdout", subprocess.PIPE),
                                stderr=subprocess.PIPE, check=False, **options)
        errors = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, expect, f"{arguments}: {errors}")
        if expect != OK:
            self.assertIn("cinch", errors)
        result.errors = errors
        return result

    def json_of(self, *arguments, **options):
        """The JSON objects that the tool prints, one a line."""
        output = self.cinch(*arguments, "--json", **options).stdout
        return [json.loads(line) for line in output.splitlines()]
