"""`experiences.md`: what worked and what didn't, by kernel, backend and chip. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from roofsmith.analysis.figures import one_line, visible
from roofsmith.domain.experiment import Experiment, Result

_TITLES: Final[dict[Result, str]] = {
    "success": "What worked", "neutral": "What decided little", "failure": "What didn't",
}  # fmt: skip


def overview(rows: Iterable[Experiment]) -> str:
    """The page, best first; what is masked, folded or over-fit isn't told."""
    groups: dict[tuple[str, ...], list[Experiment]] = defaultdict(list)
    for row in rows:
        if row.may_be_recommended and row.status not in ("baseline", "tip"):
            where = (row.operator, row.backend, row.arch or row.device)
            groups[tuple(part or "unknown" for part in where)].append(row)
    lines = ["# Experiences", "", "Written by `roofsmith experience sync`; edits are lost."]
    for (operator, backend, chip), found in sorted(groups.items()):
        lines += ["", f"## {_cell(operator)} in {_cell(backend)} on {_cell(chip)}"]
        for result in _TITLES:
            lines += _table(result, [row for row in found if row.outcome == result])
    return "\n".join(lines) + "\n"


def _table(result: Result, rows: list[Experiment]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", f"### {_TITLES[result]}", "")
    yield "| what | score | bottleneck | tactic | id |"
    yield "|---|---|---|---|---|"
    for row in sorted(rows, key=lambda row: -row.score):
        kind = row.bottleneck.kind if row.bottleneck is not None else "-"
        tactic = row.hypothesis.tactic if row.hypothesis is not None else "-"
        score = f"{row.score:.2f}x" if row.score else row.status
        cells = (row.change_summary, score, kind, tactic, row.id)
        yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Text that is neither markup nor the end of a cell."""
    plain = one_line(visible(text)).replace("&", "&amp;").replace("<", "&lt;")
    return plain.replace("|", "\\|").replace("`", "'")
