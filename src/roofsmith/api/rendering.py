"""Says which files of a campaign could not be rendered."""

from __future__ import annotations

import shlex
import traceback
from pathlib import Path

from roofsmith.errors import RenderingError
from roofsmith.ports import RenderFailure
from roofsmith.store.files import write_file

LOG = Path("logs/rendering.log")
"""In a campaign's directory: where each file failed that could not be rendered."""


def require_rendered(failures: tuple[RenderFailure, ...], directory: Path) -> None:
    """Say that files of a campaign could not be rendered, once everything else is done.

    Raises:
        RenderingError: some could not.
    """
    if failures:
        first = failures[0].error
        again = f"roofsmith --debug report {shlex.quote(str(directory))}"
        raise RenderingError(
            f"{_told(failures)}. The records in {directory} are whole, and every other file is"
            " written",
            hint=f"`{again}` shows where it fails; a later version of roofsmith can render it"
            " again",
            log=_logged(failures, directory),
        ) from first


def unrendered(failures: tuple[RenderFailure, ...], directory: Path) -> tuple[str, ...]:
    """The same as a note, for a run whose work is done but for these files."""
    if not failures:
        return ()
    again = f"roofsmith campaign report {shlex.quote(str(directory))}"
    log = _logged(failures, directory)
    return (f"warning: {_told(failures)}, see {log}; a later version can `{again}`",)


def _told(failures: tuple[RenderFailure, ...]) -> str:
    first = failures[0].error
    named = ", ".join(failure.what for failure in failures)
    return f"can't render {named} ({type(first).__name__}: {first}): a fault of roofsmith"


def _logged(failures: tuple[RenderFailure, ...], directory: Path) -> Path:
    traces = ("".join(traceback.format_exception(failure.error)) for failure in failures)
    named = (f"{f.what}\n{trace}" for f, trace in zip(failures, traces, strict=True))
    write_file(directory / LOG, "\n".join(named).encode("utf-8", errors="backslashreplace"))
    return directory / LOG
