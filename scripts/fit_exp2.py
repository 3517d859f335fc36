"""Minimax coefficients of src/numerics/exp2.h, by Remez exchange in 40-digit arithmetic.

    python3 scripts/fit_exp2.py

prints the coefficients as f32 literals with the error of the polynomial itself (exact arithmetic, rounded
coefficients); tests/numerics/exp2_test.cpp measures the error with f32 arithmetic. Needs mpmath.

exp2: 2^f = 1 + f q(f) on [-1/2, 1/2]; the 1 is fixed, so that integers are exact. Relative error is minimised.
log2: log2((1+s)/(1-s)) = s r(s^2) with s = (m-1)/(m+1), m in [sqrt(1/2), sqrt(2)]; relative error again.
Coefficients are rounded to f32 one at a time from the constant term up, and the rest is fitted again to what
the rounding left: rounding all at once would cost more than the last term gains.
"""

import struct

from mpmath import lu_solve, matrix, mp, mpf

mp.dps = 40

EXP2_DEGREE = 6  # 5 would leave 1.8e-7 with f32 arithmetic, 6 leaves 1.0e-7
GRID = 1000  # points that the error is looked at; its extrema are found between them
LOG2_TERMS = 4  # 3 leave 1.5e-7 before any rounding, 5 gain nothing


def f32(x):
    """x rounded to the nearest f32, as an exact mpf."""
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def extrema(error, low, high, count):
    """One extremum of the error between each two sign changes, found on a grid and polished by golden section."""
    grid = [low + (high - low) * i / GRID for i in range(GRID + 1)]
    values = [error(x) for x in grid]
    groups, start = [], 0
    for i in range(1, len(grid) + 1):
        if i == len(grid) or values[i] * values[i - 1] < 0:
            groups.append(max(range(start, i), key=lambda k: abs(values[k])))
            start = i
    points = []
    for k in groups:
        a, b = grid[max(k - 1, 0)], grid[min(k + 1, GRID)]
        for _ in range(24):
            c, d = b - (b - a) * mpf("0.618"), a + (b - a) * mpf("0.618")
            if abs(error(c)) > abs(error(d)):
                b = d
            else:
                a = c
        points.append((a + b) / 2)
    while len(points) > count:  # an extra ripple at one end: drop the smaller end
        points.pop(0 if abs(error(points[0])) < abs(error(points[-1])) else -1)
    return points


def remez(target, basis, weight, low, high):
    """Coefficients c that minimise max |target(x) - sum c_i basis_i(x)| * weight(x), and that maximum."""
    n = len(basis)
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / n) for i in range(n + 1)]
    for _ in range(30):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, x in enumerate(points):
            for col, term in enumerate(basis):
                a[row, col] = term(x)
            a[row, n] = (-1) ** row / weight(x)
            b[row] = target(x)
        solution = lu_solve(a, b)
        c = [solution[i] for i in range(n)]

        def error(x, c=c):
            return (target(x) - sum(ci * t(x) for ci, t in zip(c, basis))) * weight(x)

        found = extrema(error, low, high, n + 1)
        if len(found) < n + 1:  # the fit passes through a point that the weight ignores; the levels have converged
            break
        points = found
        worst = max(abs(error(x)) for x in points)
        if worst < abs(solution[n]) * (1 + mpf(10) ** -6):
            break
    return c, max(abs(error(low + (high - low) * i / GRID)) for i in range(GRID + 1))


def fit_rounded(target, basis, weight, low, high):
    """Like remez, with every coefficient an f32: fix the first, fit the rest to the remainder, and so on."""
    fixed = []
    while len(fixed) < len(basis):
        done = len(fixed)

        def rest(x, done=done):
            return target(x) - sum(c * t(x) for c, t in zip(fixed, basis[:done]))

        c, _ = remez(rest, basis[done:], weight, low, high)
        fixed.append(f32(c[0]))
    grid = [low + (high - low) * i / GRID for i in range(GRID + 1)]
    worst = max(abs((target(x) - sum(c * t(x) for c, t in zip(fixed, basis))) * weight(x)) for x in grid)
    return fixed, worst


def report(name, fixed, worst):
    print(f"{name}: largest relative error of the polynomial {float(worst):.3e}")
    for i, c in enumerate(fixed):
        print(f"  c{i} = {float(c):.9e}f  ({float(c).hex()})")


def main():
    half = mpf(1) / 2
    # q(f) = (2^f - 1) / f, weighted so that the error is relative to 2^f; the weight must not vanish at 0.
    def q(f):
        return mp.expm1(f * mp.log(2)) / f if f != 0 else mp.log(2)

    def weight(f):
        return abs(f) / mpf(2) ** f + mpf(10) ** -30

    basis = [lambda f, k=k: f**k for k in range(EXP2_DEGREE)]
    report("exp2", *fit_rounded(q, basis, weight, -half, half))

    # s is odd in log(m): half the interval, in z = s^2, is enough.
    s_max = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)

    def r(z):
        s = mp.sqrt(z)
        return mp.log((1 + s) / (1 - s)) / mp.log(2) / s if z != 0 else 2 / mp.log(2)

    basis = [lambda z, k=k: z**k for k in range(LOG2_TERMS)]
    report("log2", *fit_rounded(r, basis, lambda z: 1 / r(z), mpf(0), s_max**2))


if __name__ == "__main__":
    main()
