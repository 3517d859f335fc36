#!/usr/bin/env python3
"""Writes the golden files of tests/io/golden_test.cpp with the libraries that define the formats.

Usage: python3 make_golden.py [DIRECTORY]; made with safetensors 0.8.0 and numpy 2.4.6. The values of element i are i - 2
for signed integers and floats, i for unsigned ones, i % 2 for booleans, and the bit pattern 16 * i where numpy has no type.
"""
import ctypes
import pathlib
import sys

import numpy as np
from safetensors import TensorSpec, serialize

NUMPY = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "int8": "|i1", "uint8": "|u1", "int32": "<i4",
         "bool": "|b1", "int64": "<i8"}


def values(name, shape):
    index = np.arange(int(np.prod(shape, dtype=np.int64)))
    if name == "bfloat16":
        array = (16 * index).astype("<u2")
    elif name.startswith("float8"):
        array = (16 * index).astype("|u1")
    elif name == "bool":
        array = (index % 2).astype(bool)
    else:
        array = (index - (0 if name == "uint8" else 2)).astype(NUMPY[name])
    return array.reshape(shape)


def safetensors_bytes(tensors, metadata):
    specs, keep = {}, []
    for name, (dtype, array) in tensors.items():
        data = array.tobytes()
        keep.append(ctypes.create_string_buffer(data, len(data) or 1))
        specs[name] = TensorSpec(dtype=dtype, shape=list(array.shape), data_ptr=ctypes.addressof(keep[-1]),
                                 data_len=len(data))
    return serialize(specs, metadata)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    plain = [*NUMPY][:-1] + ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
    every = {name: (name, values(name, (1, 2, 3))) for name in plain}
    every["scalar"] = ("float32", values("float32", ()))
    every["empty"] = ("float16", values("float16", (2, 0, 4)))
    (folder / "every_dtype.safetensors").write_bytes(safetensors_bytes(every, {"made": "by \"safetensors\", \u00e9"}))
    wide = {"cu_seqlens": ("int64", values("int64", (4,)))}
    (folder / "int64.safetensors").write_bytes(safetensors_bytes(wide, None))

    for name in NUMPY:
        np.save(folder / f"{name}.npy", values(name, (2, 3)))
    np.save(folder / "scalar.npy", values("float32", ()))
    np.save(folder / "vector.npy", values("float32", (3,)))
    np.save(folder / "empty.npy", values("float16", (2, 0, 4)))
    np.save(folder / "fortran.npy", np.asfortranarray(values("float32", (2, 3, 4))))
    np.save(folder / "big_endian.npy", values("float32", (2, 3)).astype(">f4"))
    np.save(folder / "structured.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
    for major in (2, 3):
        with open(folder / f"version{major}.npy", "wb") as file:
            np.lib.format.write_array(file, values("float32", (2, 3)), version=(major, 0))


if __name__ == "__main__":
    main()
