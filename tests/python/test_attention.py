"""octet.attention and octet.plan on NumPy arrays: results, layouts, masks, outputs."""

import threading

import numpy as np
import pytest
from conftest import exact, problem

import octet

F32 = 2e-5  # what f32 kernels may be away from float64 on N(0, 1) data of these sizes


def near_exact(o, wanted, bound):
    np.testing.assert_array_less(np.abs(np.asarray(o, np.float64) - wanted), np.broadcast_to(bound, wanted.shape))


@pytest.mark.parametrize("scheme", octet.schemes())
def test_every_scheme_stays_within_its_own_bound(scheme):
    q, k, v = problem()
    o = octet.attention(q, k, v, scheme=scheme)
    near_exact(o, exact(q, k, v)[0], octet.error_bound(q, k, v, scheme=scheme) + 1e-30)


@pytest.mark.parametrize("window", [(-1, -1), (5, 0), (3, 7), (None, 2), (0, 0)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [(37, 53), (53, 37), (40, 40), (1, 60)])
def test_causal_and_windows_are_aligned_at_the_bottom_right(tokens, causal, window):
    q, k, v = problem(m=tokens[0], n=tokens[1])
    o, lse = octet.attention(q, k, v, scheme="f32", causal=causal, window_size=window, return_lse=True)
    wanted, wanted_lse = exact(q, k, v, causal=causal, window=tuple(-1 if w is None else w for w in window))
    near_exact(o, wanted, F32)
    assert lse.shape == q.shape[:3] and lse.dtype == np.float32
    np.testing.assert_allclose(lse, wanted_lse, atol=F32)


@pytest.mark.parametrize("heads", [(4, 1), (6, 2), (3, 3)])
def test_heads_in_groups_follow_from_the_shapes(heads):
    q, k, v = problem(heads=heads[0], heads_kv=heads[1])
    near_exact(octet.attention(q, k, v, scheme="f32"), exact(q, k, v)[0], F32)


@pytest.mark.parametrize("shape", [(2, 4, 37, 53), (1, 4, 37, 53), (4, 1, 53), (37, 53), (53,), (2, 1, 1, 53)])
@pytest.mark.parametrize("additive", [False, True])
def test_masks_are_broadcast(shape, additive):
    q, k, v = problem()
    rng = np.random.default_rng(1)
    mask = rng.standard_normal(shape, dtype=np.float32) if additive else rng.random(shape) < 0.7
    near_exact(octet.attention(q, k, v, scheme="f32", attn_mask=mask), exact(q, k, v, mask=mask)[0], F32)


def test_a_row_that_sees_no_key_is_zero_and_minus_infinity():
    q, k, v = problem()
    mask = np.ones((37, 53), bool)
    mask[7] = False
    o, lse = octet.attention(q, k, v, attn_mask=mask, return_lse=True)
    assert (o[:, :, 7] == 0).all() and (lse[:, :, 7] == -np.inf).all() and np.isfinite(np.delete(lse, 7, 2)).all()


def test_the_scale_is_honoured():
    q, k, v = problem()
    near_exact(octet.attention(q, k, v, scheme="f32", softmax_scale=0.5), exact(q, k, v, scale=0.5)[0], F32)


def test_packed_sequences_are_apart():
    q, k, v = problem(batch=1, m=60, n=90)
    cu_q, cu_k = [0, 10, 10, 60], np.array([0, 40, 50, 90])
    o, lse = octet.attention(q, k, v, scheme="f32", causal=True, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, return_lse=True)
    for s in range(3):
        rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
        if rows.start == rows.stop:
            continue
        wanted, wanted_lse = exact(q[:, :, rows], k[:, :, keys], v[:, :, keys], causal=True)
        near_exact(o[:, :, rows], wanted, F32)
        np.testing.assert_allclose(lse[:, :, rows], wanted_lse, atol=F32)


def test_one_cu_seqlens_serves_queries_and_keys():
    q, k, v = problem(batch=1, m=60, n=60)
    cu = np.array([0, 13, 60], np.int32)
    np.testing.assert_array_equal(
        octet.attention(q, k, v, cu_seqlens_q=cu), octet.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu.copy())
    )


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_missing_axes_have_length_one(rank):
    q, k, v = problem(batch=1, heads=1 if rank == 2 else 4)
    wanted, wanted_lse = octet.attention(q, k, v, return_lse=True)
    squeezed = [x[0] if rank == 3 else x[0, 0] if rank == 2 else x for x in (q, k, v)]
    o, lse = octet.attention(*squeezed, return_lse=True)
    assert o.ndim == rank and lse.ndim == rank - 1
    np.testing.assert_array_equal(o, wanted.reshape(o.shape))
    np.testing.assert_array_equal(lse, wanted_lse.reshape(lse.shape))


