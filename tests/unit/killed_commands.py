"""Starts roofsmith's commands as processes of their own, which kill themselves in a phase.

Run as a program, it has imported what commands need, and every command is a fork of it: a line of
JSON in, the process's exit status out. SIGKILL comes in the midst of a phase: when the compiler,
the profiler or the first worker has just started, when some of the times are there, when it is
decided and not recorded, and when a commit is written and the branch doesn't have it yet.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PHASES = ("profile", "commit", "build", "check", "time", "decide")

PRELOADED = (
    "roofsmith.api.campaigns", "roofsmith.api.views.records", "roofsmith.cli.show",
    "roofsmith.proposers.replay", "roofsmith.report",
)  # fmt: skip
"""What commands import when they need it."""


def server() -> subprocess.Popen[str]:
    """A process that starts commands."""
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def started(
    by: subprocess.Popen[str], here: Path, *arguments: str, die_in: str = "", after: str = ""
) -> int:
    """Exit status of a command that ran in a folder; its messages are in `err` there.

    Args:
        by: `server`.
        here: the folder; the ledger is in `run`.
        arguments: of the command.
        die_in: the phase that it kills itself in; empty: it doesn't.
        after: kind of a record or a decision that the ledger has to hold before; empty: any.
    """
    assert by.stdin is not None
    assert by.stdout is not None
    asked = {"arguments": arguments, "directory": str(here), "die_in": die_in, "after": after}
    print(json.dumps(asked), file=by.stdin, flush=True)
    return int(by.stdout.readline())


def main() -> None:
    """Answer every line with the exit status of what it asked for."""
    for module in PRELOADED:
        importlib.import_module(module)
    from roofsmith.domain.facts import FactSheet
    from roofsmith.machine import probes
    from roofsmith.report.templating import html_environment, markdown_environment
    from roofsmith.specs.cited import CitedCeilings

    def no_facts(self: Any, environment: Any, threads: int, observer: Any) -> FactSheet:
        return FactSheet(device_id=environment.device.id)

    versions = probes.tool_versions()  # once: twenty programs are asked
    probes.tool_versions = lambda deadline_s=None: versions
    CitedCeilings.facts = no_facts  # type: ignore[method-assign]
    for templates in (html_environment(), markdown_environment()):
        for name in templates.list_templates(filter_func=lambda name: "__pycache__" not in name):
            templates.get_template(name)  # compiled once
    for line in sys.stdin:
        asked = json.loads(line)
        if (pid := os.fork()) == 0:
            os.chdir(asked["directory"])
            _become(asked)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(asked: dict[str, Any]) -> None:
    from roofsmith.cli import main as command

    os.environ["ROOFSMITH_CACHE"] = str(Path("cache").absolute())
    for descriptor, file in enumerate((os.devnull, "out", "err")):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC), descriptor)
    if asked["die_in"]:
        _Dies(asked["die_in"], asked["after"]).arm()
    sys.argv = ["roofsmith", *asked["arguments"]]
    sys.exit(command())


class _Dies:
    """Hears which phase a command is in, and kills it in the chosen one."""

    def __init__(self, phase: str, after: str) -> None:
        self._phase = phase
        self._after = f'"kind":"{after}'
        self._now = ""

    def arm(self) -> None:
        """From now on."""
        from roofsmith.cli.screen import PlainScreen
        from roofsmith.engine import trial

        def stage(screen: Any, name: str, detail: str = "") -> None:
            self._now = name

        def progress(screen: Any, fraction: float, detail: str = "") -> None:
            self._die("time", self._now == "time")

        def decide(*given: Any) -> None:
            self._die("decide", here=True)

        PlainScreen.stage = stage  # type: ignore[method-assign]
        PlainScreen.progress = progress  # type: ignore[method-assign]
        if self._phase == "decide":
            trial.decide = decide  # type: ignore[assignment]
        start: Callable[..., None] = subprocess.Popen.__init__

        def popen(process: Any, arguments: Any, *rest: Any, **named: Any) -> None:
            self._die("commit", here="update-ref" in arguments)
            start(process, arguments, *rest, **named)
            for phase in ("build", "check", "profile"):
                self._die(phase, here=self._now == phase)

        subprocess.Popen.__init__ = popen  # type: ignore[method-assign]

    def _die(self, phase: str, here: bool) -> None:
        if not here or phase != self._phase:
            return
        ledger = Path("run/ledger.jsonl")
        if ledger.exists() and self._after in ledger.read_text():
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
