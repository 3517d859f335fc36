"""octet.KVCache and octet.merge_states."""

import sys

import numpy as np
import pytest
from conftest import exact, problem

import octet


def cache_of(scheme="int8", capacity=100, **arguments):
    return octet.KVCache(capacity=capacity, heads_kv=2, heads_q=4, head_dim=32, batch=2, scheme=scheme, **arguments)


@pytest.mark.parametrize("scheme", ["int8", "int8_full", "int8_shift", "f32", "bf16", "fp8", "integer"])
def test_token_by_token_and_at_once_are_the_same(scheme):
    amax = {"int8_full": {"v_amax": 5.0}, "fp8": {"k_amax": 5.0, "v_amax": 5.0}, "integer": {"k_amax": 5.0, "v_amax": 5.0}}.get(scheme, {})
    q, k, v = problem(heads_kv=2, m=5, n=70)
    whole, parts = cache_of(scheme, **amax), cache_of(scheme, **amax)
    whole.append(k, v)
    for t in [slice(0, 60), slice(60, 60), *(slice(i, i + 1) for i in range(60, 70))]:
        parts.append(k[:, :, t], v[:, :, t])
    assert len(whole) == len(parts) == 70 and whole.capacity == 100 and whole.nbytes > 0
    o, lse = whole.attend(q, causal=True, return_lse=True)
    o_parts, lse_parts = parts.attend(q, causal=True, return_lse=True)
    np.testing.assert_array_equal(o, o_parts)
    np.testing.assert_array_equal(lse, lse_parts)
    wanted, wanted_lse = exact(q, k, v, causal=True)
    tolerance = {"f32": 2e-5, "bf16": 0.02, "fp8": 0.15}.get(scheme, 0.06)
    assert np.abs(o - wanted).max() < tolerance and np.abs(lse - wanted_lse).max() < tolerance


def test_a_cache_has_the_bits_of_attention_with_its_recipe():
    q, k, v = problem(heads_kv=2, m=3, n=70)
    cache = cache_of()
    cache.append(k, v)
    mask = np.random.default_rng(0).random((3, 70)) < 0.5
    out = np.empty_like(q)
    assert cache.attend(q, attn_mask=mask, out=out) is out
    np.testing.assert_array_equal(out, octet.attention(q, k, v, recipe=cache.recipe, attn_mask=mask))


def test_truncate_forgets():
    q, k, v = problem(heads_kv=2, m=1, n=70)
    cache, short = cache_of(), cache_of()
    cache.append(k, v)
    cache.truncate(50)
    short.append(k[:, :, :50], v[:, :, :50])
    assert len(cache) == 50
    np.testing.assert_array_equal(cache.attend(q), short.attend(q))
    cache.truncate(0)
    assert (cache.attend(q) == 0).all()


def test_a_step_is_append_and_attend():
    q, k, v = problem(heads_kv=2, m=1, n=70)
    calls, steps = cache_of(), cache_of()
    for t in [slice(0, 60), *(slice(i, i + 1) for i in range(60, 70))]:
        calls.append(k[:, :, t], v[:, :, t])
        mask = np.random.default_rng(t.stop).random((1, t.stop)) < 0.5
        o, lse = steps.step(q, k[:, :, t], v[:, :, t], attn_mask=mask, return_lse=True)
        wanted, wanted_lse = calls.attend(q, attn_mask=mask, return_lse=True)
        np.testing.assert_array_equal(o, wanted)
        np.testing.assert_array_equal(lse, wanted_lse)
    bad = np.full_like(k[:, :, :1], np.nan)
    with pytest.raises(octet.NonFiniteError):
        steps.step(q, bad, bad)
    assert len(steps) == 70
    np.testing.assert_array_equal(steps.attend(q), calls.attend(q))


def test_a_cache_names_the_devices_that_there_are():
    for device in ("mps", "cuda" if "torch" not in sys.modules else "xla"):
        with pytest.raises(ValueError, match="device"):
            cache_of(device=device)


def test_tokens_before_heads_in_a_cache():
    q, k, v = problem(heads_kv=2, m=3, n=70)
    cache, turned = cache_of(), cache_of(layout="bthd")
    cache.append(k, v)
    turned.append(k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(turned.attend(q.transpose(0, 2, 1, 3)), cache.attend(q).transpose(0, 2, 1, 3))


def test_what_a_cache_cannot_keep_is_refused():
    _, k, v = problem(heads_kv=2, n=70)
    with pytest.raises(octet.UnsupportedError):
        cache_of(recipe={"smooth": "mean"})
    with pytest.raises(octet.UnsupportedError):
        cache_of("qattn")
    cache = cache_of(capacity=69)
    with pytest.raises(ValueError, match="69"):
        cache.append(k, v)
    assert len(cache) == 0
    with pytest.raises(ValueError, match=r"q.shape is .*, but"):
        cache.attend(np.zeros((4, 1, 32), np.float32))


@pytest.mark.torch
def test_a_cache_serves_tensors():
    torch = pytest.importorskip("torch")
    arrays = problem(heads_kv=2, m=1, n=70)
    q, k, v = map(torch.from_numpy, arrays)
    cache, other = cache_of(), cache_of()
    cache.append(k, v)
    other.append(*arrays[1:])
    np.testing.assert_array_equal(cache.attend(q).numpy(), other.attend(arrays[0]))


@pytest.mark.parametrize("kind", ["numpy", pytest.param("torch", marks=pytest.mark.torch)])
def test_two_halves_of_the_keys_merge_to_the_whole(kind):
    arrays = problem()
    if kind == "torch":
        torch = pytest.importorskip("torch")
        arrays = list(map(torch.from_numpy, arrays))
    q, k, v = arrays
    halves = [octet.attention(q, k[:, :, part], v[:, :, part], scheme="f32", return_lse=True) for part in (slice(0, 20), slice(20, None))]
    o, lse = octet.merge_states(*halves[0], *halves[1])
    wanted, wanted_lse = octet.attention(q, k, v, scheme="f32", return_lse=True)
    np.testing.assert_allclose(o, wanted, atol=1e-6)
    np.testing.assert_allclose(lse, wanted_lse, atol=1e-6)
    o1 = halves[0][0]
    assert octet.merge_states(o1, halves[0][1], *halves[1], out=o1)[0] is o1
    np.testing.assert_array_equal(o1, o)


def test_the_empty_state_is_the_identity():
    q, k, v = problem()
    o, lse = octet.attention(q, k, v, return_lse=True)
    merged, merged_lse = octet.merge_states(o, lse, np.zeros_like(o), np.full_like(lse, -np.inf))
    np.testing.assert_array_equal(merged, o)
    np.testing.assert_array_equal(merged_lse, lse)
    with pytest.raises(ValueError, match="shape"):
        octet.merge_states(o, lse, o[:, :2], lse[:, :2])
