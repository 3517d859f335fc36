#!/usr/bin/env python3
"""Checks that kernels of integer schemes compute with integers. Usage: integer_only.py COMPILE_COMMANDS TOOLS... -- OBJECT...

Every instruction of the OBJECTs' kernels is an integer one, or belongs to a function of EDGES below: the LSE, and what turns the caller's
floats into integers and back. Which function an instruction belongs to is asked of the compiler: each unit is compiled again as
COMPILE_COMMANDS has it, with line information beside it, and what comes out must be the same code. nvcc's own division of integers is
one of floats, and fails. cuobjdump and nvdisasm lie in one of the folders TOOLS (scripts/dependencies-cuda.txt).
"""
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import Iterator, NamedTuple

# Functions whose floats are allowed, and why: in all that they call, or in their own lines alone.
EVERYTHING, OWN_LINES = "everything", "own lines"
EDGES = {
    "IntegerScheme::prepare": (EVERYTHING, "constants of a call, from f32 scales"),
    "QFlashScheme::prepare": (EVERYTHING, "constants of a call, from f32 scales"),
    "Packing::block_of": (OWN_LINES, "the largest of V's f32 scales"),
    "IntegerScheme::bias": (EVERYTHING, "the caller's bias as an integer"),
    "QFlashScheme::bias": (EVERYTHING, "the caller's bias as an integer"),
    "HeadBias::at": (EVERYTHING, "the caller's bias in its format, or a boolean mask as one"),
    "biases_of": (OWN_LINES, "whether a bias hides its key"),
    "QFlashScheme::finish": (EVERYTHING, "the published kernel's quotient, which is one of f32 (docs/numerics/qflash.md)"),
    "IntegerScheme::output_scale": (EVERYTHING, "a row's scale as f32"),
    "end_rows": (OWN_LINES, "codes times their scale"),
    "ScaledRows::put": (OWN_LINES, "codes times their scale"),
    "LoneEnds::put": (OWN_LINES, "codes times their scale"),
    "RowStore::code_factor": (EVERYTHING, "codes times their scale"),
    "RowStore::rows": (EVERYTHING, "outputs in the caller's format"),
    "store_ends": (OWN_LINES, "a row's scale, 0 of an empty row"),
    "IntegerScheme::lse": (EVERYTHING, "the LSE"),
    "QFlashScheme::lse": (EVERYTHING, "the LSE"),
    "RowStore::lse": (EVERYTHING, "the LSE"),
}
# The same of qflash's kernels alone: the compiler moves instructions of the functions above among those beside them, and gives them their lines.
EDGES_OF_QFLASH = {
    "end_rows": (EVERYTHING, "the published kernel's quotient, as in QFlashScheme::finish"),
    "Attention": (EVERYTHING, "constants of a call, as in QFlashScheme::prepare"),
    "Attention::attend_rows": (OWN_LINES, "the beginning of that quotient, at the barrier before the ends"),
    "RowsInTurn::end": (OWN_LINES, "the beginning of that quotient, among the places that rows leave by"),
    "DeviceTensor::along": (OWN_LINES, "constants of a call too, among the addresses of operands"),
    "store_ends": (EVERYTHING, "the LSE, as in QFlashScheme::lse, of which both of a lane's rows have a part in common"),
}

# The opcodes of sm_80 to sm_120 (CUDA binary utilities, instruction set reference). One that is in neither list fails: someone must say what it is.
FLOATS = set("""
    FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FHADD FHFMA FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET FSETP FSWZADD MUFU RRO
    HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 HMMA HGMMA QMMA QGMMA OMMA BMMAF
    DADD DFMA DMMA DMNMX DMUL DSET DSETP F2F F2FP F2I F2IP FRND I2F I2FP R2F
    UFADD UFFMA UFMNMX UFMUL UFRND UFSEL UFSET UFSETP UF2F UF2FP UF2I UF2IP UI2F UI2FP UTCHMMA UTCQMMA UTCOMMA VHMNMX
    """.split())
