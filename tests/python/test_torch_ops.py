"""octet.torch: operators under opcheck, torch.compile and torch.export; SDPA's semantics; FlashAttention's and INT-FlashAttention's names."""

import numpy as np
import pytest
from conftest import problem

import octet

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
import octet.torch as ot  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention
F32 = 2e-5


def tensors(**arguments):
    return [torch.from_numpy(x) for x in problem(**arguments)]


def what(scheme="int8", causal=False, layout="bhtd", dtype=None):
    return (scheme, causal, -1, -1, None, "", "", 128, layout, dtype, "")


# ---- Operators -----------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mask", [None, "bool", "additive"])
@pytest.mark.parametrize("name", ["attention", "attention_lse"])
def test_opcheck(name, mask):
    q, k, v = tensors()
    if mask:
        mask = torch.rand(37, 53) < 0.7 if mask == "bool" else torch.randn(37, 53)
    op = getattr(torch.ops.octet, name).default
    torch.library.opcheck(op, (q, k, v, mask, None, None, None, *what(causal=True)))


def test_opcheck_of_packed_sequences_and_other_layouts():
    q, k, v = tensors(batch=1, m=60, n=60)
    cu = torch.tensor([0, 20, 60], dtype=torch.int32)
    turned = [x[0].transpose(0, 1) for x in (q, k, v)]
    torch.library.opcheck(torch.ops.octet.attention_lse.default, (*turned, None, cu, cu, None, *what(layout="bthd", dtype=torch.float16)))


def test_opcheck_of_written_outputs():
    q, k, v = tensors()
    torch.library.opcheck(torch.ops.octet.attention_out.default, (torch.empty_like(q), q, k, v, None, None, None, None, *what()))


def test_opcheck_of_codes():
    q, k, v, scales = codes()
    arguments = (q, k, v, *scales, [1, 1, 0], 0, None, None, None, *what("int8_full"))
    torch.library.opcheck(torch.ops.octet.attention_codes.default, arguments)


def test_operators_give_the_bits_of_attention():
    q, k, v = tensors()
    recipe = {"rotate": "off"}
    wanted, wanted_lse = octet.attention(q, k, v, recipe=recipe, causal=True, return_lse=True)
    o, lse = ot.attention(q, k, v, recipe=recipe, causal=True, return_lse=True)
    assert torch.equal(o, wanted) and torch.equal(lse, wanted_lse)
    out = torch.empty_like(q)
    assert ot.attention(q, k, v, recipe=octet.Recipe(**{**vars(octet.default_recipe("int8")), **recipe}), causal=True, out=out) is out
    assert torch.equal(out, wanted)
    options = {"row_sum": "codes"}
    assert torch.equal(
        ot.attention(q, k, v, scheme="int8_full", options=options), octet.attention(q, k, v, scheme="int8_full", options=options)
    )


class Block(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.project = torch.nn.Linear(64, 192)

    def forward(self, x):
        q, k, v = self.project(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        return self.function(q, k, v).transpose(1, 2).flatten(2)


def functions():
    yield "sdpa", lambda q, k, v: ot.scaled_dot_product_attention(q, k, v, is_causal=True)
    yield (
        "sdpa mask",
        lambda q, k, v: ot.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)),
    )
    yield "octet.attention", lambda q, k, v: octet.attention(q, k, v, causal=True)
    yield "attention", lambda q, k, v: ot.attention(q, k, v, scheme="integer", window_size=(5, 0), return_lse=True)[0]
    yield "flash", lambda q, k, v: ot.flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=True).transpose(1, 2)


@pytest.mark.parametrize("which", range(5))
def test_compile_has_no_graph_break_and_the_same_bits(which):
    name, function = list(functions())[which]
    torch._dynamo.reset()
    torch.manual_seed(0)
    block = Block(function).eval()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for tokens in (20, 33, 34):  # the second makes the length a symbol
            x = torch.randn(2, tokens, 64)
            assert torch.equal(compiled(x), block(x)), name


def test_the_default_compiler_runs_it():
    torch._dynamo.reset()
    block = Block(lambda q, k, v: ot.scaled_dot_product_attention(q, k, v, scheme="f32")).eval()
    x = torch.randn(2, 20, 64)
    with torch.inference_mode():
        torch.testing.assert_close(torch.compile(block, fullgraph=True)(x), block(x))


