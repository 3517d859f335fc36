"""octet.quantize and octet.QuantizedTensor: codes beforehand give the bits of plain operands."""

import numpy as np
import pytest
from conftest import problem

import octet

CODED = [s for s in octet.schemes() if octet.scheme(s).qk_dtype in ("s8", "s4", "e4m3") and s != "qattn"]


@pytest.mark.parametrize("scheme", CODED)
@pytest.mark.parametrize("packed", [False, True])
def test_codes_give_the_bits_of_numbers(scheme, packed):
    if packed and octet.scheme(scheme).baseline:
        packed = False  # they take it, and the dense call is the same code
    q, k, v = problem(batch=1 if packed else 2, m=60, n=60, dim=24)
    cu = [0, 13, 13, 60] if packed else None
    codes = [octet.quantize(x, operand, scheme=scheme, cu_seqlens=cu) for operand, x in zip("qkv", (q, k, v))]
    o, lse = octet.attention(*codes, scheme=scheme, causal=True, cu_seqlens_q=cu, return_lse=True)
    wanted, wanted_lse = octet.attention(q, k, v, scheme=scheme, causal=True, cu_seqlens_q=cu, return_lse=True)
    np.testing.assert_array_equal(o, wanted)
    if codes[1].mean is None:
        np.testing.assert_array_equal(lse, wanted_lse)
    else:  # K's mean is given back by q's codes here, and by q itself there
        np.testing.assert_allclose(lse, wanted_lse, atol=0.1)


def test_one_scale_for_all_three_operands():
    q, k, v = problem()
    amax = float(max(np.abs(x).max() for x in (q, k, v)))
    codes = []
    for operand, x in zip("qkv", (q, k, v)):
        recipe = octet.operand_recipe("qattn", operand)
        codes.append(octet.quantize(x, recipe=octet.OperandRecipe(**{**recipe.__dict__, "shared_amax": amax})))
    np.testing.assert_array_equal(octet.attention(*codes, scheme="qattn"), octet.attention(q, k, v, scheme="qattn"))


@pytest.mark.parametrize("dtype", ["s8", "s4", "e4m3", "e5m2"])
@pytest.mark.parametrize("granularity", ["tensor", "head", "block", "token", "channel", "block_channel"])
def test_dequantize_is_within_half_a_step(dtype, granularity):
    pytest.importorskip("ml_dtypes")
    x = problem(n=300)[1]
    coded = octet.quantize(x, recipe=octet.OperandRecipe(format=dtype, granularity=granularity))
    assert coded.dtype == dtype and coded.granularity == granularity and coded.shape == x.shape
    amax = np.abs(x).max()
    largest_step = {"s8": 1 / 127, "s4": 1 / 7, "e4m3": 2**-3, "e5m2": 2**-2}[dtype] * amax
    assert np.abs(coded.dequantize() - x).max() <= largest_step / 2 * 1.0001
    assert coded.nbytes < x.nbytes


def test_rotation_smoothing_and_padding_are_undone():
    x = problem(n=300, dim=40)[1] + 3
    coded = octet.quantize(x, "k")
    assert coded.rotate and coded.mean is not None and coded.codes.shape[-1] == 48 and coded.shape == x.shape
    assert np.abs(coded.dequantize() - x).max() < 0.06


def test_codes_of_a_callers_own():
    q, k, v = problem()
    made = []
    for x, operand in zip((q, k, v), "qkv"):
        axes = -1 if operand != "v" else (-2, -1)
        scale = np.abs(x).max(axes, keepdims=True) / np.float32(127)
        codes = np.rint(x / scale).astype(np.int8)
        made.append(octet.QuantizedTensor(codes, scale, tokens_per_scale=0 if operand == "v" else 1))
    o = octet.attention(*made, scheme="int8_full")
    assert np.abs(o - octet.attention(q, k, v, scheme="int8_full")).max() < 0.01


def test_output_codes_come_with_their_scales():
    q, k, v = problem()
    coded = octet.attention(q, k, v, scheme="integer", out_dtype="s8")
    assert isinstance(coded, octet.QuantizedTensor) and coded.codes.dtype == np.int8
    step = coded.scales.max()
    assert np.abs(coded.dequantize() - octet.attention(q, k, v, scheme="integer")).max() <= step


def test_mixed_operands_and_other_recipes_are_refused():
    q, k, v = problem()
    coded = [octet.quantize(x, operand) for operand, x in zip("qkv", (q, k, v))]
    with pytest.raises(TypeError, match=r"^q, k, v is q codes, k plain, v codes, but"):
        octet.attention(coded[0], k, coded[2])
    with pytest.raises(ValueError, match=r"is .*, but .*; "):
        octet.attention(*coded, scheme="fp8")
    with pytest.raises(ValueError, match="layout"):
        octet.attention(*coded, layout="bthd")
    with pytest.raises(ValueError, match=r"operand is 'w', but"):
        octet.quantize(q, "w")
    bad = q.copy()
    bad[0, 0, 0, 0] = np.inf
    with pytest.raises(octet.NonFiniteError):
        octet.quantize(bad, "q")


@pytest.mark.torch
def test_torch_codes_give_the_bits_of_numpy_codes():
    torch = pytest.importorskip("torch")
    arrays = problem()
    coded = [octet.quantize(torch.from_numpy(x), operand) for operand, x in zip("qkv", arrays)]
    assert coded[0].codes.dtype == torch.int8
    np.testing.assert_array_equal(octet.attention(*coded).numpy(), octet.attention(*arrays))
    np.testing.assert_array_equal(coded[1].dequantize().numpy(), octet.quantize(arrays[1], "k").dequantize())
