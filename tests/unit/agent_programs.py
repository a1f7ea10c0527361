"""Small programs that act as coding agents, good and bad ones, and campaigns that ask them."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from roofsmith.api import agents
from roofsmith.detached import VARIABLE, end_detached, new_name
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.proposers.agent.presets import Agent, Preset
from roofsmith.proposers.agent.proposer import AgentProposer, Elsewhere, Terms
from roofsmith.store.answers import read_answer
from roofsmith.store.asks import write_ask
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.observer import SilentObserver

PRELUDE = """
import json, os, pathlib, signal, subprocess, sys, time
brief = json.loads(pathlib.Path(os.environ["ROOFSMITH_BRIEF"]).read_text())
answer = pathlib.Path(os.environ["ROOFSMITH_ANSWER"])
work = answer.parent
campaign = work.parents[3]
(path, text), = brief["kernel"]["files"].items()

def propose(**changes):
    found = {
        "statement": "a comment more", "rationale": "a test asks for it",
        "evidence": list(brief["evidence"])[:1], "answers": brief["bottleneck"]["kind"],
        **changes,
    }
    (answer / "proposal.json").write_text(json.dumps(found))

def change(marker):
    (answer / path).write_text(f"/* {marker} */\\n" + text)
"""
GOOD = "change(brief['round']); propose()"


LAYERS = agents.walls_of({})
"""Of walls, that this host grants."""


def runs(pid: int) -> bool:
    """Whether there is such a process, and it isn't dead and unburied."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass
class Heard(SilentObserver):
    """Keeps what is shown."""

    shown: list[str] = field(default_factory=list)

    def stage(self, name: str, detail: str = "") -> None:
        """Keep the text."""
        self.shown.append(f"{name} {detail}")


@dataclass
class Bench:
    """A campaign directory, and an agent that is asked in it."""

    folder: Path
    script: str
    terms: dict[str, object] = field(default_factory=dict)
    preset: Preset = field(default_factory=lambda: Preset(command=("agent",)))
    observer: Heard = field(default_factory=Heard)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def campaign(self) -> Path:
        """Its directory."""
        return self.folder / "campaign"

    def proposer(self) -> AgentProposer:
        """Who runs the script."""
        self.campaign.mkdir(parents=True, exist_ok=True)
        (self.campaign / "ledger.jsonl").touch()
        program = self.folder / "agent.py"
        program.write_text(PRELUDE + textwrap.dedent(self.script))
        terms = Terms(
            directory=self.campaign,
            observer=self.observer,
            environment={"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.secrets},
            write_ask=write_ask,
            read_answer=read_answer,
            end_left=end_detached,
            new_name=new_name,
            variable=VARIABLE,
            elsewhere=Elsewhere,
            deadline_s=20.0,
            layers=LAYERS,
        )
        command = (sys.executable, "-S", str(program))
        agent = Agent(name="(test)", command=command, preset=self.preset)
        return AgentProposer(agent, replace(terms, **self.terms))  # type: ignore[arg-type]

    def world(self, rounds: int = 1, **stop: object) -> FakeWorld:
        """A machine in memory; every change of the agent's is a tie."""
        policy = {"max_iterations": rounds, "max_refusals": 1, **stop}
        target = fake_target(stop=StopPolicy.model_validate(policy))
        kernels = FakeKernels()
        kernels.add(target.baseline, time_s=1e-3)
        text, held_s = target.kernel.text, 1e-3
        for number in range(2, rounds + 2):
            text, held_s = f"/* {number} */\n{text}", held_s * 0.7
            kernels.add(target.baseline.with_kernel_text(text), time_s=held_s)
        return FakeWorld(target=target, kernels=kernels, ideas=(), proposer=self.proposer())

    def run(self, world: FakeWorld | None = None) -> Campaign:
        """A campaign to its end."""
        return Engine((world or self.world()).parts(), "test").run()


Make = Callable[..., Bench]
