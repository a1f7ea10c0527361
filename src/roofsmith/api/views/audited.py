"""What `roofsmith specs audit` prints: problems, and how much was looked at."""

from __future__ import annotations

from roofsmith.analysis.figures import one_line, plural
from roofsmith.api.views.blocks import Blocks
from roofsmith.citations.check import CitationAudit


def audited(found: CitationAudit) -> Blocks:
    """A line per problem, then how much was looked at."""
    result = plural(len(found.problems), "problem") if found.problems else "all of them hold"
    yield from (one_line(str(problem)) for problem in found.problems)
    yield f"{plural(found.citations, 'citation')} in {plural(found.files, 'file')}: {result}"
    yield from (f"note: {note}" for note in found.notes)
