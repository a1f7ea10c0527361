"""What is stored where the next call can find it, and which of that saves work there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from roofsmith.analysis.overfitting.tokens import Tokens, classify, only
from roofsmith.domain.transfer import KeptValue


@dataclass(frozen=True, slots=True)
class Guard:
    """A test around what is read, of something that outlives the call."""

    test: Tokens
    text: str
    """The test, as it is written."""
    ends: bool = False
    """Where it holds, the function is left: it stands in front of all that follows."""


@dataclass(frozen=True, slots=True)
class Store:
    """Something that is stored where the next call can find it."""

    place: str
    line: int
    key: Tokens
    value: Tokens
    found_by: str
    """The key, as it is written."""
    is_guarded: bool
    """Only where nothing was found, so that work is skipped where something was."""
    in_place: bool = False
    """Written into memory that is kept, rather than kept itself."""


def kept_values(
    path: str,
    stores: Sequence[Store],
    lookups: Mapping[str, AbstractSet[int]],
    weights: frozenset[str],
) -> list[KeptValue]:
    """What is wrong with what is stored, or needs care; one per place, its worst bucket.

    Memory that every call writes anew is a workspace, whatever is in it; unless some of it is
    written only where the last call had another array.
    """
    overwritten = {s.place for s in stores if s.in_place and not s.is_guarded}
    groups: dict[str, list[KeptValue]] = defaultdict(list)
    for store in stores:
        is_found = bool(only(store.key, "identity"))
        if store.in_place and not store.is_guarded:
            continue
        if store.in_place and store.place in overwritten and not is_found:
            continue
        if not store.is_guarded and not is_found:
            continue
        seen = classify(store.key, store.value, weights)
        if seen is not None:
            looked_up = tuple(sorted(lookups.get(store.place, ())))
            groups[store.place].append(
                KeptValue(
                    name=store.place, path=path, line=store.line, bucket=seen.bucket,
                    key=store.found_by, versioned=seen.versioned, says=seen.says,
                    looked_up=looked_up, stored=(store.line,),
                )
            )  # fmt: skip
    return [_worst(values) for values in groups.values()]


def unfollowed(path: str) -> KeptValue:
    """What stands for all that a source may keep that can't be followed: a guard that can't decide
    rejects."""
    return KeptValue(
        name="anything", path=path, line=1, bucket="W3", key="",
        says="is nested too deeply, or calls itself too often, for what it keeps to be followed",
    )  # fmt: skip


def _worst(values: Sequence[KeptValue]) -> KeptValue:
    worst = max(values, key=lambda v: (v.bucket, not v.versioned))
    lines = sorted({line for v in values for line in v.stored})
    return worst.model_copy(update={"stored": tuple(lines)})
