#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""send and recv between two processes, with everything that can go wrong at either end."""

import json
import os
import resource
import signal
import socket
import subprocess
import time
import unittest

from cli_support import (EXISTS, FAILED, INTERRUPTED, OK, PEER, SAMPLE, TOOL, USAGE, CliTest,
                         environment, safetensors, weights)

# Slow enough to be caught in the middle, and over TCP like a network.
SLOW = ("--link-gbps", "0.02", "--transports", "tcp")
KEY = "0123456789abcdef0123456789abcdef"


def limit_file_size(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class TransferTest(CliTest):
    def setUp(self):
        super().setUp()
        self.inbox = self.path("inbox")
        self.inbox.mkdir()

    def start(self, *arguments, **options):
        options.setdefault("env", environment())
        process = subprocess.Popen([TOOL, *map(str, arguments)], cwd=self.directory,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate()

    def receiver(self, *options, address="127.0.0.1:0", **popen_options):
        """Starts a receiver; returns it and its address."""
        where = self.path("address")
        where.unlink(missing_ok=True)
        process = self.start("recv", address, self.inbox, "--address-file", where, *options,
                             **popen_options)
        self.until(lambda: where.exists() or process.poll() is not None)
        self.assertTrue(where.exists(), "the receiver did not start")
        return process, where.read_text().strip()

    def until(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")
            time.sleep(0.01)

    def finish(self, process, expect=OK, seconds=60, says=None):
        output, errors = process.communicate(timeout=seconds)
        errors = errors.decode(errors="replace")
        self.assertEqual(process.returncode, expect, errors)
        if says:
            self.assertIn(says, errors)
        return output

    def arrived(self, *names):
        self.assertEqual(self.names(self.inbox), sorted(names))
        for name in names:
            self.assertEqual((self.inbox / name).read_bytes(), self.path(name).read_bytes(), name)


class GoodTransferTest(TransferTest):
    def test_the_sample_under_every_policy(self):
        self.write("s.safetensors", SAMPLE.read_bytes())
        for policy in ("auto", "raw", "compressed"):
            process, address = self.receiver("--force", "--json")
            sent = self.json_of("send", "s.safetensors", address, "--policy", policy,
                                "--transports", "tcp")[0]
            received = json.loads(self.finish(process))
            self.arrived("s.safetensors")
            self.assertEqual(sent["files"], received["files"])
            self.assertEqual(sent["payload_bytes"], SAMPLE.stat().st_size)
            if policy == "compressed":
                self.assertLess(sent["kept_fraction"], 0.72)
            if policy == "raw":
                self.assertGreaterEqual(sent["kept_fraction"], 1)
                self.assertIsNone(sent["hidden_codec_fraction"])
            for key in ("wire_bytes", "seconds", "goodput_gbps", "path", "policy"):
                self.assertIn(key, sent)

    def test_many_files_and_tensors(self):
        names = []
        for index in range(20):
            names.append(f"f{index}.bin")
            self.write(names[-1], weights(100 * index))
        names.append("many.safetensors")
        self.write(names[-1], safetensors(
            {f"t{index}": ("BF16" if index % 3 else "F32", [6 if index % 3 else 3],
                           weights(6, index)) for index in range(2000)}))
        # Tensors of a few bytes must not each cost a message.
        names.append("zero.safetensors")
        self.write(names[-1], safetensors({"none": ("F32", [0], b""), "s": ("U8", [], b"a")}))
        process, address = self.receiver()
        table = self.cinch("send", *names, address).stdout.decode()
        self.assertIn("22 files", table)
        self.finish(process)
        self.arrived(*names)

    def test_an_empty_file(self):
        self.write("empty", b"")
        process, address = self.receiver()
        self.cinch("send", "empty", address, "--quiet")
        self.finish(process)
        self.arrived("empty")

    def test_larger_than_all_buffers(self):
        self.write("large", weights(65536) * 1000)
        process, address = self.receiver()
        self.cinch("send", "large", address, "--dtype", "bf16", "--policy", "compressed")
        self.finish(process)
        self.arrived("large")

    def test_keep_serves_one_after_another(self):
        self.write("a", weights(10))
        self.write("b", weights(20))
        process, address = self.receiver("--keep")
        self.cinch("send", "a", address)
        self.cinch("send", "a", address, expect=PEER)
        self.cinch("send", "b", address)
        process.send_signal(signal.SIGTERM)
        self.finish(process, INTERRUPTED)
        self.arrived("a", "b")

    def test_sender_first(self):
        self.write("a", weights(10))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % free.getsockname()[1]
        sender = self.start("send", "a", address, "--timeout", "20")
        time.sleep(0.5)
        process, _ = self.receiver(address=address)
        self.finish(sender)
        self.finish(process)
        self.arrived("a")


class AccessTest(TransferTest):
    def test_an_open_address_needs_a_key(self):
        errors = self.cinch("recv", "0.0.0.0:0", self.inbox, expect=USAGE).errors
        self.assertIn("--key-file", errors)

    def test_the_same_key(self):
        self.write("a", weights(10))
        self.write("key", KEY.encode() + b"\n")
        process, address = self.receiver("--key-file", "key", address="0.0.0.0:0")
        self.cinch("send", "a", address.replace("0.0.0.0", "127.0.0.1"), "--key-file", "key")
        self.finish(process)
        self.arrived("a")

    def test_another_key_or_none(self):
        self.write("a", weights(10))
        self.write("key", KEY.encode())
        self.write("other", KEY[::-1].encode())
        process, address = self.receiver("--key-file", "key", "--wait", "8")
        self.cinch("send", "a", address, "--key-file", "other", "--timeout", "5", expect=PEER)
        self.cinch("send", "a", address, "--timeout", "5", expect=PEER)
        self.finish(process, PEER)
        self.arrived()

    def test_a_short_or_missing_key(self):
        self.write("key", b"short")
        self.cinch("recv", "127.0.0.1:0", self.inbox, "--key-file", "key", expect=USAGE)
        self.cinch("recv", "127.0.0.1:0", self.inbox, "--key-file", "absent", expect=USAGE)

    def test_noise_at_the_port(self):
        self.write("a", weights(10))
        process, address = self.receiver("--keep")
        host, port = address.rsplit(":", 1)
        half_open = socket.create_connection((host, int(port)))
        self.addCleanup(half_open.close)
        for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(100000)):
            with socket.create_connection((host, int(port))) as connection:
                try:
                    connection.sendall(noise)
                except OSError:
                    pass  # Hung up on: also right.
        self.cinch("send", "a", address)
        process.send_signal(signal.SIGINT)
        self.finish(process, INTERRUPTED)
        self.arrived("a")


class RefusalTest(TransferTest):
    def test_wrong_command_lines(self):
        self.write("a", weights(10))
        self.cinch("send", "a", expect=USAGE)
        self.cinch("send", "a", "nonsense", "--timeout", "2", expect=USAGE)
        self.cinch("send", "absent", "127.0.0.1:1", expect=FAILED)
        self.cinch("send", "a", "./a", "127.0.0.1:1", expect=USAGE)
        self.cinch("recv", "127.0.0.1:0", self.path("absent"), expect=USAGE)
        self.cinch("recv", "127.0.0.1:0", self.inbox, "--once", "--keep", expect=USAGE)
        self.write(".hidden", b"x")
        self.cinch("send", ".hidden", "127.0.0.1:1", expect=USAGE)

    def test_nobody_there(self):
        self.write("a", weights(10))
        errors = self.cinch("send", "a", "127.0.0.1:1", "--timeout", "1", expect=PEER).errors
        self.assertIn("127.0.0.1:1", errors)
        self.cinch("recv", "127.0.0.1:0", self.inbox, "--wait", "0.3", expect=PEER)

    def test_interrupted_while_nobody_is_there(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # Not listening.
            port = taken.getsockname()[1]
            process = self.start("send", SAMPLE, f"127.0.0.1:{port}")
            time.sleep(1)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=15)  # Less than the 30 s of connecting.
        self.assertEqual(process.returncode, INTERRUPTED, errors)
        self.assertIn(b"interrupted", errors)

    def test_the_longest_name(self):
        name = "n" * 255
        self.write(name, b"x" * 1000)
        process, address = self.receiver()
        self.cinch("send", name, address)
        self.finish(process)
        self.assertEqual(self.names(self.inbox), [name])

    def test_existing_file(self):
        self.write("a", weights(10))
        (self.inbox / "a").write_bytes(b"older")
        process, address = self.receiver()
        errors = self.cinch("send", "a", address, expect=PEER).errors
        self.assertIn("exists already", errors)
        self.finish(process, EXISTS, says="--force")
        self.assertEqual((self.inbox / "a").read_bytes(), b"older")
        process, address = self.receiver("--force")
        self.cinch("send", "a", address)
        self.finish(process)
        self.arrived("a")

    def test_full_disk(self):
        self.write("a", weights(100000))
        process, address = self.receiver("--transports", "tcp",
                                         preexec_fn=limit_file_size(50000))
        errors = self.cinch("send", "a", address, "--transports", "tcp", expect=PEER).errors
        self.assertIn("free space", errors)
        self.finish(process, FAILED, says="free space")
        self.arrived()

    def test_more_than_the_disk_can_hold(self):
        with open(self.path("sparse"), "wb") as file:
            file.truncate(1 << 43)
        process, address = self.receiver()
        self.assertIn("has room for", self.cinch("send", "sparse", address, expect=PEER).errors)
        self.finish(process, FAILED)
        self.arrived()


class FaultTest(TransferTest):
    """Somebody goes away in the middle: bounded time, a named error, nothing partial."""

    def setUp(self):
        super().setUp()
        self.write("a", weights(65536) * 160)  # 20 MB, some 3 s at this rate.

    def both(self):
        process, address = self.receiver(*SLOW)
        sender = self.start("send", "a", address, "--policy", "raw", *SLOW)
        time.sleep(1)
        self.assertIsNone(sender.poll(), "it was too fast to be disturbed")
        return process, sender

    def test_receiver_killed(self):
        process, sender = self.both()
        process.kill()
        self.finish(sender, PEER)
        self.arrived()

    def test_sender_killed(self):
        process, sender = self.both()
        sender.kill()
        self.finish(process, PEER)
        self.arrived()

    def test_receiver_stopped(self):
        process, sender = self.both()
        process.send_signal(signal.SIGSTOP)
        self.finish(sender, PEER)
        process.send_signal(signal.SIGCONT)
        self.finish(process, PEER)
        self.arrived()

    def test_receiver_interrupted(self):
        process, sender = self.both()
        process.send_signal(signal.SIGTERM)
        self.finish(process, INTERRUPTED)
        self.finish(sender, PEER)
        self.arrived()

    def test_sender_interrupted(self):
        process, sender = self.both()
        sender.send_signal(signal.SIGINT)
        self.finish(sender, INTERRUPTED)
        self.finish(process, PEER)
        self.arrived()


def sanitized():
    with open(TOOL, "rb") as file:
        return b"__asan_init" in file.read()


@unittest.skipIf(sanitized(), "sanitizers need memory of their own")
class MemoryTest(TransferTest):
    """Both ends work in a constant, whatever the file's size."""

    LIMIT = 160 << 20  # 4 chunks of 16 MiB, 32 MiB of staging, codec scratch, libraries.

    @staticmethod
    def own_memory(process):
        """Bytes of a process that are no mapped files."""
        try:
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
                fields = dict(line.split(":", 1) for line in file)
        except FileNotFoundError:
            return 0
        return 1024 * sum(int(fields.get(name, "0 kB").split()[0])
                          for name in ("RssAnon", "RssShmem"))

    def test_peak(self):
        with open(self.path("large"), "wb") as file:
            for _ in range(400):
                file.write(weights(1 << 10) * 512)
        for policy in ("raw", "compressed"):
            process, address = self.receiver("--force", "--transports", "tcp")
            sender = self.start("send", "large", address, "--dtype", "bf16", "--policy", policy,
                                "--link-gbps", "3", "--transports", "tcp")
            peak = 0
            while sender.poll() is None:
                peak = max(peak, self.own_memory(process), self.own_memory(sender))
                time.sleep(0.005)
            self.finish(sender)
            self.finish(process)
            self.arrived("large")
            self.assertGreater(peak, 1 << 20)
            self.assertLess(peak, self.LIMIT, policy)


if __name__ == "__main__":
    unittest.main()
