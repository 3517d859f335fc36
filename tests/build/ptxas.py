#!/usr/bin/env python3
"""Checks what ptxas made of the CUDA kernels. Usage: ptxas.py [--update] KNOWN C++FILT LIMIT_MB BINARY... -- OBJECT...

Each OBJECT has its ptxas report beside it (cmake/keep_ptxas.sh). A kernel that spills registers, or takes more of them or more
stack than KNOWN allows, fails, and so does a BINARY of more than LIMIT_MB million bytes. KNOWN (ptxas_known.txt) has the limits by
pattern, and the kernels that pass them today with what each takes: it may not grow, and a line that is no longer needed is named.
--update writes those lines anew for the architectures of this build; the limits and other architectures' lines stay.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
PROPERTIES = re.compile(r"Function properties for (\w+)")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")
LOSS = re.compile(r"Potential Performance Loss.*")


class Usage(NamedTuple):
    registers: int = 0
    stack: int = 0
    stores: int = 0
    loads: int = 0
    shared: int = 0  # static; what a launch asks for is not ptxas's to know


class Limit(NamedTuple):
    pattern: str
    registers: int
    stack: int


def parse(report: str) -> tuple[dict[tuple[str, str], Usage], list[str]]:
    """(mangled name, architecture) -> usage, and what ptxas complains of. Functions that are called have no registers of their own."""
    usages: dict[tuple[str, str], Usage] = {}
    losses, architecture, entry, function = [], "", "", ""
    for line in report.splitlines():
        if found := ENTRY.search(line):
            entry, architecture = found.groups()
        elif found := PROPERTIES.search(line):
            function = found.group(1)
        elif found := STACK.search(line):
            stack, stores, loads = map(int, found.groups())
            usages[function, architecture] = Usage(0, stack, stores, loads, 0)
        elif found := USED.search(line):
            before = usages.get((entry, architecture), Usage())
            usages[entry, architecture] = before._replace(registers=int(found.group(1)), shared=int(found.group(2) or 0))
        elif found := LOSS.search(line):
            losses.append(found.group(0))
    return usages, losses


def readable(demangled: str) -> str:
    """A kernel's name without what all of them have in common: result, parameters, our namespaces; and without spaces."""
    depth, end = 0, len(demangled)
    for i in range(len(demangled) - 1, -1, -1):  # the parameter list is the last one in parentheses
        depth += (demangled[i] == ")") - (demangled[i] == "(")
        if demangled[i] == "(" and depth == 0:
            end = i
            break
    name = demangled[:end].replace("(anonymous namespace)::", "")
    name = re.sub(r"^void ", "", name).replace("octet::", "").replace("cuda::", "").replace(", ", ",")
    return name.replace(" ", "_")


def read_known(text: str) -> tuple[list[str], list[Limit], dict[tuple[str, str], Usage]]:
    """The lines above the known kernels, the limits in them, and the known kernels."""
    head, limits, known = [], [], {}
    for line in text.splitlines():
        fields = line.split()
        if fields and re.fullmatch(r"sm_\d+\w*", fields[0]):
            known[fields[1], fields[0]] = Usage(*map(int, fields[2:6]))
            continue
        head.append(line)
        if fields and fields[0] == "limit":
            limits.append(Limit(fields[1], int(fields[2]), int(fields[3])))
    return head, limits, known


def limit_of(kernel: str, limits: list[Limit]) -> Limit:
    for limit in limits:
        if fnmatch.fnmatchcase(kernel, limit.pattern):
            return limit
    raise SystemExit(f"ptxas: no limit's pattern matches {kernel}; add one to the list")


def is_within(usage: Usage, limit: Limit) -> bool:
    return usage.stores + usage.loads == 0 and usage.registers <= limit.registers and usage.stack <= limit.stack


def text_of(usage: Usage) -> str:
    return f"{usage.registers} registers, {usage.stack} bytes of stack, {usage.stores} + {usage.loads} bytes spilt"


def check(usages: dict[tuple[str, str], Usage], limits: list[Limit], known: dict[tuple[str, str], Usage]) -> tuple[list[str], list[str]]:
    """What is wrong, and which known kernels need less than their line says."""
    wrong, spare = [], []
    architectures = {architecture for _, architecture in usages}
    for (kernel, architecture), usage in sorted(usages.items()):
        limit, allowed = limit_of(kernel, limits), known.get((kernel, architecture))
        where = f"{architecture} {kernel}: {text_of(usage)}"
        if is_within(usage, limit):
            if allowed:
                spare.append(f"{where}, within the limits: its line can go")
        elif not allowed:
            wrong.append(f"{where}; allowed are {limit.registers} registers, {limit.stack} bytes of stack and no spill")
        elif any(now > then for now, then in zip(usage[:4], allowed[:4])):
            wrong.append(f"{where}, more than the list knows: {text_of(allowed)}")
        elif usage[:4] != allowed[:4]:
            spare.append(f"{where}, less than the list knows: {text_of(allowed)}")
    for kernel, architecture in sorted(known):
        if architecture in architectures and (kernel, architecture) not in usages:
            wrong.append(f"{architecture} {kernel} is in the list and not in the build: its line can go")
    return wrong, spare


