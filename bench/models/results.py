"""Documents of what is measured in models: results/models/*.json, each written whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "models"
# Trained models are kept here, so that an evaluation can be run again without training.
WEIGHTS = ROOT / "build" / "models"


# Set by --commit, for a checkout that git does not describe.
named_commit: str | None = None


class ModelsError(Exception):
    """A condition that the user can put right; its text says how."""


def commit() -> str:
    """The commit that is measured: what --commit says, or what git does."""
    if named_commit is not None:
        return named_commit
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def cpu() -> dict[str, Any]:
    """Name, family and model of the first processor in /proc/cpuinfo."""
    fields: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    told: dict[str, Any] = {"cpu": fields.get("model name", "unknown")}
    for key, name in (("cpu_family", "cpu family"), ("cpu_model", "model")):
        if name in fields:
            told[key] = int(fields[name])
    return told


def document(experiment: str, command: str, packages: Sequence[str], rows: Sequence[Mapping[str, Any]], **told: Any) -> dict[str, Any]:
    return {
        "experiment": experiment,
        "command": command,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        **cpu(),
        "threads": torch.get_num_threads(),
        "packages": {name: version(name) for name in packages},
        **told,
        "rows": list(rows),
    }


# What tells a row from the others of its document.
ROW_KEYS = ("model", "seed", "scheme")


def again(stored: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
    """`stored` with the rows of `fresh` in the place of its own: some schemes measured again, with the same packages on the same processor.

    "again" says of which schemes, and at which commit. ModelsError: another machine or other packages, or a row that is not there.
    """
    for what in ("cpu", "cpu_family", "cpu_model", "packages"):
        if stored.get(what) != fresh.get(what):
            raise ModelsError(f"{what} is {fresh.get(what)} and was {stored.get(what)}: leave --again out, so that all schemes are measured")

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in ROW_KEYS)

    rows = {key(row): row for row in stored["rows"]}
    for row in fresh["rows"]:
        if key(row) not in rows:
            raise ModelsError(f"the stored result has no row {key(row)}: leave --again out, so that all schemes are measured")
        rows[key(row)] = row
    schemes = list(dict.fromkeys(row["scheme"] for row in fresh["rows"]))
    told = {"commit": fresh["commit"], "date": fresh["date"], "schemes": schemes}
    return {**stored, "again": told, "rows": list(rows.values())}


def write(name: str, content: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write folder/name.json whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    temporary = folder / f".{name}.{os.getpid()}.tmp"
    try:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    say(f"{path}")
    return path


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def trained(name: str, train: Any, build: Any, facts: Mapping[str, Any], keep: Path = WEIGHTS) -> tuple[torch.nn.Module, float]:
    """The model kept under `name` if `facts` are the same as when it was trained, or else trained now; and its seconds of training."""
    path = keep / f"{name}.pt"
    if path.is_file():
        kept = torch.load(path, weights_only=True)
        if kept["facts"] == dict(facts):
            model: torch.nn.Module = build()
            model.load_state_dict(kept["state_dict"])
            return model.eval(), kept["seconds"]
    start = time.monotonic()
    model = train()
    seconds = time.monotonic() - start
    keep.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    torch.save({"facts": dict(facts), "state_dict": model.state_dict(), "seconds": seconds}, temporary)
    os.replace(temporary, path)
    return model.eval(), seconds
