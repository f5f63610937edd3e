#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compress, decompress, verify and inspect, end to end."""

import os
import resource
import shutil
import signal
import stat
import subprocess
import time
import unittest

from cli_support import (BAD_DATA, EXISTS, FAILED, INTERRUPTED, SAMPLE, TOOL, UNSUPPORTED, USAGE,
                         CliTest, environment, safetensors, weights)


class RoundTripTest(CliTest):
    def round_trip(self, name, *options):
        original = self.path(name).read_bytes()
        self.cinch("compress", name, *options)
        self.cinch("verify", f"{name}.cinch")
        self.cinch("decompress", f"{name}.cinch", "-o", "restored")
        self.assertEqual(self.path("restored").read_bytes(), original)
        compressed = self.path(f"{name}.cinch").stat().st_size
        self.path("restored").unlink()
        self.path(f"{name}.cinch").unlink()
        self.assertEqual(self.names(), [name])
        return compressed / max(1, len(original))

    def test_sample(self):
        shutil.copy(SAMPLE, self.path("sample.safetensors"))
        self.assertLess(self.round_trip("sample.safetensors"), 0.72)
        self.round_trip("sample.safetensors", "--backend", "reference", "--threads", "1")

    def test_sizes_of_raw_files(self):
        for size in (0, 1, 2, 3, 32767, 32768, 32769, (16 << 20) - 1, 16 << 20, (16 << 20) + 1):
            self.write("file", (weights(4096) * (size // 8192 + 1))[:size])
            self.round_trip("file")

    def test_a_wrong_dtype_costs_nothing_but_ratio(self):
        self.write("file", weights(20000))
        for dtype in ("bytes", "auto", "bf16", "fp32", "fp64", "fp8_e4m3fn", "int64"):
            self.round_trip("file", "--dtype", dtype)

    def test_oddities_of_safetensors(self):
        self.write("a.safetensors", safetensors(
            {"none": ("F32", [0, 4], b""), "scalar": ("BF16", [], weights(1)),
             "odd": ("U8", [3], b"abc"), "w": ("BF16", [500], weights(500))}, {"by": "a test"}))
        self.round_trip("a.safetensors")
        self.write("a.safetensors", safetensors({}))
        self.round_trip("a.safetensors")

    def test_many_small_tensors(self):
        self.write("a.safetensors", safetensors(
            {f"t{index}": ("BF16", [4], weights(4, index)) for index in range(2000)}))
        self.round_trip("a.safetensors")

    def test_same_bytes_from_both_backends_and_any_threads(self):
        shutil.copy(SAMPLE, self.path("s.safetensors"))
        containers = []
        for options in (("--backend", "cpu", "--threads", "1"), ("--backend", "cpu", "--threads", "3"),
                        ("--backend", "reference",)):
            self.cinch("compress", "s.safetensors", "--force", *options)
            containers.append(self.path("s.safetensors.cinch").read_bytes())
        self.assertEqual(containers[0], containers[1])
        self.assertEqual(containers[0], containers[2])

    def test_through_pipes(self):
        shutil.copy(SAMPLE, self.path("s"))
        container = self.cinch("compress", "s", "-o", "-").stdout
        self.write("c", container)
        self.assertEqual(self.cinch("decompress", "c", "-o", "-").stdout, SAMPLE.read_bytes())


class RefusalTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("w.bin", weights(40000))
        self.cinch("compress", "w.bin", "--quiet")
        self.before = self.names()

    def refused(self, code, *arguments, says=None, **options):
        errors = self.cinch(*arguments, expect=code, **options).errors
        if says:
            self.assertIn(says, errors)
        self.assertEqual(self.names(), self.before, arguments)

    def test_existing_output(self):
        self.refused(EXISTS, "compress", "w.bin", says="--force")
        self.refused(EXISTS, "decompress", "w.bin.cinch", says="--force")
        self.cinch("compress", "w.bin", "--force")
        self.cinch("decompress", "w.bin.cinch", "--force")

    def test_output_is_input(self):
        content = self.path("w.bin").read_bytes()
        os.link(self.path("w.bin"), self.path("link"))
        os.symlink("w.bin", self.path("symlink"))
        self.before = self.names()
        for name in ("w.bin", "./w.bin", "link", "symlink"):
            self.refused(USAGE, "compress", "w.bin", "-o", name, "--force", says="input and output")
        self.refused(USAGE, "decompress", "w.bin.cinch", "-o", "w.bin.cinch", "--force")
        self.assertEqual(self.path("w.bin").read_bytes(), content)

    def test_unreadable_input(self):
        self.refused(FAILED, "compress", "absent", says="check the path")
        self.refused(USAGE, "compress", self.directory, says="not a regular file")
        self.refused(FAILED, "verify", "absent")
        self.refused(FAILED, "inspect", "absent")
        self.refused(USAGE, "decompress", self.directory, "-o", "x")

    @unittest.skipIf(os.geteuid() == 0, "root reads everything")
    def test_no_permission(self):
        self.path("w.bin").chmod(0)
        self.refused(FAILED, "compress", "w.bin", "-o", "x", says="readable")

    def test_bad_output(self):
        self.path("directory").mkdir()
        self.before = self.names()
        self.refused(USAGE, "compress", "w.bin", "-o", "directory", "--force", says="a directory")
        self.refused(FAILED, "compress", "w.bin", "-o", "absent/x", says="create the directory")

    def test_devices_stay_devices(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.before = self.names()
        self.refused(USAGE, "compress", "w.bin", "-o", "fifo", "--force", says="-o -")
        self.assertTrue(stat.S_ISFIFO(fifo.stat().st_mode))

    def test_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))
        self.refused(FAILED, "compress", "w.bin", "-o", "x", says="free space", preexec_fn=limit)
        self.refused(FAILED, "decompress", "w.bin.cinch", "-o", "x", says="free space",
                     preexec_fn=limit)
        with open("/dev/full", "wb") as full:
            self.refused(FAILED, "compress", "w.bin", "-o", "-", stdout=full)
            self.refused(FAILED, "decompress", "w.bin.cinch", "-o", "-", stdout=full)
            self.refused(FAILED, "inspect", "w.bin", stdout=full)

    def test_wrong_options(self):
        self.refused(USAGE)
        self.refused(USAGE, "compress")
        self.refused(USAGE, "squeeze", "w.bin")
        self.refused(USAGE, "compress", "w.bin", "--dtype", "bf17", says="bf16")
        self.refused(USAGE, "compress", "w.bin", "--backend", "abacus", says="reference")
        self.refused(USAGE, "compress", "w.bin", "--threads", "-1")
        self.refused(USAGE, "compress", "w.bin.cinch", "-o", "x", says="already")
        self.refused(USAGE, "decompress", "w.bin", says="-o")

    def test_a_backend_that_is_not_built(self):
        backends = self.json_of("info")[0]["backends"]
        if "cuda" not in backends:
            self.refused(UNSUPPORTED, "compress", "w.bin", "-o", "x", "--backend", "cuda",
                         says="cuda")

    def test_not_a_container(self):
        self.refused(BAD_DATA, "verify", "w.bin", says="not a valid .cinch file")
        self.refused(BAD_DATA, "decompress", "w.bin", "-o", "x")

    def test_interruption_leaves_nothing(self):
        with open(self.path("large"), "wb") as file:
            file.truncate(8 << 30)
        self.before = self.names()
        process = subprocess.Popen([TOOL, "compress", "large", "--threads", "1"],
                                   cwd=self.directory, env=environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        # At work once its input is mapped; 8 GiB last far longer than it takes to notice that.
        deadline = time.monotonic() + 20
        while not self.has_mapped(process, "large") and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, errors)
        self.assertEqual(self.names(), self.before)

    def has_mapped(self, process, name):
        with open(f"/proc/{process.pid}/maps") as maps:
            return any(line.rstrip().endswith(str(self.path(name))) for line in maps)

    def test_closed_standard_descriptors(self):
        # The next file opened would get such a number; the log must not end up in it.
        self.cinch("compress", "w.bin", "-o", "expected")
        for numbers in ((2,), (0, 2), (1, 2), (0, 1, 2)):
            def close(numbers=numbers):
                for number in numbers:
                    os.close(number)
            for output, arguments in (("made", ("compress", "w.bin", "-o", "made")),
                                      ("back", ("decompress", "expected", "-o", "back"))):
                subprocess.run([TOOL, *arguments], cwd=self.directory, check=False, timeout=60,
                               env=environment(CINCH_LOG="debug", CINCH_NOT_A_SETTING="1"),
                               stdout=subprocess.DEVNULL, preexec_fn=close)
                original = self.path("expected" if output == "made" else "w.bin")
                self.assertEqual(self.path(output).read_bytes(), original.read_bytes(), numbers)
                self.path(output).unlink()

    def test_a_file_that_shrinks_meanwhile(self):
        for command in (("compress", "large", "-o", "x"), ("inspect", "large")):
            with open(self.path("large"), "wb") as file:
                file.truncate(8 << 30)
            before = self.names()
            process = subprocess.Popen([TOOL, *command, "--threads", "1"], cwd=self.directory,
                                       env=environment(), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            time.sleep(0.5)
            os.truncate(self.path("large"), 1 << 20)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, FAILED, errors)
            self.assertIn(b"shorter", errors)
            self.assertEqual(self.names(), before)


class DamageTest(CliTest):
    """Damage at places spread over a file; container_test.cc does every bit of a small one."""

    def test_damaged_containers(self):
        self.write("w", weights(40000))
        self.cinch("compress", "w", "--quiet")
        good = self.path("w.cinch").read_bytes()
        size = len(good)
        damaged = [good[:keep] for keep in (0, 10, 63, 64, 200, size // 2, size - 64, size - 1)]
        damaged.append(good + b"x")
        for place in (0, 9, 20, 60, 100, 300, size // 2, size - 70, size - 60, size - 1):
            damaged.append(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1:])
        self.path("w").unlink()
        for content in damaged:
            self.write("w.cinch", content)
            self.cinch("verify", "w.cinch", expect=BAD_DATA)
            self.cinch("decompress", "w.cinch", expect=BAD_DATA)
            self.assertEqual(self.names(), ["w.cinch"])

    def test_damaged_safetensors(self):
        good = safetensors({"w": ("BF16", [100], weights(100))})
        text = good[8:].split(b"}}", 1)[0] + b"}}"
        for content in (b"", good[:7], good[:-1], good + b"x",
                        b"\xff" * 8 + good[8:],
                        good.replace(b'"BF16"', b'"BF17"'),
                        good.replace(b"[100]", b"[101]"),
                        good.replace(b"[0, 200]", b"[2, 200]"),
                        good.replace(text, text[:-1] + b"{")):
            self.write("w.safetensors", content)
            code = UNSUPPORTED if b"BF17" in content else BAD_DATA
            for command in ("verify", "inspect", "compress"):
                self.cinch(command, "w.safetensors", expect=code)
            self.assertEqual(self.names(), ["w.safetensors"])


class BaseTest(CliTest):
    def setUp(self):
        super().setUp()
        self.old = weights(50000)
        self.new = self.old[:50000] + weights(25000, seed=2)
        self.write("old", self.old)
        self.write("new", self.new)
        self.cinch("compress", "new", "--base", "old")

    def refused(self, code, *arguments):
        return self.cinch(*arguments, expect=code)

    def test_round_trip(self):
        self.assertLess(self.path("new.cinch").stat().st_size, 0.5 * len(self.new))
        self.cinch("decompress", "new.cinch", "-o", "back", "--base", "old")
        self.assertEqual(self.path("back").read_bytes(), self.new)
        self.cinch("verify", "new.cinch", "--base", "old")

    def test_the_base_may_be_the_file_itself_or_be_replaced_by_what_comes_out(self):
        self.cinch("compress", "old", "--base", "old", "-o", "same.cinch")
        self.assertLess(self.path("same.cinch").stat().st_size, 0.02 * len(self.old))
        self.cinch("decompress", "new.cinch", "-o", "old", "--base", "old", "--force")
        self.assertEqual(self.path("old").read_bytes(), self.new)

    def test_a_base_that_would_be_replaced_by_what_needs_it_is_refused(self):
        result = self.cinch("compress", "new", "--base", "old", "-o", "./old", "--force",
                            expect=USAGE)
        self.assertIn("base and output", result.errors)
        self.assertEqual(self.path("old").read_bytes(), self.old)

    def test_what_is_needed_is_said_and_nothing_is_left(self):
        names = self.names()
        self.write("other", self.new)
        self.write("short", self.old[:-1])
        self.write("empty", b"")
        size = str(len(self.new))
        for command in (("decompress", "new.cinch", "-o", "back"), ("verify", "new.cinch"),
                        ("inspect", "new.cinch")):
            missing = self.refused(USAGE, *command)
            self.assertIn("--base", missing.errors)
            self.assertIn(size, missing.errors)
            self.assertIn("CINCH_ERROR_FRAME_BASE_MISSING", missing.errors)
            wrong = self.refused(USAGE, *command, "--base", "other")
            self.assertIn("is not the one", wrong.errors)
            self.assertIn("CINCH_ERROR_FRAME_BASE_MISMATCH", wrong.errors)
            for base in ("short", "empty", "new.cinch"):
                self.assertIn(size, self.refused(USAGE, *command, "--base", base).errors)
            self.assertIn("absent", self.refused(FAILED, *command, "--base", "absent").errors)
        for base, code in (("short", USAGE), ("empty", USAGE), ("absent", FAILED)):
            self.refused(code, "compress", "new", "-o", "x", "--base", base)
            self.refused(code, "inspect", "new", "--base", base)
        self.assertEqual(self.names(), sorted(names + ["empty", "other", "short"]))

    def test_nothing_is_written_to_a_pipe_without_the_base(self):
        self.assertEqual(self.cinch("decompress", "new.cinch", "-o", "-", expect=USAGE).stdout, b"")

    def test_a_base_that_differs_late_is_named_by_its_tensor(self):
        tensors = {"a": ("BF16", [5000], weights(5000)), "b": ("BF16", [5000], weights(5000, 2))}
        changed = {**tensors, "b": ("BF16", [5000], weights(5000, 3))}
        self.write("1.safetensors", safetensors(tensors))
        self.write("2.safetensors", safetensors(changed))
        self.cinch("compress", "2.safetensors", "--base", "1.safetensors")
        result = self.refused(USAGE, "decompress", "2.safetensors.cinch", "-o", "back", "--base",
                              "2.safetensors")
        self.assertIn("'b'", result.errors)
        self.cinch("decompress", "2.safetensors.cinch", "-o", "back", "--base", "1.safetensors")
        self.assertEqual(self.path("back").read_bytes(), safetensors(changed))

    def test_a_base_is_not_looked_at_without_need(self):
        self.cinch("compress", "old", "-o", "plain.cinch")
        for base in ("old", "new.cinch"):
            self.cinch("decompress", "plain.cinch", "-o", "back", "--base", base, "--force")
            self.assertEqual(self.path("back").read_bytes(), self.old)
        self.cinch("verify", "new.cinch", "plain.cinch", "--base", "old")

    def test_damage_is_not_taken_for_another_base(self):
        data = bytearray(self.path("new.cinch").read_bytes())
        data[len(data) // 2] ^= 1
        self.write("bad.cinch", data)
        self.refused(BAD_DATA, "verify", "bad.cinch", "--base", "old")

    def test_an_empty_file_needs_no_base(self):
        self.write("e", b"")
        self.cinch("compress", "e", "--base", "e", "-o", "e.cinch")
        self.cinch("decompress", "e.cinch", "-o", "back")
        self.assertEqual(self.path("back").read_bytes(), b"")

    def test_summaries_say_what_it_was_relative_to(self):
        self.assertEqual(self.json_of("compress", "new", "-o", "x", "--base", "old")[0]["base"], "old")
        self.assertIsNone(self.json_of("compress", "new", "-o", "y")[0]["base"])

    def test_help_names_it(self):
        for command in ("compress", "decompress", "verify", "inspect"):
            self.assertIn(b"--base", self.cinch(command, "--help").stdout)


class InspectTest(CliTest):
    def test_sample(self):
        result = self.json_of("inspect", SAMPLE)[0]
        self.assertEqual(len(result["tensors"]), 19 + 1)
        self.assertEqual(result["total"]["bytes"], SAMPLE.stat().st_size)
        for tensor in result["tensors"]:
            if tensor["dtype"] == "bf16" and tensor["bytes"] >= 1 << 20:
                self.assertLess(tensor["distance_percent"], 2.5, tensor["name"])
                self.assertGreater(tensor["distance_percent"], 0, tensor["name"])
                self.assertAlmostEqual(tensor["kept_fraction"],
                                       tensor["kept_bytes"] / tensor["bytes"])

    def test_a_container_says_the_same(self):
        shutil.copy(SAMPLE, self.path("s.safetensors"))
        self.cinch("compress", "s.safetensors")
        plain = self.json_of("inspect", "s.safetensors")[0]
        container = self.json_of("inspect", "s.safetensors.cinch")[0]
        self.assertEqual(container["tensors"], plain["tensors"])
        self.assertEqual(container["total"], plain["total"])

    def test_raw_files_and_tables(self):
        self.write("w", weights(100000))
        told = self.json_of("inspect", "w", "--dtype", "bf16")[0]["total"]
        found = self.json_of("inspect", "w")[0]["total"]
        self.assertLess(told["kept_fraction"], 0.68)
        self.assertAlmostEqual(found["kept_fraction"], told["kept_fraction"], delta=0.005)
        table = self.cinch("inspect", "w", "--dtype", "bf16").stdout.decode()
        self.assertIn("distance", table)
        self.assertIn("total", table)
        self.write("e", b"")
        self.assertEqual(self.json_of("inspect", "e")[0]["total"]["kept_bytes"], 0)

    def test_sparse_blocks_and_deltas_are_counted(self):
        old = weights(50000)
        new = bytearray(old)
        for at in range(0, len(new), 200):
            new[at] ^= 1
        self.write("old", old)
        self.write("new", new)
        self.cinch("compress", "new", "--dtype", "bf16", "--base", "old")
        total = self.json_of("inspect", "new.cinch", "--base", "old")[0]["total"]
        self.assertTrue(total["delta"])
        self.assertEqual(total["blocks"], {"stored": 0, "constant": 0, "cascade": 0, "sparse": 4})
        self.assertLess(total["kept_fraction"], 0.05)
        self.assertIn(b"delta", self.cinch("inspect", "new.cinch", "--base", "old").stdout)
        self.assertFalse(self.json_of("inspect", "old")[0]["total"]["delta"])
        # Without a .cinch file: what one would keep.
        relative = self.json_of("inspect", "new", "--dtype", "bf16", "--base", "old")[0]["total"]
        self.assertEqual(relative["blocks"], total["blocks"])
        self.assertEqual(relative["kept_bytes"], total["kept_bytes"])

    def test_names_cannot_command_the_terminal(self):
        self.write("a.safetensors", safetensors({"\x1b[2Jx": ("U8", [1], b"a")}))
        self.assertNotIn(b"\x1b", self.cinch("inspect", "a.safetensors").stdout)


if __name__ == "__main__":
    unittest.main()
