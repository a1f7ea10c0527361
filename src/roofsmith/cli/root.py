"""The root command: global options, and errors as people read them."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from roofsmith import __version__
from roofsmith.cli.arrangement import ArrangedGroup, WrongUsage
from roofsmith.cli.options import AS_JSON
from roofsmith.cli.output import print_error, sound_output
from roofsmith.cli.signals import end_like_ctrl_c, exit_status
from roofsmith.errors import RoofsmithError
from roofsmith.task_limits import naming_limits


class RoofsmithGroup(ArrangedGroup):
    """Turns every error of ours into a message, a log and a hint; tracebacks only on demand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See whether stdout is for a program before anything can be wrong."""
        ctx.meta[AS_JSON] = "--json" in args
        try:
            return super().parse_args(ctx, args)
        except WrongUsage as wrong:
            _print_usage_error(ctx, wrong)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was chosen."""
        try:
            with naming_limits():
                return super().invoke(ctx)
        except WrongUsage as wrong:
            # Typer checks values with pydantic, whose errors say of which class they are.
            wrong.message = wrong.message.removeprefix("Value error, ")
            _print_usage_error(ctx, wrong)
            raise
        except RoofsmithError as error:
            if ctx.params.get("debug"):
                raise
            print(f"roofsmith: {error}", file=sys.stderr)
            if ctx.meta.get(AS_JSON):
                log = None if error.log is None else str(error.log)
                print_error(type(error).__name__, error.message, error.hint, log)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as interrupt:
            said = str(interrupt) or "interrupted"
            print(f"roofsmith: {said}", file=sys.stderr)
            if ctx.meta.get(AS_JSON):
                print_error("Interrupted", said)
            raise typer.Exit(exit_status(interrupt)) from None


def _print_usage_error(ctx: Any, wrong: typer.BadParameter) -> None:
    if ctx.meta[AS_JSON]:
        command = ctx if wrong.ctx is None else wrong.ctx
        print_error("UsageError", wrong.format_message(), f"{command.command_path} --help")


cli = typer.Typer(
    cls=RoofsmithGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


kernel = typer.Typer(
    no_args_is_help=True,
    help="One kernel, one step: judge, check, time, profile it, or see what limits it; which "
    "kernel of a program is worth it.",
)
campaign = typer.Typer(
    no_args_is_help=True,
    help="A campaign: made of a sentence; its parts, report and memory; who holds it open.",
)
agent = typer.Typer(
    no_args_is_help=True, help="What coding agents and models need: skills, MCP, schema, consent."
)
cli.add_typer(kernel, name="kernel")
cli.add_typer(campaign, name="campaign")
cli.add_typer(agent, name="agent")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"roofsmith {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback when something fails.")
    ] = False,
) -> None:
    """Drive compute kernels to the hardware limit, one judged change at a time, and prove it.

    Start with `roofsmith demo`. Problem sets: `roofsmith import`, then `roofsmith suite`; a kernel
    leaves by `roofsmith export`. Progress goes to stderr, results to stdout; exit 0 is good, 1
    means that the kernel or the campaign says no, 2 that the input or this machine is at fault.
    """


def main() -> None:
    """Run the `roofsmith` command."""
    end_like_ctrl_c()
    with sound_output():
        try:
            cli(prog_name="roofsmith")
        except KeyboardInterrupt as interrupt:  # while commands are still put together
            print(f"roofsmith: {str(interrupt) or 'interrupted'}", file=sys.stderr)
            raise SystemExit(exit_status(interrupt)) from None