def test_export_keeps_the_operator_and_dynamic_lengths():
    block = Block(lambda q, k, v: ot.scaled_dot_product_attention(q, k, v, is_causal=True)).eval().requires_grad_(False)
    x = torch.randn(2, 20, 64)
    exported = torch.export.export(block, (x,), dynamic_shapes=({1: torch.export.Dim("tokens", min=2, max=512)},))
    assert "octet.attention" in exported.graph_module.code
    for tokens in (20, 41):
        x = torch.randn(2, tokens, 64)
        assert torch.equal(exported.module()(x), block(x))


def test_gradients_are_refused_in_every_face():
    q, k, v = (x.requires_grad_() for x in tensors())
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    for call in (
        lambda: torch.ops.octet.attention(q, k, v, None, None, None, None, *what()),
        lambda: ot.attention(q, k, v, return_lse=True),
        lambda: ot.scaled_dot_product_attention(q, k, v),
        lambda: ot.flash_attn_func(*turned),
    ):
        with pytest.raises(octet.UnsupportedError, match=r"requires_grad is True, but octet computes no gradients; .*no_grad"):
            call()


# ---- scaled_dot_product_attention ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [(37, 53), (53, 37), (40, 40), (1, 9), (9, 1)])
def test_causal_is_aligned_at_the_top_left_as_in_pytorch(tokens, causal):
    q, k, v = tensors(m=tokens[0], n=tokens[1])
    o = ot.scaled_dot_product_attention(q, k, v, is_causal=causal, scheme="f32")
    torch.testing.assert_close(o, sdpa(q, k, v, is_causal=causal), atol=F32, rtol=0)


@pytest.mark.parametrize(
    ("shapes", "gqa"),
    [
        (((9, 8), (7, 8), (7, 8)), False),
        (((3, 9, 8), (3, 7, 8), (3, 7, 5)), False),
        (((2, 3, 9, 8), (2, 3, 7, 8), (2, 3, 7, 5)), False),
        (((2, 2, 3, 9, 8), (2, 2, 3, 7, 8), (2, 2, 3, 7, 8)), False),
        (((2, 6, 9, 8), (2, 3, 7, 8), (2, 3, 7, 8)), True),
        (((2, 6, 9, 8), (2, 1, 7, 8), (2, 1, 7, 8)), True),
        (((2, 6, 9, 8), (1, 6, 7, 8), (2, 6, 7, 8)), False),
        (((2, 6, 0, 8), (2, 6, 7, 8), (2, 6, 7, 8)), False),
        (((0, 6, 9, 8), (0, 6, 7, 8), (0, 6, 7, 8)), False),
    ],
)
@pytest.mark.parametrize("masked", [None, "bool", "float"])
def test_shapes_and_broadcasting_as_in_pytorch(shapes, gqa, masked):
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape) for shape in shapes)
    mask = None
    if masked:
        mask = torch.randn(9, 7)[: q.shape[-2]]
        if q.dim() == 5:
            mask = torch.randn(2, 1, 9, 7).unsqueeze(2)
        mask = mask > -0.5 if masked == "bool" else mask
    wanted = sdpa(q, k, v, attn_mask=mask, enable_gqa=gqa, scale=0.3)
    o = ot.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=gqa, scale=0.3, scheme="f32")
    assert o.shape == wanted.shape and o.dtype == wanted.dtype
    torch.testing.assert_close(o, wanted, atol=F32, rtol=0)


def test_rows_without_a_key_are_zero_as_in_pytorch():
    q, k, v = tensors()
    mask = torch.ones(37, 53, dtype=torch.bool)
    mask[5] = False
    o = ot.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert (o[:, :, 5] == 0).all() and (sdpa(q, k, v, attn_mask=mask)[:, :, 5] == 0).all()


