"""Two modules of Triton or PyTorch beside a third one that chooses."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from roofsmith.domain.dispatch import Dispatch, Listed, Threshold
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.yardstick import ENTRY
from roofsmith.ports import DimensionSource, Unmergeable
from roofsmith.toolchains.module import module_entry


def merge_modules(
    old: Candidate, new: Candidate, dispatch: Dispatch, sights: Mapping[str, DimensionSource]
) -> Candidate | Unmergeable:
    """One candidate whose kernel file imports the other two; see `ports.Merger`."""
    if old.build.environment != new.build.environment:
        return Unmergeable("they run under different environment variables")
    beside = {source.path: source.text for source in old.sources[1:]}
    for source in new.sources[1:]:
        if beside.setdefault(source.path, source.text) != source.text:
            return Unmergeable(f"both import {source.path}, and it differs")
    stem = f"split{dispatch.splits}"
    while any(_beside(old, f"{stem}_{kind}") in beside for kind in ("old", "new")):
        stem += "x"
    for kind, candidate in (("old", old), ("new", new)):
        beside[_beside(old, f"{stem}_{kind}")] = candidate.kernel.text
    entries = module_entry(old), module_entry(new)
    chooser = SourceFile(path=old.kernel.path, text=_chooser(stem, dispatch, sights, entries))
    files = (SourceFile(path=path, text=text) for path, text in beside.items())
    return old.model_copy(update={"sources": (chooser, *files)})


def _beside(candidate: Candidate, module: str) -> str:
    """Path of a module in the kernel file's folder."""
    return posixpath.join(posixpath.dirname(candidate.kernel.path), f"{module}.py")


def _chooser(
    stem: str,
    dispatch: Dispatch,
    sights: Mapping[str, DimensionSource],
    entries: tuple[str, str],
) -> str:
    old, new = entries
    lines = [
        f'"""Two kernels: {dispatch.sentence}, as for sizes that were not judged."""',
        "",
        f"import {stem}_new",
        f"import {stem}_old",
        "",
        "",
        f"def {ENTRY}(**inputs):",
        *(f"    {dim} = {_seen(sight)}" for dim, sight in sights.items()),
        f"    if {condition(dispatch)}:",
        f"        return {stem}_new.{new}(**inputs)",
        f"    return {stem}_old.{old}(**inputs)",
    ]
    return "\n".join(lines) + "\n"


def _seen(sight: DimensionSource) -> str:
    given = f'inputs["{sight.argument}"]'
    return given if sight.axis is None else f"{given}.shape[{sight.axis}]"


def condition(dispatch: Dispatch) -> str:
    """Where the new kernel runs, as an expression of Python over the dimensions' names."""
    match dispatch.rule:
        case Threshold(dims=dims, side=side, bound=bound):
            sign = ">=" if side == "at_least" else "<="
            parts = [f"{' * '.join(dims)} {sign} {bound}"]
        case Listed(points=points):
            names = list(points[0])
            listed = ", ".join(_tuple(list(map(str, point.values()))) for point in points)
            return f"{_tuple(names)} in ({listed},)"
    parts += [f"{low} <= {dim} <= {high}" for dim, (low, high) in dispatch.within.items()]
    return " and ".join(parts)


def _tuple(words: list[str]) -> str:
    return f"({', '.join(words)}{',' if len(words) == 1 else ''})"
