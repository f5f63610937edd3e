# SPDX-License-Identifier: Apache-2.0
"""The calls of cinch that the Python examples use, by ctypes. Tensors are given by address, so that
PyTorch's are moved where they are, on the CPU or on a GPU."""
import ctypes
import os
import pathlib

AUTO, BF16 = 1, 2
POLICY_DEFAULT, POLICY_RAW, POLICY_COMPRESSED = 0, 2, 3
REGION_READ, REGION_WRITE = 1, 2
SOURCES = ("full", "patch", "held")
NO_STREAM = ctypes.c_void_p(-1).value


class EngineOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("policy", ctypes.c_int), ("dtype", ctypes.c_int),
                ("segment_bytes", ctypes.c_uint64), ("codec_threads", ctypes.c_uint32),
                ("without_checksum", ctypes.c_int), ("key", ctypes.c_void_p),
                ("key_bytes", ctypes.c_uint64), ("link_gbps", ctypes.c_double),
                ("peer_timeout_seconds", ctypes.c_double),
                ("operation_timeout_seconds", ctypes.c_double),
                ("handshake_timeout_seconds", ctypes.c_double), ("transports", ctypes.c_char_p),
                ("network_devices", ctypes.c_char_p), ("device_max_ctas", ctypes.c_uint32),
                ("without_shared_device_memory", ctypes.c_int)]


class TransferOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("tag", ctypes.c_uint64),
                ("tag_mask", ctypes.c_uint64), ("dtype", ctypes.c_int), ("policy", ctypes.c_int),
                ("name", ctypes.c_char_p), ("confirm", ctypes.c_int),
                ("timeout_seconds", ctypes.c_double), ("callback", ctypes.c_void_p),
                ("callback_data", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


class Stats(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("payload_bytes", ctypes.c_uint64),
                ("wire_bytes", ctypes.c_uint64), ("operations", ctypes.c_uint64),
                ("failed_operations", ctypes.c_uint64), ("raw_segments", ctypes.c_uint64),
                ("compressed_segments", ctypes.c_uint64), ("encode_seconds", ctypes.c_double),
                ("decode_seconds", ctypes.c_double), ("codec_busy_seconds", ctypes.c_double),
                ("wire_busy_seconds", ctypes.c_double), ("hidden_codec_seconds", ctypes.c_double),
                ("elapsed_seconds", ctypes.c_double), ("link_gbps_limit", ctypes.c_double),
                ("pinned_segments", ctypes.c_uint64), ("shared_segments", ctypes.c_uint64)]


class Region(ctypes.Structure):
    _fields_ = [("descriptor", ctypes.c_ubyte * 64)]


class BlockPool(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("region", ctypes.POINTER(Region)),
                ("offset_bytes", ctypes.c_uint64)]


class BlockTable(ctypes.Structure):
    _fields_ = [("ids", ctypes.POINTER(ctypes.c_uint32)), ("id_count", ctypes.c_uint64),
                ("block_count", ctypes.c_uint64)]


class BlockTransfer(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("pools", ctypes.POINTER(BlockPool)),
                ("pool_count", ctypes.c_uint64), ("block_bytes", ctypes.c_uint64),
                ("local", BlockTable), ("remote", BlockTable), ("notify", ctypes.c_int)]


class Version(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_uint64), ("version", ctypes.c_uint64),
                ("content_hash", ctypes.c_uint64), ("source", ctypes.c_int),
                ("payload_bytes", ctypes.c_uint64)]


def _load():
    root = pathlib.Path(__file__).resolve().parents[2]
    names = [os.environ.get("LIBCINCH", ""), str(root / "build/cuda/libcinch.so"),
             str(root / "build/dev/libcinch.so"), str(root / "build/release/libcinch.so"),
             "libcinch.so.0"]
    for name in filter(None, names):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("libcinch.so was not found: build it, or set LIBCINCH")


_cinch = _load()
_cinch.cinch_status_text.restype = ctypes.c_char_p
for _name in ("cinch_engine_destroy", "cinch_listener_release", "cinch_endpoint_release",
              "cinch_operation_release", "cinch_publisher_destroy", "cinch_subscriber_destroy"):
    getattr(_cinch, _name).restype = None
    getattr(_cinch, _name).argtypes = [ctypes.c_void_p]


def check(status):
    """Turns what a call returned into an exception unless it is OK."""
    if status != 0:
        raise RuntimeError(_cinch.cinch_status_text(status).decode())


def _options(tag, policy, dtype, stream, exact=True):
    options = TransferOptions()
    _cinch.cinch_transfer_options_init(ctypes.byref(options))
    options.tag, options.policy, options.dtype, options.stream = tag, policy, dtype, stream
    options.tag_mask = 2**64 - 1 if exact else 0
    return options


class Operation:
    """Something that goes on; wait() for it."""

    def __init__(self, handle):
        self._handle = handle

    def wait(self, seconds=60.0):
        """Waits for its end and returns its statistics."""
        status = _cinch.cinch_wait(self._handle, ctypes.c_double(seconds))
        stats = Stats(struct_size=ctypes.sizeof(Stats))
        _cinch.cinch_operation_get_stats(self._handle, ctypes.byref(stats))
        _cinch.cinch_operation_release(self._handle)
        check(status)
        return stats


