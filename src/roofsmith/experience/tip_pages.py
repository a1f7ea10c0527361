"""`<gpu>/<operator>/<backend>/tips.md`: lessons that people may read and add to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from roofsmith.analysis.tips import tip_of
from roofsmith.domain.experiment import SUMMARY_LENGTH, Experiment
from roofsmith.domain.target import plain_name
from roofsmith.domain.tip import Tip
from roofsmith.domain.values import canonical_json, content_id, printable

_FIELDS = ("context", "signal", "takeaway", "applicability", "lesson")
_HEADING = re.compile(r"## (?:(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d),? ?)?(?:from )?(?P<origin>.*)")
_FIELD = re.compile(rf"- (?P<name>{'|'.join(_FIELDS)}): ?(?P<text>.*)")
_LONGEST_FIELD = 2000
"""Characters: a campaign's first record holds dozens of tips."""
_ARCH = re.compile(r"sm_\d+\w*|gfx\w+")


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
    """The lessons of a page, each with an id that it has in every import."""
    device, operator, backend = ("", "", "", *path.absolute().parts)[-4:-1]
    for tip in tips_in(text):
        yield tip_experiment(tip, operator=operator, backend=backend, device=device)


def tip_experiment(tip: Tip, *, operator: str, backend: str, device: str) -> Experiment:
    """A lesson as the database keeps it."""
    arch = device if _ARCH.fullmatch(device) else ""
    key = [operator, backend, device, tip.lesson or [tip.takeaway, tip.applicability]]
    return Experiment(
        id=f"tip-{content_id(canonical_json(key))[:12]}", status="tip", outcome="neutral",
        tip=tip, time=tip.at, operator_sig=operator, backend=backend, device=device, arch=arch,
        proposer=tip.origin, change_summary=printable(tip.takeaway)[:SUMMARY_LENGTH],
    )  # fmt: skip


def tips_in(text: str) -> Iterator[Tip]:
    """Every block that has a takeaway; what isn't in that shape is passed over."""
    for block in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        heading = _HEADING.match(block)
        fields = dict.fromkeys(_FIELDS, "")
        last = ""
        for line in block.splitlines()[1:]:
            if found := _FIELD.fullmatch(line.rstrip()):
                last = found["name"]
                fields[last] = found["text"].strip()
            elif last and line.startswith("  ") and line.strip():
                fields[last] += f" {line.strip()}"
        if heading is not None and fields["takeaway"]:
            told = fields | {"origin": heading["origin"].strip()}
            cut = {name: text[:_LONGEST_FIELD] for name, text in told.items()}
            yield Tip(at=heading["at"] or "", **cut)


def _head(path: str) -> str:
    gpu, operator, backend = path.split("/")[:3]
    return (
        f"# Tips: {operator} in {backend} on {gpu}\n\n"
        "Lessons of campaigns, each told once; later ones read them before their first round. Add\n"
        "your own at the end in the same shape, without `lesson`: the next `roofsmith experience\n"
        "sync` takes it over.\n"
    )


def _block(tip: Tip) -> str:
    values = tip.model_dump()
    lines = "".join(f"- {name}: {_line(values[name])}\n" for name in _FIELDS if values[name])
    heading = f"{tip.at} from {tip.origin}" if tip.at else tip.origin
    return f"\n## {_line(heading)}\n\n{lines}"


def _line(text: str) -> str:
    return " ".join(text.split())
