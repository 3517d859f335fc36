"""Attention of whole models by octet: replace_sdpa for a block of code, patch_model for a model; both report what became of each call."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .._schemes import scheme as scheme_info
from ._sdpa import scaled_dot_product_attention

_original = torch.nn.functional.scaled_dot_product_attention
_state = threading.local()
_LOOKS_LIKE_ATTENTION = re.compile(r"attention|attn", re.I)
_NO_CALL = "it did not call scaled_dot_product_attention: it computes attention by itself, or was not run"


@dataclass
class Entry:
    """Calls of one place that had one fate."""

    where: str
    kind: str
    scheme: str
    shapes: str
    calls: int = 0
    reason: str = ""


@dataclass
class Report:
    """What was replaced, and what was left and why; filled by calls. str() is a table."""

    replaced: list[Entry] = field(default_factory=list)
    left: list[Entry] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    _found: dict[tuple, Entry] = field(default_factory=dict, repr=False)

    def _count(self, where: str, kind: str, scheme: str, shapes: str, reason: str) -> None:
        entry = self._found.get((where, scheme, shapes, reason))
        if entry is None:
            entry = self._found[where, scheme, shapes, reason] = Entry(where, kind, scheme, shapes, 0, reason)
            (self.left if reason else self.replaced).append(entry)
        entry.calls += 1

    def __str__(self) -> str:
        lines = [f"replaced {sum(e.calls for e in self.replaced)} calls, left {sum(e.calls for e in self.left)}"]
        lines += [f"  {e.where} ({e.kind}): {e.scheme}, {e.shapes}, {e.calls} x" for e in self.replaced]
        lines += [f"  left: {e.where} ({e.kind}){', ' + e.shapes if e.shapes else ''}: {e.reason}" for e in self.left]
        lines += [f"  changed: {change}" for change in self.changed]
        return "\n".join(lines)


class _Replacement:
    """One scheme for calls of scaled_dot_product_attention, and where they are counted."""

    def __init__(self, scheme: str, schemes: Mapping[str, str | None], strict: bool, options: dict[str, Any]) -> None:
        for name in (scheme, *schemes.values()):
            if name is not None:
                scheme_info(name)
        self.scheme, self.schemes, self.strict, self.options = scheme, schemes, strict, options
        self.report = Report()
        self.places: list[tuple[str, str]] = []

    def scheme_of(self, where: str) -> str | None:
        for pattern, name in self.schemes.items():
            if fnmatch.fnmatchcase(where, pattern):
                return name
        return self.scheme

    def call(self, arguments: tuple, named: dict[str, Any]) -> torch.Tensor:
        where, kind = self.places[-1] if self.places else ("call", "function")
        q, k = (arguments[0], arguments[1]) if len(arguments) > 1 else (named.get("query"), named.get("key"))
        shapes = f"q {list(q.shape)}, k {list(k.shape)}" if q is not None and k is not None else ""
        scheme = self.scheme_of(where)
        if scheme is None:
            self.report._count(where, kind, "", shapes, "its scheme is None")
            return _original(*arguments, **named)
        try:
            o = scaled_dot_product_attention(*arguments, **{**named, **self.options, "scheme": scheme})
        except (ValueError, TypeError) as error:
            if self.strict:
                raise
            self.report._count(where, kind, scheme, shapes, str(error))
            return _original(*arguments, **named)
        self.report._count(where, kind, scheme, shapes, "")
        return o


def _dispatch(*arguments: Any, **named: Any) -> torch.Tensor:
    """Stands in for scaled_dot_product_attention while a replacement is active; other threads get PyTorch's."""
    active = getattr(_state, "active", None)
    return active[-1].call(arguments, named) if active else _original(*arguments, **named)


_swap_lock = threading.Lock()
_swapped: list[tuple[Any, str]] = []
_uses = 0


def _swap_in() -> None:
    """Puts _dispatch where modules hold PyTorch's function: torch.nn.functional, and who imported it by name."""
    global _uses
    with _swap_lock:
        _uses += 1
        if _uses > 1:
            return
        for module in list(sys.modules.values()):
            for name in ("scaled_dot_product_attention", "sdpa", "F_sdpa") if module is not None else ():
                if vars(module).get(name) is _original and not getattr(module, "__name__", "").startswith("octet"):
                    setattr(module, name, _dispatch)
                    _swapped.append((module, name))


def _swap_out() -> None:
    global _uses
    with _swap_lock:
        _uses -= 1
        if _uses == 0:
            for module, name in _swapped:
                setattr(module, name, _original)
            _swapped.clear()


@contextlib.contextmanager
def _active(replacement: _Replacement) -> Iterator[None]:
    stack = _state.__dict__.setdefault("active", [])
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # nn.MultiheadAttention's own kernel calls no function that can be replaced
    _swap_in()
    stack.append(replacement)
    try:
        yield
    finally:
        stack.pop()
        _swap_out()
        torch.backends.mha.set_fastpath_enabled(fast_path)


