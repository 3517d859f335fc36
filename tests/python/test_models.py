"""Real models of timm, transformers, diffusers and torch with random weights: octet's f32 is near PyTorch's attention, int8 near that."""

import pytest

import octet

pytestmark = pytest.mark.models
torch = pytest.importorskip("torch")
for _name in ("transformers", "timm", "diffusers"):
    pytest.importorskip(_name)
import octet.torch as ot  # noqa: E402
from octet.integrations import diffusers as octet_diffusers  # noqa: E402
from octet.integrations import transformers as octet_transformers  # noqa: E402


def apart(a, b):
    """Largest difference relative to b's largest value."""
    return ((a - b).abs().max() / b.abs().max()).item()


def patched(model, scheme, run, **arguments):
    with ot.patch_model(model, scheme, strict=True, **arguments) as patch:
        out = run()
        return out, patch.report


# ---- timm ----------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "size", "calls"),
    [("vit_tiny_patch16_224", 64, 12), ("swin_tiny_patch4_window7_224", 224, 12), ("deit_tiny_distilled_patch16_224", 64, 12)],
)
def test_timm_models(name, size, calls):
    import timm

    torch.manual_seed(0)
    timm.layers.set_fused_attn(True)  # timm's default, in which Swin's windows do not fuse; other tests may have asked for more
    sized = {} if size == 224 else {"img_size": size}
    model = timm.create_model(name, num_classes=10, **sized).eval()
    x = torch.randn(2, 3, size, size)
    with torch.no_grad():
        wanted = model(x)
        o, report = patched(model, "f32", lambda: model(x))
        assert apart(o, wanted) < 1e-4
        assert sum(e.calls for e in report.replaced) == calls and not report.left, str(report)
        assert ("fused_attn" in str(report)) == name.startswith("swin")
        o, _ = patched(model, "int8", lambda: model(x))
        assert apart(o, wanted) < 0.03
        assert torch.equal(model(x), wanted)  # as it was


def test_schemes_by_layer_and_what_is_left_is_told():
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10).eval()
    x = torch.randn(1, 3, 64, 64)
    schemes = {"blocks.0.*": None, "blocks.1.*": "integer"}
    with torch.no_grad(), ot.patch_model(model, "int8", schemes=schemes) as patch:
        model(x)
        report = patch.report
    assert [e.scheme for e in report.replaced] == ["integer", *["int8"] * 10]
    assert report.left[0].where == "blocks.0.attn" and "None" in report.left[0].reason
    assert "blocks.1.attn (Attention): integer" in str(report)
    with ot.patch_model(model) as patch:  # gradients are on
        model(x)
        assert len(patch.report.left) == 12 and "requires_grad" in patch.report.left[0].reason
    with pytest.raises(octet.UnsupportedError, match="requires_grad"), ot.patch_model(model, strict=True):
        model(x)
    assert torch.nn.functional.scaled_dot_product_attention is not None
    with pytest.raises(ValueError, match="int9"):
        ot.patch_model(model, "int9")


def test_attention_that_calls_nothing_is_told():
    import timm

    model = timm.create_model("swinv2_tiny_window8_256", num_classes=10).eval()
    with torch.no_grad(), ot.patch_model(model) as patch:
        model(torch.randn(1, 3, 256, 256))
        assert not patch.report.replaced
        assert len(patch.report.left) == 12 and "by itself" in patch.report.left[0].reason


def test_torchs_own_encoder_and_the_context_manager():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 30, 64)
    original = torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad():
        wanted = model(x)
        with ot.replace_sdpa("f32") as report:
            assert torch.nn.functional.scaled_dot_product_attention is not original
            o = model(x)
        assert apart(o, wanted) < 1e-4 and sum(e.calls for e in report.replaced) == 2
        with ot.replace_sdpa("int8") as report:
            q = torch.randn(1, 2, 8, 16)
            torch.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1)
        assert report.left[0].reason.startswith("dropout_p is 0.1, but")
    assert torch.nn.functional.scaled_dot_product_attention is original


# ---- transformers ----------------------------------------------------------------------------------------------------------------------------
def decoder(kind, **changes):
    import transformers as hf

    sizes = dict(
        vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128
    )
    configs = {
        "bert": (hf.BertConfig, hf.BertModel, {}),
        "llama": (hf.LlamaConfig, hf.LlamaForCausalLM, {"num_key_value_heads": 2}),
        "mistral": (hf.MistralConfig, hf.MistralForCausalLM, {"num_key_value_heads": 2, "sliding_window": 8, "head_dim": 16}),
        "t5": (hf.T5Config, hf.T5Model, {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}),
        "gpt_oss": (
            hf.GptOssConfig,
            hf.GptOssForCausalLM,
            {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8, "num_local_experts": 2, "num_experts_per_tok": 1},
        ),
    }
    config, model, more = configs[kind]
    if kind == "t5":
        sizes = {"vocab_size": 99}
    torch.manual_seed(0)
    return model(config(**sizes, **more, **changes)).eval()


