"""What `roofsmith specs audit` prints: problems, and how much was looked at."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from roofsmith.app import CitationAudit
from roofsmith.cli.output import print_json, print_lines
from roofsmith.report.format import one_line, plural


def audited(directory: Path, found: CitationAudit, *, as_json: bool) -> None:
    """A line per problem, then how much was looked at."""
    if as_json:
        print_json({"passed": not found.problems, "directory": str(directory), **asdict(found)})
        return
    result = plural(len(found.problems), "problem") if found.problems else "all of them hold"
    print_lines(one_line(str(problem)) for problem in found.problems)
    print_lines(
        [f"{plural(found.citations, 'citation')} in {plural(found.files, 'file')}: {result}"]
    )
    print_lines(f"note: {note}" for note in found.notes)