@contextlib.contextmanager
def replace_sdpa(scheme: str = "int8", *, strict: bool = False, **options: Any) -> Iterator[Report]:
    """While it is open, this thread's calls of torch.nn.functional.scaled_dot_product_attention are computed by octet.

        with octet.torch.replace_sdpa("int8") as report:
            model(x)
        print(report)

    Calls that octet refuses (dropout, gradients, ...) go to PyTorch and are reported with the reason; with strict they raise it instead.
    options: recipe, options, key_block, backend of octet.attention. ValueError: no such scheme.
    """
    replacement = _Replacement(scheme, {}, strict, options)
    with _active(replacement):
        yield replacement.report


class Patch:
    """A patched model: .report says what its runs replaced and left; .remove(), or the end of a with block, undoes all of it."""

    def __init__(self, model: torch.nn.Module, replacement: _Replacement) -> None:
        self._model, self._replacement = model, replacement
        self._handles: list[Any] = []
        self._undo: list[Any] = []
        self._open: list[Any] = []
        self._attention = {
            name: module for name, module in model.named_modules() if name and _LOOKS_LIKE_ATTENTION.search(type(module).__name__)
        }
        self._let_fuse(model)
        for name, module in model.named_modules():
            if name:
                self._follow(name, module)
        self._handles.append(model.register_forward_pre_hook(self._enter))
        self._handles.append(model.register_forward_hook(self._leave, always_call=True))

    def _let_fuse(self, model: Any) -> None:
        """Turns on the fused path of modules that have one and do not take it."""
        report = self._replacement.report
        for name, module in model.named_modules():
            if getattr(module, "fused_attn", None) is False:  # timm
                module.fused_attn = True
                self._undo.append(lambda m=module: setattr(m, "fused_attn", False))
                report.changed.append(f"{name}.fused_attn is True, so that it calls scaled_dot_product_attention")
        config = getattr(model, "config", None)
        if hasattr(model, "set_attn_implementation") and getattr(config, "_attn_implementation", None) == "eager":  # transformers
            model.set_attn_implementation("sdpa")
            self._undo.append(lambda: model.set_attn_implementation("eager"))
            report.changed.append('attn_implementation is "sdpa", so that it calls scaled_dot_product_attention')

    def _follow(self, name: str, module: torch.nn.Module) -> None:
        """Lets calls know in which module they happen."""
        place = (name, type(module).__name__)
        places = self._replacement.places
        self._handles.append(module.register_forward_pre_hook(lambda *_: places.append(place)))
        self._handles.append(module.register_forward_hook(lambda *_: places.pop() and None, always_call=True))

    def _enter(self, *_: Any) -> None:
        self._replacement.places.clear()
        manager = _active(self._replacement)
        manager.__enter__()
        self._open.append(manager)

    def _leave(self, *_: Any) -> None:
        if self._open:
            self._open.pop().__exit__(None, None, None)

    @property
    def report(self) -> Report:
        """What became of the calls so far. Modules that look like attention and called nothing are among those left."""
        report = self._replacement.report
        seen = {entry.where for entry in (*report.replaced, *report.left)}
        result = Report(list(report.replaced), list(report.left), list(report.changed))
        for name, module in self._attention.items():
            if not any(place == name or place.startswith(name + ".") for place in seen):
                result.left.append(Entry(name, type(module).__name__, "", "", 0, _NO_CALL))
        return result

    def remove(self) -> None:
        """Gives the model back as it was."""
        for handle in self._handles:
            handle.remove()
        for undo in reversed(self._undo):
            undo()
        self._handles.clear()
        self._undo.clear()

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def patch_model(
    model: torch.nn.Module, scheme: str = "int8", *, schemes: Mapping[str, str | None] | None = None, strict: bool = False, **options: Any
) -> Patch:
    """Lets octet compute the attention of a model that calls scaled_dot_product_attention: timm's, transformers', diffusers', torch's own.

        patch = octet.torch.patch_model(model, "int8", schemes={"blocks.0.*": None, "blocks.1.*": "integer"})
        model(x)
        print(patch.report)
        patch.remove()

    schemes: patterns of module names (as fnmatch) and the scheme of calls inside; None leaves them to PyTorch; the first that matches counts.
    Modules with a fused path that is off (timm's Swin) get it turned on. Calls that octet refuses go to PyTorch and are reported with the
    reason; with strict they raise it. options: recipe, options, key_block, backend of octet.attention. One thread at a time may run a
    patched model. ValueError: no such scheme.
    """
    return Patch(model, _Replacement(scheme, schemes or {}, strict, options))
