"""Every refusal is a TypeError or ValueError that names the argument, the value, the rule and the remedy."""

import re

import numpy as np
import pytest
from conftest import problem

import octet

Q, K, V = problem()
SENTENCE = re.compile(r"^\S.* is .+, but .+; .+$", re.S)


def call(**changes):
    arguments = {"q": Q, "k": K, "v": V, **changes}
    q, k, v = (arguments.pop(name) for name in "qkv")
    return octet.attention(q, k, v, **arguments)


READ_ONLY = np.empty_like(Q)
READ_ONLY.flags.writeable = False
REFUSED = [
    ("no array", TypeError, "q", {"q": [[1.0]]}),
    ("masked", TypeError, "k", {"k": np.ma.masked_less(K, 0)}),
    ("float64", TypeError, "q.dtype", {"q": Q.astype(np.float64)}),
    ("float64 k", TypeError, "k.dtype", {"k": K.astype(np.float64)}),
    ("complex", TypeError, "q.dtype", {"q": Q.astype(np.complex64)}),
    ("objects", TypeError, "v.dtype", {"v": V.astype(object)}),
    ("bytes turned", TypeError, "q.dtype", {"q": Q.astype(Q.dtype.newbyteorder())}),
    ("mixed dtypes", TypeError, "v.dtype", {"v": V.astype(np.float16)}),
    ("bare codes", TypeError, "q.dtype", {name: x.astype(np.int8) for name, x in zip("qkv", (Q, K, V))}),
    ("rank", ValueError, "q.shape", {"q": Q[None]}),
    ("dims differ", ValueError, "k", {"k": K[..., :8]}),
    ("keys differ", ValueError, "v", {"v": V[:, :, :8]}),
    ("head groups", ValueError, "heads_q", {"k": K[:, :3], "v": V[:, :3]}),
    ("batch", ValueError, "batch", {"q": Q[:0], "k": K[:0], "v": V[:0]}),
    ("scheme", ValueError, "scheme", {"scheme": "int9"}),
    ("scheme type", TypeError, "scheme", {"scheme": 8}),
    ("causal", TypeError, "causal", {"causal": "yes"}),
    ("window", TypeError, "window_size", {"window_size": 3}),
    ("window range", ValueError, "window_left", {"window_size": (-2, 0)}),
    ("scale", ValueError, "softmax_scale", {"softmax_scale": 0.0}),
    ("scale type", TypeError, "softmax_scale", {"softmax_scale": "big"}),
    ("mask dtype", TypeError, "attn_mask.dtype", {"attn_mask": np.ones((37, 53), np.int32)}),
    ("mask shape", ValueError, "bias.shape", {"attn_mask": np.ones((53, 37), bool)}),
    ("mask type", TypeError, "attn_mask", {"attn_mask": [True]}),
    ("mask of ivit", octet.UnsupportedError, "bias", {"attn_mask": np.ones((37, 53), np.float32), "scheme": "ivit"}),
    ("layout", ValueError, "layout", {"layout": "hbtd"}),
    ("key block", ValueError, "key_block", {"key_block": 100}),
    ("key block type", TypeError, "key_block", {"key_block": 128.0}),
    ("backend", ValueError, "backend", {"backend": "tpu"}),
    ("recipe field", ValueError, "recipe", {"recipe": {"w": "token"}}),
    ("recipe value", ValueError, "granularity", {"recipe": {"k": "row"}}),
    ("recipe type", TypeError, "recipe", {"recipe": "token"}),
    ("options", octet.UnsupportedError, "options", {"options": {"table": "linear"}}),
    ("out shape", ValueError, "o.shape", {"out": np.empty((2, 4, 36, 32), np.float32)}),
    ("out read-only", ValueError, "out", {"out": READ_ONLY}),
    ("out dtype", TypeError, "out.dtype", {"out": np.empty(Q.shape, np.complex64)}),
    ("out in q", ValueError, "o", {"out": Q}),
    ("out folded", ValueError, "o.stride", {"out": np.lib.stride_tricks.as_strided(np.empty(64, np.float32), Q.shape, (0, 0, 0, 4))}),
    ("out_dtype", TypeError, "out_dtype", {"out_dtype": "f23"}),
    ("offsets", ValueError, "cu_seqlens_q", {"q": Q[:1], "k": K[:1], "v": V[:1], "cu_seqlens_q": [0, 9], "cu_seqlens_k": [0, 53]}),
    ("offsets type", TypeError, "cu_seqlens_q", {"q": Q[:1], "k": K[:1], "v": V[:1], "cu_seqlens_q": [0.0, 37.0], "cu_seqlens_k": [0, 53]}),
    ("offsets count", ValueError, "len(cu_seqlens_k)", {"q": Q[:1], "k": K[:1], "v": V[:1], "cu_seqlens_q": [0, 37], "cu_seqlens_k": [0, 1, 53]}),
    ("offsets alone", ValueError, "cu_seqlens_q", {"cu_seqlens_k": [0, 53]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "argument", "changes"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_the_sentence_names_argument_value_rule_and_remedy(kind, argument, changes):
    before = Q.tobytes(), K.tobytes(), V.tobytes()
    with pytest.raises(kind) as caught:
        call(**changes)
    sentence = str(caught.value)
    assert SENTENCE.match(sentence), sentence
    assert sentence.startswith(argument), sentence
    assert before == (Q.tobytes(), K.tobytes(), V.tobytes())


def test_an_unknown_argument_is_refused():
    with pytest.raises(TypeError, match="dropout"):
        call(dropout=0.1)


@pytest.mark.parametrize("where", "qkv")
def test_nan_is_named_with_its_place(where):
    arrays = {"q": Q.copy(), "k": K.copy(), "v": V.copy()}
    arrays[where][1, 2, 3, 4] = np.nan
    with pytest.raises(octet.NonFiniteError, match=f"^{where}'s element"):
        call(**arrays)


def test_a_plan_refuses_what_it_was_not_made_for():
    plan = octet.plan(Q, K, V)
    for arguments, name in [
        ((Q[:, :, :8], K, V), "q.codes.shape|q.shape"),
        ((Q, K.astype(np.float16), V), "k"),
        ((np.asfortranarray(Q), K, V[..., :8]), "v"),
    ]:
        with pytest.raises(ValueError, match=name):
            plan(*arguments)
    with pytest.raises(ValueError, match="bias"):
        plan(Q, K, V, attn_mask=np.ones((37, 53), bool))
    with pytest.raises(ValueError, match="cu_seqlens_q"):
        plan(Q, K, V, cu_seqlens_q=[0, 37])