INTEGERS = set("""
    BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMMA IGMMA BMMA BGMMA IMNMX IMUL IMUL32I ISCADD ISCADD32I ISETP LEA LOP LOP3 LOP32I
    POPC SHF SHL SHR VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 I2I I2IP SGXT
    MOV MOV32I MOVM PRMT SEL SHFL PLOP3 PSETP P2R R2P CS2R CS2UR S2R S2UR B2R R2B R2UR UR2UP UP2UR
    LD LDC LDCU LDG LDGDEPBAR LDGSTS LDL LDS LDSM LDTM ST STG STL STS STSM ST2G MATCH QSPC ATOM ATOMS ATOMG RED REDG REDUX REDAS
    CCTL CCTLL CCTLT CGAERRBAR ERRBAR MEMBAR FENCE DEPBAR ARRIVES SYNCS BAR UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAPF UTMAREDG UTMACCTL UTMACMDFLUSH
    UBMSK UBREV UCLEA UFLO UIADD3 UIADD3.64 UIMAD UIMNMX UISETP ULDC ULEA ULEPC ULOP ULOP3 ULOP32I UMOV UPLOP3 UPOPC UPRMT UPSETP USEL
    USETMAXREG USGXT USHF USHL USHR UVIADD UVIMNMX UVIRTCOUNT VOTE VOTEU WARPGROUP WARPGROUPSET ELECT ENDCOLLECTIVE COLLECTIVE ACQBULK PREEXIT
    BMOV BPT BRA BREAK BRX BRXU BSSY BSYNC CALL EXIT JMP JMX JMXU KILL NANOSLEEP RET RPCMOV WARPSYNC YIELD LEPC NOP PMTRIG
    GETLMEMBASE SETLMEMBASE SETCTAID ACQSHMINIT NONE
    """.split())
FLOAT_MODIFIERS = {"F16", "F32", "F64", "BF16", "BF16_V2"}  # of atomic operations, say
# What moves bits and computes nothing: a constant on its way into a register by a pipe that is free (0 * 0 + the constant), and one of two
# registers chosen, which the compiler no longer says the source line of.
MOVES = re.compile(r"HFMA2(\.MMA)?(\.BF16_V2)? U?R\d+, ?-?RZ, ?-?RZ,|U?FSEL (?!.*(-U?[Rc]|\|))")

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ )?(([A-Z][A-Z0-9_]*)((?:\.[\w.]*)?)(?:\s.*?)?)\s*;")
LINE = re.compile(r'^\s*//## File "([^"]+)", line (\d+)')
SYMBOL = re.compile(r"^([_$][\w$.]*):")
SECTION = re.compile(r"^\s*\.section\s+\.text\.([\w$.]+),")
CALLED = re.compile(r"`\(([\w$.]+)\)")
CONTROL = re.compile(r"^(?:else\s+)?(?:if|for|while|switch|catch|do|else|return|namespace|enum|extern)\b")
NOT_FUNCTIONS = {"__launch_bounds__", "__attribute__", "alignas", "requires", "decltype", "sizeof", "noexcept", "asm", "__align__"}


class Instruction(NamedTuple):
    text: str
    opcode: str
    modifiers: str
    frames: tuple[tuple[str, int], ...]  # file and line, innermost first


def is_float(instruction: Instruction) -> bool:
    if MOVES.match(instruction.text):
        return False
    modifiers = set(instruction.modifiers.split("."))
    return instruction.opcode in FLOATS or bool(modifiers & FLOAT_MODIFIERS)


def without_text(source: str) -> str:
    """The source with comments, literals and preprocessor lines blanked, so that braces are braces."""
    blanked = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])\'|^[ \t]*#[^\n]*'
    return re.sub(blanked, lambda found: re.sub(r"[^\n]", " ", found.group(0)), source, flags=re.S | re.M)


def without_angles(text: str) -> str:
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    return text


def name_of(head: str) -> str:
    """What a brace after `head` opens: a class, a function, or nothing that has a name."""
    head = without_angles(head).replace("template", " ").strip()
    if CONTROL.match(head):
        return ""
    if found := re.search(r"\b(?:class|struct|union)\s+(?:alignas\([^)]*\)\s*)?(\w+)[^()]*$", head):
        return found.group(1)
    for found in re.finditer(r"((?:\w+::)*(?:operator\s*[^\s\w(]+|~?\w+))\s*\(", head):
        if found.group(1) not in NOT_FUNCTIONS:
            return found.group(1)
    return ""


def functions_of(source: str) -> dict[int, str]:
    """Line -> the innermost function or class that it has a part of, as Class::function."""
    names: dict[int, str] = {}
    opened: list[tuple[str, int, str]] = []  # name, the depth of parentheses around it, and what stands there before it
    head, depth, line = "", 0, 1
    for c in without_text(source):
        if c == "\n":
            line += 1
        if c == "{":
            opened.append((name_of(head) if depth == 0 else "", depth, head if depth else ""))
            head, depth = "", 0
        elif c == "}":
            _, depth, head = opened.pop() if opened else ("", 0, "")
        elif c == ";" and depth == 0:
            head = ""
        else:
            depth += (c == "(") - (c == ")")
            head += c
        name = "::".join(name for name, _, _ in opened if name)
        if len(name) >= len(names.get(line, "")):
            names[line] = name
    return names


@functools.cache
def functions_in(path: str) -> dict[int, str]:
    return functions_of(pathlib.Path(path).read_text(encoding="utf-8", errors="replace"))


