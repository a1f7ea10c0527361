"""A fleet of GPUs whose lives are written beforehand, and what every `Fleet` must do.

A life says what a GPU is at each second of a fake clock; the fleet reads them like a driver. The
suite is a plain class: subclass it in a test module and define the fixture that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from roofsmith.domain.fleet import MIB, Fleet, GatePolicy, GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine.idle import busy_reasons, leaves_unknown
from roofsmith.ports import Clock
from roofsmith.testing.clock import FakeClock

GIB = 1024 * MIB
TOTAL_BYTES = 80 * GIB

Life = Callable[[float], GpuStatus | None]
"""What a GPU is at a time, in seconds; None while it isn't there."""


def fake_uuid(index: int) -> str:
    """`GPU-00000000-0000-0000-0000-00000000000N`."""
    return f"GPU-00000000-0000-0000-0000-{index:012x}"


def idle_gpu(index: int = 0, *, used_bytes: int = 0, temperature_c: float = 38.0) -> GpuStatus:
    """A GPU of 80 GiB on which nothing runs."""
    return GpuStatus(
        uuid=fake_uuid(index),
        index=index,
        name="NVIDIA H100 80GB HBM3",
        kind="nvidia",
        utilisation=0.0,
        memory_used_bytes=used_bytes,
        memory_total_bytes=TOTAL_BYTES,
        temperature_c=temperature_c,
        compute_mode="Default",
        at_s=0.0,
    )


def busy_gpu(
    index: int = 0, *, pid: int = 4242, user: str = "alice", name: str = "python3 train.py"
) -> GpuStatus:
    """The same GPU, three quarters of it taken by somebody's process."""
    held = 60 * GIB
    process = GpuProcess(pid=pid, name=name, user=user, memory_bytes=held)
    return idle_gpu(index, used_bytes=held, temperature_c=64.0).model_copy(
        update={"utilisation": 0.97, "processes": (process,)}
    )


def hidden_gpu(index: int = 0) -> GpuStatus:
    """Taken by a process that the driver doesn't list, as from within a container."""
    return busy_gpu(index).model_copy(update={"utilisation": 0.0, "processes": ()})


def mute_gpu(index: int = 0) -> GpuStatus:
    """A GPU whose driver tells nothing but its name."""
    return GpuStatus(
        uuid=fake_uuid(index),
        index=index,
        name="NVIDIA H100 80GB HBM3",
        kind="nvidia",
        unread=("processes", "throttle_reasons"),
        at_s=0.0,
    )


def mig_instance(parent: int = 0, place: int = 0) -> GpuStatus:
    """An idle slice of an eighth: no driver tells a slice's utilisation."""
    return idle_gpu(parent).model_copy(
        update={
            "uuid": f"MIG-00000000-0000-0000-{parent:04x}-{place:012x}",
            "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "parent_uuid": fake_uuid(parent),
            "utilisation": None,
            "memory_used_bytes": 12 * MIB,
            "memory_total_bytes": TOTAL_BYTES // 8,
        }
    )


def always(status: GpuStatus | None) -> Life:
    """Never changes."""
    return lambda _: status


def phases(*changes: tuple[float, GpuStatus | None]) -> Life:
    """Takes each status at its time, in seconds and in order; the first one also before."""

    def life(at_s: float) -> GpuStatus | None:
        begun = [status for since_s, status in changes if since_s <= at_s]
        return begun[-1] if begun else changes[0][1]

    return life


def flapping(first: GpuStatus | None, second: GpuStatus | None, period_s: float) -> Life:
    """Turns from the one to the other and back every `period_s`."""
    return lambda at_s: (first, second)[int(at_s / period_s) % 2]


@dataclass(frozen=True, slots=True)
class Outage:
    """No driver answers between two times; each question takes `hangs_s` to fail."""

    since_s: float
    until_s: float
    hangs_s: float = 0.0


