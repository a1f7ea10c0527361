"""Where commands stand: the panel of each in `--help`, and the names that commands had before."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

_START, _LOOK, _TRY, _LEARN, _SET_UP = "Start", "Look", "Try a change", "Learn", "Set up"

SHOWN: Mapping[str, str] = {
    "demo": _START,
    "init": _START,
    "optimize": _START,
    "resume": _START,
    "kernel": _LOOK,
    "campaign": _LOOK,
    "explain": _LOOK,
    "verify": _LOOK,
    "ask": _TRY,
    "try": _TRY,
    "tell": _TRY,
    "apply": _TRY,
    "knowledge": _LEARN,
    "experience": _LEARN,
    "doctor": _SET_UP,
    "specs": _SET_UP,
    "agent": _SET_UP,
    "selftest": _SET_UP,
}
"""The panel of every command of the top level, in the order of `--help`."""

FORMER: Mapping[str, tuple[str, str]] = {
    "judge": ("kernel", "judge"),
    "check": ("kernel", "check"),
    "bench": ("kernel", "bench"),
    "profile": ("kernel", "profile"),
    "listing": ("kernel", "listing"),
    "roofline": ("kernel", "roofline"),
    "classify": ("kernel", "classify"),
    "remarks": ("kernel", "remarks"),
    "define": ("campaign", "define"),
    "import": ("kernel", "import"),
    "suite": ("campaign", "suite"),
    "export": ("campaign", "export"),
    "serve": ("campaign", "serve"),
    "watch": ("campaign", "watch"),
    "plan": ("kernel", "plan"),
    "trace-analysis": ("kernel", "trace-analysis"),
    "show": ("campaign", "show"),
    "report": ("campaign", "report"),
    "memory": ("campaign", "memory"),
    "ps": ("campaign", "ps"),
    "close": ("campaign", "close"),
    "mcp": ("agent", "mcp"),
    "skill": ("agent", "skill"),
    "schema": ("agent", "schema"),
    "config": ("agent", "config"),
    "references": ("knowledge", "references"),
    "tips": ("experience", "tips"),
}
"""What a command is called for short, at the top level, and its group and name: both work in 0.x,
and all but those of sentences, whole programs, problem sets and pages once stood there."""

WrongUsage: type[typer.BadParameter] = typer.BadParameter.__mro__[1]
"""What Typer raises for whatever can't be parsed; it exports this one alone of the kind."""


class ArrangedGroup(TyperGroup):
    """Shows the commands of `SHOWN` in its panels; understands the names of `FORMER` as well."""

    def __init__(self, *, commands: dict[str, Any], **attributes: Any) -> None:
        places = list(SHOWN)
        shown = {name: commands[name] for name in sorted(commands, key=places.index)}
        for name, command in shown.items():
            command.rich_help_panel = SHOWN[name]
            if parts := getattr(command, "commands", None):
                command.short_help = f"{command.help} ({', '.join(parts)})"
        super().__init__(commands=shown, **attributes)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, be it a former one."""
        if cmd_name not in FORMER:
            return super().get_command(ctx, cmd_name)
        name, verb = FORMER[cmd_name]
        group: Any = self.commands[name]
        return group.commands[verb]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begin with; of a wrong name, the nearest are told."""
        try:
            return super().resolve_command(ctx, args)
        except WrongUsage as wrong:
            # Typer looks among shown names alone.
            if not get_close_matches(args[0], SHOWN):
                nearest = [" ".join(FORMER[name]) for name in get_close_matches(args[0], FORMER)]
                if nearest:
                    said = ", ".join(repr(name) for name in nearest)
                    wrong.message = f"{wrong.message.rstrip('.')}. Did you mean {said}?"
            raise
