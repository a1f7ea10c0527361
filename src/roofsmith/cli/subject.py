"""The options by which single-step commands name a kernel, declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from roofsmith.cli import options


def subject_from(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET|KERNEL",
            help="A target.yaml, its folder, or a kernel file (then with --ref and --workload).",
        ),
    ],
    ref: options.Reference = None,
    workload: options.Workloads = None,
    flags: options.Flags = None,
    threads: options.Threads = None,
    ptr_size: options.PtrSize = None,
    family: options.Family = None,
) -> Any:
    """The `roofsmith.api.Subject` that the options name."""
    from roofsmith import api

    subject = api.Subject(
        path=target,
        reference=ref,
        workloads=tuple(workload or ()),
        flags=flags,
        threads=threads,
        ptr_size=ptr_size,
        family=family,
    )
    api.require_named(subject)
    return subject


def takes_subject(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `subject_from`; it is called with the result as `subject`."""
    shared = inspect.signature(subject_from, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters

    @functools.wraps(command)
    def run(**values: Any) -> None:
        subject = subject_from(**{name: values.pop(name) for name in shared})
        command(subject=subject, **values)

    parameters = [*shared.values(), *(p for p in own.values() if p.name != "subject")]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
