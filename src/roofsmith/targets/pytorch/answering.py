"""In a worker: everything that is asked of a user's file, one step behind the other."""

from __future__ import annotations

from roofsmith.targets.pytorch.describing import read_program
from roofsmith.targets.pytorch.program import Answer, Request


def answer(request: Request) -> Answer:
    """What the file computes, and a kernel of it.

    Raises:
        Refused: it can't be used.
    """
    program, _, _ = read_program(request)
    return Answer(program=program)