def test_autocast_casts_as_pytorch_does():
    q, k, v = tensors()
    with torch.autocast("cpu", torch.bfloat16):
        assert ot.scaled_dot_product_attention(q, k.bfloat16(), v).dtype == sdpa(q, k, v).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"dropout_p": 0.1}, "dropout_p"),
        ({"is_causal": True, "attn_mask": torch.ones(37, 53, dtype=torch.bool)}, "is_causal"),
        ({"key": torch.randn(2, 2, 53, 32), "value": torch.randn(2, 2, 53, 32)}, "query's heads"),
        ({"key": torch.randn(2, 3, 53, 32), "value": torch.randn(2, 3, 53, 32), "enable_gqa": True}, "query's heads"),
        ({"scale": -1.0}, "softmax_scale"),
        ({"query": torch.randn(3, 4, 37, 32)}, "query, key, value"),
        ({"attn_mask": torch.ones(37, 53, dtype=torch.int32)}, "attn_mask"),
        ({"scheme": "int9"}, "scheme"),
        ({"query": torch.randn(32)}, "query.shape"),
    ],
)
def test_what_is_not_honoured_is_refused(arguments, argument):
    q, k, v = tensors()
    with pytest.raises((ValueError, TypeError), match=rf"(?s)^{argument}.* is .*, but .*; "):
        ot.scaled_dot_product_attention(**{"query": q, "key": k, "value": v, **arguments})


# ---- FlashAttention's names ------------------------------------------------------------------------------------------------------------------
def test_flash_attn_func_has_tokens_before_heads():
    q, k, v = tensors(heads_kv=2)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    wanted, wanted_lse = octet.attention(q, k, v, causal=True, window_size=(9, 0), softmax_scale=0.3, return_lse=True)
    o = ot.flash_attn_func(*turned, 0.0, 0.3, True, (9, 0), deterministic=True)
    assert torch.equal(o, wanted.transpose(1, 2))
    o, lse, probabilities = ot.flash_attn_func(*turned, 0.0, 0.3, True, (9, 0), return_attn_probs=True)
    assert torch.equal(lse, wanted_lse) and probabilities is None
    assert torch.equal(ot.flash_attn_func(*turned, return_lse=True)[1], octet.attention(q, k, v, return_lse=True)[1])


@pytest.mark.parametrize("batched", [False, True])
def test_alibi_is_a_bias_by_distance(batched):
    q, k, v = tensors(m=30, n=40)
    slopes = torch.tensor([0.5, 0.25, 0.125, 1.0])
    slopes = torch.stack([slopes, slopes * 2]) if batched else slopes
    rows, keys = torch.arange(30)[:, None] + 10, torch.arange(40)
    bias = -(slopes if batched else slopes[None])[:, :, None, None] * (rows - keys).abs()
    o = ot.flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), alibi_slopes=slopes, scheme="f32")
    torch.testing.assert_close(o.transpose(1, 2), sdpa(q, k, v, attn_mask=bias), atol=F32, rtol=0)


def test_flash_attn_varlen_func_keeps_sequences_apart():
    q, k, v = (x[0].transpose(0, 1).contiguous() for x in tensors(batch=1, m=60, n=60))
    cu = torch.tensor([0, 25, 60], dtype=torch.int32)
    o, lse = ot.flash_attn_varlen_func(q, k, v, cu, cu, 35, 35, causal=True, return_lse=True)
    assert o.shape == q.shape and lse.shape == (4, 60)
    for part in (slice(0, 25), slice(25, 60)):
        wanted, wanted_lse = ot.flash_attn_func(q[None, part], k[None, part], v[None, part], causal=True, return_lse=True)
        assert torch.equal(o[part], wanted[0]) and torch.equal(lse[:, part], wanted_lse[0])


@pytest.mark.parametrize("varlen", [False, True])
def test_fp8_with_descales_of_flashattention_3(varlen):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 30, 4, 32), torch.randn(2, 30, 2, 32), torch.randn(2, 30, 2, 32)
    codes, descales, numbers = [], [], []
    for x in (q, k, v):
        by_group = x.unflatten(2, (2, -1))  # a query's descale is its key head's
        scale = by_group.abs().amax((1, 3, 4)) / 448
        code = (by_group / scale[:, None, :, None, None]).to(torch.float8_e4m3fn)
        numbers.append((code.float() * scale[:, None, :, None, None]).flatten(2, 3).transpose(1, 2))
        codes.append(code.flatten(2, 3))
        descales.append(scale)
    named = dict(zip(("q_descale", "k_descale", "v_descale"), descales))
    if varlen:
        cu = torch.tensor([0, 30, 60], dtype=torch.int32)
        o = ot.flash_attn_varlen_func(*(x.flatten(0, 1) for x in codes), cu, cu, **named).unflatten(0, (2, 30))
    else:
        o = ot.flash_attn_func(*codes, **named)
    assert o.dtype == torch.bfloat16
    wanted = sdpa(*numbers, enable_gqa=True).transpose(1, 2)
    assert (o.float() - wanted).abs().max() < 0.05
    assert ot.flash_attn_func(*codes).isfinite().all()
    with pytest.raises(ValueError, match="k_descale"):
        ot.flash_attn_func(*codes, k_descale=torch.ones(2, 4))


