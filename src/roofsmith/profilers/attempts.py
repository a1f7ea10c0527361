"""Trying one profiler after another until one gives a profile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import RoofsmithError, UsageError
from roofsmith.ports import Arguments, KernelDiedError, KernelRunner, KernelSession, Oracle
from roofsmith.profilers.launches import NoProfileError

SEED = 20_250_101
"""Of the inputs that are profiled; never used for a check or a timing."""

CALL_DEADLINE_S = 120.0
"""Of a call under a tool, which compiles, attaches and writes as well."""

Attempt = Callable[[Built, Workload], Profile]
"""One tool; raises NoProfileError where it can't."""


def first_that_works(attempts: Sequence[Attempt], built: Built, workload: Workload) -> Profile:
    """The profile of the first tool that gives one, with the reasons why others did not.

    Without any, a profile without counters: then the place under the roofline is all there is.
    """
    notes: list[str] = []
    for attempt in attempts:
        try:
            found = attempt(built, workload)
        except NoProfileError as reason:
            notes.append(str(reason))
        except KernelDiedError as died:
            notes.append(f"the kernel did not survive profiling: {died}")
        except RoofsmithError as error:
            notes.append(unprofiled(error))
        else:
            return found.model_copy(update={"notes": (*found.notes, *notes)})
    return Profile(tool="none", workload=workload.label, notes=tuple(notes))


def unprofiled(error: RoofsmithError) -> str:
    """What kept a kernel from being profiled, and what to try: its reference, or this machine."""
    what = "no inputs to profile with" if isinstance(error, UsageError) else "it can't be profiled"
    return f"{what}: {error.message}" + (f"; try: {error.hint}" if error.hint else "")


@dataclass(frozen=True, slots=True)
class GpuTool(ABC):
    """Port `Profiler` over one tool for kernels on a GPU."""

    runner: KernelRunner
    oracle: Oracle
    threads: int = 1
    call_deadline_s: float = CALL_DEADLINE_S
    left: Path | None = None
    """Takes what the tool wrote, in a folder for each candidate; None: nobody wants it."""

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Counters of the kernel that takes most of the time of one call.

        A tool that fails, hangs or isn't there is a note in the profile, never an exception.
        """
        return first_that_works((self.attempt,), built, workload)

    def started(
        self, built: Built, arguments: Arguments, launcher: Sequence[str]
    ) -> AbstractContextManager[KernelSession]:
        """A session with the kernel, whose worker runs under the tool."""
        deadline_s = self.call_deadline_s
        return self.runner.open(
            built, arguments, threads=self.threads, call_deadline_s=deadline_s, launcher=launcher
        )

    @abstractmethod
    def attempt(self, built: Built, workload: Workload) -> Profile:
        """The same for a front that tries several tools.

        Raises:
            NoProfileError: there is nothing.
            KernelDiedError: the kernel did not survive it.
        """
