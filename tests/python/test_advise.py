"""octet.advise and octet.capture: choices by hand-made costs, errors against exact attention, and operands of running models."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from conftest import exact

import octet
from octet.advise import COSTS, advise, main, read_tensors
from octet.capture import Call, Captured


def captured(*seeds, heads=2, tokens=40, dim=16, **changed):
    """A layer a seed."""
    calls = []
    for layer, seed in enumerate(seeds):
        generator = np.random.default_rng(seed)
        q, k, v = (generator.standard_normal((2, heads, tokens, dim), dtype=np.float32) for _ in range(3))
        calls.append(Call(layer, q, k, v, **changed))
    return Captured([f"layer {i}" for i in range(len(seeds))], calls)


def test_errors_are_relative_to_float64_by_head():
    found = captured(3, causal=True)
    call = found.calls[0]
    advice = advise(found, tolerance=0.1, schemes=["int8"])
    reference, _ = exact(call.q, call.k, call.v, causal=True)
    difference = octet.attention(call.q, call.k, call.v, scheme="int8", causal=True) - reference
    for head in range(2):
        expected = np.sqrt((difference[:, head] ** 2).sum() / (reference[:, head] ** 2).sum())
        assert advice.rows[head].relative_rmse == pytest.approx(expected, rel=1e-6)


def test_the_cheapest_scheme_within_the_tolerance_is_chosen():
    costs = {"f32": 3.0, "int8": 1.0, "int4": 0.5}
    found = captured(1, 2)
    rows = advise(found, tolerance=1.0, costs=costs).rows
    worst = {scheme: max(row.relative_rmse for row in rows if row.scheme == scheme) for scheme in costs}
    assert worst["f32"] < worst["int8"] < worst["int4"]
    assert advise(found, tolerance=worst["int4"], costs=costs).scheme == "int4"
    assert advise(found, tolerance=worst["int4"] * 0.999, costs=costs).scheme == "int8"
    assert advise(found, tolerance=worst["int8"] * 0.999, costs=costs).scheme == "f32"
    nothing = advise(found, tolerance=worst["f32"] * 0.999, costs=costs)
    assert nothing.scheme is None and "none of these" in str(nothing)


def test_advice_is_by_layer_and_by_head_too():
    found = captured(1, 2)
    found.calls[1].v[:, 1, 5:] *= 1e-3  # int8_full's one scale for V of a head then leaves its other tokens no digits
    found.calls[1].v[:, 1, :5] *= 1e3
    advice = advise(found, tolerance=0.1, schemes=["int8_full", "f32"], costs={"int8_full": 1, "f32": 2})
    by_head = {(row.layer, row.head): row.relative_rmse for row in advice.rows if row.scheme == "int8_full"}
    for layer in advice.layers:
        for head, scheme in enumerate(layer.heads):
            assert scheme == ("int8_full" if by_head[layer.layer, head] <= 0.1 else "f32")
        assert layer.scheme == ("int8_full" if max(by_head[layer.layer, head] for head in range(2)) <= 0.1 else "f32")


def test_several_calls_of_a_layer_are_pooled():
    one, two = captured(1), captured(2)
    both = Captured(["layer 0"], [one.calls[0], two.calls[0]])
    error = {name: advise(which, tolerance=1, schemes=["int8"]).rows[0].relative_rmse for name, which in
             {"one": one, "two": two, "both": both}.items()}  # fmt: skip
    assert min(error["one"], error["two"]) < error["both"] < max(error["one"], error["two"])


def test_a_scheme_that_refuses_a_call_is_told_and_never_advised():
    bias = np.zeros((1, 1, 40, 40), np.float32)
    advice = advise(captured(1, mask=bias), tolerance=100.0, schemes=["ivit", "int8"], costs={"ivit": 0.1, "int8": 1.0})
    refused = [row for row in advice.rows if row.scheme == "ivit"]
    assert all(math.isnan(row.relative_rmse) and row.refusal for row in refused)
    assert advice.scheme == "int8"
    assert json.loads(json.dumps(advice.document(), allow_nan=False))["rows"][0]["relative_rmse"] is None


def test_masks_and_scale_reach_the_schemes():
    mask = np.random.default_rng(5).random((1, 1, 40, 40)) < 0.7
    found = captured(1, mask=mask, scale=0.5)
    call = found.calls[0]
    reference, _ = exact(call.q, call.k, call.v, mask=mask, scale=0.5)
    assert np.allclose(octet.attention(call.q, call.k, call.v, scheme="exact", attn_mask=mask, softmax_scale=0.5), reference, atol=1e-6)
    assert advise(found, tolerance=0.1, schemes=["f32"]).worst("f32") < 1e-5


@pytest.mark.parametrize("tolerance", [0, -1, float("nan"), float("inf"), "2 %", True])
def test_a_tolerance_must_be_a_positive_number(tolerance):
    with pytest.raises(ValueError, match=r"tolerance is .* must be a positive number"):
        advise(captured(1), tolerance=tolerance)


def test_a_scheme_without_a_cost_and_an_empty_capture_are_refused():
    with pytest.raises(ValueError, match="schemes is 'int9', but it has no cost"):
        advise(captured(1), tolerance=0.1, schemes=["int9"])
    with pytest.raises(ValueError, match="captured is empty"):
        advise(Captured(), tolerance=0.1)


def test_every_scheme_with_a_cost_is_there():
    assert set(COSTS) < set(octet.schemes())


def safetensors_file(path, **tensors):
    header, end = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": {2: "F16", 4: "F32"}[tensor.itemsize], "shape": tensor.shape, "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values()))
    return path


def test_the_command_reads_a_capture_and_writes_what_the_report_draws(tmp_path, capsys):
    tensors = {name: np.random.default_rng(i).standard_normal((3, 2, 20, 8)).astype(np.float16) for i, name in enumerate("qkv")}
    path = safetensors_file(tmp_path / "capture.safetensors", **tensors)
    assert np.array_equal(read_tensors(path).calls[2].k[0], tensors["k"][2].astype(np.float32))
    assert main([str(path), "--tolerance", "0.02", "--schemes", "int8", "f32", "--output", str(tmp_path / "advice.json")]) == 0
    assert "the cheapest for all layers: " in capsys.readouterr().out
    from octet.report import figures_of, read

    (heat,) = figures_of(read(tmp_path / "advice.json"))
    assert len(heat.panels[0].cells) == 3 and len(heat.panels[0].cells[0]) == 2


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"\xff" * 100])
def test_the_command_refuses_other_files(tmp_path, capsys, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    assert main([str(path), "--tolerance", "0.02"]) == 2
    assert "give what scripts/capture_minilm.py writes" in capsys.readouterr().err


# ---- Capturing from PyTorch ----------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def two_layer_model(torch):
    sdpa = torch.nn.functional.scaled_dot_product_attention

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(32, 96)

        def forward(self, x):
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
            self.seen = [t.detach().clone() for t in (q, k, v)]
            return x + sdpa(q, k, v, is_causal=True, scale=0.3).transpose(1, 2).flatten(2)

    return torch.nn.Sequential(Attention(), torch.nn.GELU(), Attention()).eval()


@pytest.mark.torch
def test_capture_copies_operands_with_the_names_of_layers(torch):
    from octet.capture import capture

    torch.manual_seed(1)
    model = two_layer_model(torch)
    x = torch.randn(2, 10, 32)
    plain = model(x)
    with capture(model) as found:
        watched = model(x)
        model(x * 2)  # beyond `forwards`
    assert torch.equal(plain, watched)
    assert found.layers == ["0", "2"] and [call.layer for call in found.calls] == [0, 1]
    with capture(model) as again:
        model(x)
    for call, layer in zip(again.calls, (model[0], model[2])):
        assert call.causal and call.scale == 0.3 and call.mask is None
        for mine, theirs in zip((call.q, call.k, call.v), layer.seen):
            assert np.array_equal(mine, theirs.numpy())


@pytest.mark.torch
def test_a_layer_in_several_forwards_is_one_layer(torch):
    from octet.capture import capture

    model = two_layer_model(torch)
    with torch.inference_mode(), capture(model, forwards=3) as found:
        for _ in range(4):
            model(torch.randn(1, 6, 32))
    assert found.layers == ["0", "2"] and [call.layer for call in found.calls] == [0, 1] * 3
    assert advise(found, tolerance=0.05, schemes=["int8"]).worst("int8", 1) < 0.05


@pytest.mark.torch
def test_multi_head_attention_is_seen_in_evaluation_too(torch):
    from octet.capture import capture

    model = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x = torch.randn(2, 9, 32)
    before = torch.backends.mha.get_fastpath_enabled()
    with torch.inference_mode(), capture(model) as found:
        model(x, x, x, need_weights=False)
    assert torch.backends.mha.get_fastpath_enabled() == before
    assert found.layers == ["(model)"] and found.calls[0].q.shape == (2, 4, 9, 8)


@pytest.mark.torch
def test_masks_keep_their_meaning(torch):
    from octet.capture import capture

    sdpa = torch.nn.functional.scaled_dot_product_attention

    class Model(torch.nn.Module):
        def forward(self, q, k, **arguments):
            return sdpa(q, k, k, **arguments)

    model, q, k = Model(), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 9, 8)
    cases = [{"is_causal": True}, {"attn_mask": torch.randn(5, 9)}, {"attn_mask": torch.rand(2, 1, 5, 9) < 0.6}]
    with capture(model, forwards=len(cases)) as found:
        expected = [model(q, k, **case) for case in cases]
    for call, theirs in zip(found.calls, expected):
        mine = octet.attention(call.q, call.k, call.v, scheme="exact", causal=call.causal, attn_mask=call.mask, softmax_scale=call.scale)
        assert np.allclose(mine, torch.nan_to_num(theirs).numpy(), atol=1e-5)


@pytest.mark.torch
def test_a_model_without_the_call_and_dropout_are_refused(torch):
    from octet.capture import capture

    model = torch.nn.Linear(4, 4)
    with pytest.raises(ValueError, match="model is Linear, but no call of scaled_dot_product_attention was seen"), capture(model):
        model(torch.zeros(1, 4))
    with pytest.raises(ZeroDivisionError), capture(model):  # the user's own error is not covered up
        raise ZeroDivisionError
    attention = torch.nn.MultiheadAttention(32, 4, dropout=0.5)
    x = torch.randn(2, 9, 32)
    with pytest.raises(ValueError, match=r"dropout_p is 0.5, but an inference has no dropout; call model.eval"), capture(attention):
        attention(x, x, x, need_weights=False)
    with pytest.raises(ValueError, match="forwards is 0"), capture(model, forwards=0):
        pass