@dataclass(slots=True)
class SimulatedFleet:
    """A `Fleet` over lives and a fake clock."""

    lives: Sequence[Life]
    clock: Clock = field(default_factory=FakeClock)
    outages: Sequence[Outage] = ()

    def __call__(self) -> tuple[GpuStatus, ...]:
        """Everyone that is there now."""
        now_s = self.clock.monotonic()
        for outage in self.outages:
            if outage.since_s <= now_s < outage.until_s:
                if isinstance(self.clock, FakeClock):
                    self.clock.advance(outage.hangs_s)
                raise MachineError("no GPU driver answers here", hint="is this a test?")
        there = [status for life in self.lives if (status := life(now_s)) is not None]
        return tuple(
            status.model_copy(update={"at_s": now_s})
            for status in sorted(there, key=lambda status: status.index)
        )


NOBODY_PID = 4_194_401
"""No process has it: Linux counts to 2^22 at most."""
HAND = GatePolicy(samples=1, window_s=0.0)
"""One reading decides."""


class FleetLab(Protocol):
    """Makes sources of machines that are as a test wants them."""

    sliced: bool
    """Whether it can be given MIG instances."""
    owners: bool
    """Whether its driver tells which of several GPUs a process uses."""
    throttling: bool
    """Whether its driver tells why clocks are held down."""

    def of(self, *gpus: GpuStatus) -> Fleet:
        """A machine with these GPUs; what is None or `unread` in them, its driver doesn't tell."""
        ...

    def broken(self, how: Literal["silent", "garbage", "hangs"]) -> Fleet:
        """A machine whose driver isn't there, answers nonsense, or never answers."""
        ...


