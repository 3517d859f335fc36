"""Which scheme a model can take: error by layer and head on captured Q, K and V, and the cheapest scheme within a tolerance.

    from octet.advise import advise, capture
    with torch.inference_mode(), capture(model) as captured:
        model(**inputs)
    advice = advise(captured, tolerance=0.02)     # relative RMSE of attention's output, worst head
    print(advice)
    advice.scheme                                 # the cheapest for the whole model, or None
    [layer.scheme for layer in advice.layers]     # the cheapest of each layer

or, for tensors in a file, `python -m octet.advise qkv.safetensors --tolerance 0.02`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import attention
from .capture import Call, Captured, capture
from .errors import UnsupportedError, refusal

__all__ = ["COSTS", "Advice", "Call", "Captured", "Layer", "Row", "advise", "capture", "read_tensors"]

# What one call costs, relative to f32's, quantisation counted: what `costs` falls back to. cpu: results/models/costs.json, 4 heads, 1024
# tokens, d = 64, AMD EPYC family 25 model 17, one thread. Schemes that only the reference backend has are left out: they are measured
# beside the others, and never advised.
COSTS: Mapping[str, float] = {
    "int8": 0.313,
    "int8_shift": 0.314,
    "integer": 0.364,
    "qflash": 0.418,
    "int8_full": 0.452,
    "int8_lut": 0.528,
    "bf16": 0.554,
    "int4": 0.564,
    "int8_fp8": 0.845,
    "int8_half": 0.846,
    "f32": 1.0,
    "f16": 1.169,
    "fp8_hybrid": 1.203,
    "fp8": 1.22,
}


@dataclass(frozen=True)
class Row:
    """What one scheme does in one head. Errors are relative to float64 attention of the same operands, over all calls of the layer.

    relative_rmse: sqrt(sum of squared errors / sum of squared exact outputs); nan where the scheme does not take the call, and `refusal`
    says why.
    """

    layer: int
    name: str
    head: int
    scheme: str
    relative_rmse: float
    refusal: str = ""


@dataclass(frozen=True)
class Layer:
    """One layer's advice. scheme: the cheapest whose every head is within the tolerance, or None; heads: the cheapest of each head."""

    layer: int
    name: str
    scheme: str | None
    heads: tuple[str | None, ...]


@dataclass(frozen=True)
class Advice:
    """rows: layer by layer, head by head, scheme by scheme in the order of their cost. scheme: the cheapest for the whole model."""

    tolerance: float
    costs: Mapping[str, float]
    rows: tuple[Row, ...]
    layers: tuple[Layer, ...]
    scheme: str | None

    def worst(self, scheme: str, layer: int | None = None) -> float:
        """The largest relative RMSE of a scheme's heads, of one layer or of all; nan where it was refused anywhere."""
        errors = [row.relative_rmse for row in self.rows if row.scheme == scheme and layer in (None, row.layer)]
        return math.nan if any(math.isnan(error) for error in errors) else max(errors)

    def __str__(self) -> str:
        schemes = list(self.costs)
        width = max(len("layer"), *(len(layer.name) for layer in self.layers))
        lines = [
            f"relative RMSE of the worst head, %; * the cheapest within {100 * self.tolerance:g} %",
            f"{'layer':{width}}  " + "  ".join(f"{scheme:>10}" for scheme in schemes),
        ]
        for layer in self.layers:
            cells = []
            for scheme in schemes:
                error = self.worst(scheme, layer.layer)
                shown = "-" if math.isnan(error) else f"{100 * error:.3g}"
                cells.append(f"{shown}{'*' if scheme == layer.scheme else ' '}".rjust(10))
            lines.append(f"{layer.name:{width}}  " + "  ".join(cells))
        lines.append(f"{'cost':{width}}  " + "  ".join(f"{cost:9.3g} " for cost in self.costs.values()))
        lines.append(f"the cheapest for all layers: {self.scheme or 'none of these'}")
        return "\n".join(lines)

    def document(self, **told: Any) -> dict[str, Any]:
        """What the report draws; `told` adds facts, such as model, command, commit, date and cpu."""
        rows = [{key: value for key, value in asdict(row).items() if value != ""} for row in self.rows]
        for row in rows:
            if math.isnan(row["relative_rmse"]):
                row["relative_rmse"] = None
        chosen = {"scheme": self.scheme, "layers": [asdict(layer) for layer in self.layers]}
        return {"experiment": "advice", **told, "tolerance": self.tolerance, "costs": dict(self.costs), "chosen": chosen, "rows": rows}


