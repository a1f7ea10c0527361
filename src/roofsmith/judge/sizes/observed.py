"""How many elements of each array a kernel touches, seen from the parent.

What the worker says is a claim of candidate code: it decides about a text that somebody reads, and
about no verdict.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np

from roofsmith.domain.kernel import Built, Parameter
from roofsmith.domain.outcome import Crashed
from roofsmith.judge.booting import Process, boot, worker_environment
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.sandbox.isolation import Isolation

DEADLINE_S = 2.0
"""For a call on tens of elements. Chosen: whoever takes longer doesn't end on such sizes."""
PAGE_BYTES, ROOM_BYTES = 4096, 64 * 1024**2
"""As the worker has them."""
Fill = Literal["zeros", "indices", "most"]
"""0, 1, 2 ..., or the largest number of the type."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a kernel touches of an array."""

    elements: int
    """Up to the last one; 0: none."""
    is_negative: bool = False
    """Whether in front of it, too."""
    is_read_first: bool = True
    """Whether it reads some before it writes any."""
    is_written: bool = True


class ObservingProcess(WorkerProcess):
    """The judge's worker process, with memory that is granted page by page."""

    def _spawn(
        self, theirs: Any, output: IO[bytes], threads: int, launcher: Sequence[str]
    ) -> Process | subprocess.Popen[bytes]:
        return boot(
            "roofsmith.judge.sizes.worker", theirs, output, cwd=self._scratch, launcher=launcher,
            environment=worker_environment(self._built, threads),
        )  # fmt: skip

    def touched(
        self, scalars: Mapping[str, int | float], fills: Mapping[str, Fill]
    ) -> dict[str, Extent]:
        """By name of each array.

        Pages alone are seen: an array is laid at other offsets in its first page until its last
        element is known.

        Args:
            scalars: what the kernel is called with by value.
            fills: what arrays of integers hold, by name; zeros where nothing is said.

        Raises:
            KernelDiedError: it crashed, or didn't end.
        """
        arrays = self._built.signature.arrays
        first = self._seen(scalars, fills, dict.fromkeys((p.name for p in arrays), 0))
        low = dict.fromkeys(first, 0)  # shifts in elements that reach no further page
        high = {p.name: PAGE_BYTES // np.dtype(p.dtype).itemsize for p in arrays}
        while any(high[name] - low[name] > 1 for name in first):
            middle = {name: (low[name] + high[name]) // 2 for name in first}
            seen = self._seen(scalars, fills, middle)
            for name, shift in middle.items():
                if seen[name][0] > first[name][0]:
                    high[name] = shift
                elif shift > low[name]:
                    low[name] = shift
        found = {}
        for p in arrays:
            last, is_negative, is_read_first, is_written = first[p.name]
            per_page = PAGE_BYTES // np.dtype(p.dtype).itemsize
            elements = per_page * (last + 1) - high[p.name] + 1
            found[p.name] = Extent(
                elements if last >= 0 else 0, is_negative, is_read_first, is_written
            )
        return found

    def _seen(
        self,
        scalars: Mapping[str, int | float],
        fills: Mapping[str, Fill],
        shifts: Mapping[str, int],
    ) -> dict[str, tuple[int, bool, bool, bool]]:
        """The last page of each array, and how it was touched."""

        def argument(p: Parameter) -> Any:
            if p.role == "size":
                return scalars[p.name]
            shift = shifts[p.name] * np.dtype(p.dtype).itemsize
            return {"dtype": p.dtype, "shift": shift, "fill": fills.get(p.name, "zeros")}

        parameters = self._built.signature.parameters
        message = {"arguments": [argument(p) for p in parameters]}
        seen = self.ask("observe", message, DEADLINE_S).get("seen")
        arrays = self._built.signature.arrays
        if not isinstance(seen, list) or len(seen) != len(arrays) or not all(map(_is_sound, seen)):
            raise self._died(
                Crashed(reason="garbled_answer", detail="it says nothing of its arrays")
            )
        return {p.name: tuple(one) for p, one in zip(arrays, seen, strict=True)}


def _is_sound(one: object) -> bool:
    """Whether it is what a worker says of an array."""
    return (
        isinstance(one, list)
        and [type(part) for part in one] == [int, bool, bool, bool]
        and -1 <= one[0] <= ROOM_BYTES // PAGE_BYTES
    )


@contextmanager
def observing(built: Built, isolation: Isolation | None) -> Iterator[ObservingProcess]:
    """A process that holds a kernel to be watched; it ends with the block.

    Raises:
        KernelDiedError: the library can't be loaded.
    """
    process = ObservingProcess(built, threads=1, isolation=isolation, keeps_log=False)
    try:
        process.wait_until_loaded()
        yield process
    finally:
        process.close()
