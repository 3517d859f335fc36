"""Handwritten digits, upsampled, and the two vision models that are trained on them.

The data are scikit-learn's: 1797 images of 8 x 8 by 43 writers (UCI, E. Alpaydin and C. Kaynak), upsampled
bilinearly. Both models are timm's own classes at a small width, so that what is replaced afterwards is the
attention of a library that people use: a ViT of 50 tokens (7 x 7 patches and a class token) and a Swin of 8 x 8
tokens in windows of 4 x 4, shifted, with relative-position bias. Head dim 32 in both. This stands in for ImageNet,
which no package carries, and is no substitute for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from tqdm import tqdm

import octet

from .replaced import PYTORCH, SCHEMES, Replaced, fuse_timm
from .results import trained

# A patch is about one original pixel. Finer ones (2 at 28 pixels) say so little each that a ViT hardly learns: 29 %
# after the time in which these reach 98 %.
PIXELS = {"vit": 28, "swin": 32}
PATCH = 4
CLASSES = 10
# Large for a test part, because the bar is 0.2 points: 1.4 of 719 images.
TEST_SHARE = 0.4
# Each test image comes back distorted as in training, so that more images lie near a decision's border.
DISTORTED_COPIES = 2


@dataclass(frozen=True)
class Split:
    """One seed's images, [n, 1, pixels, pixels] f32 of mean 0 and spread 1 about, and labels, [n] int64."""

    train: torch.Tensor
    train_labels: torch.Tensor
    test: torch.Tensor
    test_labels: torch.Tensor


def load_split(seed: int, pixels: int) -> Split:
    """A stratified split whose test part depends on the seed, as the training does."""
    data = load_digits()
    images = torch.from_numpy(data.images.astype(np.float32))[:, None]
    images = F.interpolate(images, size=(pixels, pixels), mode="bilinear", align_corners=False)
    images = (images - 4.9) / 6.0  # the set's mean and standard deviation; codes are 0..16
    labels = torch.from_numpy(data.target.astype(np.int64))
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_SHARE, random_state=seed, stratify=data.target
    )
    return Split(images[train], labels[train], images[test], labels[test])


