"""What octet raises. Every message is one sentence: argument, value, rule, remedy."""

from __future__ import annotations


class UnsupportedError(ValueError):
    """The scheme, the backend or this machine does not offer what was asked."""


class NonFiniteError(ValueError):
    """NaN or Inf where a scheme's quantiser needs numbers."""


class InternalError(RuntimeError):
    """The library's own mistake: please report it."""


def refusal(argument: str, value: object, rule: str, remedy: str) -> str:
    """The sentence of an error: `argument is value, but rule; remedy`."""
    return f"{argument} is {value}, but {rule}; {remedy}"