def function_at(frame: tuple[str, int]) -> str:
    return functions_in(frame[0]).get(frame[1], "")


def edge_of(functions: list[str], kernel: str = "") -> str | None:
    """The edge that an instruction of a kernel belongs to. functions: innermost first."""
    edges = {**EDGES, **(EDGES_OF_QFLASH if "QFlashScheme" in kernel else {})}
    for depth, name in enumerate(functions):
        for edge, (extent, _) in edges.items():
            if (name == edge or name.endswith("::" + edge)) and (depth == 0 or extent == EVERYTHING):
                return edge
    return None


def kernels_of(disassembly: str) -> Iterator[tuple[str, dict[str, list[Instruction]]]]:
    """Kernel -> its instructions and those of what the compiler put beside it, by symbol."""
    kernel, symbols, frames, fresh = "", {}, (), True
    current: list[Instruction] = []
    for line in disassembly.splitlines():
        if found := SECTION.match(line):
            if kernel:
                yield kernel, symbols
            kernel, symbols, frames = found.group(1), {}, ()
        elif found := SYMBOL.match(line):
            current = symbols.setdefault(found.group(1), [])
        elif found := LINE.match(line):
            frames = (() if fresh else frames) + ((found.group(1), int(found.group(2))),)
            fresh = False
        elif found := INSTRUCTION.match(line):
            fresh = True
            current.append(Instruction(found.group(2), found.group(3), found.group(4), frames))
    if kernel:
        yield kernel, symbols


def check(kernel: str, symbols: dict[str, list[Instruction]], used: set[str]) -> tuple[list[str], int]:
    """What is wrong with a kernel, a line a place in the source, and how many of its floats are at edges."""
    has_floats = {name for name, code in symbols.items() if any(map(is_float, code))}
    found: dict[str, set[str]] = {}
    allowed = 0
    for instruction in symbols.get(kernel, []):
        if instruction.opcode not in FLOATS | INTEGERS:
            found.setdefault("opcodes that the test does not know", set()).add(instruction.opcode)
        called = CALLED.search(instruction.text)
        is_call = instruction.opcode == "CALL" and bool(called) and called.group(1) in has_floats
        if not is_float(instruction) and not is_call:
            continue
        functions = [function_at(frame) for frame in instruction.frames]
        if edge := edge_of(functions, kernel):
            used.add(edge)
            allowed += 1
            continue
        places = [f"{name or '?'} ({pathlib.Path(path).name}:{line})" for name, (path, line) in zip(functions, instruction.frames)]
        found.setdefault(" < ".join(places) or "no line", set()).add(instruction.opcode + instruction.modifiers + (" " + called.group(1) if is_call else ""))
    return [f"{place}: {', '.join(sorted(opcodes))}" for place, opcodes in found.items()], allowed


def check_itself() -> None:
    """The rules find what they are for."""
    source = ("namespace n {\ntemplate <class S, int k>\nclass A {\n  A(int x)\n      : x_{x} {}\n  int f(int x) {\n    if (g(x)) {\n      h([&](int y) {\n        return y;\n"
              "      });\n    }\n    return T{x};  // }\n  }\n  int x_;\n};\ntemplate <class S>\nint A<S>::g(S{}) { return 1; }\n}\n")
    names = functions_of(source)
    assert [names[line] for line in (4, 5, 6, 8, 9, 12, 14, 17, 18)] == ["A", "A::A", "A::f", "A::f", "A::f", "A::f", "A", "A::g", ""], names
    text = ("\t.section\t.text._Zk,\"ax\",@progbits\n_Zk:\n\t//## File \"/a\", line 2 inlined at \"/b\", line 3\n\t//## File \"/b\", line 3\n"
            "        /*0000*/                   @!P0 FADD.FTZ R1, R2, R3 ;\n        /*0010*/                   CALL.REL.NOINC `($__internal_0_$__div) ;\n"
            "        /*0020*/                   EXIT ;\n$__internal_0_$__div:\n        /*0030*/                   MUFU.RCP R1, R2 ;\n")
    (kernel, symbols), = kernels_of(text)
    assert kernel == "_Zk" and [i.opcode for i in symbols[kernel]] == ["FADD", "CALL", "EXIT"] and len(symbols) == 2
    assert symbols[kernel][0].frames == (("/a", 2), ("/b", 3)) and symbols[kernel][0].modifiers == ".FTZ"
    for opcode, wanted in (("FADD R1, R2, R3", 1), ("HFMA2.MMA R3, -RZ, RZ, 0, 5.9e-08", 0), ("HFMA2 R3, R1, R2, R3", 1), ("IMMA.16832.S8.S8 R0, R1, R2, R3", 0),
                           ("ATOMG.E.ADD.F32 R0, R1", 1), ("FLO.U32 R1, R2", 0), ("I2IP.U8.S32.SAT R1, R2, R3, RZ", 0), ("UF2FP.F16 UR1, UR2", 1),
                           ("FSEL R8, R9, 1, P1", 0), ("FSEL R8, -R9, 1, P1", 1), ("FSEL R8, |R9|, 1, P1", 1), ("FSEL.FTZ R8, R9, R1, P1", 1)):
        (_, found), = kernels_of(f"\t.section\t.text._Zk,\"ax\"\n_Zk:\n        /*0000*/   {opcode} ;\n")
        assert is_float(found["_Zk"][0]) == bool(wanted), opcode
    assert edge_of(["f", "RowStore::rows", "g"]) == "RowStore::rows" and edge_of(["end_rows", "g"]) == "end_rows"
    assert edge_of(["f", "end_rows"], "QFlashScheme") == "end_rows" and edge_of(["f", "Attention::run"], "QFlashScheme") is None
    assert edge_of(["f", "end_rows"]) is None and edge_of(["f"]) is None
    assert not FLOATS & INTEGERS


