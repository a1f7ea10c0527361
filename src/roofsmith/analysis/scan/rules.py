"""The rules of the static scan: which names mean what. They are data, in `rules.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import yaml

from roofsmith.domain.remark import Remark
from roofsmith.domain.values import Value


class Rule(Value):
    """What leads to one remark."""

    says: str
    python: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


COMPUTED = {
    "unjoined_stream": "works on a stream that nothing in this file waits for",
    "patched_module": "replaces attributes of other modules or classes",
    "counts_calls": "counts its calls",
    "interposed_symbol": "defines a function of the C library, the CUDA runtime or the driver",
    "constructor": "runs code when it is loaded",
    "library_call": "leaves the work to a library",
    "tf32_by_default": "multiplies float32 in TF32, unless it says otherwise",
    "unreadable": "can't be read",
}
"""Remarks that more than a name leads to."""


@cache
def rules() -> dict[str, Rule]:
    """Rules by remark, in their order."""
    text = files(__package__).joinpath("rules.yaml").read_text(encoding="utf-8")
    return {name: Rule.model_validate(rule) for name, rule in yaml.safe_load(text).items()}


def matches(name: str, pattern: str) -> bool:
    """Whether a dotted or `::` name is what a pattern names, or lies below it."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern or name.startswith((f"{pattern}.", f"{pattern}::"))


class Remarks:
    """Collects remarks on one file: the first place of each thing that is found."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: dict[tuple[str, str], Remark] = {}

    def add(self, name: str, line: int, detail: str) -> None:
        """One more remark; `detail` is what was found."""
        detail = " ".join(detail.split())[:80]
        says = COMPUTED[name] if name in COMPUTED else rules()[name].says
        remark = Remark(name=name, path=self._path, line=line, detail=detail, says=says)
        known = self._found.get((name, detail))
        if known is None or line < known.line:
            self._found[name, detail] = remark

    @property
    def in_order(self) -> tuple[Remark, ...]:
        """All of them, from the top of the file to its end."""
        return tuple(sorted(self._found.values(), key=lambda r: (r.line, r.name, r.detail)))
