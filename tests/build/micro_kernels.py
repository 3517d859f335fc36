#!/usr/bin/env python3
"""Checks the machine code of the CPU backend. Usage: micro_kernels.py OBJDUMP NM OBJECT...

In a function that multiplies (a register tile) every vector lives in a register: one that goes through the stack is a
spill, and costs more than the multiplication. And no object of an instruction set defines a weak symbol: the linker
might take its code for another object's, which then runs on a processor without those instructions.
"""
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
MULTIPLIES = re.compile(r"\b(vpdpbusds?|vpdpwssds?|vpmaddwd|vfmadd\d+ps|vdpbf16ps|tdpb[su]{2}d|tdpbf16ps)\b")
ON_STACK = re.compile(r"%[xyz]mm\d+.*\(%rsp|\(%rsp[^)]*\).*%[xyz]mm\d+")
ON_FRAME = re.compile(r"%[xyz]mm\d+.*\(%rbp|\(%rbp[^)]*\).*%[xyz]mm\d+")


def spills(disassembly: str) -> tuple[int, list[str]]:
    """Functions that multiply, and what each of them that spills does."""
    functions: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in disassembly.splitlines():
        if found := FUNCTION.match(line):
            lines = functions.setdefault(found.group(1), [])
        else:
            lines.append(line.strip())
    wrong, tiles = [], 0
    for name, code in functions.items():
        if not any(MULTIPLIES.search(line) for line in code):
            continue
        tiles += 1
        framed = any(re.search(r"mov\s+%rsp,%rbp", line) for line in code)  # else %rbp is a register like any other
        found = [line for line in code if ON_STACK.search(line) or (framed and ON_FRAME.search(line))]
        if found:
            wrong.append(f"{name} keeps vectors on the stack {len(found)} times, first: {found[0]}")
    return tiles, wrong


def weak_symbols(table: str) -> list[str]:
    return [line for line in table.splitlines() if re.search(r" [WVu] ", line) and " w " not in line]


def check_itself() -> None:
    """The rules find what they are for."""
    tile = "0000 <tile>:\n  1: vpdpbusd %zmm1,%zmm2,%zmm3\n"
    assert spills(tile) == (1, [])
    assert spills(tile + "  2: vmovdqu64 %zmm3,0x40(%rsp)\n")[1]
    assert spills(tile + "  2: vpaddd -0x40(%rsp),%ymm1,%ymm2\n")[1]
    assert spills(tile + "  2: vmovdqu64 %zmm3,(%rbp,%rax,1)\n") == (1, [])
    assert spills("0000 <tile>:\n  0: mov %rsp,%rbp\n  1: vpmaddwd %ymm1,%ymm2,%ymm3\n  2: vmovdqa %ymm3,-0x40(%rbp)\n")[1]
    assert spills("0000 <copy>:\n  1: vmovdqu %xmm3,0x40(%rsp)\n") == (0, [])
    assert weak_symbols("0000 W std::max\n0000 T octet::tile\n") == ["0000 W std::max"]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    check_itself()
    objdump, nm, *objects = sys.argv[1:]
    wrong, tiles = [], 0
    for path in objects:
        name = re.sub(r"^.*\.dir/", "", path)
        wrong += [f"{name}: weak symbol {line}" for line in weak_symbols(run(nm, "--defined-only", "-C", path))]
        if "products" in name:
            count, spilled = spills(run(objdump, "-d", "--no-show-raw-insn", "-C", path))
            if count == 0:
                wrong.append(f"{name}: no function multiplies; does the test know its instruction?")
            tiles += count
            wrong += [f"{name}: {text}" for text in spilled]
    print("\n".join(wrong) or f"micro_kernels: {tiles} register tiles, none spills; {len(objects)} objects without weak symbols")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