class FleetSuite:
    """What the gate relies on. Subclass it with a fixture `lab` that gives a `FleetLab`."""

    def test_an_idle_gpu_is_read_whole(self, lab: FleetLab) -> None:
        """Every field arrives as it is, and nothing speaks against the GPU."""
        (status,) = lab.of(idle_gpu(used_bytes=5 * MIB))()
        assert (status.index, status.utilisation, status.temperature_c) == (0, 0.0, 38.0)
        assert status.memory_used_bytes == 5 * MIB
        assert status.memory_total_bytes == TOTAL_BYTES
        assert (status.processes, status.parent_uuid) == ((), None)
        assert status.unread == (() if lab.throttling else ("throttle_reasons",))
        assert busy_reasons((status,), HAND, ()) == ()

    def test_a_busy_gpu_names_who_works_on_it(self, lab: FleetLab) -> None:
        """The process is listed with what it holds, and is ours only if we say so."""
        (status,) = lab.of(busy_gpu(pid=NOBODY_PID))()
        (process,) = status.processes
        assert (process.pid, process.memory_bytes) == (NOBODY_PID, 60 * GIB)
        assert status.utilisation is not None
        assert abs(status.utilisation - 0.97) < 1e-9
        assert any(f"pid {NOBODY_PID}" in said for said in busy_reasons((status,), HAND, ()))
        resting = status.model_copy(update={"utilisation": 0.0})
        assert busy_reasons((resting,), HAND, {NOBODY_PID}) == ()

    def test_of_eight_gpus_the_idle_one_is_found(self, lab: FleetLab) -> None:
        """They are told apart by UUID and listed by index."""
        gpus = [busy_gpu(index, pid=NOBODY_PID + index) for index in range(8)]
        gpus[5] = idle_gpu(5)
        source = lab.of(*gpus)
        found = source()
        assert [status.index for status in found] == list(range(8))
        assert len({status.uuid for status in found}) == 8
        windows = {status.uuid: (status,) for status in found}
        free = [uuid for uuid, window in windows.items() if not busy_reasons(window, HAND, ())]
        assert free == ([found[5].uuid] if lab.owners else [])

    def test_memory_that_nobody_accounts_for_is_somebodys(self, lab: FleetLab) -> None:
        """A process of another container is not listed, but its memory is in use."""
        (status,) = lab.of(hidden_gpu())()
        assert status.processes == ()
        assert any(
            "no process that is listed" in said for said in busy_reasons((status,), HAND, ())
        )

    def test_what_is_not_told_is_not_idle(self, lab: FleetLab) -> None:
        """One field after the other goes missing: each time the GPU stops being idle."""
        for name in ("utilisation", "memory_used_bytes", "memory_total_bytes", "temperature_c"):
            (status,) = lab.of(idle_gpu().model_copy(update={name: None}))()
            assert getattr(status, name) is None, name
            assert busy_reasons((status,), HAND, ()), name
        (status,) = lab.of(idle_gpu().model_copy(update={"unread": ("processes",)}))()
        assert "processes" in status.unread
        assert busy_reasons((status,), HAND, ())

    def test_clocks_that_nobody_tells_of_keep_gpus_busy_but_for_amd_s(self, lab: FleetLab) -> None:
        """Several of AMD's tools never do; those who get such a GPU are told."""
        (status,) = lab.of(idle_gpu().model_copy(update={"unread": ("throttle_reasons",)}))()
        assert status.unread == ("throttle_reasons",)
        assert leaves_unknown(status)
        assert bool(busy_reasons((status,), HAND, ())) is (status.kind == "nvidia")

    def test_heat_is_seen(self, lab: FleetLab) -> None:
        """A GPU that is hot, or held back by heat, is not ready to be measured on."""
        (hot,) = lab.of(idle_gpu(temperature_c=91.0))()
        assert any("91 °C" in said for said in busy_reasons((hot,), HAND, ()))
        if lab.throttling:
            held = idle_gpu().model_copy(update={"throttle_reasons": ("hw_thermal_slowdown",)})
            (status,) = lab.of(held)()
            assert status.throttle_reasons == ("hw_thermal_slowdown",)
            assert busy_reasons((status,), HAND, ())

    def test_programs_that_only_draw_are_no_work(self, lab: FleetLab) -> None:
        """A small display server may stay."""
        drawing = GpuProcess(
            pid=NOBODY_PID, name="/usr/lib/xorg/Xorg", memory_bytes=300 * MIB, drawing=True
        )
        desktop = idle_gpu(used_bytes=310 * MIB).model_copy(update={"processes": (drawing,)})
        (status,) = lab.of(desktop)()
        assert [process.pid for process in status.processes] == [NOBODY_PID]
        assert busy_reasons((status,), HAND, ()) == ()

    def test_mig_instances_stand_in_for_their_gpu(self, lab: FleetLab) -> None:
        """Each has a UUID, memory and processes of its own; heat is the whole GPU's."""
        if not lab.sliced:
            return
        slices = [mig_instance(1, place) for place in range(3)]
        worker = GpuProcess(pid=NOBODY_PID, name="python3", memory_bytes=2 * GIB)
        slices[1] = slices[1].model_copy(
            update={"processes": (worker,), "memory_used_bytes": 2 * GIB + 12 * MIB}
        )
        found = lab.of(idle_gpu(0), *slices)()
        assert [status.uuid for status in found] == [fake_uuid(0), *(one.uuid for one in slices)]
        assert [status.parent_uuid for status in found] == [None, *[fake_uuid(1)] * 3]
        assert all("MIG" in status.name for status in found[1:])
        busy = [bool(busy_reasons((status,), HAND, ())) for status in found]
        assert busy == [False, False, True, False]
        assert found[2].temperature_c == 38.0

    def test_a_driver_that_fails_is_no_gpu(self, lab: FleetLab) -> None:
        """Not there, nonsense, or no answer: an error for people, or at least nothing idle."""
        ways: tuple[Literal["silent", "garbage", "hangs"], ...] = ("silent", "garbage", "hangs")
        for how in ways:
            found, said = _answer(lab.broken(how))
            assert said is not None or how == "garbage", how
            assert said is None or said.hint
            assert all(busy_reasons((status,), HAND, ()) for status in found)


def _answer(source: Fleet) -> tuple[tuple[GpuStatus, ...], MachineError | None]:
    try:
        return source(), None
    except MachineError as error:
        return (), error
