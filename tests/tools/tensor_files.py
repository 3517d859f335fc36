"""Safetensors and .npy files with nothing but the standard library."""
import array
import ast
import json
import math
import random
import struct

FORMATS = {"F32": "f", "F16": "e", "F64": "d", "I32": "i", "I64": "q", "BOOL": "B", "U8": "B", "I8": "b"}
DESCR = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I32": "<i4", "I64": "<i8", "BOOL": "|b1"}


class Tensor:
    """dtype as safetensors spells it, shape, and the values in C order."""

    def __init__(self, dtype, shape, values):
        self.dtype, self.shape, self.values = dtype, list(shape), list(values)
        assert len(self.values) == math.prod(self.shape)

    def data(self):
        return struct.pack(f"<{len(self.values)}{FORMATS[self.dtype]}", *self.values)


def normal(shape, seed, dtype="F32"):
    draw = random.Random(seed)
    return Tensor(dtype, shape, (draw.gauss(0, 1) for _ in range(math.prod(shape))))


def transposed(tensor):
    """[b, h, t, d] to [b, t, h, d], or back."""
    b, h, t, d = tensor.shape
    v = tensor.values
    values = (v[((i * h + k) * t + j) * d + c] for i in range(b) for j in range(t) for k in range(h) for c in range(d))
    return Tensor(tensor.dtype, [b, t, h, d], values)


def safetensors_bytes(tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        begin, data = len(data), data + tensor.data()
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def npy_bytes(tensor):
    shape = "(" + "".join(f"{n}, " for n in tensor.shape) + ")"
    text = f"{{'descr': '{DESCR[tensor.dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + tensor.data()


def read_npy(path):
    """(descr, shape, bytes) of a file of version 1.0 in C order."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    end = 10 + struct.unpack_from("<H", content, 8)[0]
    header = ast.literal_eval(content[10:end].decode())
    assert header["fortran_order"] is False
    return header["descr"], header["shape"], content[end:]


def read_safetensors(path):
    """(tensors, metadata); values of dtypes outside FORMATS are left out."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = content[8 + length + begin : 8 + length + end]
        if entry["dtype"] in FORMATS:
            values = array.array("B", raw) if FORMATS[entry["dtype"]] == "B" else [
                x[0] for x in struct.iter_unpack("<" + FORMATS[entry["dtype"]], raw)]
            tensors[name] = Tensor(entry["dtype"], entry["shape"], values)
    return tensors, metadata
