#!/usr/bin/env python3
"""Checks the machine code of the CPU backend. Usage: micro_kernels.py OBJDUMP NM OBJECT...

In a function that multiplies (a register tile) every vector lives in a register: one that goes through the stack is a
spill, and costs more than the multiplication. A nest's loop over the key blocks of a step of decoding asks memory for
what it reads next, and int8's for its keys' constants, into either cache: a compiler may take functions that only ask
for ones without effect, and leave them out. And no object of an instruction set defines a weak symbol: the linker might
take its code for another object's, which then runs on a processor without those instructions.
"""
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
MULTIPLIES = re.compile(r"\b(vpdpbusds?|vpdpwssds?|vpmaddwd|vfmadd\d+ps|vdpbf16ps|tdpb[su]{2}d|tdpbf16ps)\b")
ON_STACK = re.compile(r"%[xyz]mm\d+.*\(%rsp|\(%rsp[^)]*\).*%[xyz]mm\d+")
ON_FRAME = re.compile(r"%[xyz]mm\d+.*\(%rbp|\(%rbp[^)]*\).*%[xyz]mm\d+")
NEST = re.compile(r"/cpu/\w+\.cpp\.o$")
RUN_OF_BLOCKS = "::visit_run("
OF_INT8 = "FoldedU8<"


def functions_of(disassembly: str) -> dict[str, list[str]]:
    """Their instructions, by name."""
    functions: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in disassembly.splitlines():
        if found := FUNCTION.match(line):
            lines = functions.setdefault(found.group(1), [])
        else:
            lines.append(line.strip())
    return functions


def spills(disassembly: str) -> tuple[int, list[str]]:
    """Functions that multiply, and what each of them that spills does."""
    wrong, tiles = [], 0
    for name, code in functions_of(disassembly).items():
        if not any(MULTIPLIES.search(line) for line in code):
            continue
        tiles += 1
        framed = any(re.search(r"mov\s+%rsp,%rbp", line) for line in code)  # else %rbp is a register like any other
        found = [line for line in code if ON_STACK.search(line) or (framed and ON_FRAME.search(line))]
        if found:
            wrong.append(f"{name} keeps vectors on the stack {len(found)} times, first: {found[0]}")
    return tiles, wrong


def unasked(disassembly: str) -> tuple[int, list[str]]:
    """Loops over a run of key blocks, and those that ask for too little."""
    wrong, runs = [], 0
    for name, code in functions_of(disassembly).items():
        if RUN_OF_BLOCKS not in name:
            continue
        runs += 1
        asks = {"first": "prefetcht0", "second": "prefetcht1"} if OF_INT8 in name else {"first": "prefetcht0"}
        for level, instruction in asks.items():
            if not any(instruction in line for line in code):
                wrong.append(f"{name} asks for nothing into the {level}-level cache: no {instruction}")
    return runs, wrong


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
    of_values, of_constants = "  1: prefetcht0 (%rax)\n", "  2: prefetcht1 0x40(%rax,%rdx,4)\n"
    nest, int8_nest = "0000 <Nest<F32Scheme>::visit_run(Span)>:\n", "0000 <Nest<FoldedU8<L>>::visit_run(Span)>:\n"
    assert unasked(nest + of_values) == (1, [])
    assert unasked(nest)[1] and unasked(int8_nest + of_values)[1] and unasked(int8_nest + of_constants)[1]
    assert unasked(int8_nest + of_values + of_constants) == (1, [])
    assert weak_symbols("0000 W std::max\n0000 T octet::tile\n") == ["0000 W std::max"]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    check_itself()
    objdump, nm, *objects = sys.argv[1:]
    wrong, tiles, runs = [], 0, 0
    for path in objects:
        name = re.sub(r"^.*\.dir/", "", path)
        wrong += [f"{name}: weak symbol {line}" for line in weak_symbols(run(nm, "--defined-only", "-C", path))]
        if "products" in name:
            count, spilled = spills(run(objdump, "-d", "--no-show-raw-insn", "-C", path))
            if count == 0:
                wrong.append(f"{name}: no function multiplies; does the test know its instruction?")
            tiles += count
            wrong += [f"{name}: {text}" for text in spilled]
        elif NEST.search(path):
            count, silent = unasked(run(objdump, "-d", "--no-show-raw-insn", "-C", path))
            if count == 0:
                wrong.append(f"{name}: no loop over a run of key blocks; does the test know its name?")
            runs += count
            wrong += [f"{name}: {text}" for text in silent]
    print("\n".join(wrong) or f"micro_kernels: {tiles} register tiles, none spills; {runs} loops over key blocks that ask ahead; "
                              f"{len(objects)} objects without weak symbols")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