def test_tokens_before_heads_is_a_layout():
    q, k, v = problem()
    turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    o, lse = octet.attention(*turned, layout="bthd", return_lse=True)
    wanted, wanted_lse = octet.attention(q, k, v, return_lse=True)
    np.testing.assert_array_equal(o, wanted.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(lse, wanted_lse)


def strange_views(x):
    """The same numbers by other strides."""
    yield "reversed", np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1]
    yield "transposed", np.ascontiguousarray(x.transpose(3, 0, 2, 1)).transpose(1, 3, 2, 0)
    yield "padded", np.concatenate([x, x], -1)[..., : x.shape[-1]]
    yield "every second", np.repeat(x, 2, 1)[:, ::2]
    record = np.zeros(x.shape, [("tag", np.uint8), ("number", x.dtype)])  # strides that are no multiple of an element
    record["number"] = x
    yield "in records", record["number"]
    read_only = x.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("view", range(6))
def test_strides_and_read_only_inputs_give_the_same_bits_and_stay_as_they_are(view, dtype):
    q, k, v = problem(dtype=dtype)
    wanted = octet.attention(q, k, v)
    name, strange = list(strange_views(q))[view]
    others = [list(strange_views(x))[view][1] for x in (k, v)]
    before = strange.tobytes(), others[0].tobytes(), others[1].tobytes()
    o = octet.attention(strange, *others)
    np.testing.assert_array_equal(o, wanted, err_msg=name)
    assert before == (strange.tobytes(), others[0].tobytes(), others[1].tobytes())


def test_outputs_have_the_dtype_of_q_or_the_one_asked_for():
    q, k, v = problem(dtype=np.float16)
    assert octet.attention(q, k, v).dtype == np.float16
    assert octet.attention(q, k, v, out_dtype="f32").dtype == np.float32
    assert octet.attention(q, k, v, out_dtype=np.float32).dtype == np.float32
    assert octet.attention(q, k, v, scheme="exact", out_dtype=np.float64).dtype == np.float64


def test_bfloat16_by_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = problem(dtype=ml_dtypes.bfloat16)
    o = octet.attention(q, k, v, scheme="bf16")
    assert o.dtype == ml_dtypes.bfloat16
    near_exact(o.astype(np.float32), exact(q, k, v)[0], octet.error_bound(q, k, v, scheme="bf16"))


def test_out_is_written_and_returned():
    q, k, v = problem()
    wanted = octet.attention(q, k, v)
    wide = np.full((2, 4, 37, 64), np.nan, np.float32)
    out = wide[..., 16:48]
    assert octet.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    assert np.isnan(wide[..., :16]).all() and np.isnan(wide[..., 48:]).all()


def test_no_query_gives_no_row():
    q, k, v = problem(m=0)
    assert octet.attention(q, k, v).shape == (2, 4, 0, 32)


def test_a_plan_gives_the_bits_of_attention():
    q, k, v = problem()
    out = np.empty_like(q)
    plan = octet.plan(q, k, v, causal=True, return_lse=True)
    wanted, wanted_lse = octet.attention(q, k, v, causal=True, return_lse=True)
    for order in "CF":  # other strides, one plan
        o, lse = plan(np.array(q, order=order), k, v, out=out)
        assert o is out
        np.testing.assert_array_equal(o, wanted)
        np.testing.assert_array_equal(lse, wanted_lse)


def test_a_plan_can_be_made_before_its_arrays():
    q, k, v = problem()
    plan = octet.plan(octet.TensorSpec(q.shape), octet.TensorSpec(k.shape, "f32"), octet.TensorSpec(v.shape, np.float32))
    np.testing.assert_array_equal(plan(q, k, v), octet.attention(q, k, v))


def test_a_plan_names_its_kernel_and_says_why_others_were_refused():
    q, k, v = problem()
    plan = octet.plan(q, k, v, backend="reference")
    assert plan.kernel == "reference/int8/d32/none" and plan.backend == "reference" and plan.kernel in repr(plan)
    assert plan.kernel in plan.explain() and octet.explain(q, k, v, backend="reference") == plan.explain()
    assert all(kernel and reason for kernel, reason in octet.plan(q, k, v).refusals)