def run(*command: str, folder: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def tool(name: str, folders: list[str]) -> str:
    for folder in folders:
        if (path := pathlib.Path(folder) / name).exists():
            return str(path)
    raise SystemExit(f"{name} is in none of {', '.join(folders)}; run scripts/install-dependencies scripts/dependencies-cuda.txt")


def with_lines(entry: dict[str, str], architecture: str, cubin: str) -> list[str]:
    """The unit's command for one architecture, from the PTX that the unit's code of it is from, with line information."""
    command = shlex.split(entry["command"])
    command = command[next(i for i, word in enumerate(command) if word.endswith("nvcc")):]  # no launcher
    kept, skip, virtual = [], 0, ""
    for word in command:
        if skip:
            skip -= 1
        elif word in ("-o", "-MT", "-MF"):
            skip = 1
        elif word.startswith("--generate-code"):
            if f"[{architecture}]" in word:
                virtual = re.search(r"compute_\w+", word).group(0)
        elif word not in ("-c", "-MD"):
            kept.append(word)
    return kept + [f"--generate-code=arch={virtual},code=[{architecture}]", "-lineinfo", "-cubin", "-o", cubin]


def code_of(disassembly: str) -> dict[str, list[str]]:
    return {name: [i.text for i in code] for _, symbols in kernels_of(disassembly) for name, code in symbols.items()}


def main() -> int:
    check_itself()
    split = sys.argv.index("--")
    (commands_path, *folders), objects = sys.argv[1:split], sys.argv[split + 1:]
    cuobjdump, nvdisasm = tool("cuobjdump", folders), tool("nvdisasm", folders)
    entries = json.loads(pathlib.Path(commands_path).read_text(encoding="utf-8"))
    wrong, used, kernels, allowed = [], set(), 0, 0
    for path in map(pathlib.Path, objects):
        entry = next(e for e in entries if str(path).endswith(shlex.split(e["command"])[-1]) or str(path).endswith(e.get("output", "\0")))
        with tempfile.TemporaryDirectory() as folder:
            run(cuobjdump, "-xelf", "all", str(path), folder=folder)
            for shipped in sorted(pathlib.Path(folder).glob("*.cubin")):
                architecture = re.search(r"sm_\d+[a-z]?", shipped.name).group(0)
                lined = str(pathlib.Path(folder) / "lined")
                run(*with_lines(entry, architecture, lined), folder=entry["directory"])
                disassembly = run(nvdisasm, "-c", "-gi", lined)
                if code_of(disassembly) != code_of(run(nvdisasm, "-c", str(shipped))):
                    wrong.append(f"{path.name} {architecture}: compiled with line information it is other code; build it again, or find another way to its lines")
                found: dict[str, list[str]] = {}
                for kernel, symbols in kernels_of(disassembly):
                    kernels += 1
                    problems, edges = check(kernel, symbols, used)
                    allowed += edges
                    for problem in problems:
                        found.setdefault(problem, []).append(kernel)
                wrong += [f"{path.name} {architecture}, {len(of)} kernels: {problem}" for problem, of in found.items()]
    if kernels == 0:
        wrong.append("no kernel was found; do the objects hold code of a GPU?")
    for edge in sorted(EDGES.keys() - used):
        print(f"note: {edge} ({EDGES[edge][1]}) has no floats in this build")
    if wrong:
        print("floats where integers are promised, innermost function first:", *wrong, sep="\n  ")
    else:
        print(f"integer_only: {kernels} kernels, integers but for {allowed} instructions at edges")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
