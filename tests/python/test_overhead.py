"""What a call costs beside the library's own work, on a problem that is none; times of this thread's CPU."""

import time
import timeit

import numpy as np
import pytest

import octet
from octet import _arrays, _plan

CALLS = 4000
MOST_BY_PLAN = 8  # us; 3 on an idle AMD EPYC (Zen 4), the library's own 2 (f32) to 4 (int8) apart
MOST_BY_OPERATOR = 25  # us; 15 there
# Or, where the processor is slower, as much as so many calls of others that do next to nothing: additions of 16 numbers by NumPy (9 to 14 on an AMD
# EPYC of the first generation), operators in Python (6 to 7.5 on one of the third).
MOST_ADDITIONS = 18
MOST_OPERATORS_OF_NOTHING = 9


def microseconds(call):
    return min(timeit.repeat(call, number=CALLS, repeat=9, timer=time.thread_time)) / CALLS * 1e6


def library_alone(plan, arrays, out):
    """The same C call with arguments that are bound already."""
    call = plan._new_call("numpy")
    for slot, x in zip((call.q, call.k, call.v, call.o), (*arrays, out)):
        slot.bind(x)
    buffer = _arrays.workspace(plan.workspace_bytes)
    call.args.workspace, call.args.workspace_bytes = buffer.address, buffer.bytes
    return microseconds(lambda: _plan._attend(plan._pointer, call.pointer))


@pytest.fixture
def tiny():
    arrays = np.random.default_rng(0).standard_normal((3, 1, 1, 1, 16), dtype=np.float32)
    return list(arrays), np.empty((1, 1, 1, 16), np.float32)


@pytest.fixture(scope="module")
def addition():
    x, y = np.ones((1, 1, 1, 16), np.float32), np.empty((1, 1, 1, 16), np.float32)
    return microseconds(lambda: np.add(x, x, out=y))


@pytest.mark.parametrize("scheme", ["f32", "int8"])
def test_a_plan_adds_less_than_8_us(tiny, scheme, addition, record_property):
    arrays, out = tiny
    plan = octet.plan(*arrays, scheme=scheme)
    whole, own = microseconds(lambda: plan(*arrays, out=out)), library_alone(plan, arrays, out)
    record_property("microseconds", whole)
    most = max(MOST_BY_PLAN, MOST_ADDITIONS * addition)
    assert whole - own < most, f"{whole:.1f} us, of which the library takes {own:.1f}; at most {most:.1f} are allowed"


@pytest.fixture(scope="module")
def operator_of_nothing():
    torch = pytest.importorskip("torch")
    library = torch.library.Library("octet_overhead", "DEF")
    library.define("nothing(Tensor q, Tensor k, Tensor v) -> Tensor")
    library.impl("nothing", lambda q, k, v: q.clone(), "CPU")
    x = torch.zeros(1, 1, 1, 16)
    return microseconds(lambda: torch.ops.octet_overhead.nothing(x, x, x))


@pytest.mark.torch
@pytest.mark.parametrize("scheme", ["f32", "int8"])
def test_the_torch_operator_adds_less_than_25_us(tiny, scheme, operator_of_nothing, record_property):
    torch = pytest.importorskip("torch")
    import octet.torch as ot

    arrays, out = tiny
    own = library_alone(octet.plan(*arrays, scheme=scheme), arrays, out)
    q, k, v = map(torch.from_numpy, arrays)
    whole = microseconds(lambda: ot.attention(q, k, v, scheme=scheme))
    record_property("microseconds", whole)
    most = max(MOST_BY_OPERATOR, MOST_OPERATORS_OF_NOTHING * operator_of_nothing)
    assert whole - own < most, f"{whole:.1f} us, of which the library takes {own:.1f}; at most {most:.1f} are allowed"
