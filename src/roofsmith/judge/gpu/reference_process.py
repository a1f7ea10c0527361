"""The reference's own process on a GPU: owns the memory that kernels work on, draws, verifies.

It holds pristine inputs and expectations in memory that no candidate can map. What candidates map
are arenas: slots of arrays between guard bands, allocated here and handed out by handle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._subclasses.fake_tensor import FakeTensorMode

from roofsmith.analysis.tolerance import Budget, Errors
from roofsmith.domain.kernel import Signature
from roofsmith.judge.correctness.conditioning import (
    USUAL_SEEDS,
    Usual,
    as_message,
    honest,
    root_mean_square,
    strain,
)
from roofsmith.judge.correctness.exploration import (
    bears_shaking,
    bears_storing,
    explore,
    shaken_errors,
    stored_errors,
)
from roofsmith.judge.correctness.long_sums import bounds_of_sums, room_for_sums
from roofsmith.judge.correctness.low_precision_inputs import Question, Way, attempt
from roofsmith.judge.correctness.own_draws import figures
from roofsmith.judge.correctness.shortened_inputs import shortened
from roofsmith.judge.gpu.arenas import COMPARED_BYTES, Arenas
from roofsmith.judge.gpu.arithmetic import TorchArithmetic
from roofsmith.judge.gpu.device_arena import DeviceArena
from roofsmith.judge.gpu.driver import Driver
from roofsmith.judge.gpu.evidence import Draw, Scene, told
from roofsmith.judge.gpu.measuring import compare, measure
from roofsmith.judge.gpu.prerequisites import SEES_NO_GPU
from roofsmith.judge.gpu.reference import GpuReference
from roofsmith.judge.gpu.rounding import Wrong, off_beyond, room_for_rounding
from roofsmith.judge.gpu.stage import Stage
from roofsmith.judge.gpu.tensors import any_differ, raw_bytes, seed_present_devices_only
from roofsmith.judge.gpu.watching import Probe, Watch
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.array_messages import from_json
from roofsmith.judge.host.reference_process import serve
from roofsmith.judge.steps.server import StepsServer
from roofsmith.judge.user_module import Complaint, load_baseline, load_module

BLOCKING = (
    "CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY",
)  # fmt: skip
"""Set by whoever looks for a launch that fails: each then waits for its kernel, which here may wait
for this process."""
REPEATABLE = 1e-9
"""How far two float64 calls of a reference may differ, norm-wise: atomics add in any order."""


class GpuServer:
    """Answers the parent's messages about one reference on one device."""

    def __init__(self) -> None:
        self._reference: GpuReference | None = None
        self.path = ""
        self._stage: Stage | None = None
        self._probe: Probe | None = None
        self._usual = Usual()
        self._stored: dict[str, dict[str, Errors] | None] = {}
        """`stored_errors` of an own draw, by dimensions."""
        self._shaken: dict[str, dict[str, float] | None] = {}
        """The same of `shaken_errors`."""
        self._decided: set[str] = set()
        """Outputs whose jumps rounding explained before, or was seen to cause."""
        self._on = TorchArithmetic()
        self._steps: StepsServer | None = None

    @property
    def reference(self) -> GpuReference:
        """The loaded reference."""
        if self._reference is None:
            raise Complaint("nothing was loaded")
        return self._reference

    @property
    def stage(self) -> Stage:
        if self._stage is None:
            raise Complaint("nothing was loaded")
        return self._stage

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Open the device and import the reference."""
        self.path = message["path"]
        os.environ.update(message["environment"])  # torch looks at it when it is first asked
        for name in BLOCKING:
            os.environ.pop(name, None)
        if not torch.cuda.is_available():
            raise Complaint(f"{SEES_NO_GPU} (PyTorch {torch.__version__})")
        torch.zeros(1, device="cuda")
        seed_present_devices_only()
        driver = Driver("hip" if torch.version.hip else "cuda")
        flush_bytes = 3 * torch.cuda.get_device_properties(0).L2_cache_size
        flush = torch.empty(flush_bytes, dtype=torch.uint8, device="cuda")
        self._probe = Probe()
        module = load_module(Path(message["path"]), message["extensions"])
        # Candidate code has no business beside seeds and truth, unless nobody else can draw.
        draws_itself = message["kernel"] is None or callable(getattr(module, "setup", None))
        folders = (message["kernel_extensions"], message["extensions"])
        baseline = None if draws_itself else load_baseline(Path(message["kernel"]), *folders)
        signature = Signature.model_validate(message["signature"])
        self._reference = GpuReference(
            module, baseline, signature, message["ptr_size"], tf32=message["tf32"]
        )
        watch = Watch(driver.plug())
        self._stage = Stage(self._reference, Arenas(driver), watch, flush, self._on)
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
        specs = from_json(message["arrays"])
        arena = self.stage.make(message["arena"], specs, message["slots"])
        return {"handle": arena.handle.hex()}

    def rest(self, message: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Give back what isn't used; the device memory that is free then."""
        return {"free_bytes": self.stage.arenas.rest()}

    def free(self, message: dict[str, Any]) -> dict[str, Any]:
        """Forget an arena and what was drawn into it."""
        self.stage.free(message["arena"])
        return {}

    def probe(self, message: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Whether the device works for anybody else."""
        return {"at_work": self._probe is not None and self._probe.sees_work()}

    def learn(self, message: dict[str, Any]) -> dict[str, Any]:
        """Errors that the reference itself makes in the declared precision, by output."""
        draw = self.stage.drawn(message["arena"], message["slot"])
        values, outputs = draw.values, draw.outputs
        truth = self.reference.expect(values, outputs, exact=True)
        again = self.reference.expect(values, outputs, exact=True)
        plain = self.reference.expect(values, outputs, exact=False)
        honest, scales = {}, {}
        for name, tensor in truth.items():
            if tensor.is_floating_point() and bool(torch.isnan(tensor).all()):
                raise Complaint(f"reference left all of output {name!r} unwritten, or NaN")
            repeat = measure(again[name][None], tensor[None], None, None)[0, 0].item()
            if repeat > REPEATABLE:
                raise Complaint(f"it is not deterministic: {name!r} differs between two calls")
            honest[name] = measure(plain[name][None], tensor[None], None, None)[0].tolist()
            scales[name] = root_mean_square(tensor, self._on)
        return {"honest": honest, "scales": scales}

    def verify(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compare slots with what they should hold; one report per slot.

        Outputs of many slots are compared at once, since launches cost more than small arrays.
        """
        arena, slots = self.stage.arenas[message["arena"]], message["slots"]
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
        drawn = [self.stage.drawn(message["arena"], slot) for slot in slots]
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
            elif array.is_result:
                checks[array.name] = compare(
                    [arena.view(slot, index) for slot in slots],
                    [found[array.name] for found in expected],
                    message["tolerances"],
                    whole=message["exact"],
                    own_scale=message["own_scales"].get(array.name),
                )
        for index, touched in enumerate(arena.overruns(slots)):
            checks[f"guard:{index}"] = touched
        return checks

    def honest(self, message: dict[str, Any]) -> dict[str, Any]:
        """What honest arithmetic makes of a slot's inputs."""
        draw = self.stage.drawn(message["arena"], message["slot"])
        found = honest(self.reference, draw.values, draw.outputs, self._on, draw.distribution)
        errors = {name: (one.norm, one.element) for name, one in found.errors.items()}
        return {"sound": found.is_sound and self._bears(message["dims"], draw), "errors": errors}

    def _bears(self, dims: dict[str, int], draw: Draw) -> bool:
        """Whether a draw asks hardly more of who stores half precision, or rounds another way, than
        own draws do."""
        if (kind := str(dims)) not in self._stored:
            own = self.reference.inputs(dims, USUAL_SEEDS[0])
            self._stored[kind] = stored_errors(self.reference, *own, self._on)
            self._shaken[kind] = shaken_errors(self.reference, *own, self._on)
        drawn = self.reference, draw.values, draw.outputs, self._on
        if not bears_storing(stored_errors(*drawn), self._stored[kind]):
            return False
        return bears_shaking(shaken_errors(*drawn), self._shaken[kind], draw.values, self._on)

    def strain(self, message: dict[str, Any]) -> dict[str, Any]:
        """How ill-conditioned a slot's inputs are; see `judge.correctness.conditioning.strain`."""
        draw = self.stage.drawn(message["arena"], message["slot"])

        def drawn(how: dict[str, Any]) -> tuple[Mapping[str, Any], set[str]]:
            other = Draw.new(self.reference, how, self._on)
            return other.values, other.outputs

        usual = self._usual.of(message["draw"], drawn, self.reference, self._on)
        found = strain(self.reference, draw.values, draw.outputs, usual, self._on)
        return {"strain": as_message(found)}

    def sums(self, message: dict[str, Any]) -> dict[str, Any]:
        """The norm-wise budget of a slot's output by `judge.correctness.long_sums`, if its sums
        explain what is beyond the usual one."""
        arena, name = self.stage.arenas[message["arena"]], message["output"]
        draw = self.stage.drawn(message["arena"], message["slot"])
        of = draw.values, draw.outputs, message["terms"]
        bounds = bounds_of_sums(self.reference, *of, self._on)
        if name not in bounds:
            return {"norm": None}
        index = [array.name for array in arena.layout.arrays].index(name)
        out = arena.view(message["slot"], index)
        truth = self.reference.expect(draw.values, draw.outputs, exact=True)[name]
        norm, element, atol, rtol, own_scale = message["budget"]
        budget = Budget(norm, element, Errors(0.0, 0.0), atol, rtol, own_scale=own_scale)
        off, _ = off_beyond(out, truth, budget)
        exact = self._on.double(truth)
        return {"norm": room_for_sums(out, exact, off, bounds[name], norm, self._on)}

    def room(self, message: dict[str, Any]) -> dict[str, Any]:
        """How far off a slot's output may be where rounding decides; see `gpu.rounding`."""
        arena, name = self.stage.arenas[message["arena"]], message["output"]
        draw = self.stage.drawn(message["arena"], message["slot"])
        index = [array.name for array in arena.layout.arrays].index(name)
        norm, element, atol, rtol, own_scale = message["budget"]
        budget = Budget(norm, element, Errors(0.0, 0.0), atol, rtol, own_scale=own_scale)
        wrong = Wrong(
            name, arena.view(message["slot"], index), draw.values, draw.outputs, budget,
            message["other"], message["jumps"],
            message["ordered"],
        )  # fmt: skip
        free, known = message["free"], self._decided
        return {"room": room_for_rounding(self.reference, wrong, free, known, self._on)}

    def explore(self, message: dict[str, Any]) -> dict[str, Any]:
        """See `judge.correctness.exploration.explore`."""
        return explore(self.reference, message["dims"], self._on)

    def figures(self, message: dict[str, Any]) -> dict[str, Any]:
        """See `judge.correctness.own_draws.figures`."""
        return figures(self.reference, message, self._on).model_dump()

    def diagnose(self, message: dict[str, Any]) -> dict[str, Any]:
        """What a wrong output of a slot is."""
        number, slot = message["arena"], message["slot"]
        stage, arena = self.stage, self.stage.arenas[number]
        index = next(
            i for i, array in enumerate(arena.layout.arrays) if array.name == message["output"]
        )
        before = message["before"]
        scene = Scene(
            name=message["output"],
            dtype=arena.layout.arrays[index].dtype,
            out=arena.view(slot, index),
            draw=stage.drawn(number, slot),
            slot=slot,
            previous=None if before is None else stage.drawn(number, before),
            memory=stage.memory(number),
        )
        errors = Errors(message["norm"], message["element"], message["problem"])
        found = told(scene, self.reference, self._on, errors, message["budget"])
        return {"reason": found.reason, "detail": found.detail}

    def attempt(self, message: dict[str, Any]) -> dict[str, Any]:
        """To explain an output of a slot that is within its budget; see `narrow_inputs`."""
        number, slot, asked = message["arena"], message["slot"], Question.from_message(message)
        arena, draw = self.stage.arenas[number], self.stage.drawn(number, slot)
        index = [array.name for array in arena.layout.arrays].index(asked.output)
        places = torch.from_numpy(asked.places)

        def picked(tensor: torch.Tensor) -> NDArray[Any]:
            return np.asarray(tensor.reshape(-1)[places.to(tensor.device)].cpu().numpy())

        def answer(values: dict[str, Any]) -> NDArray[Any]:
            return picked(self.reference.expect(values, draw.outputs, exact=True)[asked.output])

        def rounded(way: Way) -> NDArray[Any]:
            values = shortened(draw.values, way.bits, self._on, how=way.how, only=way.names)
            try:
                return answer(values)
            except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
                return np.full(asked.places.shape, np.nan)

        out, truth = picked(arena.view(slot, index)), answer(draw.values)
        tried = attempt(asked, out, truth, rounded)
        return {"attempt": tried and tried.as_message()}

    def export(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Inputs of one draw into shared host memory, for profilers."""
        specs = from_json(message["arrays"])
        host = Arena(specs, 1, fds[0])
        values, _ = self.reference.inputs(message["dims"], message["seed"])
        for spec in specs:
            value = values[spec.name]
            if isinstance(value, torch.Tensor):
                raw = raw_bytes(value).cpu().numpy()
                np.copyto(host.view(0, spec.name).reshape(-1).view(np.uint8), raw)
        host.close()
        return {}

    def steps(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """A message about steps of training: the reference that is here is lent to them."""
        if self._steps is None:
            self._steps = StepsServer(self.reference)
        return self._steps.answer(message["step"], fds)

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        operations = {
            "load": self.load, "describe": self.describe, "allocate": self.allocate,
            "free": self.free, "learn": self.learn, "verify": self.verify, "honest": self.honest,
            "strain": self.strain, "explore": self.explore, "diagnose": self.diagnose,
            "rest": self.rest, "probe": self.probe, "room": self.room, "attempt": self.attempt,
            "figures": self.figures, "sums": self.sums,
        }  # fmt: skip
        if (op := message["op"]) in operations:
            return operations[op](message)
        with_files = {"export": self.export, "steps": self.steps}
        return with_files.get(op, self.stage.answer)(message, fds)


def main() -> None:
    """Entry of the process."""
    serve(GpuServer())


if __name__ == "__main__":
    main()
