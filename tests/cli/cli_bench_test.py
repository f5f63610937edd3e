#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench, info, help and version: what they print, and that machines can read it."""

import os
import unittest

from cli_support import OK, SAMPLE, UNSUPPORTED, USAGE, CliTest, environment

COMMANDS = (["send"], ["recv"], ["compress"], ["decompress"], ["verify"], ["inspect"], ["bench"],
            ["bench", "codec"], ["bench", "p2p"], ["info"])


class HelpTest(CliTest):
    def test_every_command_has_examples(self):
        for command in ([], *COMMANDS):
            text = self.cinch(*command, "--help").stdout.decode()
            self.assertIn("Examples:", text, command)
            self.assertIn("Usage: " + " ".join(["cinch", *command]), text)

    def test_version(self):
        self.assertRegex(self.cinch("--version").stdout.decode(), r"^cinch \d+\.\d+\.\d+\n$")


class InfoTest(CliTest):
    def test_json_has_everything(self):
        info = self.json_of("info")[0]
        for key in ("version", "format_version", "container_version", "simd", "cores", "backends",
                    "transport", "transports", "cuda", "config"):
            self.assertIn(key, info)
        self.assertGreaterEqual(info["format_version"], 1)
        self.assertIn("reference", info["backends"])
        self.assertTrue(all(entry["source"] == "default" for entry in info["config"]))

    def test_sources_and_secrets(self):
        info = self.json_of("info", env=environment(CINCH_KEY="very-secret-indeed"))[0]
        entry = next(entry for entry in info["config"] if entry["name"] == "CINCH_KEY")
        self.assertEqual(entry["source"], "environment")
        self.assertNotIn("very-secret", str(info))

    def test_a_bad_setting(self):
        self.cinch("info", expect=USAGE, env=environment(CINCH_POLICY="sometimes"))

    def test_text(self):
        text = self.cinch("info").stdout.decode()
        self.assertIn("SIMD target", text)
        self.assertIn("CINCH_POLICY", text)


class BenchCodecTest(CliTest):
    FIELDS = {"backend", "dtype", "data", "bytes", "threads", "kept_fraction", "bound_fraction",
              "encode_gbps", "decode_gbps", "memcpy_gbps", "simd", "repeat", "encode_seconds",
              "decode_seconds", "memcpy_seconds"}

    def test_lines(self):
        lines = self.json_of("bench", "codec", "--size", "64K,1M", "--data", "gaussian:0.02",
                             "--data", "constant:1", "--threads", "1", "--threads", "2",
                             "--repeat", "1")
        self.assertEqual(len(lines), 8)
        for line in lines:
            self.assertLessEqual(self.FIELDS, set(line))
            self.assertGreater(line["encode_gbps"], 0)
            self.assertTrue(line["verified"])
        gaussian = next(line for line in lines if line["data"] == "gaussian:0.02")
        self.assertGreater(gaussian["kept_fraction"], gaussian["bound_fraction"])

    def test_ratio_of_normal_data(self):
        for scale in ("1e-4", "0.02", "1", "3"):
            line = self.json_of("bench", "codec", "--size", "4M", "--repeat", "1", "--data",
                                f"gaussian:{scale}")[0]
            self.assertLessEqual(line["kept_fraction"], 0.672, scale)

    def test_files(self):
        line = self.json_of("bench", "codec", "--data", f"file:{SAMPLE}", "--size", "0",
                            "--repeat", "1")[0]
        self.assertEqual(line["data"].count(":"), 2)
        name = line["data"].rsplit(":", 1)[1]
        again = self.json_of("bench", "codec", "--data", f"file:{SAMPLE}:{name}", "--size", "0",
                             "--repeat", "1")[0]
        self.assertEqual(again["bytes"], line["bytes"])
        self.assertEqual(again["kept_fraction"], line["kept_fraction"])

    def test_both_backends_agree(self):
        kept = [self.json_of("bench", "codec", "--backend", backend, "--size", "1M", "--repeat",
                             "1")[0]["kept_fraction"] for backend in ("cpu", "reference")]
        self.assertEqual(kept[0], kept[1])

    def test_on_a_gpu_or_why_not(self):
        info = self.json_of("info")[0]
        arguments = ("bench", "codec", "--backend", "cuda", "--size", "1M,2M", "--item-bytes",
                     "64K", "--max-ctas", "0", "--max-ctas", "16", "--repeat", "1")
        if os.environ.get("TEST_WITH_CUDA") == "1" and info["cuda"]["devices"]:
            lines = self.json_of(*arguments)
            self.assertEqual(len(lines), 4)
            for line in lines:
                self.assertEqual(line["item_bytes"], 65536)
                self.assertGreater(line["encode_gbps"], 0)
        else:
            message = self.cinch(*arguments, expect=UNSUPPORTED).stderr.decode()
            self.assertRegex(message, "this build has no CUDA|no usable GPU")

    def test_options_of_the_other_backend(self):
        self.cinch("bench", "codec", "--backend", "cuda", "--threads", "2", expect=USAGE)
        self.cinch("bench", "codec", "--item-bytes", "64K", expect=USAGE)
        self.cinch("bench", "codec", "--max-ctas", "8", expect=USAGE)
        self.cinch("bench", "codec", "--backend", "cuda", "--item-bytes", "few", expect=USAGE)

    def test_usage(self):
        self.cinch("bench", "codec", "--size", "many", expect=USAGE)
        self.cinch("bench", "codec", "--size", "0", expect=USAGE)
        self.cinch("bench", "codec", "--data", "nonsense", expect=USAGE)
        self.cinch("bench", "codec", "--data", f"file:{SAMPLE}:absent", expect=USAGE)
        self.cinch("bench", expect=USAGE)
        self.assertIn("gaussian", self.cinch("bench", "codec", "--size", "64K", "--repeat", "1",
                                             expect=OK).stdout.decode())


class BenchP2pTest(CliTest):
    FIELDS = {"bytes", "wire_bytes", "path", "link_gbps", "raw_seconds", "compressed_seconds",
              "speedup", "overlap_efficiency", "wire_busy_fraction", "policy", "kept_fraction"}

    def test_lines(self):
        lines = self.json_of("bench", "p2p", "--size", "8,64K,2M", "--repeat", "1", "--link-gbps",
                             "1")
        self.assertEqual([line["bytes"] for line in lines], [8, 65536, 2 << 20])
        for line in lines:
            self.assertLessEqual(self.FIELDS, set(line))
            self.assertTrue(line["verified"])
            self.assertEqual(line["link_gbps"], 1)
        self.assertLess(lines[2]["kept_fraction"], 0.7)

    def test_usage(self):
        self.cinch("bench", "p2p", "--size", "0", expect=USAGE)
        self.cinch("bench", "p2p", "--policy", "sometimes", expect=USAGE)


if __name__ == "__main__":
    unittest.main()
