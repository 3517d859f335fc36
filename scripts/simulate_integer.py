#!/usr/bin/env python3
"""Bit-exact model of octet's scheme `integer` (docs/numerics/integer.md) in NumPy's 64-bit integers.

    simulate_integer.py table [--seeds 16] [--kinds normal,sink] [--keys 4096] [--dims 64,128]
        SQNR in dB of the output codes against float64, pooled over seeds, and the spread of single seeds.
    simulate_integer.py variants
        What each choice of the scheme is worth, and what not to depend on the block width would cost.
    simulate_integer.py fixtures FILE
        Small cases (codes, scales, results) for tests/numerics/integer_test.cpp.

Everything between quantise() and Rows is integer arithmetic on int64; floats appear in quantise() and in the
figures only.
"""

import argparse
import math
from dataclasses import dataclass, field, replace

import numpy as np

I64 = np.int64
UNIT = 10  # a distance is counted in 2^-10 octave
STEP = 64  # references lie on a grid of 64 units: 1/16 octave
V_GRID = 16  # V's scales are 2^e * 16 / g with an integer g in 16...31
V_MAX = (
    31 << 8
)  # of a key block's multipliers: 16 / g of its power of two, at most 8 octaves below its largest scale
ZERO_BLOCK = -200  # exponent of a key block whose V is all zero
FAR = 1 << 29  # distances and biases saturate here: 2^19 octaves
FOLD = np.rint(2048 * np.exp2(np.arange(16) / 16)).astype(I64)
BINS = 3


@dataclass(frozen=True)
class Options:
    """The scheme as specified by default; every other value is a variant to compare with."""

    block: int = 128
    rotate: bool = False
    smooth: bool = True
    equalise: bool = True
    k_per_token: bool = False  # a 7-bit multiplier a key instead of one K scale a block
    v_power_of_two: bool = False  # the scale of V's tokens without the grid
    grid: int = 16  # references an octave
    fine_output: bool = False  # scales of output rows with a mantissa
    reference: str = "block"  # "row": the row's largest, known beforehand; "window:N": windows of N octaves


def bit_length(x):
    """Bits of |x|, exact for int64."""
    x, n = np.abs(x), np.zeros(np.shape(x), I64)
    for s in (32, 16, 8, 4, 2, 1):
        big = (x >> s) != 0
        n, x = n + s * big, np.where(big, x >> s, x)
    return n + (x != 0)


def shift_round(x, n):
    """x * 2^-n, ties upwards; n may be negative (the caller knows that the result fits)."""
    right = np.clip(n, 0, 62)
    half = np.where(right > 0, np.left_shift(I64(1), np.maximum(right - 1, 0)), 0)
    return np.where(n > 62, 0, np.where(n >= 0, (x + half) >> right, x << np.clip(-n, 0, 62)))


def weight(z):
    """2^-(z / 1024) * 2^15 of a distance z >= 0, at most 32767; 16-bit lanes suffice for every step."""
    fraction = (z << (16 - UNIT)) & 0xFFFF
    mantissa = 65534 - ((fraction * (43900 - ((11132 * fraction) >> 16))) >> 16)
    return ((mantissa >> np.minimum(z >> UNIT, 63)) + 1) >> 1


def log2_q24(m):
    """log2(m) for 1 <= m < 2^62 in units of 2^-24, truncated: repeated squaring of a 32-bit mantissa."""
    n = int(m).bit_length()
    x = int(m) << 32 - n if n <= 32 else int(m) >> n - 32
    bits = 0
    for _ in range(24):
        x = x * x >> 31
        bit = x >> 32
        x >>= bit
        bits = bits << 1 | bit
    return (n - 1 << 24) + bits


V_DISTANCE = np.array(
    [0] * V_GRID + [log2_q24(g) - (4 << 24) + (1 << 13) >> 14 for g in range(V_GRID, V_MAX + 1)], I64
)


# ---- outside the integer core ----


def hadamard(d):
    h = np.ones((1, 1))
    while len(h) < d:
        h = np.block([[h, h], [h, -h]])
    return h / math.sqrt(d)


