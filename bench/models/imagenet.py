"""Top-1 of timm's pre-trained models on an ImageNet folder with the attention replaced: QFlash's Table 5, for who has ImageNet.

Not measured here, where neither ImageNet nor the weights can be had. A folder a class, classes in the order of their names, as
torchvision's ImageFolder and every ImageNet script have it; a model's classes must be as many as the folders, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import octet

from .replaced import PYTORCH, Replaced, fuse_timm
from .results import ModelsError

# The seven of the paper's table, by timm's names.
MODELS = (
    "vit_small_patch16_224.augreg_in21k_ft_in1k",
    "vit_base_patch16_224.augreg_in21k_ft_in1k",
    "deit_tiny_patch16_224.fb_in1k",
    "deit_small_patch16_224.fb_in1k",
    "deit_base_patch16_224.fb_in1k",
    "swin_tiny_patch4_window7_224.ms_in1k",
    "swin_small_patch4_window7_224.ms_in1k",
)
SCHEMES = ("f32", "int8_full", "int8_half", "qflash", "int8_fp8", "fp8", "int8", "integer")
BATCH = 32


def make_model(name: str, weights: str, classes: int) -> torch.nn.Module:
    """timm's model: with its own pre-trained weights (downloaded by timm), with FOLDER/NAME.safetensors, or with random ones."""
    import timm

    fuse_timm()
    if weights == "pretrained":
        return timm.create_model(name, pretrained=True).eval()
    if weights == "random":
        torch.manual_seed(1)
        return timm.create_model(name, num_classes=classes).eval()
    path = Path(weights) / f"{name}.safetensors"
    if not path.is_file():
        raise ModelsError(f"--weights {weights} has no {path.name}: save the model's weights there, or ask for pretrained")
    return timm.create_model(name, checkpoint_path=str(path)).eval()


def measure(
    images: Path, models: Sequence[str], schemes: Sequence[str], weights: str = "pretrained", limit: int | None = None
) -> list[dict[str, Any]]:
    """A row a model and scheme: Top-1 in %, and how many predictions differ from PyTorch's f32. Runs where a GPU is, on it."""
    from timm.data import create_dataset, create_transform, resolve_model_data_config

    if not images.is_dir():
        raise ModelsError(f"--images {images} is no folder: name ImageNet's validation folder, a folder a class")
    if limit is not None and limit < 1:
        raise ModelsError(f"--limit is {limit} and must be at least 1: leave it out for all images")
    device = torch.device("cuda" if torch.cuda.is_available() and "mma" in octet.backends() else "cpu")
    rows = []
    for name in models:
        data = create_dataset("", root=str(images))
        classes = len({label for _, label in (data.reader[i] for i in range(len(data.reader)))})
        model = make_model(name, weights, classes).to(device)
        if getattr(model, "num_classes", classes) != classes:
            raise ModelsError(f"--images {images} has {classes} classes and {name} has {model.num_classes}: name the whole validation folder")
        data.transform = create_transform(**resolve_model_data_config(model), is_training=False)
        chosen = data
        if limit is not None and limit < len(data):
            chosen = torch.utils.data.Subset(data, [i * len(data) // limit for i in range(limit)])
        loader = torch.utils.data.DataLoader(chosen, batch_size=BATCH)
        correct = dict.fromkeys((PYTORCH, *schemes), 0)
        changed = dict.fromkeys(correct, 0)
        refusals: dict[str, str] = {}
        for batch, labels in tqdm(loader, desc=name, unit="batch"):
            exact = None
            for scheme in correct:
                if scheme in refusals:
                    continue
                try:
                    with torch.inference_mode(), Replaced(scheme) as replaced:
                        predicted = model(batch.to(device)).argmax(1).cpu()
                    replaced.must_have_replaced(name)
                except octet.UnsupportedError as error:
                    refusals[scheme] = str(error)
                    continue
                exact = predicted if exact is None else exact
                correct[scheme] += int((predicted == labels).sum())
                changed[scheme] += int((predicted != exact).sum())
        for scheme in correct:
            row: dict[str, Any] = {"model": name, "scheme": scheme, "images": len(chosen), "weights": weights}
            if scheme in refusals:
                row["refusal"] = refusals[scheme]
            else:
                row |= {"top1": 100 * correct[scheme] / len(chosen), "changed": changed[scheme]}
            rows.append(row)
    return rows