class Endpoint:
    """A connection to one peer."""

    def __init__(self, handle):
        self.handle = handle

    def _start(self, call, *arguments):
        operation = ctypes.c_void_p()
        check(call(self.handle, *arguments, ctypes.byref(operation)))
        return Operation(operation)

    def send(self, address, size, tag=1, policy=POLICY_DEFAULT, dtype=BF16, stream=None):
        options = _options(tag, policy, dtype, stream)
        return self._start(_cinch.cinch_send, ctypes.c_void_p(address), ctypes.c_uint64(size),
                           ctypes.byref(options))

    def recv(self, address, size, tag=1, dtype=AUTO, stream=None):
        options = _options(tag, POLICY_DEFAULT, dtype, stream)
        return self._start(_cinch.cinch_recv, ctypes.c_void_p(address), ctypes.c_uint64(size),
                           ctypes.byref(options))

    def send_bytes(self, data, tag):
        """Sends a few bytes of Python's."""
        buffer = ctypes.create_string_buffer(bytes(data), len(data))
        return self.send(ctypes.addressof(buffer), len(data), tag, dtype=AUTO).wait()

    def recv_bytes(self, size, tag):
        buffer = ctypes.create_string_buffer(size)
        self.recv(ctypes.addressof(buffer), size, tag).wait()
        return buffer.raw

    def write_blocks(self, pools, block_bytes, local, local_blocks, remote, remote_blocks, region,
                     tag=1, stream=None):
        """Writes blocks `local` of each (address, offset in the region) of `pools` to blocks
        `remote` of the peer's, and notifies it."""
        ids = [(ctypes.c_uint32 * len(table))(*table) for table in (local, remote)]
        all_pools = (BlockPool * len(pools))(
            *[BlockPool(base, ctypes.pointer(region), offset) for base, offset in pools])
        transfer = BlockTransfer(ctypes.sizeof(BlockTransfer), all_pools, len(pools), block_bytes,
                                 BlockTable(ids[0], len(local), local_blocks),
                                 BlockTable(ids[1], len(remote), remote_blocks), 1)
        options = _options(tag, POLICY_DEFAULT, BF16, stream)
        return self._start(_cinch.cinch_write_blocks, ctypes.byref(transfer), ctypes.byref(options))

    def close(self):
        _cinch.cinch_endpoint_release(self.handle)


class Engine:
    """One process's part in transfers."""

    def __init__(self, transports=None, link_gbps=0.0, segment_bytes=0):
        options = EngineOptions()
        _cinch.cinch_engine_options_init(ctypes.byref(options))
        options.transports = transports.encode() if transports else None
        options.link_gbps = link_gbps
        options.segment_bytes = segment_bytes
        self.handle = ctypes.c_void_p()
        check(_cinch.cinch_engine_create(ctypes.byref(options), ctypes.byref(self.handle)))

    def listen(self, address="127.0.0.1:0"):
        """Returns a listener and its address."""
        listener = ctypes.c_void_p()
        check(_cinch.cinch_listen(self.handle, address.encode(), ctypes.byref(listener)))
        text = ctypes.create_string_buffer(64)
        check(_cinch.cinch_listener_address(listener, text, ctypes.c_size_t(64)))
        return listener, text.value.decode()

    def accept(self, listener, seconds=60.0):
        endpoint = ctypes.c_void_p()
        check(_cinch.cinch_accept(listener, ctypes.c_double(seconds), ctypes.byref(endpoint)))
        return Endpoint(endpoint)

    def connect(self, address, seconds=60.0):
        endpoint = ctypes.c_void_p()
        check(_cinch.cinch_connect(self.handle, address.encode(), ctypes.c_double(seconds),
                                   ctypes.byref(endpoint)))
        return Endpoint(endpoint)

    def register(self, address, size):
        """Opens memory to peers and returns what they need to know."""
        region, remote = ctypes.c_void_p(), Region()
        check(_cinch.cinch_region_register(self.handle, ctypes.c_void_p(address),
                                           ctypes.c_uint64(size), REGION_READ | REGION_WRITE,
                                           ctypes.byref(region)))
        check(_cinch.cinch_region_describe(region, ctypes.byref(remote)))
        return bytes(remote.descriptor)

    def close(self):
        _cinch.cinch_engine_destroy(self.handle)


class Publisher:
    """Publishes versions of tensors."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        check(_cinch.cinch_publisher_create(ctypes.byref(self.handle)))

    def serve(self, endpoint):
        check(_cinch.cinch_publisher_serve(self.handle, endpoint.handle))

    def publish(self, name, address, size, version, dtype=BF16, stream=None):
        check(_cinch.cinch_publish(self.handle, name.encode(), ctypes.c_void_p(address),
                                   ctypes.c_uint64(size), dtype, ctypes.c_uint64(version),
                                   ctypes.c_void_p(stream)))

    def close(self):
        _cinch.cinch_publisher_destroy(self.handle)


class Subscriber:
    """Fetches versions of tensors."""

    def __init__(self, endpoint):
        self.handle = ctypes.c_void_p()
        check(_cinch.cinch_subscriber_create(endpoint.handle, ctypes.byref(self.handle)))

    def subscribe(self, name, first, second, size, dtype=BF16):
        check(_cinch.cinch_subscribe(self.handle, name.encode(), ctypes.c_void_p(first),
                                     ctypes.c_void_p(second), ctypes.c_uint64(size), dtype))

    def fetch(self, name, version=0, stream=None, seconds=60.0):
        fetched = Version(struct_size=ctypes.sizeof(Version))
        check(_cinch.cinch_fetch(self.handle, name.encode(), ctypes.c_uint64(version),
                                 ctypes.c_void_p(stream), ctypes.c_double(seconds),
                                 ctypes.byref(fetched)))
        return fetched

    def close(self):
        _cinch.cinch_subscriber_destroy(self.handle)
