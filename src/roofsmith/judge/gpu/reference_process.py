"""The reference's own process on a GPU: owns the memory that kernels work on, draws, verifies.

It holds pristine inputs and expectations in memory that no candidate can map. What candidates map
are arenas: slots of arrays between guard bands, allocated here and handed out by handle.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from roofsmith.analysis.tolerance import Budget, Errors
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.kernel import Signature
from roofsmith.judge.arena import Arena
from roofsmith.judge.exploration import (
    USUAL_SEEDS,
    Usual,
    as_message,
    bears_storing,
    explore,
    honest,
    stored_errors,
    strain,
)
from roofsmith.judge.gpu.arenas import COMPARED_BYTES, Arenas
from roofsmith.judge.gpu.arithmetic import TorchArithmetic
from roofsmith.judge.gpu.device_arena import DeviceArena
from roofsmith.judge.gpu.driver import Driver
from roofsmith.judge.gpu.evidence import Draw, Memory, Scene, told
from roofsmith.judge.gpu.latch import Latch
from roofsmith.judge.gpu.measuring import compare, measure
from roofsmith.judge.gpu.needs import SEES_NO_GPU
from roofsmith.judge.gpu.reference import GpuReference
from roofsmith.judge.gpu.rounding import Wrong, room_for_rounding
from roofsmith.judge.gpu.tensors import any_differ, raw_bytes, seed_present_devices_only
from roofsmith.judge.gpu.watching import Probe, Sample
from roofsmith.judge.reference_process import serve
from roofsmith.judge.user_module import Complaint, load_module

REPEATABLE = 1e-9
"""How far two float64 calls of a reference may differ, norm-wise: atomics add in any order."""


class GpuServer:
    """Answers the parent's messages about one reference on one device."""

    def __init__(self) -> None:
        self._reference: GpuReference | None = None
        self.path = ""
        self._made: Arenas | None = None
        self._drawn: dict[tuple[int, int], Draw] = {}
        self._memories: dict[int, Memory] = {}
        self._decoys: dict[int, Draw] = {}
        """By arena, one of the draws before the present ones."""
        self._samples: dict[int, Sample] = {}
        self._probe: Probe | None = None
        self._usual = Usual()
        self._stored: dict[str, dict[str, Errors] | None] = {}
        """`stored_errors` of an own draw, by dimensions."""
        self._decided: set[str] = set()
        """Outputs whose jumps rounding explained before, or was seen to cause."""
        self._on = TorchArithmetic()
        self._flush: torch.Tensor | None = None

    @property
    def reference(self) -> GpuReference:
        """The loaded reference."""
        if self._reference is None:
            raise Complaint("nothing was loaded")
        return self._reference

    @property
    def arenas(self) -> Arenas:
        """Of the workloads that are judged."""
        if self._made is None:
            raise Complaint("nothing was loaded")
        return self._made

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Open the device and import the reference."""
        self.path = message["path"]
        os.environ.update(message["environment"])  # torch looks at it when it is first asked
        if not torch.cuda.is_available():
            raise Complaint(f"{SEES_NO_GPU} (PyTorch {torch.__version__})")
        torch.zeros(1, device="cuda")
        seed_present_devices_only()
        self._made = Arenas(Driver("hip" if torch.version.hip else "cuda"))
        flush_bytes = 3 * torch.cuda.get_device_properties(0).L2_cache_size
        self._flush = torch.empty(flush_bytes, dtype=torch.uint8, device="cuda")
        self._probe = Probe()
        module = load_module(Path(message["path"]))
        # Candidate code has no business beside seeds and truth, unless nobody else can draw.
        draws_itself = message["kernel"] is None or callable(getattr(module, "setup", None))
        baseline = None if draws_itself else load_module(Path(message["kernel"]))
        signature = Signature.model_validate(message["signature"])
        self._reference = GpuReference(
            module, baseline, signature, message["ptr_size"], tf32=message["tf32"]
        )
        return {"memory_bytes": torch.cuda.mem_get_info()[0]}

    def describe(self, message: dict[str, Any]) -> dict[str, Any]:
        """See `GpuReference.describe`.

        Arrays that the device has no room for are described without being made, so that the parent
        can say how large they are.
        """
        try:
            return self.reference.describe(message["dims"])
        except torch.OutOfMemoryError as error:
            return self._described_unmade(message["dims"], error)

    def _described_unmade(self, dims: dict[str, int], full: Exception) -> dict[str, Any]:
        torch.cuda.empty_cache()
        try:
            with FakeTensorMode():
                return self.reference.describe(dims)
        except Exception:  # noqa: BLE001  a setup that looks at its values: what it was is all there is
            raise full from None

    def allocate(self, message: dict[str, Any]) -> dict[str, Any]:
        """A new arena; the handle by which workers map it."""
        specs = [
            ArraySpec(a["name"], a["role"], a["dtype"], tuple(a["shape"]))
            for a in message["arrays"]
        ]
        arena = self.arenas.make(message["arena"], specs, message["slots"])
        self._memories[message["arena"]] = Memory()
        return {"handle": arena.handle.hex()}

    def rest(self, message: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Give back what isn't used; the device memory that is free then."""
        return {"free_bytes": self.arenas.rest()}

    def free(self, message: dict[str, Any]) -> dict[str, Any]:
        """Forget an arena and what was drawn into it."""
        number = message["arena"]
        for key in [key for key in self._drawn if key[0] == number]:
            del self._drawn[key]
        self._memories.pop(number)
        self._decoys.pop(number, None)
        self._samples.pop(number, None)
        self.arenas.free(number)
        return {}

    def draw(self, message: dict[str, Any]) -> dict[str, Any]:
        """Fresh inputs for slots; nothing is written to the arena yet."""
        before = self._drawn.get((message["arena"], message["slots"][0]))
        if before is not None:
            self._decoys[message["arena"]] = before
        for slot, seed in zip(message["slots"], message["seeds"], strict=True):
            how = {**message["how"], "seed": seed}
            self._drawn[message["arena"], slot] = Draw.new(self.reference, how, self._on)
        return {}

    def deal(self, message: dict[str, Any]) -> dict[str, Any]:
        """What was drawn for one slot goes to another."""
        arena = message["arena"]
        dealt = [self._drawn[arena, slot] for slot in message["order"]]
        self._drawn.update({(arena, slot): drawn for slot, drawn in enumerate(dealt)})
        return {}

    def prepare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Draft slots: pristine inputs, poisoned outputs and guards; choose what is looked at."""
        arena = self.arenas[message["arena"]]
        for slot, guard in zip(message["slots"], message["guards"], strict=True):
            draw = self._drawn[message["arena"], slot]
            memory = self._memories[message["arena"]]
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
            self._samples[message["arena"]] = Sample(arena, message["watch"])
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
        latch = _latch(fds) if fds else None
        sample = self._samples[message["arena"]] if message["watched"] else None
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.arenas[message["arena"]].publish(message["slots"])
        if self._flush is not None:
            self._flush.add_(1)
        if sample is not None:
            sample.glance()
        end.record()
        torch.cuda.synchronize()
        at_s, seen_s = time.perf_counter(), None
        if latch is not None and sample is not None:
            seen_s = _seen(latch, message, sample)
        return {"device_s": begin.elapsed_time(end) * 1e-3, "at_s": at_s, "seen_s": seen_s}

    def let_go(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """The same, once a worker that needs its process meanwhile was woken."""
        return {"seen_s": _seen(_latch(fds), message, self._samples[message["arena"]])}

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
        """Remember these elements as they are."""
        self._samples[message["arena"]].look()
        return {}

    def sight(self, message: dict[str, Any]) -> dict[str, Any]:
        """What was seen: outputs before the calls, and slots of calls that left some unwritten."""
        sample = self._samples[message["arena"]]
        return {"early": sample.was_written(), "unwritten": sample.unwritten()}

    def changed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Whether any of them was written since."""
        return {"changed": self._samples[message["arena"]].has_changed()}

    def probe(self, message: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Whether the device works for anybody else."""
        return {"at_work": self._probe is not None and self._probe.sees_work()}

    def learn(self, message: dict[str, Any]) -> dict[str, Any]:
        """Errors that the reference itself makes in the declared precision, by output."""
        draw = self._drawn[message["arena"], message["slot"]]
        values, outputs = draw.values, draw.outputs
        truth = self.reference.expect(values, outputs, exact=True)
        again = self.reference.expect(values, outputs, exact=True)
        plain = self.reference.expect(values, outputs, exact=False)
        honest = {}
        for name, tensor in truth.items():
            if tensor.is_floating_point() and bool(torch.isnan(tensor).all()):
                raise Complaint(f"reference left all of output {name!r} unwritten, or NaN")
            repeat = measure(again[name][None], tensor[None], None, None)[0, 0].item()
            if repeat > REPEATABLE:
                raise Complaint(f"it is not deterministic: {name!r} differs between two calls")
            honest[name] = measure(plain[name][None], tensor[None], None, None)[0].tolist()
        return {"honest": honest}

    def verify(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compare slots with what they should hold; one report per slot.

        Outputs of many slots are compared at once, since launches cost more than small arrays.
        """
        arena, slots = self.arenas[message["arena"]], message["slots"]
        at_once = max(1, COMPARED_BYTES // arena.layout.slot_bytes)
        reports: list[dict[str, list[float]]] = []
        for start in range(0, len(slots), at_once):
            checks = self._verified(arena, message, slots[start : start + at_once])
            columns = {name: found.double().tolist() for name, found in checks.items()}
            reports += [
                {name: column[i] for name, column in columns.items()}
                for i in range(len(slots[start : start + at_once]))
            ]
        return {"reports": reports}

    def _verified(
        self, arena: DeviceArena, message: dict[str, Any], slots: Sequence[int]
    ) -> dict[str, torch.Tensor]:
        """What was found in some slots, one row per slot."""
        drawn = [self._drawn[message["arena"], slot] for slot in slots]
        expected = [
            self.reference.expect(draw.values, draw.outputs, exact=message["exact"])
            for draw in drawn
        ]
        checks = {}
        for index, array in enumerate(arena.layout.arrays):
            if array.role == "input":
                pristine = [raw_bytes(draw.values[array.name]) for draw in drawn]
                held = [arena.raw(slot, index) for slot in slots]
                checks[f"altered:{array.name}"] = any_differ(held, pristine)
            else:
                checks[array.name] = compare(
                    [arena.view(slot, index) for slot in slots],
                    [found[array.name] for found in expected],
                    message["tolerances"],
                    whole=message["exact"],
                )
        for index, touched in enumerate(arena.overruns(slots)):
            checks[f"guard:{index}"] = touched
        return checks

    def honest(self, message: dict[str, Any]) -> dict[str, Any]:
        """What honest arithmetic makes of a slot's inputs."""
        draw = self._drawn[message["arena"], message["slot"]]
        found = honest(self.reference, draw.values, draw.outputs, self._on)
        errors = {name: (one.norm, one.element) for name, one in found.errors.items()}
        return {"sound": found.is_sound and self._bears(message["dims"], draw), "errors": errors}

    def _bears(self, dims: dict[str, int], draw: Draw) -> bool:
        """Whether a draw asks hardly more of who stores half precision than own draws do."""
        if str(dims) not in self._stored:
            own = self.reference.inputs(dims, USUAL_SEEDS[0])
            self._stored[str(dims)] = stored_errors(self.reference, *own, self._on)
        here = stored_errors(self.reference, draw.values, draw.outputs, self._on)
        return bears_storing(here, self._stored[str(dims)])

    def strain(self, message: dict[str, Any]) -> dict[str, Any]:
        """How ill-conditioned a slot's inputs are; see `judge.exploration.strain`."""
        draw = self._drawn[message["arena"], message["slot"]]

        def drawn(how: dict[str, Any]) -> tuple[Mapping[str, Any], set[str]]:
            other = Draw.new(self.reference, how, self._on)
            return other.values, other.outputs

        usual = self._usual.of(message["draw"], drawn, self.reference, self._on)
        found = strain(self.reference, draw.values, draw.outputs, usual, self._on)
        return {"strain": as_message(found)}

    def room(self, message: dict[str, Any]) -> dict[str, Any]:
        """How far off a slot's output may be where rounding decides; see `gpu.rounding`."""
        arena, name = self.arenas[message["arena"]], message["output"]
        draw = self._drawn[message["arena"], message["slot"]]
        index = [array.name for array in arena.layout.arrays].index(name)
        norm, element, atol, rtol = message["budget"]
        wrong = Wrong(
            name, arena.view(message["slot"], index), draw.values, draw.outputs,
            Budget(norm, element, Errors(0.0, 0.0), atol, rtol), message["other"],
            message["ordered"],
        )  # fmt: skip
        free, known = message["free"], self._decided
        return {"room": room_for_rounding(self.reference, wrong, free, known, self._on)}

    def explore(self, message: dict[str, Any]) -> dict[str, Any]:
        """See `judge.exploration.explore`."""
        return explore(self.reference, message["dims"], self._on)

    def diagnose(self, message: dict[str, Any]) -> dict[str, Any]:
        """What a wrong output of a slot is."""
        number, slot, arena = message["arena"], message["slot"], self.arenas[message["arena"]]
        index = next(
            i for i, array in enumerate(arena.layout.arrays) if array.name == message["output"]
        )
        before = message["before"]
        scene = Scene(
            name=message["output"],
            dtype=arena.layout.arrays[index].dtype,
            out=arena.view(slot, index),
            draw=self._drawn[number, slot],
            slot=slot,
            previous=None if before is None else self._drawn[number, before],
            memory=self._memories[number],
        )
        errors = Errors(message["norm"], message["element"], message["problem"])
        found = told(scene, self.reference, self._on, errors, message["budget"])
        return {"reason": found.reason, "detail": found.detail}

    def export(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Inputs of one draw into shared host memory, for profilers."""
        specs = [
            ArraySpec(a["name"], a["role"], a["dtype"], tuple(a["shape"]))
            for a in message["arrays"]
        ]
        host = Arena(specs, 1, fds[0])
        values, _ = self.reference.inputs(message["dims"], message["seed"])
        for spec in specs:
            value = values[spec.name]
            if isinstance(value, torch.Tensor):
                raw = raw_bytes(value).cpu().numpy()
                np.copyto(host.view(0, spec.name).reshape(-1).view(np.uint8), raw)
        host.close()
        return {}

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Do what a message asks."""
        given = {"export": self.export, "publish": self.publish, "let_go": self.let_go}
        if (op := message["op"]) in given:
            return given[op](message, fds)
        operations = {
            "load": self.load, "describe": self.describe, "allocate": self.allocate,
            "free": self.free, "draw": self.draw, "deal": self.deal, "prepare": self.prepare,
            "learn": self.learn, "verify": self.verify, "honest": self.honest,
            "strain": self.strain, "explore": self.explore, "diagnose": self.diagnose,
            "rest": self.rest, "scrub": self.scrub, "look": self.look, "sight": self.sight,
            "changed": self.changed, "probe": self.probe, "room": self.room,
        }  # fmt: skip
        return operations[op](message)


def _latch(fds: Sequence[int]) -> Latch:
    """The page that a descriptor refers to, which isn't needed any more then."""
    try:
        return Latch(fds[0])
    finally:
        os.close(fds[0])


def _seen(latch: Latch, message: dict[str, Any], sample: Sample) -> float | None:
    """Let calls go; when their outputs had been looked at, if they are done before long."""
    latch.release(message["turn"])
    if not latch.is_done(message["turn"], message["patience_s"]):
        return None
    sample.look()
    return time.perf_counter()


def main() -> None:
    """Entry of the process."""
    serve(GpuServer())


if __name__ == "__main__":
    main()
