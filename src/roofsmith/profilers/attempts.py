"""Trying one profiler after another until one gives a profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import RoofsmithError
from roofsmith.ports import KernelDiedError
from roofsmith.profilers.launches import NoProfileError

SEED = 20_250_101
"""Of the inputs that are profiled; never used for a check or a timing."""

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
            notes.append(f"no inputs to profile with: {error.message}")
        else:
            return found.model_copy(update={"notes": (*found.notes, *notes)})
    return Profile(tool="none", workload=workload.label, notes=tuple(notes))
