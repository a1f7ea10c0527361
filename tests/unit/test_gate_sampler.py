"""What comes and goes while something is measured that reads no sensors itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from simulated_fleet import busy_gpu, fake_uuid, idle_gpu, mig_instance
from simulated_host import OWN_PID, POLICY, Host

from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.domain.health import Health
from roofsmith.domain.profile import Profile
from roofsmith.errors import BadReferenceError, MachineError
from roofsmith.evaluator.guard import Guard
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.idle import SAMPLE_S, pause_s, sampled

OFTEN_S = 0.001
LONG_S = 60.0
TRAIN = "pid 4242 (alice): python3 train.py, 60.0 GiB"


@dataclass
class Sensors:
    """Answer with what a test says."""

    health: Health | None = None
    asked: int = 0

    def __call__(self, uuid: str) -> Health | None:
        self.asked += 1
        return self.health


@dataclass
class Bench:
    """A GPU whose state a test changes while it is measured on."""

    status: GpuStatus | None = field(default_factory=idle_gpu)
    sensors: Sensors | None = None
    fails: bool = False
    runs: int = 0
    looks: int = 0
    """By the sampler."""

    def __post_init__(self) -> None:
        parts = replace(Host([self._now]).parts(), sensors=self.sensors)
        self.gate = GpuGate(parts, fake_uuid(0), sample_s=OFTEN_S)
        self._seen = threading.Condition()

    def look_passes(self, times: int = 2) -> None:
        """Wait until the sampler has looked: one look may have begun before a change."""
        with self._seen:
            enough = self.looks + times
            assert self._seen.wait_for(lambda: self.looks >= enough, LONG_S)

    def measure(self, meanwhile: Callable[[], None]) -> Callable[[], int]:
        """A measurement, during the first run of which something happens."""

        def measure() -> int:
            self.runs += 1
            if self.runs == 1:
                meanwhile()
            return self.runs

        return measure

    def _now(self, at_s: float) -> GpuStatus | None:
        if threading.current_thread() is threading.main_thread():
            return self.status
        with self._seen:
            self.looks += 1
            self._seen.notify_all()
        if self.fails:
            raise MachineError("the driver stumbles")
        return self.status


def held_down(status: GpuStatus) -> GpuStatus:
    return status.model_copy(update={"throttle_reasons": ("hw_slowdown",)})


SLICE = mig_instance(0, 0)
LISTLESS = Health(uuid=fake_uuid(0), at_s=0, unread=("processes",))


@pytest.mark.parametrize(
    ("quiet", "visited", "sensed", "said"),
    [
        (idle_gpu(), busy_gpu(), None, TRAIN),
        (idle_gpu(), held_down(idle_gpu()), None, "its clocks are held down: hw_slowdown"),
        (idle_gpu(), busy_gpu(), LISTLESS, TRAIN),
        # Sensors of an instance don't know what the whole GPU's clocks do.
        (SLICE, held_down(SLICE), Health(uuid=SLICE.uuid, at_s=0),
         "its clocks are held down: hw_slowdown"),
    ],
    ids=["neighbour", "throttle", "sensors that tell a part", "instance"],
)  # fmt: skip
def test_what_came_and_went_is_seen_and_it_is_measured_again(
    quiet: GpuStatus, visited: GpuStatus, sensed: Health | None, said: str
) -> None:
    here = Bench(quiet, sensors=None if sensed is None else Sensors(sensed))
    here.gate.uuid = quiet.uuid

    def visit() -> None:
        if sensed is not None:
            here.gate.hear(sensed)
        here.status = visited
        here.look_passes()
        here.status = quiet

    seen = here.gate.watch(here.measure(visit))
    assert (seen.result, seen.disturbances, seen.void) == (2, (said,), False)


def test_a_profile_beside_somebody_who_left_before_its_end_says_so() -> None:
    here = Bench()

    def look() -> Profile:
        here.status = busy_gpu()
        here.look_passes()
        here.status = idle_gpu()
        here.runs += 1
        return Profile.model_construct(notes=("counted",))

    profile = Guard(here.gate).profiled(look)
    assert profile.notes == ("counted", f"others were on the GPU: {TRAIN}")
    assert here.runs == POLICY.tries


def test_our_own_work_disturbs_nobody() -> None:
    here = Bench()
    ours = (GpuProcess(pid=OWN_PID, name="python3"),)

    def work() -> None:
        here.status = idle_gpu().model_copy(update={"processes": ours, "utilisation": 1.0})
        here.look_passes()

    assert here.gate.watch(here.measure(work)).disturbances == ()
    assert here.runs == 1


def test_sensors_are_asked_instead_where_there_are_any() -> None:
    sensors = Sensors(Health(uuid=fake_uuid(0), at_s=0, throttle_reasons=("hw_power_brake",)))
    here = Bench(sensors=sensors)

    def wait() -> None:
        while sensors.asked < 2:
            threading.Event().wait(OFTEN_S)

    seen = here.gate.watch(here.measure(wait))
    assert seen.disturbances[0] == "its clocks are held down: hw_power_brake"
    assert here.looks == 0


def test_sensors_that_do_not_answer_leave_it_to_the_fleet() -> None:
    here = Bench(sensors=Sensors(None))
    assert not here.gate.watch(here.measure(here.look_passes)).disturbances
    assert here.looks


def test_no_look_is_needed_while_sensors_are_read_anyway() -> None:
    here = Bench()

    def listen() -> None:
        thread = threading.Thread(target=here.gate._listen)
        thread.start()
        thread.join()

    here.gate.hear(Health(uuid=fake_uuid(0), at_s=0))
    here.gate.sample_s = LONG_S
    listen()
    assert here.looks == 0
    here.gate.sample_s = 0.0
    listen()
    assert here.looks == 1


def test_a_driver_that_stumbles_meanwhile_is_no_disturbance() -> None:
    here = Bench(fails=True)
    seen = here.gate.watch(here.measure(here.look_passes))
    assert (seen.result, seen.disturbances) == (1, ())


def test_looks_end_with_the_measurement_however_it_ends() -> None:
    here = Bench()

    def fail() -> None:
        here.look_passes()
        raise BadReferenceError("the reference is wrong")

    with pytest.raises(BadReferenceError):
        here.gate.watch(here.measure(fail))
    assert not [thread for thread in threading.enumerate() if thread.name == "gate"]


def test_a_look_that_takes_long_is_a_rare_one() -> None:
    assert pause_s(0.002) == SAMPLE_S
    assert pause_s(2.0) == pytest.approx(38.0)
    with sampled(lambda: pytest.fail("nothing takes that long here"), LONG_S):
        pass
