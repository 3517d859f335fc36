"""Schemes, recipes and backends by name."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any, Union

from . import _abi
from ._abi import check, enum_name, enum_names, enum_value, lib
from .errors import refusal


@dataclass(frozen=True)
class Recipe:
    """What the quantiser does with Q, K and V (docs/numerics/quantisation.md).

    q, k, v: what shares one scale: "tensor", "head", "block", "token", "channel" or "block_channel".
    smooth: how K is shifted first: "none", "mean" or "anchor". rotate: "on" multiplies Q and K by random signs and a Hadamard
    matrix, made from rotation_seed. equalise: "on" multiplies V's channels by powers of two.
    """

    q: str
    k: str
    v: str
    smooth: str
    rotate: str
    equalise: str
    rotation_seed: int = 0


@dataclass(frozen=True)
class SchemeOptions:
    """Choices inside a scheme; `octet.scheme(name).options` says which it has."""

    row_sum: str = "weights"
    table: str = "direct"
    table_bits: int = 10
    quotient: str = "multiply_shift"
    rescale: str = "release"


@dataclass(frozen=True)
class Scheme:
    """One row of the support matrix. Every scheme offers boolean masks, causal, windows, GQA, varlen and the LSE."""

    name: str
    summary: str
    source: str
    qk_dtype: str
    v_dtype: str
    recipe: Recipe
    q_granularities: tuple[str, ...]
    k_granularities: tuple[str, ...]
    v_granularities: tuple[str, ...]
    smooths: bool
    rotates: bool
    equalises: bool
    additive_bias: bool
    baseline: bool
    output_codes: str
    options: tuple[str, ...]
    max_tokens_k: int


RecipeLike = Union[Recipe, Mapping[str, object], None]
OptionsLike = Union[SchemeOptions, Mapping[str, object], None]

_GRANULARITIES = ("q", "k", "v")
_SWITCHES = {"smooth": _abi.ENUM_SMOOTH, "rotate": _abi.ENUM_ROTATE, "equalise": _abi.ENUM_EQUALISE}
_CHOICES = {
    "row_sum": _abi.ENUM_ROW_SUM,
    "table": _abi.ENUM_TABLE,
    "quotient": _abi.ENUM_QUOTIENT,
    "rescale": _abi.ENUM_RESCALE,
}


def recipe_from_c(c: _abi.Recipe) -> Recipe:
    names = {name: enum_name(_abi.ENUM_GRANULARITY, getattr(c, name)) for name in _GRANULARITIES}
    names.update({name: enum_name(which, getattr(c, name)) for name, which in _SWITCHES.items()})
    return Recipe(**names, rotation_seed=c.rotation_seed)


def _whole(argument: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(refusal(argument, repr(value), "it must be an int", f"pass a whole number of {least} to {most}"))
    number = value.__index__()
    if not least <= number <= most:
        raise ValueError(refusal(argument, number, f"it must be {least} to {most}", "pass a number of that range"))
    return number


def recipe_to_c(recipe: Recipe) -> _abi.Recipe:
    c = _abi.Recipe()
    for name in _GRANULARITIES:
        setattr(c, name, enum_value(_abi.ENUM_GRANULARITY, getattr(recipe, name), f"recipe.{name}"))
    for name, which in _SWITCHES.items():
        setattr(c, name, enum_value(which, getattr(recipe, name), f"recipe.{name}"))
    c.rotation_seed = _whole("recipe.rotation_seed", recipe.rotation_seed, 0, 2**64 - 1)
    return c


def options_to_c(options: SchemeOptions) -> _abi.SchemeOptions:
    c = _abi.SchemeOptions()
    for name, which in _CHOICES.items():
        setattr(c, name, enum_value(which, getattr(options, name), f"options.{name}"))
    c.table_bits = _whole("options.table_bits", options.table_bits, 0, 2**31 - 1)
    return c


def _overridden(argument: str, default: Any, given: Any) -> Any:
    """`given`, or `default` with the fields that a mapping names."""
    if given is None:
        return default
    if isinstance(given, type(default)):
        return given
    known = [field.name for field in fields(default)]
    if not isinstance(given, Mapping):
        kind = type(default).__name__
        raise TypeError(
            refusal(argument, repr(given), f"it must be an octet.{kind} or a dict of its fields", f"the fields are {', '.join(known)}")
        )
    for name in given:
        if name not in known:
            raise ValueError(refusal(f"{argument}[{name!r}]", "given", "there is no such field", f"choose of {', '.join(known)}"))
    return replace(default, **given)


def recipe_of(scheme: str, given: RecipeLike) -> Recipe:
    """The recipe that a call means: the scheme's default, with what `given` says otherwise."""
    return _overridden("recipe", default_recipe(scheme), given)


def options_of(given: OptionsLike) -> SchemeOptions:
    """The options that a call means."""
    return _overridden("options", SchemeOptions(), given)


def scheme_value(scheme: object) -> int:
    return enum_value(_abi.ENUM_SCHEME, scheme, "scheme")


def version() -> str:
    """The library's version, as "1.2.3"."""
    return lib.octet_version().decode()


def schemes() -> list[str]:
    """Names of all schemes."""
    return enum_names(_abi.ENUM_SCHEME)


def backends() -> list[str]:
    """Names of the backends in the order in which they are tried; the last is "reference"."""
    return [lib.octet_backend_name(i).decode() for i in range(lib.octet_backend_count())]


@cache
def scheme(name: str) -> Scheme:
    """What a scheme is and what it offers. ValueError lists the names that there are."""
    c = _abi.SchemeInfo()
    check(lib.octet_scheme_describe(scheme_value(name), byref(c)))
    granularities = enum_names(_abi.ENUM_GRANULARITY)

    def members(bits: int) -> tuple[str, ...]:
        return tuple(g for i, g in enumerate(granularities) if bits >> i & 1)

    return Scheme(
        name=c.name.decode(),
        summary=c.summary.decode(),
        source=c.source.decode(),
        qk_dtype=enum_name(_abi.ENUM_DTYPE, c.qk),
        v_dtype=enum_name(_abi.ENUM_DTYPE, c.v),
        recipe=recipe_from_c(c.recipe),
        q_granularities=members(c.q_granularities),
        k_granularities=members(c.k_granularities),
        v_granularities=members(c.v_granularities),
        smooths=bool(c.smooths),
        rotates=bool(c.rotates),
        equalises=bool(c.equalises),
        additive_bias=bool(c.additive_bias),
        baseline=bool(c.baseline),
        output_codes=enum_name(_abi.ENUM_OUTPUT_CODES, c.output_codes),
        options=tuple(
            option
            for option, has in [
                ("row_sum", c.has_row_sum),
                ("table", c.has_table),
                ("quotient", c.has_quotient),
                ("rescale", c.has_rescale),
            ]
            if has
        ),
        max_tokens_k=c.max_tokens_k,
    )


@cache
def default_recipe(name: str) -> Recipe:
    """The recipe that a scheme takes where a call says nothing else."""
    c = _abi.Recipe()
    check(lib.octet_default_recipe(scheme_value(name), byref(c)))
    return recipe_from_c(c)


def recipe_text(recipe: Recipe) -> str:
    """A recipe as one line, for messages and the arguments of torch operators."""
    return ",".join(f"{name}={value}" for name, value in asdict(recipe).items())
