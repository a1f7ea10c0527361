"""Tools get the options of `roofsmith.domain.options`, which the command line has, too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any, get_type_hints

from pydantic import Field

from roofsmith.domain.options import Offered, offered

OURS = {"waits": False, "proposers": "none"}
"""Defaults unlike the command line's: who calls is who proposes, and has a deadline of its own."""


def offers(
    **groups: type | tuple[type, tuple[str, ...]],
) -> Callable[[Callable[..., Awaitable[str]]], Callable[..., Awaitable[str]]]:
    """Give a tool options; it is called with those of a group as a dictionary.

    Args:
        groups: by the tool's own parameter, in whose place they come: the class that has them, or
            that and the names of some.
    """
    of = {
        name: list(offered(group[0], only=group[1]) if isinstance(group, tuple) else offered(group))
        for name, group in groups.items()
    }

    def declared(tool: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
        @functools.wraps(tool)
        async def run(*self: Any, **values: Any) -> str:
            said = {
                name: {one.name: values.pop(one.name) for one in group}
                for name, group in of.items()
            }
            return await tool(*self, **values, **said)

        hints = get_type_hints(tool, include_extras=True)
        own = inspect.signature(tool).parameters.values()
        parameters = [new for one in own for new in _in_place(one, of, hints)]
        run.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": str}
        return run

    return declared


def _in_place(
    parameter: inspect.Parameter, of: dict[str, list[Offered]], hints: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    """The options of a group in place of the parameter that takes it."""
    if parameter.name not in of:
        kind = parameter.kind if parameter.name == "self" else inspect.Parameter.KEYWORD_ONLY
        annotation = hints.get(parameter.name, Any)
        yield parameter.replace(kind=kind, annotation=annotation)
        return
    for one in of[parameter.name]:
        said = one.option
        shown = f" Otherwise {said.shown}." if isinstance(said.shown, str) else ""
        about = Field(description=f"{said.help}{shown}", ge=said.least, le=said.most)
        yield inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=OURS.get(one.name, one.default),
            annotation=Annotated[one.type, about],
        )