def distort(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Rotation to 12 degrees, scale to 10 %, shift to a twelfth of the picture, each uniform; zero outside is ink-free."""
    count = len(images)

    def uniform(reach: float) -> torch.Tensor:
        return (torch.rand(count, generator=generator) * 2 - 1) * reach

    angle, scale = uniform(np.pi * 12 / 180), 1 + uniform(0.10)
    row_x = torch.stack((scale * torch.cos(angle), -scale * torch.sin(angle), uniform(1 / 6)), dim=1)
    row_y = torch.stack((scale * torch.sin(angle), scale * torch.cos(angle), uniform(1 / 6)), dim=1)
    grid = F.affine_grid(torch.stack((row_x, row_y), dim=1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def distorted_test(split: Split, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """DISTORTED_COPIES of every test image, and their labels."""
    generator = torch.Generator().manual_seed(1000 + seed)
    copies = [distort(split.test, generator) for _ in range(DISTORTED_COPIES)]
    return torch.cat(copies), split.test_labels.repeat(DISTORTED_COPIES)


def make_vit() -> torch.nn.Module:
    """50 tokens, 6 layers, 2 heads of 32, the mean of the tokens read."""
    model = VisionTransformer(
        img_size=PIXELS["vit"],
        patch_size=PATCH,
        in_chans=1,
        num_classes=CLASSES,
        embed_dim=64,
        depth=6,
        num_heads=2,
        mlp_ratio=4.0,
        global_pool="avg",
    )
    # note: timm's 0.02 is below what patches of so few pixels embed to, and positions are then learnt late
    torch.nn.init.normal_(model.pos_embed, std=0.5)
    return model


def make_swin() -> torch.nn.Module:
    """8 x 8 tokens in four windows of 4 x 4 (the second layer's are shifted), then 4 x 4 in one; 2 + 4 layers, heads of 32."""
    fuse_timm()
    model = SwinTransformer(
        img_size=PIXELS["swin"],
        patch_size=PATCH,
        in_chans=1,
        num_classes=CLASSES,
        embed_dim=64,
        depths=(2, 4),
        num_heads=(2, 4),
        window_size=4,
        drop_path_rate=0.0,
    )
    # note: as the ViT's positions; Swin's biases are all that it knows of places
    for name, parameter in model.named_parameters():
        if name.endswith("relative_position_bias_table"):
            torch.nn.init.normal_(parameter, std=0.5)
    return model


MODELS: dict[str, Callable[[], torch.nn.Module]] = {"vit": make_vit, "swin": make_swin}


def train(name: str, seed: int, epochs: int) -> torch.nn.Module:
    """A model trained from nothing in f32: AdamW, one cosine with a tenth of warm-up, distorted images, batch 32."""
    torch.manual_seed(seed)
    split = load_split(seed, PIXELS[name])
    model = MODELS[name]()
    model.train()
    batch = 32
    steps = epochs * (len(split.train) // batch)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=2e-3, total_steps=steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    with tqdm(total=steps, desc=f"{name}, seed {seed}", unit="step", mininterval=2) as bar:
        for _ in range(epochs):
            order = torch.randperm(len(split.train), generator=generator)
            for start in range(0, len(order) - batch + 1, batch):
                chosen = order[start : start + batch]
                logits = model(distort(split.train[chosen], generator))
                loss = F.cross_entropy(logits, split.train_labels[chosen], label_smoothing=0.05)
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                bar.update()
                bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return model.eval()


@torch.inference_mode()
def logits_of(model: torch.nn.Module, images: torch.Tensor, desc: str, batch: int = 100) -> torch.Tensor:
    """[n, 10] f32."""
    parts = [
        model(images[start : start + batch])
        for start in tqdm(range(0, len(images), batch), desc=desc, unit="batch", leave=False, mininterval=1)
    ]
    return torch.cat(parts)


def relative_rmse(result: torch.Tensor, exact: torch.Tensor) -> float:
    difference = (result - exact).double()
    return float((difference.square().sum() / exact.double().square().sum()).sqrt())


def evaluate(name: str, seed: int, model: torch.nn.Module, schemes: tuple[str, ...]) -> list[dict[str, object]]:
    """A row a scheme: Top-1 in % on the test part and on its distorted copies, and how many predictions differ from PyTorch's f32."""
    split = load_split(seed, PIXELS[name])
    sets = {"test": (split.test, split.test_labels), "distorted": distorted_test(split, seed)}
    exact: dict[str, torch.Tensor] = {}
    rows = []
    for scheme in (PYTORCH, *schemes):
        row: dict[str, object] = {"model": name, "seed": seed, "scheme": scheme}
        try:
            for which, (images, labels) in sets.items():
                with Replaced(scheme) as replaced:
                    logits = logits_of(model, images, f"{name}, seed {seed}, {scheme}, {which}")
                replaced.must_have_replaced(name)
                exact.setdefault(which, logits)
                row[f"images_{which}"] = len(images)
                row[f"top1_{which}"] = 100 * float((logits.argmax(1) == labels).double().mean())
                row[f"changed_{which}"] = int((logits.argmax(1) != exact[which].argmax(1)).sum())
                row[f"logits_relative_rmse_{which}"] = relative_rmse(logits, exact[which])
        except octet.UnsupportedError as error:
            row["refusal"] = str(error)
        rows.append(row)
    return rows


def measure(seeds: int, epochs: dict[str, int], schemes: tuple[str, ...] = SCHEMES) -> list[dict[str, object]]:
    rows = []
    for name, build in MODELS.items():
        for seed in range(1, seeds + 1):
            facts = {"model": name, "seed": seed, "epochs": epochs[name]}
            model, seconds = trained(
                f"digits-{name}-{seed}", lambda: train(name, seed, epochs[name]), build, facts
            )  # called at once: the loop's variables are those of this turn
            for row in evaluate(name, seed, model, schemes):
                rows.append({**row, "epochs": epochs[name], "training_seconds": seconds})
    return rows