def updated(text: str, usages: dict[tuple[str, str], Usage]) -> str:
    head, limits, known = read_known(text)
    built = {architecture for _, architecture in usages}
    kept = {key: usage for key, usage in known.items() if key[1] not in built}
    kept |= {key: usage for key, usage in usages.items() if not is_within(usage, limit_of(key[0], limits))}
    rows = [f"{architecture} {kernel} {u.registers} {u.stack} {u.stores} {u.loads}"
            for (kernel, architecture), u in sorted(kept.items(), key=lambda item: item[0][::-1])]
    return "\n".join(head + rows) + "\n"


def check_itself() -> None:
    """The rules find what they are for."""
    report = ("ptxas info    : Compiling entry function '_Z1kv' for 'sm_90'\nptxas info    : Function properties for _Z1kv\n"
              "    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
              "ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem\n")
    usages, losses = parse(report)
    assert usages == {("_Z1kv", "sm_90"): Usage(40, 16, 4, 8, 1024)} and not losses
    assert parse("ptxas info : (C7510) Potential Performance Loss: wgmma is serialised")[1]
    assert readable("void octet::cuda::mma::f<octet::A<octet::B>, 4>(octet::cuda::Call)") == "mma::f<A<B>,4>"
    assert readable("octet::cuda::(anonymous namespace)::g(unsigned int, (anonymous namespace)::X)") == "g"
    limits, key = [Limit("*", 64, 0)], ("k", "sm_90")
    assert check({key: Usage(64)}, limits, {}) == ([], [])
    assert check({key: Usage(65)}, limits, {})[0] and check({key: Usage(1, 8)}, limits, {})[0]
    assert check({key: Usage(1, 0, 4, 0)}, limits, {})[0]
    assert check({key: Usage(1, 8, 4, 4)}, limits, {key: Usage(1, 8, 4, 4)}) == ([], [])
    assert check({key: Usage(1, 8, 4, 8)}, limits, {key: Usage(1, 8, 4, 4)})[0]
    assert check({key: Usage(1, 8, 0, 4)}, limits, {key: Usage(1, 8, 4, 4)})[1]
    assert check({key: Usage(1)}, limits, {key: Usage(1, 8, 4, 4)})[1] and check({key: Usage(1)}, limits, {("l", "sm_90"): Usage()})[0]
    text = "# list\nlimit * 64 0\nsm_80 k 1 8 4 4\nsm_90 k 1 8 4 4\n"
    assert updated(text, {key: Usage(1, 8, 0, 4)}) == "# list\nlimit * 64 0\nsm_80 k 1 8 4 4\nsm_90 k 1 8 0 4\n"
    assert updated(text, {key: Usage(1)}) == "# list\nlimit * 64 0\nsm_80 k 1 8 4 4\n"


def main() -> int:
    check_itself()
    arguments = sys.argv[1:]
    update = arguments[0] == "--update"
    arguments = arguments[update:]
    split = arguments.index("--")
    (known_path, cxxfilt, limit_mb, *binaries), objects = arguments[:split], arguments[split + 1:]
    mangled: dict[tuple[str, str], Usage] = {}
    wrong = []
    for path in objects:
        report = pathlib.Path(path + ".ptxas")
        if not report.exists():
            wrong.append(f"{report} is not there: build {path} again (its compilation writes it)")
            continue
        usages, losses = parse(report.read_text(encoding="utf-8"))
        mangled |= usages
        wrong += [f"{report.name}: {loss}" for loss in losses]
    if not mangled:
        wrong.append("no report names a kernel; does ptxas still say what it did with -v?")
    names = sorted({name for name, _ in mangled})
    plain = subprocess.run([cxxfilt], input="\n".join(names), check=True, capture_output=True, text=True).stdout.splitlines()
    short = dict(zip(names, map(readable, plain)))
    usages = {(short[name], architecture): usage for (name, architecture), usage in mangled.items()}
    if len(usages) != len(mangled):
        wrong.append("two kernels have one name: readable() drops too much")

    known_file = pathlib.Path(known_path)
    text = known_file.read_text(encoding="utf-8")
    if update:
        text = updated(text, usages)
        known_file.write_text(text, encoding="utf-8")
    _, limits, known = read_known(text)
    found, spare = check(usages, limits, known)
    wrong += found

    width = max((len(kernel) for kernel, _ in usages), default=0)
    print(f"{'kernel':{width}}  arch   registers  stack  spill stores  loads  static shared")
    for (kernel, architecture), u in sorted(usages.items()):
        print(f"{kernel:{width}}  {architecture}  {u.registers:9}  {u.stack:5}  {u.stores:12}  {u.loads:5}  {u.shared:13}")
    for binary in map(pathlib.Path, binaries):
        size = binary.stat().st_size / 1e6
        print(f"{binary.name}: {size:.1f} MB, at most {limit_mb}")
        if size > float(limit_mb):
            wrong.append(f"{binary.name} has {size:.1f} MB, more than {limit_mb}")
    if spare:
        print("the list can shrink (run again with --update):", *spare, sep="\n  ")
    if wrong:
        print("wrong (what must stay goes into the list with --update, and why into its commit):", *wrong, sep="\n  ")
    else:
        spilling = sum(u.stores + u.loads > 0 for u in usages.values())
        print(f"ptxas: {len(usages)} kernels, {len(known.keys() & usages.keys())} of them known to pass a limit, {spilling} spill")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
