"""What commands that make a target of a PyTorch file have in common."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from roofsmith.domain.modes import FirstLanguage

if TYPE_CHECKING:
    from roofsmith.api import ImportedModel


def of_pytorch(help: str, metavar: str) -> Any:
    """An option that goes with a PyTorch file."""
    return typer.Option(help=help, metavar=metavar, rich_help_panel="Of a PyTorch file")


Framework = Annotated[
    FirstLanguage | None,
    of_pytorch(
        f"What its first kernel is written in: {', '.join(get_args(FirstLanguage))}.",
        metavar="LANG",
    ),
]


def told_of(found: ImportedModel) -> list[str]:
    """What was written, and what comes next."""
    step = "kernel check" if found.wrong or not found.is_tried else "optimize"
    place = shlex.quote(str(found.directory))
    test = shlex.quote(str(found.directory / "test_kernel.py"))
    return [
        f"wrote {found.directory}: {', '.join(found.files)}",
        *found.wrong,
        *(f"note: {note}" for note in found.notes),
        *(["the kernel is right on every workload"] if step == "optimize" else []),
        f"next: roofsmith {step} {place}, or pytest {test}",
    ]