def test_a_plan_serves_threads_at_once():
    problems = [problem(seed=seed, n=300, m=200) for seed in range(4)]
    plan = octet.plan(*problems[0])
    wanted = [octet.attention(*p) for p in problems]
    wrong = []

    def work(i):
        for _ in range(20):
            out = np.empty_like(wanted[i])
            plan(*problems[i], out=out)
            if not np.array_equal(out, wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("given", [{"causal": 1}, {"key_block": 64.0}, {"return_lse": 1}, {"scheme": "int9"}, {"window_size": 3}])
def test_a_call_that_is_known_still_refuses_what_equals_its_arguments(given):
    q, k, v = problem()
    octet.attention(q, k, v, causal=True, key_block=64, return_lse=True)
    with pytest.raises((TypeError, ValueError), match=next(iter(given))):
        octet.attention(q, k, v, **({"causal": True, "key_block": 64, "return_lse": True} | given))


def test_calls_that_differ_in_one_argument_have_plans_of_their_own():
    q, k, v = problem(m=33, n=70)
    wide = [np.concatenate([x, x], axis=1) for x in (q, k, v)]
    calls = [
        ((q, k, v), {}), ((q, k, v), {"causal": True}), ((q, k, v), {"window_size": (9, 0)}), ((q, k, v), {"window_size": [9, 0]}),
        ((q, k, v), {"softmax_scale": 0.5}), ((q, k, v), {"scheme": "int8_full"}), ((q, k, v), {"recipe": {"k": "block"}}), (wide, {}),
        ((q, k, v), {"attn_mask": np.ones((33, 70), bool)}), ((q, k, v), {"attn_mask": np.zeros((33, 70), np.float32)}),
        ((q, k, v), {"out_dtype": "f16"}), ((q, k, v), {"key_block": 32}), ([x.astype(np.float16) for x in (q, k, v)], {}),
    ]  # fmt: skip
    alone = [octet.plan(*arrays, **arguments)(*arrays, attn_mask=arguments.get("attn_mask")) for arrays, arguments in calls]
    for _ in range(2):  # the first time plans are made, the second time they are found
        for (arrays, arguments), wanted in zip(calls, alone):
            np.testing.assert_array_equal(octet.attention(*arrays, **arguments), wanted, err_msg=str(arguments))


def test_a_plan_that_failed_once_works_again():
    q, k, v = problem()
    plan = octet.plan(q, k, v)
    bad = q.copy()
    bad[1, 2, 3, 4] = np.nan
    with pytest.raises(octet.NonFiniteError, match="q's element"):
        plan(bad, k, v)
    np.testing.assert_array_equal(plan(q, k, v), octet.attention(q, k, v))


def test_supported_tells_why_not():
    q, k, v = problem()
    assert octet.supported(q, k, v)
    no = octet.supported(q, k, v, scheme="ivit", backend="avx2")
    assert not no and "ivit" in no.reason
    assert not octet.supported(octet.TensorSpec((1, 1, 4, 300)), octet.TensorSpec((1, 1, 4, 300)), octet.TensorSpec((1, 1, 4, 300)))


def test_schemes_describe_themselves():
    assert octet.schemes()[0] == "exact" and octet.backends()[-1] == "reference"
    int8 = octet.scheme("int8")
    assert int8.recipe == octet.default_recipe("int8") and int8.qk_dtype == "s8" and "token" in int8.v_granularities
    assert int8.summary and int8.source and int8.max_tokens_k > 1000


def test_recipes_and_options_change_the_result_as_they_say():
    q, k, v = problem()
    default = octet.attention(q, k, v)
    plain = octet.attention(q, k, v, recipe={"smooth": "none", "rotate": "off"})
    assert not np.array_equal(default, plain)
    recipe = octet.Recipe("token", "token", "token", smooth="none", rotate="off", equalise="on")
    np.testing.assert_array_equal(plain, octet.attention(q, k, v, recipe=recipe))
    codes = octet.attention(q, k, v, scheme="int8_full", options={"row_sum": "codes"})
    assert not np.array_equal(codes, octet.attention(q, k, v, scheme="int8_full"))


@pytest.mark.parametrize("axis", ["heads", "tokens"])
def test_inputs_that_alias_one_another_are_fine(axis):
    x = problem(m=40)[0]
    near_exact(octet.attention(x, x, x, scheme="f32"), exact(x, x, x)[0], F32)
