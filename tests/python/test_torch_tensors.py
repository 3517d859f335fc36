"""octet.attention and octet.plan on torch tensors: the bits of NumPy's calls, and what is refused."""

import numpy as np
import pytest
from conftest import problem

import octet

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")


def tensors(**arguments):
    return [torch.from_numpy(x) for x in problem(**arguments)]


@pytest.mark.parametrize("scheme", ["int8", "integer", "f32"])
def test_tensors_give_the_bits_of_arrays(scheme):
    arrays = problem()
    o, lse = octet.attention(*map(torch.from_numpy, arrays), scheme=scheme, causal=True, return_lse=True)
    wanted, wanted_lse = octet.attention(*arrays, scheme=scheme, causal=True, return_lse=True)
    assert isinstance(o, torch.Tensor) and isinstance(lse, torch.Tensor)
    np.testing.assert_array_equal(o.numpy(), wanted)
    np.testing.assert_array_equal(lse.numpy(), wanted_lse)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_tensors_come_back_in_their_dtype(dtype):
    q, k, v = (x.to(dtype) for x in tensors())
    o = octet.attention(q, k, v)
    wanted = octet.attention(q, k, v, out_dtype="f32")
    assert o.dtype == dtype and torch.equal(o, wanted.to(dtype))


def test_strides_masks_offsets_and_out():
    q, k, v = tensors(batch=1, m=60, n=60)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    mask = torch.rand(60, 60) < 0.7
    out = torch.empty_like(q)
    assert octet.attention(*turned, attn_mask=mask, out=out) is out
    assert torch.equal(out, octet.attention(q, k, v, attn_mask=mask))
    cu = torch.tensor([0, 20, 60], dtype=torch.int32)
    wanted = octet.attention(q, k, v, cu_seqlens_q=cu.long())
    assert torch.equal(octet.attention(*turned, cu_seqlens_q=cu), wanted)
    assert torch.equal(octet.attention(q, k, v, cu_seqlens_q=[0, 20, 60]), wanted)


def test_negated_views_are_read_as_their_numbers():
    q, k, v = tensors()
    negated = torch.complex(torch.zeros_like(q), q).conj().imag  # a view whose numbers are those of its memory, negated
    assert negated.is_neg()
    assert torch.equal(octet.attention(negated, k, v), octet.attention(-q, k, v))


def test_a_tensor_that_requires_grad_is_refused_where_grad_is_on():
    q, k, v = tensors()
    wanted = octet.attention(q, k, v)
    plan = octet.plan(q, k, v)
    plan(q, k, v)
    k.requires_grad_()
    for call in (octet.attention, plan):
        with pytest.raises(octet.UnsupportedError, match=r"k.requires_grad is True, but .*no_grad"):
            call(q, k, v)
        with torch.no_grad():
            assert torch.equal(call(q, k, v), wanted)


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("k", lambda x: x.numpy()),
        ("q.dtype", lambda x: x.double()),
        ("v.layout", lambda x: x.to_sparse()),
        ("k.device", lambda x: x.to("meta")),
        ("q.dtype", lambda x: x.to(torch.complex64)),
    ],
)
def test_other_tensors_are_refused_by_name(argument, change):
    arguments = dict(zip("qkv", tensors()))
    arguments[argument[0]] = change(arguments[argument[0]])
    with pytest.raises(TypeError, match=f"^{argument} is .*, but .*; "):
        octet.attention(**arguments)


def test_torch_is_not_imported_for_arrays():
    import subprocess
    import sys

    code = "import sys, numpy, octet; x = numpy.zeros((4, 8), 'f'); octet.attention(x, x, x); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
