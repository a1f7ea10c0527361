"""What `verify` holds a record's statements as, and how two values differ in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roofsmith.domain.campaign import Kept, RolledBack
from roofsmith.domain.values import Value

Claim = tuple[str, object, object]
"""Its name, what is recorded, and what follows."""
Difference = tuple[str, object, object]
"""Where two values differ, and what stands there."""

MOST_DIFFERENCES: Final = 3
LONGEST: Final = 160
_LABELS: Final = ("name", "workload", "config_class", "code", "label")
"""Fields that say which one of several a value is."""


def contrasted(recorded: object, follows: object) -> tuple[str, str]:
    """Each of two values that differ, down to where they do.

    >>> contrasted(1.5, None)
    ('1.5', 'nothing')
    """
    found = list(_differences("", recorded, follows))
    more = len(found) - MOST_DIFFERENCES
    rest = f" and {more} more" if more > 0 else ""
    few = [(path, *_both(old, new)) for path, old, new in found[:MOST_DIFFERENCES]]
    left = ", ".join(f"{path} {old}".strip() for path, old, _ in few)
    right = ", ".join(f"{path} {new}".strip() for path, _, new in few)
    return _quoted(f"{left}{rest}"), _quoted(f"{right}{rest}")


def _both(old: object, new: object) -> tuple[str, str]:
    """In words; where those don't tell them apart, as they are."""
    words = in_words(old), in_words(new)
    return words if words[0] != words[1] else (repr(old), repr(new))


def in_words(value: object) -> str:
    """A value for people; long ones are cut."""
    text = " ".join(_words(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _words(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case Kept() | RolledBack():
            return f"{_spoken(value.kind)}: {value.rule}"
        case Value():
            known = {name: part for name, part in value if part not in (None, (), "")}
            kind = known.pop("kind", None)
            said = ", ".join(f"{_spoken(name)} {_words(part)}" for name, part in known.items())
            return f"{_spoken(str(kind))}: {said}" if kind else said
        case tuple() | list():
            return f"[{', '.join(_label(part) or _words(part) for part in value)}]"
        case _:
            return str(value)


def _differences(path: str, recorded: object, follows: object) -> Iterator[Difference]:
    if recorded == follows:
        return
    match recorded, follows:
        case Value(), Value() if _comparable(recorded, follows):
            for name in type(recorded).model_fields:
                inner = f"{path} {_spoken(name)}".strip()
                yield from _differences(inner, getattr(recorded, name), getattr(follows, name))
        case tuple(), tuple() if _alike(recorded, follows):
            for old, new in zip(recorded, follows, strict=True):
                yield from _differences(f"{path} {_label(old)}".strip(), old, new)
        case _:
            yield path, recorded, follows


def _comparable(recorded: Value, follows: Value) -> bool:
    """Whether their fields say more than both as a whole: of decisions, the rule says most."""
    if type(recorded) is not type(follows):
        return False
    return getattr(recorded, "rule", None) == getattr(follows, "rule", None)


def _alike(recorded: tuple[object, ...], follows: tuple[object, ...]) -> bool:
    """Whether the parts have names, and the same ones in the same order."""
    names = [_label(part) for part in recorded]
    return bool(names) and all(names) and names == [_label(part) for part in follows]


def _label(value: object) -> str:
    named = (getattr(value, field, None) for field in _LABELS) if isinstance(value, Value) else ()
    return next((name for name in named if isinstance(name, str) and name), "")


def _quoted(text: str) -> str:
    """With its ends marked, where there are stops in it."""
    return f'"{text}"' if any(stop in text for stop in ",:;") else text


def _spoken(name: str) -> str:
    return name.replace("_", " ")
