"""Guesses a kernel's operator family from names; whoever uses it says that it is a guess."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

FAMILY_WORDS: dict[str, tuple[str, ...]] = {
    "attention": ("attention", "attn", "mha", "gqa", "sdpa", "fmha", "flash"),
    "softmax": ("softmax",),
    "norm": ("layernorm", "rmsnorm", "batchnorm", "groupnorm", "norm", "ln", "rms"),
    "gemm": ("gemm", "matmul", "matmult", "mm", "bmm", "matrix", "syrk"),
    "reduction": ("reduction", "reduce", "sum", "max", "min", "mean", "dot", "argmax", "norm2"),
    "elementwise": (
        "elementwise", "relu", "gelu", "silu", "swiglu", "sigmoid", "tanh",
        "add", "mul", "scale", "axpy", "saxpy", "bias", "copy", "triad",
    ),
}  # fmt: skip
"""Family to the words that name it; an earlier family wins (attention has a softmax inside)."""

_WORD = re.compile(r"[A-Z]?[a-z]+[0-9]?|[A-Z]+(?![a-z])")
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^;{}()]*\)\s*\{")
_LONG = 4
"""Words of this length count inside others too: `softmax` in `mysoftmaxv2`, but not `mm`."""
_APART = frozenset(("mean",))
"""But these: `kmeans` reduces no rows."""


def guess_family(names: Sequence[str]) -> tuple[str, str] | None:
    """The family and the name that suggests it; the first name that suggests any wins."""
    for name in names:
        for family, words in FAMILY_WORDS.items():
            if mentions(name, words):
                return family, name
    return None


def function_names(text: str) -> list[str]:
    """Names of functions defined in C text, roughly: good enough to guess from, no more."""
    return [name for name in _FUNCTION.findall(text) if name not in ("if", "for", "while")]


def words_of(text: str) -> tuple[str, ...]:
    """The words of names and texts, in small letters, each once: `flashAttn_fwd` has three."""
    return tuple(dict.fromkeys(part.lower() for part in _WORD.findall(text)))


def mentions(name: str, words: Iterable[str]) -> bool:
    parts = set(words_of(name))
    inside = {word for word in words if len(word) >= _LONG and word in name.lower()} - _APART
    return bool(inside or parts & set(words))