def test_what_flash_attention_has_and_octet_has_not_is_refused():
    q, k, v = (x.transpose(1, 2) for x in tensors())
    for arguments in ({"dropout_p": 0.1}, {"softcap": 30.0}, {"qv": q}, {"attention_chunk": 64}, {"q_descale": torch.ones(2, 4)}):
        with pytest.raises(ValueError, match=rf"^{next(iter(arguments))} is .*, but .*; "):
            ot.flash_attn_func(q, k, v, **arguments)
    packed = [x.flatten(0, 1) for x in (q, k, v)]
    cu = torch.tensor([0, 74], dtype=torch.int32)
    cu_k = torch.tensor([0, 106], dtype=torch.int32)
    for name in ("alibi_slopes", "block_table", "seqused_k"):
        with pytest.raises(octet.UnsupportedError, match=rf"^{name} is given, but"):
            ot.flash_attn_varlen_func(*packed, cu, cu_k, **{name: torch.ones(4)})


# ---- Operands that are codes already -----------------------------------------------------------------------------------------------------------
def codes(v_axes=(2, 3)):
    q, k, v = tensors()
    made, scales = [], []
    for x, axes in ((q, 3), (k, 3), (v, v_axes)):
        scale = x.abs().amax(axes, keepdim=True) / 127
        made.append((x / scale).round().to(torch.int8))
        scales.append(scale)
    return (*made, scales)


@pytest.mark.parametrize("form", ["head", "tensor", "token", "channel", "half"])
@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_int8_flash_attention_multiplies_codes_by_scales(form, layout):
    q8, k8, v8, (q_scale, k_scale, v_scale) = codes({"token": 3, "channel": 2}.get(form, (2, 3)))
    q, k = q8 * q_scale, k8 * k_scale
    v = v8 * v_scale
    v_given, v_scale_given = v8, {"head": v_scale[:, :, 0, 0], "token": v_scale[..., 0], "channel": v_scale}.get(form)
    if form == "tensor":
        v_scale_given = torch.tensor(0.03)
        v = v8 * 0.03
    if form == "half":
        v_given, v_scale_given = v.half(), None
    operands = [x.transpose(1, 2) if layout == "bthd" else x for x in (q8, k8, v_given)]
    o, lse = ot.int8_flash_attention(*operands, q_scale[..., 0], k_scale[..., 0], v_scale_given, layout=layout, return_lse=True)
    o = o.transpose(1, 2) if layout == "bthd" else o
    assert o.dtype == (torch.float16 if form == "half" else torch.float32)
    assert (o - sdpa(q, k, v)).abs().max() < 0.03
    wanted_lse = torch.logsumexp(q @ k.transpose(2, 3) * 32**-0.5, -1)
    assert (lse - wanted_lse).abs().max() < 5e-3  # int8 has a 16-bit exponential


def test_int8_flash_attention_refuses_other_operands():
    q8, k8, v8, (q_scale, k_scale, v_scale) = codes()
    with pytest.raises(TypeError, match=r"^q.dtype is torch.float32, but"):
        ot.int8_flash_attention(q8.float(), k8, v8, q_scale, k_scale, v_scale)
    with pytest.raises(ValueError, match=r"^v_scale is None, but"):
        ot.int8_flash_attention(q8, k8, v8, q_scale, k_scale)
    with pytest.raises(ValueError, match=r"^k_scale.shape is .*, but"):
        ot.int8_flash_attention(q8, k8, v8, q_scale, k_scale[:, :, :7], v_scale)


