"""Notices a repository whose commands use a GPU, although its target says that they don't."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from roofsmith.api.clocks import say
from roofsmith.domain.command import CommandSpec
from roofsmith.machine.processes import GPU_FILES, OwnProcesses
from roofsmith.machine.sampler import sampled

LOOK_S = 0.2
"""From one look at the processes to the next: importing torch takes longer, one that is on a GPU
for less isn't noticed."""


@contextmanager
def noticing_gpu_use(
    spec: CommandSpec,
    tell: Callable[[str], None] = say,
    files: Sequence[str] = GPU_FILES,
    every_s: float = LOOK_S,
) -> Iterator[None]:
    """Say so, once the block is over, if commands of a `device: cpu` have had a GPU open in it.

    Args:
        spec: whose commands run in the block.
        tell: takes the warning.
        files: how the names of a GPU's device files begin.
        every_s: from one look to the next.
    """
    if spec.device == "gpu" or not any(_is_there(beginning) for beginning in files):
        yield
        return
    own, names = OwnProcesses(), set[str]()
    with sampled(lambda: names.update(own.with_open(files)), every_s):
        yield
    if names:
        tell(
            f"WARNING: commands of this repository use a GPU ({', '.join(sorted(names))}), but its"
            " target says `device: cpu`. So no GPU is leased for them and nothing waits until one"
            " is idle: others may disturb what is measured, and are disturbed\n"
            "try: `device: gpu` under `command`, or `roofsmith init --repo ... --device gpu`"
        )


def _is_there(beginning: str) -> bool:
    """Whether any file's name begins like this; a folder has to have something in it."""
    path = Path(beginning)
    if beginning.endswith("/"):
        return path.is_dir() and any(path.iterdir())
    return any(path.parent.glob(f"{path.name}*"))
