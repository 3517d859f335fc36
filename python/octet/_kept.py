"""Plans that calls share: octet.attention finds its own again by the problem, and by the arguments as they were given."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from . import _abi
from ._plan import AttentionPlan
from ._problem import Problem

_MOST_PLANS = 512  # more than a model has shapes; each takes a few kilobytes

_plans: OrderedDict[Problem, AttentionPlan] = OrderedDict()
_plans_lock = Lock()


def kept_plan(p: Problem) -> AttentionPlan:
    """The plan of a problem, made when it first comes."""
    try:
        found = _plans.get(p)
    except TypeError:  # an argument that does not hash is none that a problem takes: the description says which
        return AttentionPlan(p)
    if found is not None:
        return found
    made = AttentionPlan(p)
    with _plans_lock:
        _plans[p] = made
        if len(_plans) > _MOST_PLANS:
            _plans.popitem(last=False)
    return made


class PlansAsGiven:
    """Plans by the arguments that calls give, found before anybody looks at what these mean: a model's calls are all alike."""

    def __init__(self) -> None:
        self._plans: dict[tuple, AttentionPlan] = {}

    def find(
        self, arrays: tuple, attn_mask: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, out: Any, what: tuple, make: Callable[[], AttentionPlan]
    ) -> AttentionPlan:
        """The plan of a call of (q, k, v), or make() of the first one, which also tells what is wrong with it. what: all other arguments."""
        q, k, v = arrays
        try:
            # note: of devices q's alone, for a call itself refuses arrays that lie elsewhere.
            given = (
                q.shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype, _abi.CPU if type(q) is np.ndarray else q.device,
                None if attn_mask is None else attn_mask.dtype, None if cu_seqlens_q is None else len(cu_seqlens_q),
                None if cu_seqlens_k is None else len(cu_seqlens_k), None if out is None else out.dtype, what,
            )  # fmt: skip
            found = self._plans.get(given)
        except (AttributeError, TypeError):  # no arrays, or what does not hash
            return make()
        if found is None:
            found = make()
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[given] = found
        return found
