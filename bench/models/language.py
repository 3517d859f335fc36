"""A character-level language model with causal attention, and its perplexity.

The text is the language reference's topics that every CPython carries (pydoc_data.topics, what `help("if")`
prints): 465 thousand characters of English with code, under the PSF licence, read where Python is installed and
stored nowhere. Each topic's last tenth is held out. The model is a pre-norm decoder of 4 layers, 2 heads of
64, contexts of 256 characters; its attention is torch.nn.functional.scaled_dot_product_attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tqdm import tqdm

import octet

from .replaced import PYTORCH, SCHEMES, Replaced
from .results import trained

CONTEXT = 256
WIDTH = 128
HEADS = 2
LAYERS = 4
HELD_OUT = 0.1


@dataclass(frozen=True)
class Text:
    """Codes of characters, [n] int64 each, and the characters they stand for."""

    train: torch.Tensor
    held_out: torch.Tensor
    alphabet: str


def load_text() -> Text:
    """The topics in the order of their names, each split at nine tenths."""
    from pydoc_data.topics import topics  # type: ignore[import-untyped]

    train, held_out = [], []
    for name in sorted(topics):
        text = topics[name]
        cut = round(len(text) * (1 - HELD_OUT))
        train.append(text[:cut])
        held_out.append(text[cut:])
    alphabet = "".join(sorted(set("".join(train))))
    code = {character: i for i, character in enumerate(alphabet)}

    def codes(parts: list[str]) -> torch.Tensor:
        # note: a character that the training part lacks is left out of the held-out part, as it has no code
        return torch.tensor([code[c] for c in "".join(parts) if c in code], dtype=torch.int64)

    return Text(codes(train), codes(held_out), alphabet)


class Block(torch.nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = torch.nn.Linear(WIDTH, WIDTH)
        self.norm2 = torch.nn.LayerNorm(WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class LanguageModel(torch.nn.Module):
    """codes [batch, tokens] -> logits [batch, tokens, characters]; the embedding is the last layer, too."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(characters, WIDTH)
        self.position = torch.nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.LayerNorm(WIDTH)
        torch.nn.init.normal_(self.embedding.weight, std=0.02)
        torch.nn.init.normal_(self.position, std=0.02)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.embedding(codes) + self.position[: codes.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.norm(x) @ self.embedding.weight.T
        return logits


def train(text: Text, seed: int, steps: int) -> LanguageModel:
    """Trained from nothing in f32: AdamW, one cosine with a tenth of warm-up, 4 contexts of 256 a step."""
    torch.manual_seed(seed)
    model = LanguageModel(len(text.alphabet)).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=2e-3, total_steps=steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    reach = torch.arange(CONTEXT + 1)
    bar = tqdm(range(steps), desc=f"language model, seed {seed}", unit="step", mininterval=2)
    for _ in bar:
        starts = torch.randint(len(text.train) - CONTEXT - 1, (4,), generator=generator)
        window = text.train[starts[:, None] + reach]
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return model.eval()


@torch.inference_mode()
def perplexity(model: LanguageModel, codes: torch.Tensor, desc: str) -> float:
    """exp of the mean loss of every next character, over contexts of 256 that do not overlap."""
    count = (len(codes) - 1) // CONTEXT
    inputs = codes[: count * CONTEXT].view(count, CONTEXT)
    targets = codes[1 : count * CONTEXT + 1].view(count, CONTEXT)
    total = 0.0
    for start in tqdm(range(0, count, 8), desc=desc, unit="batch", leave=False, mininterval=1):
        logits = model(inputs[start : start + 8]).double()
        losses = F.cross_entropy(logits.flatten(0, 1), targets[start : start + 8].flatten(), reduction="sum")
        total += float(losses)
    return math.exp(total / (count * CONTEXT))


def measure(seeds: int, steps: int, schemes: tuple[str, ...] = SCHEMES) -> list[dict[str, object]]:
    """A row a seed and scheme: perplexity on the held-out text."""
    text = load_text()
    rows: list[dict[str, object]] = []
    for seed in range(1, seeds + 1):
        facts = {"seed": seed, "steps": steps, "context": CONTEXT}
        model, seconds = trained(
            f"language-{seed}", lambda: train(text, seed, steps), lambda: LanguageModel(len(text.alphabet)), facts
        )  # called at once: the loop's variables are those of this turn
        assert isinstance(model, LanguageModel)
        for scheme in (PYTORCH, *schemes):
            row: dict[str, object] = {"seed": seed, "scheme": scheme, "steps": steps, "training_seconds": seconds}
            try:
                with Replaced(scheme) as replaced:
                    row["perplexity"] = perplexity(model, text.held_out, f"language, seed {seed}, {scheme}")
                replaced.must_have_replaced("the language model")
                row["characters"] = (len(text.held_out) - 1) // CONTEXT * CONTEXT
            except octet.UnsupportedError as error:
                row["refusal"] = str(error)
            rows.append(row)
    return rows
