"""What lies in the arenas on a GPU, draw by draw, and what is seen of them while kernels work."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import torch

from roofsmith.domain.arrays import ArraySpec
from roofsmith.judge.correctness.distributions import Arithmetic
from roofsmith.judge.gpu.arenas import Arenas
from roofsmith.judge.gpu.device_arena import DeviceArena
from roofsmith.judge.gpu.evidence import Draw, Memory
from roofsmith.judge.gpu.launch_gate import Latch, mapped
from roofsmith.judge.gpu.reference import GpuReference
from roofsmith.judge.gpu.watching import Sample, Watch
from roofsmith.judge.user_module import Complaint


class Stage:
    """Puts draws where kernels find them. Answers messages on one of the arenas each."""

    def __init__(
        self,
        reference: GpuReference,
        arenas: Arenas,
        watch: Watch,
        flush: torch.Tensor | None,
        on: Arithmetic,
    ) -> None:
        """Nothing was drawn yet.

        Args:
            reference: draws.
            arenas: that kernels map.
            watch: looks at outputs.
            flush: what empties the device's caches once it is written; None: nothing.
            on: torch.
        """
        self.arenas = arenas
        self._reference = reference
        self._watch = watch
        self._flush = flush
        self._on = on
        self._drawn: dict[tuple[int, int], Draw] = {}
        self._memories: dict[int, Memory] = {}
        self._decoys: dict[int, Draw] = {}
        """By arena, one of the draws before the present ones."""
        self._samples: dict[int, Sample] = {}

    def drawn(self, arena: int, slot: int) -> Draw:
        """What a slot holds or is about to."""
        return self._drawn[arena, slot]

    def memory(self, arena: int) -> Memory:
        """What lay in its slots before."""
        return self._memories[arena]

    def make(self, number: int, specs: Sequence[ArraySpec], slots: int) -> DeviceArena:
        """A new arena.

        Raises:
            MemoryError: the device has no room for it.
        """
        arena = self.arenas.make(number, specs, slots)
        self._memories[number] = Memory()
        return arena

    def free(self, number: int) -> None:
        """Forget an arena and what was drawn into it."""
        for key in [key for key in self._drawn if key[0] == number]:
            del self._drawn[key]
        self._memories.pop(number)
        self._decoys.pop(number, None)
        self._samples.pop(number, None)
        self.arenas.free(number)

    def draw(self, message: dict[str, Any]) -> dict[str, Any]:
        """Fresh inputs for slots; nothing is written to the arena yet."""
        before = self._drawn.get((message["arena"], message["slots"][0]))
        if before is not None:
            self._decoys[message["arena"]] = before
        for slot, seed in zip(message["slots"], message["seeds"], strict=True):
            how = {**message["how"], "seed": seed}
            self._drawn[message["arena"], slot] = Draw.new(self._reference, how, self._on)
        return {}

    def deal(self, message: dict[str, Any]) -> dict[str, Any]:
        """What was drawn for one slot goes to another."""
        arena = message["arena"]
        dealt = [self._drawn[arena, slot] for slot in message["order"]]
        self._drawn.update({(arena, slot): drawn for slot, drawn in enumerate(dealt)})
        return {}

    def prepare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Draft slots: pristine inputs, poisoned outputs and guards; choose what is looked at."""
        number = message["arena"]
        arena, memory = self.arenas[number], self._memories[number]
        for slot, guard in zip(message["slots"], message["guards"], strict=True):
            draw = self._drawn[number, slot]
            memory.add(slot, draw)
            if slot == message["first"]:
                memory.first = draw.how
            for array in arena.layout.arrays:
                value = draw.values[array.name]
                if isinstance(value, torch.Tensor) and tuple(value.shape) != array.shape:
                    raise Complaint(
                        f"setup gives {array.name!r} another shape for another seed:"
                        f" {tuple(value.shape)}, {array.shape}"
                    )
            arena.prepare(slot, draw.values, guard)
        if message["watch"]:
            self._samples[number] = Sample(arena, message["watch"])
        torch.cuda.synchronize()
        return {}

    def publish(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Put drafted slots where workers see them, and empty the caches.

        With a latch, let a stopped worker's calls go at once, and look as soon as they are said to
        be done. Nobody has to be woken meanwhile, which takes tenths of a millisecond, and not
        always as long; nor is there time in which inputs are there and nothing counts it.

        Returns:
            How long the device took; when inputs were there; and when outputs had been looked at,
            unless that isn't asked for or calls weren't done before long.
        """
        number, latch = message["arena"], _taken(fds) if fds else None
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.arenas[number].publish(message["slots"])
        if self._flush is not None:
            self._flush.add_(1)
        if message["watched"]:
            self._samples[number].glance()
        end.record()
        at_s, seen_s = time.perf_counter(), None
        if latch is None:
            end.synchronize()
            at_s = time.perf_counter()
        else:
            with self._watch.queued(self._samples[number]):
                if not end.query():  # else they came while the look was queued: that time counts
                    end.synchronize()
                    at_s = time.perf_counter()
                seen_s = self._watch.see(latch, message["turn"], message["patience_s"])
        return {"device_s": begin.elapsed_time(end) * 1e-3, "at_s": at_s, "seen_s": seen_s}

    def let_go(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """The same, once a worker that needs its process meanwhile was woken."""
        latch = _taken(fds)
        with self._watch.queued(self._samples[message["arena"]]):
            return {"seen_s": self._watch.see(latch, message["turn"], message["patience_s"])}

    def scrub(self, message: dict[str, Any]) -> dict[str, Any]:
        """An earlier draw's inputs into all slots, and poison into their outputs."""
        number = message["arena"]
        draw = self._decoys.get(number) or self._drawn[number, 0]
        arena = self.arenas[number]
        arena.prepare_all(draw.values)
        for slot in range(arena.slots):
            self._memories[number].add(slot, draw)
        torch.cuda.synchronize()
        return {}

    def look(self, message: dict[str, Any]) -> dict[str, Any]:
        self._samples[message["arena"]].look()
        torch.cuda.synchronize()
        return {}

    def sight(self, message: dict[str, Any]) -> dict[str, Any]:
        """What was seen: outputs before the calls, and slots of calls that left some unwritten."""
        sample = self._samples[message["arena"]]
        return {"early": sample.was_written(), "unwritten": sample.unwritten()}

    def changed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Whether any of them was written since."""
        return {"changed": self._samples[message["arena"]].has_changed()}

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        if message["op"] in {"publish", "let_go"}:
            return (self.publish if message["op"] == "publish" else self.let_go)(message, fds)
        operations = {
            "draw": self.draw, "deal": self.deal, "prepare": self.prepare, "scrub": self.scrub,
            "look": self.look, "sight": self.sight, "changed": self.changed,
        }  # fmt: skip
        return operations[message["op"]](message)


def _taken(fds: Sequence[int]) -> Latch:
    """The latch that a descriptor refers to, which isn't needed any more then."""
    try:
        return mapped(fds[0])
    finally:
        os.close(fds[0])
