"""What a call of each scheme costs on this CPU, quantisation counted: the order in which octet.advise tries them."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from tqdm import tqdm

import octet
from octet.advise import COSTS

HEADS, TOKENS, DIM = 4, 1024, 64


def measure(repeats: int) -> list[dict[str, Any]]:
    """A row a scheme: CPU ms of one call on one thread (OCTET_THREADS=1), median of turns, and the same relative to f32's."""
    generator = np.random.default_rng(1)
    q, k, v = (generator.standard_normal((1, HEADS, TOKENS, DIM), dtype=np.float32) for _ in range(3))
    plans = {scheme: octet.plan(q, k, v, scheme=scheme) for scheme in COSTS}
    out = np.empty_like(q)
    times: dict[str, list[float]] = {scheme: [] for scheme in plans}
    for turn in tqdm(range(repeats + 1), desc="costs", unit="turn", mininterval=1):
        for scheme, plan in plans.items():
            start = time.thread_time()
            plan(q, k, v, out=out)
            if turn:  # the first warms up
                times[scheme].append(time.thread_time() - start)
    medians = {scheme: statistics.median(found) for scheme, found in times.items()}
    operations = 4 * HEADS * TOKENS * TOKENS * DIM
    return [
        {
            "scheme": scheme,
            "backend": plans[scheme].backend,
            "shape": f"{HEADS} x {TOKENS} x {DIM}",
            "ms": 1e3 * seconds,
            "gops": operations / seconds / 1e9,
            "cost": seconds / medians["f32"],
        }
        for scheme, seconds in sorted(medians.items(), key=lambda item: item[1])
    ]