def split(x):
    """An f32 >= 0 as a mantissa in [2^23, 2^24) and an exponent; zero gives mantissa 0."""
    f, e = np.frexp(np.asarray(x, np.float32))
    m = (f.astype(np.float64) * 2**24).astype(I64)
    return m, np.where(m == 0, 0, e - 24).astype(I64)


def row_constants(q_scale, softmax_scale):
    """q_scale * softmax_scale * log2 e with 31 bits."""
    (a, ea), (b, eb) = split(q_scale), split(np.float32(softmax_scale) * np.float32(1.4426950408889634))
    drop = bit_length(a * b) - 31
    m = shift_round(a * b, drop)
    return np.where(m == 0, 0, m), np.where(m == 0, 0, ea + eb + drop)


@dataclass
class Operands:
    """What the integer core reads: codes, and for each row, key, key block and channel a few integers."""

    q: np.ndarray  # [m, d]
    k: np.ndarray  # [blocks, block, d]
    v: np.ndarray  # [blocks, block, dv]
    row: tuple  # mantissa (31 bits), exponent of q_scale * softmax_scale * log2 e, [m]
    key_block: tuple  # mantissa (24 bits), exponent of the block's K scale, [blocks]
    k_multiplier: np.ndarray  # [blocks, block]
    v_multiplier: np.ndarray  # g, [blocks, block]
    v_exponent: np.ndarray  # [blocks]
    channel_exponent: np.ndarray  # [dv]
    visible: np.ndarray  # [m or 1, blocks, block]
    bias: np.ndarray  # [m or 1, blocks, block], 2^-10 octave
    scales: tuple  # of Q's rows, K's blocks and V's tokens, f32: what the constants were made of


