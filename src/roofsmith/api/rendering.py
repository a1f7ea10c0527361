"""Says which files of a campaign could not be rendered."""

from __future__ import annotations

import shlex
from pathlib import Path

from roofsmith.errors import RenderingError
from roofsmith.ports import RenderFailure


def require_rendered(failures: tuple[RenderFailure, ...], directory: Path) -> None:
    """Say that files of a campaign could not be rendered, once everything else is done.

    Raises:
        RenderingError: some could not.
    """
    if not failures:
        return
    first = failures[0].error
    named = ", ".join(failure.what for failure in failures)
    again = f"roofsmith --debug report {shlex.quote(str(directory))}"
    raise RenderingError(
        f"can't render {named} ({type(first).__name__}: {first}): a fault of roofsmith. The records"
        f" in {directory} are whole, and every other file is written",
        hint=f"`{again}` shows where it fails; a later version of roofsmith can render it again",
    ) from first
