"""`<gpu>/<operator>/<backend>/tips.md`: lessons that people may read and add to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from roofsmith.analysis.experiments import BACKENDS
from roofsmith.analysis.figures import one_line, visible
from roofsmith.analysis.tips import tip_of
from roofsmith.domain.experiment import SUMMARY_LENGTH, Experiment, Result
from roofsmith.domain.target import plain_name
from roofsmith.domain.tip import Tip
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.wording import printable

_FIELDS = ("context", "signal", "takeaway", "applicability", "lesson")
_HEADING = re.compile(r"## (?:(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d),? ?)?(?:from )?(?P<origin>.*)")
_FIELD = re.compile(rf"- (?P<name>{'|'.join(_FIELDS)}): ?(?P<text>.*)")
_LONGEST_FIELD = 2000
"""Characters: a campaign's first record holds dozens of tips."""
_PLACE = re.compile(r"(\S{1,99}) in (\S{1,99}) on (.{1,99}?)(?=$|[;,]|\. )")
_TITLE = re.compile(rf"# Tips: {_PLACE.pattern}", re.MULTILINE)
"""Where lessons were learned, as pages and their contexts say it."""
_ARCH = re.compile(r"sm_\d+\w*|gfx\w+")
_ABOUT = """Lessons of campaigns, each told once; later ones read them before their first round. Add
your own at the end in the same shape, without `lesson`: the next `roofsmith experience
sync` takes it over.
"""


class Left(NamedTuple):
    line: int
    """Where it begins, from 1."""
    text: str
    """As it stands there."""


def tip_pages(rows: Iterable[Experiment]) -> dict[str, str]:
    """Path to text of every page that has something to tell; each lesson once."""
    pages: dict[str, dict[str, Tip]] = defaultdict(dict)
    for row in rows:
        if (tip := tip_of(row)) is not None:
            gpu = row.arch if _ARCH.fullmatch(row.arch) else row.device
            parts = (plain_name(part.lower()) for part in (gpu, row.operator, row.backend))
            pages["/".join((*parts, "tips.md"))].setdefault(tip.lesson or tip.takeaway, tip)
    return {
        path: _head(path) + "".join(map(_block, found.values())) for path, found in pages.items()
    }


def told_in(path: Path, text: str) -> Iterator[Experiment]:
    """The lessons of a page, each with an id that it has in every import.

    They are for what its folders name, its title, or else the context of each.
    """
    device, operator, backend = ("", "", "", *path.absolute().parts)[-4:-1]
    title = _TITLE.match(text)
    for tip, _ in _blocks(text):
        if tip is None:
            continue
        names: Sequence[str] = (operator, backend, device)
        if backend not in BACKENDS:
            said = title or _PLACE.match(tip.context)
            names = said.groups() if said is not None else ("", "", "")
        operated, written, run_on = ("" if one == plain_name("") else one for one in names)
        yield tip_experiment(tip, operator=operated, backend=written, device=run_on)


def left_in(text: str) -> tuple[Left, ...]:
    """What people wrote into a page that isn't in its shape, and that no database holds."""
    return tuple(left for _, left in _blocks(text) if left.text)


def tip_experiment(tip: Tip, *, operator: str, backend: str, device: str) -> Experiment:
    """A lesson as the database keeps it."""
    arch = device if _ARCH.fullmatch(device) else ""
    key = [operator, backend, device, tip.lesson or [tip.takeaway, tip.applicability]]
    return Experiment(
        id=f"tip-{content_id(canonical_json(key))[:12]}", status="tip", outcome="neutral",
        tip=tip, time=tip.at, operator_sig=operator, backend=backend, device=device, arch=arch,
        proposer=tip.origin, change_summary=printable(tip.takeaway)[:SUMMARY_LENGTH],
    )  # fmt: skip


def _blocks(text: str) -> Iterator[tuple[Tip | None, Left]]:
    """Every block: its lesson, if it has a takeaway, and what of it isn't in that shape."""
    number = 1
    for block in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        yield _read(block, number)
        number += block.count("\n")


def _read(block: str, number: int) -> tuple[Tip | None, Left]:
    heading, lines = _HEADING.match(block), block.split("\n")
    if heading is None:
        return None, _left(number, [line for line in lines if not _is_ours(line)], lines)
    fields, others, last = dict.fromkeys(_FIELDS, ""), list[str](), ""
    for line in lines[1:]:
        found = _FIELD.fullmatch(line.rstrip())
        if found and not (fields[found["name"]] or fields["lesson"]):  # which is the last one
            last = found["name"]
            fields[last] = found["text"].strip()
        elif last not in ("", "lesson") and line.startswith("  ") and line.strip():
            fields[last] += f" {line.strip()}"
        else:
            last = ""
            others.append(line)
    if not fields["takeaway"]:
        return None, _left(number, lines, lines)
    told = fields | {"origin": heading["origin"].strip()}
    cut = {name: text[:_LONGEST_FIELD] for name, text in told.items()}
    return Tip(at=heading["at"] or "", **cut), _left(number, others, lines)


def _is_ours(line: str) -> bool:
    return line.startswith("# Tips: ") or line.rstrip() in _ABOUT.splitlines()


def _left(number: int, others: list[str], lines: list[str]) -> Left:
    first = next((line for line in others if line.strip()), "")
    text = "\n".join(others[others.index(first) :]).rstrip("\n") if first else ""
    return Left(number + lines.index(first) if first else number, text)


def _head(path: str) -> str:
    gpu, operator, backend = path.split("/")[:3]
    return f"# Tips: {operator} in {backend} on {gpu}\n\n{_ABOUT}"


def _block(tip: Tip) -> str:
    values = tip.model_dump()
    lines = "".join(f"- {name}: {_line(values[name])}\n" for name in _FIELDS if values[name])
    heading = f"{tip.at} from {tip.origin}" if tip.at else tip.origin
    return f"\n## {_line(heading)}\n\n{lines}"


def _line(text: str) -> str:
    return " ".join(text.split())


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
