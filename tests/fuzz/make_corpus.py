#!/usr/bin/env python3
"""Writes the seeds of the fuzzers: for files the golden ones of tests/data/io and small ones that reach each rule, for caches one life a scheme."""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "data" / "io"


def safetensors(header, data=b""):
    return struct.pack("<Q", len(header)) + header.encode() + data


def npy(text, data=b"", version=1):
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text.encode() + data


def entry(dtype, shape, offsets):
    return '{"dtype":"%s","shape":%s,"data_offsets":%s}' % (dtype, shape, offsets)


SAFETENSORS = {
    "none": safetensors("{}"),
    "metadata": safetensors('{"__metadata__":{"k":"v"}}'),
    "two": safetensors('{"a":%s,"b":%s}' % (entry("U8", "[2]", "[0,2]"), entry("F16", "[1]", "[2,4]")), b"abcd"),
    "empty": safetensors('{"a":%s}' % entry("F32", "[0,3]", "[0,0]")),
    "overlap": safetensors('{"a":%s,"b":%s}' % (entry("U8", "[2]", "[0,2]"), entry("U8", "[2]", "[1,3]")), b"abc"),
    "twice": safetensors('{"a":%s,"a":%s}' % (entry("U8", "[0]", "[0,0]"), entry("U8", "[0]", "[0,0]"))),
    "huge": safetensors('{"a":%s}' % entry("F64", "[9223372036854775807]", "[0,18446744073709551615]")),
    "escape": safetensors('{"\\u00e9\\n":%s}' % entry("I64", "[]", "[0,8]"), bytes(8)),
}
NPY = {
    "c": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n", bytes(8)),
    "fortran": npy("{'descr':'<i8','fortran_order':True,'shape':(2L,2L)}", bytes(32)),
    "version2": npy("{\"shape\":(),\"descr\":\"|b1\",\"fortran_order\":False}", b"\1", 2),
    "empty": npy("{'descr': '<f2', 'fortran_order': True, 'shape': (2, 0), }"),
    "huge": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 2), }"),
    "structured": npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", bytes(4)),
}


SCHEMES = ["int8", "int8_shift", "int4", "int8_full", "int8_half", "int8_fp8", "integer", "qflash", "f32", "f16", "bf16"]  # as fuzz_kv_cache.cpp has them


def life(scheme, anchored):
    """A problem of two heads of keys, and appends, calls and truncations, two of them refused."""
    problem = [SCHEMES.index(scheme), 1, 1, 150, 2, 31, 1, 1, anchored, anchored, 1, 1]
    return bytes(problem + [0, 20, 0, 0, 3, 1, 37, 0, 1, 3, 2, 11, 3, 0, 50, 0, 0, 3, 2, 200, 2, 1, 0, 5, 0, 0, 3])


def main():
    caches = HERE / "corpus" / "fuzz_kv_cache"
    caches.mkdir(parents=True, exist_ok=True)
    for scheme in SCHEMES:
        for anchored in (0, 1):
            (caches / (scheme + "_anchor" * anchored)).write_bytes(life(scheme, anchored))
    for name, seeds in (("safetensors", SAFETENSORS), ("npy", NPY)):
        folder = HERE / "corpus" / f"fuzz_{name}"
        folder.mkdir(parents=True, exist_ok=True)
        for seed, data in seeds.items():
            (folder / seed).write_bytes(data)
        for path in GOLDEN.glob("*." + name):
            (folder / path.stem).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
