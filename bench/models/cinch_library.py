# SPDX-License-Identifier: Apache-2.0
"""The few calls of libcinch that the benches in Python need, by ctypes."""

import ctypes
import os

DTYPES = {"bytes": 0, "auto": 1, "bf16": 2, "fp16": 3, "fp32": 4, "fp8_e4m3fn": 6, "fp8_e5m2": 8}
UNSUPPORTED, NO_DEVICE = -4, -81


# Room for fields that later versions have at the end of their options; a call fills in defaults.
LATER = ("later", ctypes.c_uint8 * 64)


class CodecOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_int),
                ("threads", ctypes.c_uint32), LATER]


class CompressOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("dtype", ctypes.c_int),
                ("checksum", ctypes.c_int), LATER]


class CudaOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("stream", ctypes.c_void_p),
                ("max_ctas", ctypes.c_uint32), ("checksum", ctypes.c_int),
                ("items_on_host", ctypes.c_int), ("progress", ctypes.c_void_p),
                LATER]


class CudaSpeed(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("frame_bytes", ctypes.c_uint64),
                ("compress_seconds", ctypes.c_double), ("decompress_seconds", ctypes.c_double),
                ("copy_seconds", ctypes.c_double)]


class Library:
    """One codec on the CPU, and measurements on the GPU. Data are NumPy arrays of bytes."""

    def __init__(self, path, threads=0):
        self.calls = ctypes.CDLL(os.path.abspath(path))
        self.calls.cinch_status_text.restype = ctypes.c_char_p
        self.calls.cinch_compress_bound.restype = ctypes.c_uint64
        self.calls.cinch_compress_bound.argtypes = [ctypes.c_uint64]
        options = CodecOptions()
        self.calls.cinch_codec_options_init(ctypes.byref(options))
        options.threads = threads
        self.codec = ctypes.c_void_p()
        self._check(self.calls.cinch_codec_create(ctypes.byref(options),
                                                  ctypes.byref(self.codec)))

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self.calls.cinch_status_text(status).decode())

    def kept_bytes(self, data, dtype):
        """The size of the frame, after it has been decompressed and compared."""
        options = CompressOptions()
        self.calls.cinch_compress_options_init(ctypes.byref(options))
        options.dtype = DTYPES[dtype]
        capacity = self.calls.cinch_compress_bound(data.nbytes)
        frame, back = ctypes.create_string_buffer(capacity), data.copy()
        back[:] = 0xA5
        size, back_size = ctypes.c_uint64(), ctypes.c_uint64()
        self._check(self.calls.cinch_compress(
            self.codec, ctypes.byref(options), ctypes.c_void_p(data.ctypes.data),
            ctypes.c_uint64(data.nbytes), frame, ctypes.c_uint64(capacity), ctypes.byref(size)))
        self._check(self.calls.cinch_decompress(
            self.codec, frame, size, ctypes.c_void_p(back.ctypes.data),
            ctypes.c_uint64(back.nbytes), ctypes.byref(back_size)))
        if back_size.value != data.nbytes or not (back == data).all():
            raise RuntimeError("the decoded bytes differ")
        return size.value

    def cuda_speed(self, data, dtype, repeats=9):
        """Seconds on the current GPU, or None in a build without CUDA or a machine without GPU."""
        options = CudaOptions()
        self.calls.cinch_cuda_options_init(ctypes.byref(options))
        speed = CudaSpeed(struct_size=ctypes.sizeof(CudaSpeed))
        status = self.calls.cinch_cuda_measure(
            ctypes.byref(options), DTYPES[dtype], ctypes.c_void_p(data.ctypes.data),
            ctypes.c_uint64(data.nbytes), ctypes.c_uint64(0), ctypes.c_uint32(repeats),
            ctypes.byref(speed))
        if status in (UNSUPPORTED, NO_DEVICE):
            return None
        self._check(status)
        return speed
