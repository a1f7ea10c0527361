"""What `roofsmith specs audit` prints: problems, and how much was looked at."""

from __future__ import annotations

from typing import Any

from roofsmith.app import Audited
from roofsmith.cli.output import print_json, print_lines
from roofsmith.report.format import one_line, plural


def audited(found: Audited, *, as_json: bool) -> None:
    """A line per problem, then how much was looked at."""
    if as_json:
        print_json(_document(found))
        return
    print_lines(_lines(found))


def _lines(found: Audited) -> list[str]:
    audit = found.audit
    result = plural(len(found.problems), "problem") if found.problems else "all of them hold"
    return [
        *(one_line(str(problem)) for problem in found.problems),
        f"{plural(audit.citations, 'citation')} in {plural(audit.files, 'file')}: {result}",
        *(f"note: {note}" for note in found.notes),
    ]


def _document(found: Audited) -> dict[str, Any]:
    audit = found.audit
    return {
        "passed": not found.problems,
        "directory": str(found.directory),
        "files": audit.files,
        "numbers": audit.numbers,
        "citations": audit.citations,
        "problems": [
            {
                "file": problem.path,
                "line": problem.line,
                "kind": problem.kind,
                "number": problem.number,
                "why": problem.why,
                "fix": problem.fix,
            }
            for problem in found.problems
        ],
        "notes": list(found.notes),
    }
