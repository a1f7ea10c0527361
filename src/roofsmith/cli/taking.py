"""Commands get the options of `roofsmith.domain.options`, which MCP offers, too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from roofsmith import api
from roofsmith.domain.options import Offered, Subject, offered

_TARGET = Annotated[
    Path,
    typer.Argument(
        metavar="TARGET|KERNEL",
        help="A target.yaml, its folder, or a kernel file (then with --ref and --workload).",
    ),
]


def takes(**groups: type | tuple[type, tuple[str, ...]]) -> Callable[..., Callable[..., None]]:
    """Give a command options; it is called with those of a group as a dictionary.

    Args:
        groups: by the command's own parameter, in whose place they come: the class that has them,
            or that and the names of some.
    """
    of = {
        name: list(offered(group[0], only=group[1]) if isinstance(group, tuple) else offered(group))
        for name, group in groups.items()
    }

    def declared(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            said = {
                name: {one.name: _value(one, values.pop(one.name)) for one in group}
                for name, group in of.items()
            }
            command(**values, **said)

        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [new for one in own for new in _in_place(one, of)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return declared


def _in_place(
    parameter: inspect.Parameter, of: dict[str, list[Offered]]
) -> Iterator[inspect.Parameter]:
    """The options of a group in place of the parameter that takes it."""
    kind = inspect.Parameter.KEYWORD_ONLY
    if parameter.name not in of:
        yield parameter.replace(kind=kind)
        return
    for one in of[parameter.name]:
        said = one.option
        flags = said.flags or (f"--{one.name.replace('_', '-')}",)
        option = typer.Option(
            *flags, help=said.help, metavar=said.metavar, show_default=said.shown, min=said.least,
            max=said.most,
        )  # fmt: skip
        is_list = get_origin(one.type) is tuple
        type_ = list[get_args(one.type)[0]] | None if is_list else one.type  # type: ignore[misc]
        default, hint = None if is_list else one.default, Annotated[type_, option]
        yield inspect.Parameter(one.name, kind, default=default, annotation=hint)


def _value(one: Offered, given: Any) -> Any:
    return tuple(given or ()) if get_origin(one.type) is tuple else given


def takes_subject(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a kernel or a target, and its options; `subject` is the `api.Subject`."""

    @functools.wraps(command)
    def named(target: Path, subject: dict[str, Any], **values: Any) -> None:
        found = api.Subject(target, **subject)
        api.require_named(found)
        command(subject=found, **values)

    path = inspect.Parameter("target", inspect.Parameter.KEYWORD_ONLY, annotation=_TARGET)
    own = inspect.signature(command, eval_str=True).parameters.values()
    named.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [path, *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own)]
    )
    return takes(subject=Subject)(named)
