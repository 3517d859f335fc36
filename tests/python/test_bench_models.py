"""bench/models: what its documents and its page say, on small models and hand-made results."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import octet

pytestmark = pytest.mark.models
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results/models"


@pytest.fixture(autouse=True)
def models_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))


@pytest.fixture
def torch():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


# ---- Stored results ------------------------------------------------------------------------------------------


def test_the_page_is_that_of_the_stored_results():
    from models import page

    assert (ROOT / "docs/models.md").read_text() == page.text(), (
        "docs/models.md is not that of results/models: run scripts/bench-models page"
    )


def test_the_readmes_table_is_that_of_the_stored_results():
    from models import page

    assert page.summary() in (ROOT / "README.md").read_text(), f"put this into README.md:\n{page.summary()}"


def test_costs_are_those_that_were_measured():
    from octet.advise import COSTS

    rows = json.loads((RESULTS / "costs.json").read_text())["rows"]
    assert {row["scheme"]: round(row["cost"], 3) for row in rows} == dict(COSTS)
    assert list(COSTS.values()) == sorted(COSTS.values())


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_stored_results_say_where_they_come_from(path):
    document = json.loads(path.read_text())
    assert document["rows"] and "dirty" not in document["commit"]
    for key in ("experiment", "command", "commit", "date", "cpu", "cpu_family", "cpu_model", "packages"):
        assert document[key], key


# ---- Replacing attention -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vit", "swin"])
def test_exact_attention_leaves_the_models_as_they_are(torch, name):
    from models import digits
    from models.replaced import PYTORCH, Replaced

    torch.manual_seed(1)
    model = digits.MODELS[name]().eval()
    images = torch.randn(3, 1, digits.PIXELS[name], digits.PIXELS[name])
    with torch.inference_mode():
        plain = model(images)
        results = {}
        for scheme in (PYTORCH, "exact", "int8", "int4"):
            with Replaced(scheme) as replaced:
                results[scheme] = model(images)
            assert replaced.calls == 6
    assert torch.equal(results[PYTORCH], plain)
    errors = {scheme: digits.relative_rmse(result, plain) for scheme, result in results.items()}
    assert errors["exact"] < 1e-5 < min(errors["int8"], errors["int4"])  # untrained, so their order is chance


def test_a_language_model_sees_no_later_character(torch):
    from models import language
    from models.replaced import Replaced

    torch.manual_seed(1)
    model = language.LanguageModel(20).eval()
    codes = torch.randint(20, (1, 40))
    changed = codes.clone()
    changed[0, 30:] = (changed[0, 30:] + 1) % 20
    with torch.inference_mode(), Replaced("exact"):
        assert torch.equal(model(codes)[0, :30], model(changed)[0, :30])


def test_dropout_and_an_ambiguous_causal_mask_are_refused(torch):
    from models.replaced import attend

    q, k = torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 5, 8)
    with pytest.raises(ValueError, match=r"dropout_p is 0\.1, and octet has no dropout"):
        attend("int8", q, q, q, dropout_p=0.1)
    with pytest.raises(ValueError, match="is_causal with 3 queries and 5 keys"):
        attend("int8", q, k, k, is_causal=True)


# ---- Experiments ---------------------------------------------------------------------------------------------


def test_a_split_is_of_all_digits_and_another_for_another_seed():
    from models import digits

    one, again, two = (digits.load_split(seed, 28) for seed in (1, 1, 2))
    assert len(one.train) + len(one.test) == 1797 and one.test.shape[1:] == (1, 28, 28)
    assert np.bincount(one.test_labels).min() > 60
    assert (one.test == again.test).all() and not (one.test_labels == two.test_labels).all()


def test_training_lowers_the_loss_and_is_kept(torch, tmp_path):
    from models import digits, results

    facts = {"model": "swin", "seed": 1, "epochs": 1}
    model, seconds = results.trained("m", lambda: digits.train("swin", 1, 1), digits.make_swin, facts, tmp_path)
    split = digits.load_split(1, digits.PIXELS["swin"])
    logits = digits.logits_of(model, split.test[:200], "test")
    assert torch.nn.functional.cross_entropy(logits, split.test_labels[:200]) < math.log(10)
    kept, same = results.trained("m", lambda: pytest.fail("trained again"), digits.make_swin, facts, tmp_path)
    assert same == seconds and torch.equal(digits.logits_of(kept, split.test[:200], "test"), logits)
    with pytest.raises(RuntimeError, match="other facts"):
        results.trained("m", lambda: (_ for _ in ()).throw(RuntimeError("other facts")), digits.make_swin, {**facts, "epochs": 2}, tmp_path)


def test_embeddings_are_compared_by_cosine_and_by_the_search(torch):
    from models import minilm

    generator = np.random.default_rng(1)
    answers = generator.standard_normal((30, 64))
    texts = np.concatenate([answers[:5] + 0.3 * generator.standard_normal((5, 64)), answers])
    exact = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    tables = np.arange(35) == 1
    same = minilm.compare(exact, exact, 5, tables)
    assert same["answers_first"] == same["same_first"] == same["same_first_ten"] == 5 and same["mean_reciprocal_rank"] == 1
    assert same["cosine_worst"] == pytest.approx(1) and same["texts_below_bar"] == 0
    swapped = exact.copy()
    swapped[[0, 1]] = exact[[1, 0]]  # two questions find each other's answers
    other = minilm.compare(swapped, exact, 5, tables)
    assert other["answers_first"] == other["same_first"] == 3 and other["texts_below_bar"] == 2
    assert other["cosine_worst"] == pytest.approx(exact[0] @ exact[1])
    assert other["tables"] == 1 and other["texts_below_bar_but_tables"] == 1


def test_each_question_has_one_answer_and_paragraphs_are_many():
    from models import minilm

    pairs = minilm.retrieval_pairs()
    assert len(pairs) == 40 == len({answer for _, answer in pairs}) and all(question.endswith("?") for question, _ in pairs)
    assert len(minilm.paragraphs()) >= 100 and 5 < sum(map(minilm.is_table, minilm.paragraphs())) < 30


def test_shares_and_gains_of_a_stack_are_those_of_its_times(torch, monkeypatch):
    from models import stack

    monkeypatch.setattr(stack, "SHAPES", {"tiny": (32, 2, 64, 1)})
    pytorch, int8 = stack.measure((48,), ("int8",), 3)
    assert 0 < pytorch["attention_share"] < 1 and pytorch["speedup"] == 1
    assert int8["speedup"] == pytest.approx(pytorch["ms"] / int8["ms"])
    assert pytorch["speedup_if_attention_were_free"] == pytest.approx(1 / (1 - pytorch["attention_share"]))


def test_the_llama_layer_runs_where_no_gpu_is(torch, monkeypatch):
    from models import llama_layer

    for name, value in {"HIDDEN": 64, "HEADS": 4, "HEADS_KV": 2, "INNER": 96}.items():
        monkeypatch.setattr(llama_layer, name, value)
    rows = llama_layer.measure("cpu", [40], ["bf16", "int8"], 2)
    assert [row["scheme"] for row in rows] == ["pytorch", "bf16", "int8"] and all(0 < row["attention_share"] < 1 for row in rows)


@pytest.fixture
def images(tmp_path):
    from PIL import Image

    generator = np.random.default_rng(1)
    for kind in ("n01", "n02", "n03"):
        (tmp_path / "val" / kind).mkdir(parents=True)
        for i in range(2):
            pixels = generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "val" / kind / f"{i}.png")
    return tmp_path / "val"


def test_imagenet_folders_are_evaluated(torch, images):
    from models import imagenet

    rows = imagenet.measure(images, ["swin_tiny_patch4_window7_224.ms_in1k"], ["int8", "ivit"], "random")
    assert [row["scheme"] for row in rows] == ["pytorch", "int8", "ivit"] and rows[0]["images"] == 6
    assert 0 <= rows[1]["top1"] <= 100 and rows[0]["changed"] == 0 and "bias" in rows[2]["refusal"]
    (row, _) = imagenet.measure(images, ["deit_tiny_patch16_224.fb_in1k"], ["int8"], "random", limit=3)
    assert row["images"] == 3


def test_imagenet_says_what_is_missing(torch, images, tmp_path):
    from models import imagenet
    from models.results import ModelsError

    with pytest.raises(ModelsError, match=r"--images .*nowhere is no folder"):
        imagenet.measure(tmp_path / "nowhere", ["x"], [])
    with pytest.raises(ModelsError, match=r"--weights .* has no deit_tiny_patch16_224\.fb_in1k\.safetensors"):
        imagenet.measure(images, ["deit_tiny_patch16_224.fb_in1k"], [], str(tmp_path))
    with pytest.raises(ModelsError, match="--limit is 0"):
        imagenet.measure(images, ["x"], [], limit=0)


# ---- The command ---------------------------------------------------------------------------------------------


def test_the_command_refuses_an_unknown_part_before_measuring(torch, capsys):
    from models.__main__ import main

    assert main(["page", "digit"]) == 2
    assert "PART is digit and must be one of minilm, advice" in capsys.readouterr().err
    assert main(["imagenet"]) == 2
    assert "--images is missing" in capsys.readouterr().err


def test_a_page_marks_bars_that_fail():
    from models import page

    def row(seed, scheme, top1):
        return {"model": "vit", "seed": seed, "scheme": scheme, "images_test": 700, "images_distorted": 2800, "top1_test": top1, "changed_test": 0,
                "top1_distorted": 90.0, "changed_distorted": 0, "logits_relative_rmse_test": 0.01}  # fmt: skip

    rows = [
        row(1, "pytorch", 98.0),
        row(1, "int8", 97.9),
        row(1, "integer", 97.5),
        row(2, "pytorch", 96.0),
        row(2, "int8", 96.1),
        row(2, "integer", 96.0),
    ]
    document = {"command": "c", "commit": "x", "date": "d", "cpu": "p", "packages": {}, "rows": rows}
    text = "\n".join(page.digits(document))
    assert "bar > 97 %: **fails**" in text
    assert "`int8` is within 0.10 points of it on every seed (bar: 0.2): holds" in text
    assert "`integer` is within 0.50 points of it on every seed (bar: 0.2): **fails**" in text


def test_every_scheme_of_the_tables_is_there():
    from models.replaced import SCHEMES

    assert set(SCHEMES) <= set(octet.schemes()) and len(set(SCHEMES)) == len(SCHEMES)
    assert sys.path[0].endswith("bench")


def test_measuring_again_replaces_the_rows_of_some_schemes():
    from models.results import ModelsError, again

    facts = {"cpu": "p", "cpu_family": 1, "cpu_model": 2, "packages": {"torch": "1"}}
    rows = [{"scheme": scheme, "seed": seed, "x": 0} for seed in (1, 2) for scheme in ("pytorch", "int8")]
    stored = {"commit": "a", "date": "d", **facts, "rows": rows}
    fresh = {"commit": "b", "date": "e", **facts, "rows": [{"scheme": "int8", "seed": 2, "x": 1}]}
    merged = again(stored, fresh)
    assert [row["x"] for row in merged["rows"]] == [0, 0, 0, 1] and [row["seed"] for row in merged["rows"]] == [1, 1, 2, 2]
    assert merged["commit"] == "a" and merged["again"] == {"commit": "b", "date": "e", "schemes": ["int8"]}
    assert all(row["x"] == 0 for row in rows), "what was stored is not changed"
    with pytest.raises(ModelsError, match="packages is"):
        again(stored, {**fresh, "packages": {"torch": "2"}})
    with pytest.raises(ModelsError, match="no row"):
        again(stored, {**fresh, "rows": [{"scheme": "int4", "seed": 1}]})
