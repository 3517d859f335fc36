#!/usr/bin/env python3
"""Checks who includes whom. Usage: layering.py [ROOT]; prints every wrong #include and exits 1 if there is one.

A layer is a folder; ALLOWED says what each may include besides itself, include/octet and base. Standard and
system headers in angle brackets are free, but for the CUDA ones, which belong to src/cuda and to the tool's GPU part.
"""
import pathlib
import re
import sys

EVERYTHING = {"base", "core", "numerics", "lanes", "call", "probe", "quant", "ref", "cpu", "cuda", "capi"}
ALLOWED = {
    "include": set(),
    "src/base": set(),
    "src/core": set(),
    "src/lanes": set(),
    "src/numerics": set(),  # lanes come in as a template parameter
    "src/quant": {"numerics", "lanes"},
    "src/call": {"numerics"},
    "src/ref": {"numerics", "lanes", "call"},
    "src/cpu": {"numerics", "lanes", "call"},
    "src/cuda": {"numerics", "lanes", "core", "quant"},  # quant: the same recipes, scales and refusals
    "src/capi": EVERYTHING,
    "tools": set(),
    "tools/octet/gpu": set(),  # a layer of its own for CUDA's run time: memory, graphs and peaks of the bench
    "examples": set(),
    "bench": EVERYTHING,
    "tests": EVERYTHING,
}
SOURCES = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inl"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(r"^(cuda|cublas|cutlass|cute/|nv|mma\.h)")


def layer_of(path: str) -> str | None:
    return max((name for name in ALLOWED if path.startswith(name + "/")), key=len, default=None)


def wrong_includes(root: pathlib.Path) -> list[str]:
    errors = []
    for file in sorted(p for name in ALLOWED for p in (root / name).rglob("*") if p.suffix in SOURCES):
        path = file.relative_to(root).as_posix()
        layer = layer_of(path)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if not (found := INCLUDE.match(line)):
                continue
            bracket, header = found.groups()
            if bracket == "<":
                if CUDA_HEADER.match(header) and layer not in ("src/cuda", "tools/octet/gpu", "tests", "bench"):
                    errors.append(f"{path}:{number}: {layer} may not include the CUDA header <{header}>")
                continue
            top = header.split("/")[0]
            ours = top in EVERYTHING
            if header.startswith("octet/") or (file.parent / header).exists() or top == layer.split("/")[-1]:
                continue
            if layer.split("/")[0] in ("tools", "examples", "tests", "bench") and not ours:
                continue  # their own folders
            if top == "base" and layer.startswith("src/"):
                continue
            if not ours or top not in ALLOWED[layer]:
                errors.append(f"{path}:{number}: {layer} may not include \"{header}\"; it may include: "
                              f"{', '.join(sorted(ALLOWED[layer] | {'octet/'})) or 'octet/'}")
    return errors


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    errors = wrong_includes(root)
    print("\n".join(errors) if errors else "layering: every #include keeps to its layer")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
