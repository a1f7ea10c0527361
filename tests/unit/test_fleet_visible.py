"""Which GPUs a process may use, how it is pinned to one, and who the others on it are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_fleet import (
    NOBODY_PID,
    SimulatedFleet,
    always,
    fake_uuid,
    idle_gpu,
    mig_instance,
    phases,
)

from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine.fleet import HostFleet
from roofsmith.machine.fleet_tools import merged, seen
from roofsmith.machine.fleet_visible import pinned_environment, visible
from roofsmith.testing.clock import FakeClock

FOUR = [idle_gpu(index) for index in range(4)]
MIXED = [*FOUR[:3], idle_gpu(3).model_copy(update={"name": "NVIDIA T400"})]
SLICED = [idle_gpu(0), mig_instance(1, 0), mig_instance(1, 1), idle_gpu(2)]
AMD = [
    idle_gpu(index).model_copy(
        update={"kind": "amd", "name": "AMD Instinct MI300X", "uuid": f"GPU-de8287300da37c7{index}"}
    )
    for index in range(4)
]


def indexes(gpus: Sequence[GpuStatus], **environment: str) -> list[int]:
    return [gpus.index(status) for status in visible(gpus, environment)]


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        ("0,2", [0, 2]), ("2,0", [0, 2]), (" 1 ", [1]), ("", []), ("-1", []), ("NoDevFiles", []),
        ("1,9,2", [1]), ("1,-1,2", [1]), ("1,,2", [1]), ("1,1", [1]), (fake_uuid(3), [3]),
        (fake_uuid(3).upper(), [3]), ("GPU-0000", []), (f"{fake_uuid(1)},0", [0, 1]),
        ("GPU-", []), ("GPU-ffff", []), ("MIG-0000", []),
    ],
)  # fmt: skip
def test_cuda_visible_devices(listed: str, left: list[int]) -> None:
    assert indexes(FOUR, CUDA_VISIBLE_DEVICES=listed) == left


def test_without_variables_everything_is_visible() -> None:
    assert indexes(FOUR) == indexes(AMD) == [0, 1, 2, 3]


def test_a_beginning_of_a_uuid_names_a_gpu_if_no_other_begins_so() -> None:
    other = idle_gpu(0).model_copy(update={"uuid": "GPU-abcd1234-0000-0000-0000-000000000000"})
    assert indexes([*FOUR, other], CUDA_VISIBLE_DEVICES="GPU-abcd") == [4]


def test_numbers_of_different_models_need_an_order_that_everybody_knows() -> None:
    with pytest.raises(MachineError, match="different models") as caught:
        indexes(MIXED, CUDA_VISIBLE_DEVICES="0")
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in str(caught.value)
    assert indexes(MIXED, CUDA_VISIBLE_DEVICES="3", CUDA_DEVICE_ORDER="PCI_BUS_ID") == [3]
    assert indexes(MIXED, CUDA_VISIBLE_DEVICES=fake_uuid(3)) == [3]


def test_mig_instances_are_named_one_by_one() -> None:
    assert indexes(SLICED) == [0, 1, 2, 3]
    assert indexes(SLICED, CUDA_VISIBLE_DEVICES=SLICED[2].uuid) == [2]
    # Of a GPU in MIG mode CUDA gives the first instance, by number and by UUID.
    assert indexes(SLICED, CUDA_VISIBLE_DEVICES="1") == [1]
    assert indexes(SLICED, CUDA_VISIBLE_DEVICES=fake_uuid(1)) == [1]
    assert indexes(SLICED, CUDA_VISIBLE_DEVICES="2") == [3]


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        ("all", [0, 1, 2, 3]), ("", [0, 1, 2, 3]), ("void", [0, 1, 2, 3]), ("none", []),
        (fake_uuid(2), [2]), ("0,3", [0, 3]), (f"{fake_uuid(1)},3", [1, 3]),
        # The runtime has hidden the others already: the numbers are the host's.
        ("4,5,6,7", [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_nvidia_visible_devices(listed: str, left: list[int]) -> None:
    assert indexes(FOUR, NVIDIA_VISIBLE_DEVICES=listed) == left


def test_nvidia_visible_devices_names_instances_too() -> None:
    assert indexes(SLICED, NVIDIA_VISIBLE_DEVICES="1:1") == [2]
    assert indexes(SLICED, NVIDIA_VISIBLE_DEVICES="0,1:0") == [0, 1]
    assert indexes(SLICED, NVIDIA_VISIBLE_DEVICES=fake_uuid(1)) == [1, 2]


def test_all_variables_hold_at_once() -> None:
    both = {"NVIDIA_VISIBLE_DEVICES": f"{fake_uuid(1)},{fake_uuid(2)}"}
    assert indexes(FOUR, **both, CUDA_VISIBLE_DEVICES="0") == [1]
    assert indexes(AMD, ROCR_VISIBLE_DEVICES="1,3", HIP_VISIBLE_DEVICES="1") == [3]


@pytest.mark.parametrize(
    ("environment", "left"),
    [
        ({"HIP_VISIBLE_DEVICES": "0,2"}, [0, 2]), ({"CUDA_VISIBLE_DEVICES": "3"}, [3]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "3"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": AMD[2].uuid}, [2]), ({"GPU_DEVICE_ORDINAL": "0"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": f"{AMD[3].uuid},0", "HIP_VISIBLE_DEVICES": "0"}, [3]),
        ({"HIP_VISIBLE_DEVICES": ""}, []), ({"NVIDIA_VISIBLE_DEVICES": "none"}, [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_amd_has_lists_of_its_own(environment: dict[str, str], left: list[int]) -> None:
    assert indexes(AMD, **environment) == left


def test_numbers_of_different_amd_models_are_refused() -> None:
    mixed = [*AMD[:3], AMD[3].model_copy(update={"name": "AMD Radeon 610M"})]
    with pytest.raises(MachineError, match="HIP_VISIBLE_DEVICES gives numbers"):
        indexes(mixed, HIP_VISIBLE_DEVICES="0")
    assert indexes(mixed, ROCR_VISIBLE_DEVICES=AMD[0].uuid, HIP_VISIBLE_DEVICES="0") == [0]


def test_a_process_is_pinned_by_uuid() -> None:
    assert pinned_environment(FOUR[2]) == {"CUDA_VISIBLE_DEVICES": fake_uuid(2)}
    assert pinned_environment(SLICED[2]) == {"CUDA_VISIBLE_DEVICES": SLICED[2].uuid}
    assert pinned_environment(AMD[2]) == {
        "ROCR_VISIBLE_DEVICES": AMD[2].uuid,
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    unnamed = AMD[2].model_copy(update={"uuid": "PCI-0000:c1:00.0"})
    assert pinned_environment(unnamed) == {"HIP_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "2"}


@given(st.sampled_from([FOUR, SLICED, MIXED, AMD]), st.data())
def test_what_a_process_is_pinned_to_is_all_that_it_sees(
    gpus: list[GpuStatus], data: st.DataObject
) -> None:
    one = data.draw(st.sampled_from(gpus))
    assert visible(gpus, pinned_environment(one)) == (one,)


@given(
    st.dictionaries(
        st.sampled_from(
            ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
             "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]
        ),
        st.text("GPUMIG-0123,: ﬁ²", max_size=12),
    )
)  # fmt: skip
def test_any_value_is_survived_and_shows_nothing_new(environment: dict[str, str]) -> None:
    for gpus in (FOUR, SLICED, AMD):
        assert set(visible(gpus, environment)) <= set(gpus)


def broken() -> tuple[GpuStatus, ...]:
    raise MachineError("broken", hint="mend it")


def test_without_any_gpu_the_error_names_the_cause_and_what_to_do() -> None:
    host = HostFleet("amd", {}, source=broken)
    with pytest.raises(MachineError, match="no AMD GPU can be seen here: broken") as caught:
        host.gpus()
    assert caught.value.hint == "mend it"


def test_gpus_that_are_all_hidden_are_an_error_that_says_by_what() -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HOME": "/"}
    host = HostFleet("nvidia", hidden, source=SimulatedFleet([always(gpu) for gpu in FOUR]))
    with pytest.raises(MachineError, match="of the 4 GPUs here none may be used: CUDA_VISIBLE_DEV"):
        host.gpus()


def test_a_gpu_that_vanishes_leaves_the_others() -> None:
    clock = FakeClock()
    lives = [phases((0.0, FOUR[0]), (5.0, None)), always(FOUR[1])]
    host = HostFleet("nvidia", {}, source=SimulatedFleet(lives, clock))
    assert len(host.gpus()) == 2
    clock.advance(5.0)
    assert [status.index for status in host.gpus()] == [1]


def test_a_process_is_named_by_its_program_and_never_by_its_arguments() -> None:
    secret = "--token=hunter2"
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True);input()", secret],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as child:  # fmt: skip
        child.stdout.readline()
        found = seen(child.pid, name="driver's")
        child.communicate(b"\n")
    assert found.name == sys.executable[:80]
    assert found.user
    nobody = seen(NOBODY_PID, name="driver's", memory_bytes=5)
    assert nobody == GpuProcess(pid=NOBODY_PID, name="driver's", memory_bytes=5)


def test_a_process_that_computes_and_draws_is_listed_once() -> None:
    computes = GpuProcess(pid=2, memory_bytes=5)
    draws = GpuProcess(pid=2, memory_bytes=3, drawing=True)
    first = GpuProcess(pid=1)
    assert merged([computes, draws, first]) == (first, computes)
    assert merged([draws, computes])[0].drawing is False
