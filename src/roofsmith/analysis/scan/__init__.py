"""Reading a candidate's source before it is judged: advice that explains, never a verdict.

Measurements decide. What is found here says where to look: it goes into the notes of a judgement.
The one exception is a target that demands custom code: `library_calls` is its gate.
"""

from __future__ import annotations

from roofsmith.analysis.scan.native import library_calls_native, scan_native
from roofsmith.analysis.scan.python import library_calls_python, scan_python
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.remark import Remark

__all__ = ["library_calls", "remarks_on", "scan", "with_remarks"]

MOST_REMARKS = 20
"""Beyond these only the number is told: whoever reads the file sees the rest."""


def scan(candidate: Candidate) -> tuple[Remark, ...]:
    """Everything remarkable that a candidate's sources do, file by file.

    Any text will do; one that can't be parsed gets a remark that says so.
    """
    is_python, plain_c = _kind(candidate)
    remarks: list[Remark] = []
    for source in candidate.sources:
        found = (
            scan_python(source.path, source.text)
            if is_python
            else scan_native(source.path, source.text, plain_c=plain_c)
        )
        remarks += found.in_order
    return tuple(remarks)


def remarks_on(candidate: Candidate) -> tuple[str, ...]:
    """What `scan` finds, in lines for people."""
    found = [remark.text for remark in scan(candidate)]
    rest = len(found) - MOST_REMARKS
    more = [f"{rest} more remarks on the source"] if rest > 0 else []
    return (*found[:MOST_REMARKS], *more)


def with_remarks(judgement: Judgement, candidate: Candidate) -> Judgement:
    """The judgement, with what the candidate's source shows among its notes."""
    notes = (*judgement.notes, *remarks_on(candidate))
    return judgement.model_copy(update={"notes": notes})


def library_calls(candidate: Candidate) -> tuple[Remark, ...]:
    """Where a candidate leaves its work to a library: for targets that demand custom code.

    Memory, streams and questions about the device are no work. Names that are put together at run
    time count as calls, since nobody can tell what they are.
    """
    is_python, plain_c = _kind(candidate)
    remarks: list[Remark] = []
    for source in candidate.sources:
        found = (
            library_calls_python(source.path, source.text)
            if is_python
            else library_calls_native(source.path, source.text, plain_c=plain_c)
        )
        remarks += found.in_order
    return tuple(remarks)


def _kind(candidate: Candidate) -> tuple[bool, bool]:
    return candidate.language in ("triton", "torch"), candidate.language == "c"
