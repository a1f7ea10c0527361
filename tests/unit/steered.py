"""A campaign of the real loop in a process of its own, whose proposer waits to be let on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RUN = """\
import sys
from dataclasses import replace
from pathlib import Path
from roofsmith.cli.signals import end_like_ctrl_c
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.engine import FakeWorld, ProposerScript, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels

class Waiting(ProposerScript):
    def ask(self, brief, screen):
        print("asked", flush=True)
        sys.stdin.readline()
        return super().ask(brief, screen)

target, kernels = fake_target(stop=StopPolicy(max_iterations=2)), FakeKernels()
ideas = [fake_idea(target, f"idea {n}") for n in range(9)]
for n, idea in enumerate(ideas):
    kernels.add(idea.candidate, time_s=0.5e-3 * 0.8**n)
end_like_ctrl_c()
with CampaignDirectory.create(Path(sys.argv[1])) as files:
    world = FakeWorld(target, kernels, ideas, proposer=Waiting(ideas))
    parts = replace(world.parts(), files=files, ledger=JsonlLedger(files.ledger_path))
    Engine(parts, "steered").run()
"""


class Steered:
    """The process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def is_asking(self) -> bool:
        """Wait until the proposer is asked, or the campaign has ended; whether it is asked."""
        assert self.process.stdout is not None
        return bool(self.process.stdout.readline())

    def let_on(self) -> None:
        """Have the proposer answer."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)


@contextmanager
def steered(directory: Path) -> Iterator[Steered]:
    """A campaign in a new directory; its proposer is asked for the first change."""
    run = Steered(directory)
    try:
        assert run.is_asking()
        yield run
    finally:
        run.process.kill()
        run.process.communicate()
