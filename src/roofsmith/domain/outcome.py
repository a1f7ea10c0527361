"""What judging a candidate came to. A candidate's failure is data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from roofsmith.domain.values import Told, Value

PRINTED = "; it printed: "
"""Between what became of a process and the end of what it printed, in a detail."""


class _Outcome(Value):
    detail: Told = ""
    """One or a few lines for people: what happened, where, with the numbers."""

    @property
    def exit_code(self) -> int:
        """What a command about it ends with."""
        return 0


class Passed(_Outcome):
    """Built, correct on every check and every timed call."""

    kind: Literal["passed"] = "passed"


class _Failure(_Outcome):
    reason: str
    """A stable code in snake_case; docs/judge.md lists them."""
    log: Path | None = None
    """Where the whole output lies."""

    @property
    def exit_code(self) -> int:
        """2 where this machine is at fault, and nothing is known of the kernel."""
        return 2 if self.reason == "no_threads" else 1


class BuildFailed(_Failure):
    """The compiler refused it, died, or ran past its deadline or memory limit."""

    kind: Literal["build_failed"] = "build_failed"


class Incorrect(_Failure):
    """An output is outside the error budget, not written, or written out of bounds."""

    kind: Literal["incorrect"] = "incorrect"


class Crashed(_Failure):
    """The worker died: a signal, an exit, memory that could not be had."""

    kind: Literal["crashed"] = "crashed"


class TimedOut(_Failure):
    """A call ran past its deadline."""

    kind: Literal["timed_out"] = "timed_out"


class Cheated(_Failure):
    """Faster than physics, or caught in the act."""

    kind: Literal["cheated"] = "cheated"


class Unstable(_Failure):
    """A guard could not decide, so it rejects."""

    kind: Literal["unstable"] = "unstable"


Unfit = BuildFailed | Cheated
"""Why a candidate isn't even run: it doesn't build, or isn't what was asked for."""
Failure = BuildFailed | Incorrect | Crashed | TimedOut | Cheated | Unstable
Outcome = Annotated[Passed | Failure, Field(discriminator="kind")]