def advise(
    captured: Captured, *, tolerance: float, schemes: Sequence[str] | None = None, costs: Mapping[str, float] | None = None
) -> Advice:
    """Measures every scheme on every captured call, on the CPU, and chooses.

    captured: of octet.capture, or made by hand. tolerance: the largest relative RMSE of a head's output that is acceptable, 0.02 for 2 %;
    int8 stays near 0.013 on normal data, the model decides what it bears. schemes: those to measure; None: all of `costs`. costs: a number
    for each scheme, whose order alone counts; None: COSTS, measured on one CPU: give your own machine's where that matters.

    Raises ValueError for a tolerance that is no positive number, a scheme without a cost, and nothing captured.
    Cost: two float64 passes' worth of arithmetic a layer, and one pass a scheme; tokens_q * tokens_k * dim each.
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 < tolerance < math.inf:
        raise ValueError(refusal("tolerance", repr(tolerance), "it must be a positive number", "0.02 accepts 2 % in the worst head"))
    costs = COSTS if costs is None else costs
    chosen = list(costs) if schemes is None else list(schemes)
    for scheme in chosen:
        if scheme not in costs:
            raise ValueError(
                refusal("schemes", repr(scheme), "it has no cost to compare by", f"add it to costs, which has {', '.join(costs)}")
            )
    if not captured.calls:
        raise ValueError(refusal("captured", "empty", "there must be a call", "run the model inside octet.advise.capture"))
    ordered = sorted(chosen, key=lambda scheme: costs[scheme])
    rows: list[Row] = []
    for layer, name in enumerate(captured.layers):
        rows += _rows_of_layer(layer, name, [call for call in captured.calls if call.layer == layer], ordered)
    return _choose(captured.layers, rows, tolerance, {scheme: costs[scheme] for scheme in ordered})


def _output(call: Call, scheme: str) -> np.ndarray:
    """[batch, heads, tokens_q, dim_v]; float64 from exact, float32 from the others."""
    result: np.ndarray = attention(call.q, call.k, call.v, scheme=scheme, causal=call.causal, attn_mask=call.mask, softmax_scale=call.scale)
    return result.astype(np.float64)


def _rows_of_layer(layer: int, name: str, calls: Sequence[Call], schemes: Sequence[str]) -> list[Row]:
    exact = [_output(call, "exact") for call in calls]
    energy = sum((o**2).sum(axis=(0, 2, 3)) for o in exact)
    errors: dict[str, Any] = {}
    refusals = dict.fromkeys(schemes, "")
    heads = calls[0].q.shape[1]
    for scheme in schemes:
        try:
            squares = sum(((_output(call, scheme) - o) ** 2).sum(axis=(0, 2, 3)) for call, o in zip(calls, exact))
        except UnsupportedError as error:
            errors[scheme], refusals[scheme] = np.full(heads, math.nan), str(error)
            continue
        # A head whose exact output is nothing but zeros has no relative error: 0 where it is met, inf where not.
        with np.errstate(divide="ignore", invalid="ignore"):
            errors[scheme] = np.where(squares == 0, 0.0, np.sqrt(squares / energy))
    return [Row(layer, name, head, scheme, float(errors[scheme][head]), refusals[scheme]) for head in range(heads) for scheme in schemes]


def _choose(names: Sequence[str], rows: Sequence[Row], tolerance: float, costs: Mapping[str, float]) -> Advice:
    def cheapest(of: Sequence[Row]) -> str | None:
        """The first scheme, in the order of cost, that has no row beyond the tolerance (a nan is beyond)."""
        beyond = {row.scheme for row in of if not row.relative_rmse <= tolerance}
        return next((scheme for scheme in costs if scheme not in beyond), None)

    layers = []
    for layer, name in enumerate(names):
        here = [row for row in rows if row.layer == layer]
        heads = 1 + max(row.head for row in here)
        by_head = tuple(cheapest([row for row in here if row.head == head]) for head in range(heads))
        layers.append(Layer(layer, name, cheapest(here), by_head))
    return Advice(tolerance, costs, tuple(rows), tuple(layers), cheapest(rows))


# ---- Files ---------------------------------------------------------------------------------------------------------------------------------

_SAFETENSORS_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def read_tensors(path: Path) -> Captured:
    """q, k and v of a safetensors file, [layers, heads, tokens, dim] as scripts/capture_minilm.py writes them, one layer a batch row.

    Raises ValueError where the file is none, or lacks one of them.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(refusal("file", path, f"it cannot be read ({error.strerror})", "name an existing safetensors file")) from error
    remedy = "give what scripts/capture_minilm.py writes, or safetensors with q, k and v in F16, F32 or F64"
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        tensors = []
        for name in ("q", "k", "v"):
            told = header[name]
            begin, end = told["data_offsets"]
            data = np.frombuffer(content[8 + length + begin : 8 + length + end], dtype=_SAFETENSORS_DTYPES[told["dtype"]])
            tensors.append(data.reshape(told["shape"]).astype(np.float32))
        q, k, v = tensors
        if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
            raise ValueError("q, k and v have four axes")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(refusal("file", path, f"it is no safetensors file with q, k and v ({error!r})", remedy)) from error
    layers = len(q)
    calls = [Call(i, q[i : i + 1], k[i : i + 1], v[i : i + 1]) for i in range(layers)]
    return Captured([f"layer {i}" for i in range(layers)], calls)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m octet.advise",
        description="Relative RMSE of every scheme by layer and head, and the cheapest within a tolerance.",
    )
    parser.add_argument("file", type=Path, help="safetensors with q, k, v: [layers, heads, tokens, dim]")
    parser.add_argument("--tolerance", type=float, required=True, help="largest relative RMSE of a head, 0.02 for 2 %%")
    parser.add_argument("--schemes", nargs="+", help="schemes to compare (default: all that have a cost)")
    parser.add_argument("--output", type=Path, help="JSON file for python -m octet.report")
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        advice = advise(read_tensors(options.file), tolerance=options.tolerance, schemes=options.schemes)
        print(advice)
        if options.output is not None:
            _write_whole(options.output, json.dumps(advice.document(model=options.file.name), indent=1) + "\n")
    except ValueError as error:
        print(f"octet.advise: {error}", file=sys.stderr)
        return 2
    return 0


def _write_whole(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ValueError(refusal("--output", path, f"it cannot be written ({error.strerror})", "choose a place that can")) from error


if __name__ == "__main__":
    sys.exit(main())
