"""What a virtual machine's host took away of the processors while something was measured."""

from __future__ import annotations

from collections.abc import Callable

from roofsmith.domain.processor_time import ProcessorTime

NOTEWORTHY_SHARE = 0.05
"""Of the processor time that was wanted. Chosen: where less is taken away, few segments of a few
milliseconds are hit."""

ProcessorTimes = Callable[[], ProcessorTime | None]
"""Since the machine was started; None where nobody knows."""


def steal_note(begin: ProcessorTime | None, end: ProcessorTime | None) -> tuple[str, ...]:
    """One line on what the host took away between two readings; none if that is little."""
    if begin is None or end is None:
        return ()
    share = end.since(begin).stolen_share
    if share < NOTEWORTHY_SHARE:
        return ()
    return (
        f"the host of this virtual machine took away {share:.0%} of the processor time that was"
        " wanted: everything took longer, and intervals are wider",
    )
