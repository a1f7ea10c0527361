"""What `roofsmith doctor` prints: a compact table by area."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from roofsmith.cli.output import print_lines, print_unpadded, table_console
from roofsmith.domain.examination import Examination, Level

_STYLES: dict[Level, str] = {
    "ok": "green", "limited": "yellow", "absent": "dim", "missing": "bold red",
}  # fmt: skip


def examined(found: Examination) -> None:
    """Checks by area with their fixes, and what can run here."""
    _print_checks(found)
    print_lines(["", *_verdict(found)])


def examination_document(found: Examination) -> dict[str, Any]:
    """What this machine has and lacks."""
    return {
        "ready": found.ready,
        "subject": found.subject,
        "language": found.language,
        "machine": found.machine,
        "readiness": [
            {
                "name": one.name,
                "languages": list(one.languages),
                "ready": one.ready,
                "lacks": list(one.lacks),
            }
            for one in found.readiness
        ],
        "checks": [check.model_dump(mode="json", exclude={"lack"}) for check in found.checks],
    }


def _print_checks(found: Examination) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = table_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for area, checks in groupby(found.checks, key=lambda check: check.area):
        table.add_row(Text(area[0].upper() + area[1:], "bold"), "", "")
        for check in checks:
            style = _STYLES[check.level]
            mark = "" if check.level == "ok" else check.level
            detail = Text(check.detail, style if check.level == "absent" else "")
            table.add_row(Text(f"  {check.name}"), Text(mark or "ok", style), detail)
            if check in found.problems:
                table.add_row("", Text("  fix", "dim"), Text(check.fix or "none known", "cyan"))
    print_unpadded(shown, Text(found.machine, "bold"), table)


def _verdict(found: Examination) -> Iterator[str]:
    yield found.summary
    if found.subject is not None:
        yield f"{found.subject} can{'' if found.ready else chr(39) + 't'} run here"
