"""What an expression depends on, and what that makes of a value that outlives its call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["tensor", "data", "identity", "version", "kept", "read"]
"""tensor: a caller's array itself; data: what was computed from its elements; identity: its id,
address or hash; version: its count of changes; kept: something that outlives the call; read: what
was computed from that, which ends with the call."""

Token = tuple[Kind, str]
"""A kind, and the argument of the entry it comes from (or the place, for what is kept)."""
Tokens = frozenset[Token]
NOTHING: Tokens = frozenset()

ALL_ARGUMENTS = "*"
"""Root of tokens that stand for whatever a function is given."""

_WEIGHT = re.compile(
    r"w\d*|wt|w_\w+|\w+_w|w(q|k|v|o|qkv|gate|up|down)|(\w+_)?(weights?|embeddings?|filters?)(_\w+)?"
    r"|lora_[ab]|gamma|beta|bias",
    re.IGNORECASE,
)
_NO_WEIGHT = re.compile(r"scale|grad|amax|zero|(^|_)d(w|y|out)$|act|workspace", re.IGNORECASE)


def is_weight_name(name: str) -> bool:
    """Whether an argument's name is one that parameters of a model have; a scale's never is."""
    return _WEIGHT.fullmatch(name) is not None and _NO_WEIGHT.search(name) is None


class TooMuchError(Exception):
    """A source that is nested too deeply, or calls itself too often, to be followed to its end."""


def kept(place: str) -> Tokens:
    """Of a place whose contents outlive the call."""
    return frozenset({("kept", place)})


def union(many: Iterable[Tokens]) -> Tokens:
    """All of them."""
    return NOTHING.union(*many)


def computed(tokens: Tokens) -> Tokens:
    """Of a result: elements of what went in."""
    return frozenset(("data", root) if kind == "tensor" else (kind, root) for kind, root in tokens)


def made(tokens: Tokens) -> Tokens:
    """Of a new result: as computed, and nothing that outlives the call itself."""
    return frozenset(
        ("read", root) if kind == "kept" else (kind, root) for kind, root in computed(tokens)
    )


MOST_ALIGNED = 4096
"""Bytes; an address within a page says how it is aligned."""


def aligned(tokens: Tokens) -> Tokens:
    """Of an address within a small block: a fact, the same for many arrays."""
    return frozenset(token for token in tokens if token[0] not in ("tensor", "identity"))


def identity(tokens: Tokens) -> Tokens:
    """Of a key: an array is found again by who it is."""
    return frozenset(
        ("identity", root) if kind in ("tensor", "data") else (kind, root) for kind, root in tokens
    )


def keyed(tokens: Tokens) -> Tokens:
    """Of a dictionary's key: an array hashes by identity, a number computed from it by value."""
    return frozenset(
        ("identity", root) if kind == "tensor" else (kind, root) for kind, root in tokens
    )


def only(tokens: Tokens, *kinds: Kind) -> Tokens:
    """Those of some kinds."""
    return frozenset(token for token in tokens if token[0] in kinds)


def roots(tokens: Tokens, kind: Kind) -> frozenset[str]:
    """What tokens of a kind come from."""
    return frozenset(root for found, root in tokens if found == kind)


@dataclass(frozen=True, slots=True)
class Class:
    """What a kept value is, as far as callers are concerned."""

    bucket: Literal["W1", "W2", "W3"]
    versioned: bool
    says: str


def classify(key: Tokens, value: Tokens, weights: frozenset[str]) -> Class | None:
    """The bucket of a value that outlives its call; None if nothing is wrong with keeping it.

    Args:
        key: what it is found again by.
        value: what it depends on.
        weights: arguments known to be weights, beside those that are named so.
    """
    found_by, made_of = roots(key, "identity"), roots(value, "data")
    if any(root.startswith(ALL_ARGUMENTS) for root in found_by):
        return Class("W3", False, "keeps results of calls, found by who all arguments are")
    others = sorted(r for r in found_by if r not in weights and not is_weight_name(r))
    if others:
        return Class("W2", False, f"is found by who {_listed(others)} is, not by what it holds")
    if not made_of:
        return None
    if by_content := roots(key, "data"):
        named = _listed(sorted(by_content))
        return Class("W3", False, f"keeps results, found by what {named} holds")
    if not found_by:
        named = _listed(sorted(made_of))
        return Class("W3", False, f"keeps what was made of {named}, whatever it holds next time")
    more = sorted(r for r in made_of if r not in weights and not is_weight_name(r))
    if more:
        return Class("W3", False, f"keeps a result that depends on {_listed(more)} as well")
    versioned = found_by <= roots(key, "version")
    until = "until it changes" if versioned else "and doesn't see that it changes"
    return Class("W1", versioned, f"keeps what was made of {_listed(sorted(found_by))} {until}")


def _listed(names: list[str]) -> str:
    shown = ["its arguments" if name.startswith(ALL_ARGUMENTS) else name for name in names]
    return " and ".join(dict.fromkeys(shown))