def quantise(q, k, v, o):
    f32 = np.float32
    (m, d), n, dv = q.shape, len(k), v.shape[1]
    blocks = -(-n // o.block)
    if o.smooth:
        k = k - k.mean(0, dtype=np.float64).astype(f32)
    if o.rotate:
        h = np.random.default_rng(1).choice([-1.0, 1.0], d)[:, None] * hadamard(d)
        q, k = (q @ h).astype(f32), (k @ h).astype(f32)
    exponent = np.zeros(dv, I64)
    if o.equalise:
        rms = np.sqrt((v.astype(np.float64) ** 2).mean(0))
        exponent = np.maximum(np.rint(np.log2(np.maximum(rms, 1e-30) / max(rms.max(), 1e-30))), -30).astype(
            I64
        )
    v = v * np.exp2(-exponent).astype(f32)
    grow = lambda x: np.pad(x, ((0, blocks * o.block - n), (0, 0))).reshape(blocks, o.block, -1)
    k, v = grow(k), grow(v)
    codes = lambda x, s: np.clip(
        np.rint(np.divide(x, s, out=np.zeros_like(x), where=s > 0)), -127, 127
    ).astype(I64)
    amax = lambda x: np.abs(x).max(-1)

    q_scale = amax(q) / f32(127)
    k_scale = amax(k).max(1) / f32(127)
    k_multiplier = np.ones(k.shape[:2], I64)
    if o.k_per_token:
        k_scale = k_scale / f32(127)
        k_multiplier = np.clip(np.ceil(amax(k) / (f32(127) * k_scale[:, None]) - f32(1e-4)), 1, 127).astype(
            I64
        )
    # V: a token's scale is the least 2^e * 16 / g that holds it, at most 8 octaves below its key block's largest.
    need = amax(v).astype(np.float64) / 127
    e = np.ceil(np.log2(np.where(need > 0, need, 1)))
    v_scale = np.where(
        need > 0, np.exp2(e) * V_GRID / np.floor(V_GRID * np.exp2(e) / np.where(need > 0, need, 1)), 0
    )
    if o.v_power_of_two:
        v_scale = np.where(need > 0, np.exp2(e), 0)
    v_scale = np.maximum(v_scale, v_scale.max(1, keepdims=True) / 256)
    top = v_scale.max(1)
    v_exponent = np.where(top > 0, np.ceil(np.log2(np.where(top > 0, top, 1))), ZERO_BLOCK).astype(I64)
    g = np.where(
        v_scale > 0,
        np.rint(V_GRID * np.exp2(v_exponent)[:, None] / np.where(v_scale > 0, v_scale, 1)),
        V_GRID,
    )
    v_scale = v_scale.astype(f32)
    return Operands(
        codes(q, q_scale[:, None]),
        codes(k, k_scale[:, None, None] * k_multiplier[..., None].astype(f32)),
        codes(v, v_scale[..., None]),
        row_constants(q_scale, f32(1 / math.sqrt(d))),
        split(k_scale),
        k_multiplier,
        g.astype(I64),
        v_exponent,
        exponent,
        (np.arange(blocks * o.block) < n).reshape(1, blocks, o.block),
        np.zeros((1, blocks, o.block), I64),
        (q_scale, k_scale, v_scale),
    )


# ---- the integer core ----


def product(a, b):
    """Exact product of two integer matrices whose sums stay below 2^53."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(I64)


def octave_multiplier(row, block):
    """c = octaves an accumulator unit: 31- and 16-bit mantissas, shift s with c * 2^10 = M * 2^(s-16)."""
    p = row[0][:, None] * block[0][None]
    e = row[1][:, None] + block[1][None]
    small = p < 1 << 54
    p, e = np.where(small, p << 1, p), e - small
    return (
        (p + (1 << 23)) >> 24,
        np.minimum((p + (1 << 38)) >> 39, 65535),
        np.where(p == 0, -64, e + 55 + UNIT),
    )


def distances(r, m16, s):
    """r >= 0 accumulator units below the largest, in 2^-10 octave."""
    right = np.clip(-s, 1, 62)
    scaled = np.where(
        s < 0, (r + np.left_shift(I64(1), right - 1)) >> right, np.minimum(r << np.clip(s, 0, 31), FAR)
    )
    return (scaled * m16) >> 16


@dataclass
class Bins:
    """Exact sums of value * 2^octave: three highest bins of 16 octaves, [.., BINS], the highest's number."""

    top: np.ndarray
    bins: np.ndarray

    @staticmethod
    def of(value, octave):
        number, shift = octave >> 4, octave & 15
        top = number.max(1)
        extra = value.ndim - octave.ndim
        grow = lambda x: x.reshape(x.shape + (1,) * extra)
        return Bins(
            top,
            np.stack(
                [
                    (value * grow(np.where(number == top[:, None] - i, I64(1) << shift, 0))).sum(1)
                    for i in range(BINS)
                ],
                -1,
            ),
        )

    def total(self):
        return (
            self.bins[..., 0]
            + shift_round(self.bins[..., 1], I64(16))
            + shift_round(self.bins[..., 2], I64(32))
        )


@dataclass
class Rows:
    """The result: real = code * scale_mantissa * 2^scale_exponent; lse in base 2, units of 2^-24."""

    codes: np.ndarray
    scale_mantissa: np.ndarray
    scale_exponent: np.ndarray
    lse2_q24: np.ndarray = field(default=None)

    def values(self):
        return self.codes * (self.scale_mantissa * np.exp2(self.scale_exponent.astype(np.float64)))[:, None]


OUTPUT_UNIT = ((1 << 68) + 127) // 255  # 2^61 * 128 / 255: P's unit over the weights'


def finish(num, den, channel_exponent, o):
    d, n = den.total(), num.total()
    size = np.abs(n)
    drop = bit_length(size) - 31  # each output as a mantissa in [2^30, 2^31) and an exponent
    size = shift_round(size, drop)
    over = size >> 31
    size, e = size >> over, np.where(n == 0, -(1 << 19), drop + over + channel_exponent)
    peak_e = e.max(1)
    peak = np.maximum(np.where(e == peak_e[:, None], size, 0).max(1), 1)
    ld = bit_length(d)
    d31 = shift_round(d, ld - 31)
    d31, ld = d31 >> (d31 >> 31), ld + (d31 >> 31)
    reciprocal = (OUTPUT_UNIT + d31 // 2) // d31
    largest = peak * reciprocal  # below 2^62
    shift = bit_length(largest) - 7  # the largest code is in 64...127
    shift = shift + (shift_round(largest, shift) > 127)
    codes = np.sign(n) * shift_round(size * reciprocal[:, None], shift[:, None] + peak_e[:, None] - e)
    exponent = peak_e - ld + 16 * (num.top - den.top) + shift - 30
    zero = peak_e == -(1 << 19)
    rows = Rows(
        codes,
        np.where(zero, 0.0, 1.0),
        np.where(zero, 0, exponent),
        np.array([log2_q24(x) + (16 * int(t) - 18 << 24) for x, t in zip(d, den.top)], I64),
    )
    if o.fine_output:  # the row's largest output at code 127 exactly
        share = size * np.exp2((e - peak_e[:, None]).astype(np.float64)) / peak[:, None]
        rows.codes = (np.sign(n) * np.rint(127 * share)).astype(I64)
        rows.scale_mantissa = largest / np.exp2(shift.astype(np.float64)) / 127
    return rows


def attend(x, o):
    """Rows of attention of quantised operands; one head, all keys visible unless x.visible says otherwise."""
    m, (blocks, block, d) = len(x.q), x.k.shape
    acc = product(x.q, x.k.reshape(-1, d).T).reshape(m, blocks, block) * x.k_multiplier
    c31, m16, s = octave_multiplier(x.row, x.key_block)
    largest = np.where(x.visible, acc, -(1 << 40)).max(2)
    z = (
        distances(largest[..., None] - acc, m16[..., None], s[..., None])
        + V_DISTANCE[x.v_multiplier]
        - x.bias
    )
    nearest = np.where(x.visible, z, 1 << 40).min(2)
    limit = I64(1) << 40
    position = np.where(s > 39, largest * limit, shift_round(largest * c31, np.maximum(31 - s, -8)))
    position = np.clip(position, -limit, limit) - nearest
    if o.reference.startswith("window"):
        return windows(x, position[..., None] - (z - nearest[..., None]), int(o.reference.split(":")[1]))
    step = (1 << UNIT) // o.grid
    aim = position
    if o.reference == "row":
        scaled = position + (x.v_exponent << UNIT)
        aim = position + scaled.max(1, keepdims=True) - scaled
    reference = -(-aim // step)
    w = np.where(
        x.visible,
        weight(np.minimum(z - nearest[..., None] + (step * reference - position)[..., None], 65535)),
        0,
    )
    p = (w * 255 + (1 << 14)) >> 15
    mass = (w * x.v_multiplier).sum(2)
    pv = np.stack([product(p[:, b], x.v[b]) for b in range(blocks)], 1)
    fold, octave = FOLD[reference % o.grid * (16 // o.grid)], reference // o.grid
    octave = np.where(x.visible.any(2), octave, -(1 << 30))
    return finish(
        Bins.of(pv * fold[..., None], octave + x.v_exponent),
        Bins.of((mass * fold + (1 << 11)) >> 12, octave),
        x.channel_exponent,
        o,
    )


def windows(x, t, octaves):
    """Free of the block width: each key's P against the next edge of fixed windows; sums in float64."""
    size = octaves << UNIT
    edge = -(-t // size)
    w = np.where(x.visible, weight(np.minimum(edge * size - t, 65535)), 0)
    p = (w * 255 + (1 << 14)) >> 15
    factor = np.exp2((edge * size - t.max((1, 2), keepdims=True)) / 1024)
    num = (p * factor * np.exp2(x.v_exponent)[:, None]).reshape(len(t), -1) @ x.v.reshape(
        -1, x.v.shape[-1]
    ).astype(np.float64)
    den = (w * x.v_multiplier * factor).sum((1, 2))
    out = num / den[:, None] * (V_GRID * 32768 / 255) * np.exp2(x.channel_exponent)
    scale = np.abs(out).max(1) / 127
    used = [len(np.unique(edge[i, b][p[i, b] > 0])) for i in range(0, len(t), 8) for b in range(t.shape[1])]
    rows = Rows(np.rint(out / scale[:, None]), scale, np.zeros(len(t), I64))
    rows.passes = float(np.mean(used))
    return rows


# ---- figures ----

KINDS = (
    "normal",
    "sharp",
    "outlier",
    "biasK",
    "sink",
    "mixed",
    "vtoken",
    "vchannel",
    "uniform",
    "u4",
    "tiny",
    "huge",
    "needle",
)


def generate(kind, seed, queries, keys, d):
    """Q, K and V of one head in f32; `n` draws standard normal numbers anew at each place."""
    r = np.random.default_rng(seed)
    n = lambda *shape: r.standard_normal(shape)
    if kind in ("uniform", "u4"):
        half = 0.5 if kind == "uniform" else 4
        q, k, v = (r.uniform(-half, half, (t, d)) for t in (queries, keys, keys))
        return tuple(x.astype(np.float32) for x in (q, k, v))
    q, k, v = n(queries, d), n(keys, d), n(keys, d)
    if kind in ("sink", "needle"):
        u = n(1, d)
        u /= np.linalg.norm(u)
    if kind == "sharp":
        q *= 4
    elif kind == "outlier":
        q, k, v = (x + 10 * n(*x.shape) * (r.random(x.shape) < 0.001) for x in (q, k, v))
    elif kind == "biasK":
        k = k + 4 * n(1, d)
    elif kind == "sink":
        q = q - (q @ u.T) * u + 4 * u
        k[0], v[0] = 2 * math.sqrt(d) * u, 0.05 * v[0]
    elif kind == "mixed":
        k, v = k * np.exp(0.5 * n(keys, 1)) + 2 * n(1, d), v * np.exp(n(keys, 1))
        v[0] *= 0.05
    elif kind == "vtoken":
        v = v * np.exp(1.5 * n(keys, 1))
    elif kind == "vchannel":
        v = v * np.exp(1.5 * n(1, d))
    elif kind == "tiny":
        q, k, v = 0.02 * q, 0.05 * k, 1e-3 * v
    elif kind == "huge":
        q, k, v = 30 * q, 300 * k, 1e4 * v
    elif kind == "needle":
        q, k = 0.05 * n(queries, d) + 5 * u, 0.05 * (k - (k @ u.T) * u)
        k[keys // 3] = 2.5 * math.sqrt(d) * u
    return tuple(x.astype(np.float32) for x in (q, k, v))


def exact(q, k, v):
    s = q.astype(np.float64) @ k.T.astype(np.float64) / math.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ v.astype(np.float64) / p.sum(1, keepdims=True)


def sqnr(kind, keys, d, queries, seeds, o):
    """Pooled dB, and the least and greatest of single seeds."""
    noise, power, passes = [], [], 0.0
    for seed in range(seeds):
        q, k, v = generate(kind, seed, queries, keys, d)
        want = exact(q, k, v)
        rows = attend(quantise(q, k, v, o), o)
        noise.append(((rows.values() - want) ** 2).sum())
        power.append((want**2).sum())
        passes = getattr(rows, "passes", passes)
    db = lambda p, n: 10 * math.log10(p / n)
    single = [db(p, n) for p, n in zip(power, noise)]
    return db(sum(power), sum(noise)), min(single), max(single), passes


def table(args):
    cases = [("u4", 197, 64, 197), ("u4", 49, 32, 49)] if "u4" in args.kinds else []
    cases += [
        (kind, keys, d, args.queries)
        for kind in args.kinds
        if kind != "u4"
        for keys in args.keys
        for d in args.dims
    ]
    print(
        "| data | keys | d | "
        + " | ".join(f"key block {b}" for b in args.blocks)
        + " | single seeds |\n"
        + "|---" * (4 + len(args.blocks))
        + "|"
    )
    for kind, keys, d, queries in cases:
        found = [sqnr(kind, keys, d, queries, args.seeds, replace(Options(), block=b)) for b in args.blocks]
        print(
            f"| {kind} | {keys} | {d} | "
            + " | ".join(f"{f[0]:.2f}" for f in found)
            + f" | {found[0][1]:.1f} to {found[0][2]:.1f} |",
            flush=True,
        )


def variants(args):
    base = Options()
    forms = [
        ("as specified", base),
        ("V powers of two", replace(base, v_power_of_two=True)),
        ("references on octaves", replace(base, grid=1)),
        ("output rows with a mantissa", replace(base, fine_output=True)),
        ("rotated Q and K", replace(base, rotate=True)),
        ("no equalisation", replace(base, equalise=False)),
        ("K per token", replace(base, k_per_token=True)),
        ("P against the row's largest (two passes)", replace(base, reference="row")),
    ]
    forms += [(f"fixed windows of {n} octaves", replace(base, reference=f"window:{n}")) for n in (1, 2, 4, 8)]
    kinds = [k for k in args.kinds if k not in ("u4", "tiny", "huge", "needle")]
    print("| form | " + " | ".join(kinds) + " |\n" + "|---" * (1 + len(kinds)) + "|")
    for name, o in forms:
        found = [sqnr(kind, args.keys[0], args.dims[0], args.queries, args.seeds, o) for kind in kinds]
        print(
            f"| {name} | "
            + " | ".join(f"{f[0]:.2f}" + (f" ({f[3]:.1f} products)" if f[3] else "") for f in found)
            + " |",
            flush=True,
        )


def fixtures(args):
    """One field a line: its name, then its integers; f32 as bits. A case ends with an empty line."""
    cases = (
        ("normal", 197, 64, 128),
        ("sink", 70, 32, 32),
        ("outlier", 49, 32, 16),
        ("huge", 40, 16, 16),
        ("tiny", 40, 16, 16),
        ("vtoken", 96, 32, 32),
        ("needle", 150, 16, 64),
        ("vchannel", 64, 16, 32),
        ("mixed", 64, 24, 16),
    )
    queries = 5
    with open(args.file, "w", encoding="ascii") as f:
        for kind, keys, d, block in cases:
            o = Options(block=block)
            q, k, v = generate(kind, 7, queries, keys, d)
            x = quantise(q, k, v, o)
            bits = lambda a: np.asarray(a, np.float32).view(np.uint32)
            rows = {
                "queries": queries,
                "keys": keys,
                "dim": d,
                "block": block,
                "softmax_scale": bits(1 / math.sqrt(d)),
                "q": x.q,
                "k": x.k.reshape(-1, d)[:keys],
                "v": x.v.reshape(-1, d)[:keys],
                "q_scale": bits(x.scales[0]),
                "k_scale": bits(x.scales[1]),
                "v_scale": bits(x.scales[2].reshape(-1)[:keys]),
                "channel_exponent": x.channel_exponent,
            }
            if kind == "mixed":  # a bias and a causal mask; half of the keys stand beyond the last query
                r = np.random.default_rng(8)
                bias = (5 * r.standard_normal((queries, keys))).astype(np.float32)
                seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
                seen[:, 3::7] = False
                rows["bias"] = bits(np.where(seen, bias, -np.inf))
                shape = (queries, -1, block)
                x.visible = seen.reshape(shape)
                x.bias = (
                    np.rint(bias * np.float32(1.4426950408889634) * np.float32(1024))
                    .astype(I64)
                    .reshape(shape)
                )
            found = attend(x, o)
            rows |= {
                "codes": found.codes,
                "scale_exponent": found.scale_exponent,
                "log2_sum": found.lse2_q24,
            }
            for name, values in rows.items():
                f.write(name + " " + " ".join(map(str, np.asarray(values).ravel().tolist())) + "\n")
            f.write("\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("table", "variants", "fixtures"))
    parser.add_argument("file", nargs="?", default="cases.txt")
    numbers = lambda s: [int(x) for x in s.split(",")]
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--kinds", type=lambda s: s.split(","), default=list(KINDS))
    parser.add_argument("--keys", type=numbers, default=[4096])
    parser.add_argument("--dims", type=numbers, default=[64, 128])
    parser.add_argument("--blocks", type=numbers, default=[128])
    args = parser.parse_args()
    {"table": table, "variants": variants, "fixtures": fixtures}[args.command](args)


if __name__ == "__main__":
    main()
