"""What to say where nobody says how many operations a kernel takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from roofsmith.domain.target import Target

BYTES_ONLY = "the floor counts bytes only"


def unsaid_operations(target: Target) -> str:
    """What shares of the roofline are worth without it, and what to add where."""
    if target.command is not None or target.reference is None:
        return f"{BYTES_ONLY}; give the target command.flops"
    line = f"def flops({', '.join(target.workloads[0].dims)}): return ..."
    return f"{BYTES_ONLY}; add `{line}` to {target.reference.path}"


def is_bytes_only(notes: Iterable[str]) -> bool:
    """Whether that was said."""
    return any(note.startswith(BYTES_ONLY) for note in notes)
