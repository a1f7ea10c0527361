"""What takes seconds, begun before this command knows what it is for, and imports its parts."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roofsmith.api.gate import gate_parts, made_by
from roofsmith.api.system_clock import SystemClock
from roofsmith.config import Settings
from roofsmith.domain.kernel import MODULE_LANGUAGES
from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.judge.host.booted import BootedProcess
from roofsmith.machine.admission import LookedAhead, looked_ahead
from roofsmith.machine.choice import source_for
from roofsmith.ports import Observer
from roofsmith.store.sources import LANGUAGES

if TYPE_CHECKING:
    from roofsmith.judge.gpu.forking import ForkServer

REFERENCE = "roofsmith.judge.gpu.reference_process"
"""What a reference on a GPU runs in."""


@dataclass(frozen=True, slots=True)
class HeadStart:
    """What goes on already."""

    reference: BootedProcess | None = None
    """Imports PyTorch, and will hold a reference on a GPU."""
    fork_server: ForkServer | None = None
    """Imports PyTorch and Triton, for workers that run modules."""
    looked: LookedAhead = lambda: None
    """Waits for the look for an idle GPU, which is then this process's."""


NOTHING_BEGUN = HeadStart()


@contextmanager
def begin_ahead(kernel: Path, settings: Settings, observer: Observer) -> Iterator[HeadStart]:
    """Begin what a kernel of a GPU's needs; nothing for others."""
    language = LANGUAGES.get(kernel.suffix)
    if language is None or language in HOST_LANGUAGES or not importlib.util.find_spec("torch"):
        yield NOTHING_BEGUN
        return
    kind = made_by(source_for(language))
    with (
        closing(BootedProcess(REFERENCE)) as reference,
        looked_ahead(gate_parts(settings, kind, SystemClock(), observer), kind) as looked,
    ):
        if language not in MODULE_LANGUAGES:
            yield HeadStart(reference, looked=looked)
            return
        # these take a tenth of a second, in which the others have begun
        from roofsmith.judge.gpu.forking import ForkServer
        from roofsmith.judge.gpu.process import server_environment

        with ForkServer(server_environment()) as fork_server:
            fork_server.warm_up()
            yield HeadStart(reference, fork_server, looked)