# ---- On a GPU ----------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.cuda
@pytest.mark.parametrize("scheme", ["int8", "integer", "int8_half", "fp8", "f16"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cuda_agrees_with_the_cpu(scheme, dtype):
    q, k, v = (x.to(dtype) for x in tensors(m=200, n=300, dim=64))
    o, lse = octet.attention(*(x.cuda() for x in (q, k, v)), scheme=scheme, causal=True, return_lse=True)
    wanted, wanted_lse = octet.attention(q, k, v, scheme=scheme, causal=True, return_lse=True)
    assert o.device.type == "cuda" and o.dtype == dtype
    if scheme == "integer":
        assert torch.equal(o.cpu(), wanted)
    torch.testing.assert_close(o.cpu().float(), wanted.float(), atol=0.02, rtol=0.02)
    torch.testing.assert_close(lse.cpu(), wanted_lse, atol=0.01, rtol=0.01)


@pytest.mark.cuda
def test_cuda_runs_on_the_current_stream_and_in_a_graph():
    q, k, v = (x.half().cuda() for x in tensors(m=200, n=300, dim=64))
    wanted = ot.scaled_dot_product_attention(q, k, v)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = ot.scaled_dot_product_attention(q, k, v)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(other, wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = ot.scaled_dot_product_attention(q, k, v)
    q.copy_(q.flip(2))
    graph.replay()
    assert torch.equal(captured, ot.scaled_dot_product_attention(q, k, v))


@pytest.mark.cuda
def test_cuda_does_not_wait():
    q, k, v = (x.half().cuda() for x in tensors(m=200, n=300, dim=64))
    octet.attention(q, k, v)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(10**9)
        octet.attention(q, k, v)
        assert not torch.cuda.current_stream().query()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
@pytest.mark.parametrize("scheme", ["int8", "int8_half", "f16"])
def test_cuda_cache_agrees_with_the_cpu(scheme):
    q, k, v = tensors(m=1, n=300, dim=64)
    there, here = (
        octet.KVCache(capacity=400, heads_kv=k.shape[1], heads_q=q.shape[1], head_dim=64, batch=q.shape[0], scheme=scheme, device=device)
        for device in ("cuda", "cpu")
    )
    there.append(k[:, :, :250].cuda(), v[:, :, :250].cuda())
    here.append(k[:, :, :250], v[:, :, :250])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for t in range(250, 300):
            got = there.step(q.cuda(), k[:, :, t : t + 1].cuda(), v[:, :, t : t + 1].cuda())
            wanted = here.step(q, k[:, :, t : t + 1], v[:, :, t : t + 1])
            assert (got.cpu() - wanted).norm() < 0.01 * wanted.norm()
    there.truncate(280), here.truncate(280)
    assert (there.attend(q.cuda()).cpu() - here.attend(q)).norm() < 0.01 * wanted.norm()
    for refused in (lambda: there.append(k[:, :, :1], v[:, :, :1]), lambda: there.attend(q)):
        with pytest.raises(TypeError, match="device"):
            refused()
    assert len(there) == 280


@pytest.mark.cuda
def test_cuda_opcheck_and_codes():
    q, k, v = (x.half().cuda() for x in tensors())
    torch.library.opcheck(torch.ops.octet.attention.default, (q, k, v, None, None, None, None, *what()))
    q8, k8, v8, scales = codes()
    moved = [x.cuda() for x in (q8, k8, v8, *scales)]
    o = ot.int8_flash_attention(*moved)
    torch.testing.assert_close(o.cpu(), ot.int8_flash_attention(q8, k8, v8, *scales), atol=1e-2, rtol=0)


@pytest.mark.cuda
def test_cuda_merge_states():
    q, k, v = (x.half().cuda() for x in tensors())
    halves = [
        octet.attention(q, k[:, :, part], v[:, :, part], return_lse=True, out_dtype="f32") for part in (slice(0, 20), slice(20, None))
    ]
    o, lse = octet.merge_states(*halves[0], *halves[1])
    wanted, wanted_lse = octet.merge_states(*(x.cpu() for half in halves for x in half))
    torch.testing.assert_close(o.cpu(), wanted)
    torch.testing.assert_close(lse.cpu(), wanted_lse)


@pytest.mark.cuda
def test_tensors_on_different_devices_are_refused():
    q, k, v = tensors()
    with pytest.raises(TypeError, match=r"k.device is cpu, but"):
        octet.attention(q.cuda(), k, v)


def test_cuda_tensors_need_a_library_with_cuda():
    if "mma" in octet.backends() and torch.cuda.is_available():
        pytest.skip("this machine has both")
    spec = octet.TensorSpec((1, 4, 30, 32), np.float16, "cuda")
    assert not octet.supported(spec, spec, spec)