def run(model, kind):
    ids = torch.arange(2 * 21).reshape(2, 21) % 97
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    with torch.no_grad():
        if kind == "t5":
            return model(input_ids=ids, attention_mask=mask, decoder_input_ids=ids[:, :9]).last_hidden_state
        return model(input_ids=ids, attention_mask=mask)[0]


@pytest.mark.parametrize("kind", ["bert", "llama", "mistral", "t5", "gpt_oss"])
def test_transformers_models(kind):
    octet_transformers.register_all()
    model = decoder(kind)
    model.set_attn_implementation("eager")
    wanted = run(model, kind)
    model.set_attn_implementation("octet_f32")
    seen = slice(5, None) if kind != "t5" else slice(None)  # rows of padding are anything
    o = run(model, kind)
    assert apart(o[:, seen], wanted[:, seen]) < 1e-4
    model.set_attn_implementation("octet")
    assert apart(run(model, kind)[:, seen], wanted[:, seen]) < 0.05


def test_transformers_generates_with_a_cache():
    octet_transformers.register_all()
    model = decoder("llama")
    ids = torch.arange(12)[None]
    arguments = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    wanted = model.generate(ids, **arguments)
    model.set_attn_implementation("octet_f32")
    assert torch.equal(model.generate(ids, **arguments), wanted)


def test_transformers_takes_the_name_in_its_config_and_refuses_softcap():
    from transformers import BertConfig, BertModel, Gemma2Config, Gemma2ForCausalLM

    octet_transformers.register("octet", recipe={"rotate": "off"})
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 99}
    model = BertModel._from_config(BertConfig(**sizes), attn_implementation="octet").eval()
    assert model.config._attn_implementation == "octet" and run(model, "bert").isfinite().all()
    capped = Gemma2ForCausalLM(Gemma2Config(**sizes, num_key_value_heads=2, head_dim=16)).eval()
    capped.set_attn_implementation("octet")
    with pytest.raises(octet.UnsupportedError, match="softcap"):
        run(capped, "gemma2")


# ---- diffusers ---------------------------------------------------------------------------------------------------------------------------------
def transformer_2d():
    from diffusers import FluxTransformer2DModel

    torch.manual_seed(0)
    return FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
        pooled_projection_dim=32, axes_dims_rope=(4, 4, 8),
    ).eval()  # fmt: skip


def flux_inputs():
    generator = torch.Generator().manual_seed(0)
    return {
        "hidden_states": torch.randn(1, 16, 4, generator=generator),
        "encoder_hidden_states": torch.randn(1, 8, 32, generator=generator),
        "pooled_projections": torch.randn(1, 32, generator=generator),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.zeros(16, 3),
        "txt_ids": torch.zeros(8, 3),
    }


@pytest.fixture
def native_backend():
    """diffusers' set_attention_backend changes the process's backend too."""
    from diffusers.models.attention_dispatch import attention_backend

    with attention_backend("native"):
        yield


def test_diffusers_backend(native_backend):
    from diffusers.models.attention_dispatch import attention_backend

    octet_diffusers.register("octet_f32", "f32")
    octet_diffusers.register()
    model = transformer_2d()
    with torch.no_grad():
        wanted = model(**flux_inputs()).sample
        model.set_attention_backend("octet_f32")
        assert apart(model(**flux_inputs()).sample, wanted) < 1e-4
        model.set_attention_backend("octet")
        o = model(**flux_inputs()).sample
        assert 0 < apart(o, wanted) < 0.03
        model.reset_attention_backend()
        with attention_backend("native"):
            assert torch.equal(model(**flux_inputs()).sample, wanted)
        with attention_backend("octet"):
            assert torch.equal(model(**flux_inputs()).sample, o)


def test_diffusers_models_are_patched_too(native_backend):
    model = transformer_2d()
    with torch.no_grad():
        wanted = model(**flux_inputs()).sample
        o, report = patched(model, "f32", lambda: model(**flux_inputs()).sample)
    assert apart(o, wanted) < 1e-4 and len(report.replaced) == 2
