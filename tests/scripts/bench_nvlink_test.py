#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/bench-nvlink, as far as that takes no GPU, and of the tables of its results."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import nvlink_tables  # noqa: E402

MIB = 1 << 20


def line(operation, size, method, gbps, **more):
    return {"bench": "collectives", "operation": operation, "bytes": size, "method": method,
            "gbps": gbps, "ranks": 2, "data": "gaussian:0.02", "dtype": "bf16", "one_way": False,
            "wire_bytes": size // 2, "device": "NVIDIA H200", "nccl": "2.28.9",
            "machine": "a machine", "commit": "abc", "command": "fused_bench compare", **more}


def prediction(size, speed_up, command="cinch plan"):
    return {"rows": [{"link": "NVLink 4", "bytes": size, "speed_up": speed_up},
                     {"link": "NVLink 5", "bytes": size, "speed_up": 0.5}],
            "machine": "a machine", "commit": "abc", "command": command}


def rows(text):
    return [row for row in text.splitlines() if row.startswith("| ")]


class Tables(unittest.TestCase):
    def test_a_row_has_every_method(self):
        text = nvlink_tables.nvlink([
            line("all-gather", 256 * MIB, "nccl", 500, target=1.3),
            line("all-gather", 256 * MIB, "wrapped", 123, target=1.3),
            line("all-gather", 256 * MIB, "copies", 640),
            line("all-gather", 256 * MIB, "fused", 700, sms=64, same_bits=True),
            line("all-gather", 256 * MIB, "fused", 400, sms=16, same_bits=True),
            line("all-gather", 256 * MIB, "fused direct", 710, sms=64),
            line("all-gather", 256 * MIB, "fused raw", 600, sms=64),
            prediction(128 * MIB, 1.414)])
        self.assertEqual(rows(text), [
            "| operation | size | NCCL | with the interposer | copies | fused, 64 SMs | fused, 16 SMs "
            "| fused direct, 64 SMs | fused raw, 64 SMs | best of fused to NCCL | target | predicted |",
            "| all-gather | 256 MiB | 500 | 123 | 640 | 700 | 400 | 710 | 600 | 1.42 | 1.30 met | 1.41 |"])
        self.assertIn("2 x NVIDIA H200, NCCL 2.28.9, bf16, gaussian:0.02", text)
        self.assertIn("Measured on: a machine; commit abc.", text)

    def test_what_was_not_measured_is_a_dash(self):
        text = nvlink_tables.nvlink([line("send", MIB, "nccl", 84),
                                     line("all-gather", MIB, "fused", 50, sms=64)])
        self.assertEqual(rows(text)[1:], ["| send | 1 MiB | 84 | - | - | - | - | - | - |",
                                          "| all-gather | 1 MiB | - | - | - | 50 | - | - | - |"])

    def test_one_way_is_predicted_as_such(self):
        text = nvlink_tables.nvlink([
            prediction(MIB, 1.1), prediction(MIB, 1.3, "cinch plan --one-way"),
            line("send", MIB, "nccl", 100, wire_bytes=MIB, one_way=True),
            line("send-receive", MIB, "nccl", 100, wire_bytes=MIB)])
        self.assertTrue(rows(text)[1].endswith("| 1.30 |"))
        self.assertTrue(rows(text)[2].endswith("| 1.10 |"))

    def test_operations_keep_their_order_and_sizes_rise(self):
        text = nvlink_tables.nvlink([line(operation, size * MIB, "nccl", 1)
                                     for size in (256, 1) for operation in ("send", "all-gather")])
        self.assertEqual([row.split(" | ")[:2] for row in rows(text)[1:]],
                         [["| send", "1 MiB"], ["| send", "256 MiB"],
                          ["| all-gather", "1 MiB"], ["| all-gather", "256 MiB"]])

    def test_kinds_of_data_have_tables_of_their_own(self):
        text = nvlink_tables.nvlink([line("all-reduce", MIB, "nccl", 1),
                                     line("all-reduce", MIB, "nccl", 2, dtype="fp32")])
        self.assertEqual(text.count("| operation |"), 2)

    def test_a_missed_target_is_said(self):
        text = nvlink_tables.nvlink([line("send", MIB, "nccl", 100, target=1.1),
                                     line("send", MIB, "fused", 109, sms=64)])
        self.assertIn("| 1.10 missed |", text)

    def test_it_pays_from_the_size_on_at_which_it_no_longer_loses(self):
        def lines(operation, *gains):
            return [line(operation, MIB << place, method, rate, **more)
                    for place, factor in enumerate(gains)
                    for method, rate, more in (("nccl", 100, {}),
                                               ("fused", 100 * factor, {"sms": 64}))]
        found = nvlink_tables.pays_from(
            lines("send", 0.6, 1.2, 1.3) + lines("all-gather", 1.1, 0.9, 0.99, 1.0, 0.98)
            + lines("all-reduce", 0.4, 0.8) + lines("broadcast", 1.2, 1.1, 0.96)
            + [line("all-to-all", MIB, "nccl", 1)])
        self.assertEqual(found, {"send": 2 * MIB, "all-gather": 8 * MIB, "all-reduce": None,
                                 "broadcast": None})
        self.assertIn("Fused pays from: send 2 MiB, all-reduce never.", nvlink_tables.pays_text(
            lines("send", 0.6, 1.2) + lines("all-reduce", 0.4, 0.8)))

    def test_a_wrong_result_is_said(self):
        text = nvlink_tables.nvlink([line("send", MIB, "nccl", 1),
                                     line("send", MIB, "fused", 2, sms=64, same_bits=False)])
        self.assertIn("RESULTS DIFFER", text)


class Script(unittest.TestCase):
    def run_script(self, *arguments, gpus=0):
        """With a driver that shows so many GPUs."""
        with tempfile.TemporaryDirectory() as folder:
            driver = Path(folder) / "nvidia-smi"
            driver.write_text("#!/bin/sh\n" + "echo 'GPU 0: NVIDIA'\n" * gpus, encoding="utf-8")
            driver.chmod(0o755)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            environment.pop("CINCH_BENCH_WEIGHTS", None)
            return subprocess.run([str(ROOT / "scripts" / "bench-nvlink"), *arguments],
                                  env=environment, capture_output=True, text=True, check=False)

    def test_help_names_suites_and_options(self):
        done = self.run_script("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("collectives", "gradients", "weights", "transfers", "training", "--gpus",
                     "--seconds", "--build", "--only", "--try", "--dry"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("#", done.stdout)

    def test_too_few_gpus_are_said_before_anything_is_built(self):
        for gpus, arguments, wanted in ((0, [], 2), (1, [], 2), (1, ["collectives"], 2),
                                        (2, ["--gpus", "4"], 4)):
            done = self.run_script(*arguments, gpus=gpus)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"needs {wanted} GPUs, and {gpus} can be seen here", done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertEqual(self.run_script("--try").returncode, 3)

    def test_wrong_arguments_are_refused(self):
        for arguments in (["everything"], ["--gpus"], ["--fast"]):
            self.assertEqual(self.run_script(*arguments, gpus=2).returncode, 2)
        done = self.run_script("weights", gpus=2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("CINCH_BENCH_WEIGHTS", done.stderr)
        done = self.run_script("--build", "/nowhere", gpus=2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
