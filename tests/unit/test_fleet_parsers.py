"""What drivers' tools print, recorded and mutilated: never an exception, never idle by mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fleet_stand_ins import (
    amd_smi_answers,
    nvidia_apps,
    nvidia_csv,
    nvidia_list,
    nvidia_xml,
    rocm_smi_answers,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.analysis.idle import busy_reasons
from roofsmith.devices.fleet_amd import parse_amd_smi, parse_rocm_smi, uuid_of
from roofsmith.devices.fleet_nvidia_smi import parse_csv, parse_list, parse_xml
from roofsmith.devices.fleet_tools import celsius, share, size_bytes, words
from roofsmith.domain.fleet import MIB, GatePolicy, GpuStatus
from roofsmith.testing.fleet import GIB, NOBODY_PID, busy_gpu, idle_gpu, mig_instance

GOLDEN = Path(__file__).parent.parent / "golden" / "gpu"
IDLE_APPS = GOLDEN / "nvidia_smi_query_compute_apps_idle.csv"
POLICY = GatePolicy(samples=1, window_s=0.0)
BUSY = busy_gpu(pid=NOBODY_PID)
UUID = "GPU-00000000-0000-0000-0000-000000000001"
Parsed = tuple[GpuStatus, ...]


def idle(found: Parsed) -> list[str]:
    return [status.uuid for status in found if not busy_reasons((status,), POLICY, ())]


def test_the_recorded_h100_is_idle() -> None:
    (status,) = parse_xml((GOLDEN / "nvidia_smi_q_h100.xml").read_text(), 1.0)
    assert (status.uuid, status.name) == (UUID, "NVIDIA H100 80GB HBM3")
    assert (status.utilisation, status.temperature_c, status.compute_mode) == (0.0, 38.0, "Default")
    assert (status.memory_used_bytes, status.memory_total_bytes) == (0, 81559 * MIB)
    assert (status.processes, status.throttle_reasons, status.unread) == ((), (), ())
    assert idle((status,)) == [UUID]


def test_the_recorded_table_lacks_throttling_and_is_therefore_not_idle() -> None:
    table = (GOLDEN / "nvidia_smi_query_gpu_h100.csv").read_text()
    (status,) = parse_csv(table, IDLE_APPS.read_text(), 1.0)
    assert (status.utilisation, status.temperature_c, status.memory_used_bytes) == (0.0, 38.0, 0)
    assert status.unread == ("throttle_reasons",)
    assert idle((status,)) == []


def test_a_recorded_list_of_no_processes_has_its_columns_in_another_order_than_ours() -> None:
    """And one that lists some is read by these columns."""
    table = nvidia_csv([idle_gpu(), idle_gpu(1)])
    first, second = parse_csv(table, IDLE_APPS.read_text(), 1.0)
    assert (first.processes, first.unread, second.processes) == ((), (), ())
    assert idle((first, second)) == [first.uuid, second.uuid]
    line = f"4242, /usr/bin/python3, 2048 MiB, {second.uuid}\n"
    first, second = parse_csv(table, IDLE_APPS.read_text() + line, 1.0)
    (process,) = second.processes
    assert (process.pid, process.name, process.memory_bytes) == (
        4242, "/usr/bin/python3", 2048 * MIB,
    )  # fmt: skip
    assert idle((first, second)) == [first.uuid]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("0", 0.0), ("0 %", 0.0), ("0.0", 0.0), ("37 %", 0.37), ("37.5%", 0.375), (100, 1.0),
        ({"value": 40, "unit": "%"}, 0.4), ("N/A", None), ("[N/A]", None), ("", None),
        (None, None), ("-1", None), ("101 %", None), ("0 C", None), (True, None), ("1e2", None),
        ({"value": "N/A", "unit": "%"}, None), ("nan", None), (float("inf"), None), ([0], None),
    ],
)  # fmt: skip
def test_utilisation_is_a_share_whatever_the_tool_prints(said: object, meant: float | None) -> None:
    assert share(said) == meant


def test_other_quantities() -> None:
    assert celsius("38 C") == celsius("38.0") == celsius({"value": 38, "unit": "C"}) == 38.0
    assert celsius("-273") is celsius("65535") is celsius("38 %") is celsius("N/A") is None
    assert size_bytes("283 MiB") == size_bytes(283, "MB") == 283 * MIB
    assert size_bytes("4096") == 4096
    assert size_bytes("12 parsecs") is size_bytes("-4") is size_bytes("[N/A]") is None
    assert words("[Not Found]") is words("N/A") is words(b"  ") is words(7) is None
    assert words(b"/usr/bin/python3\xff") == "/usr/bin/python3\ufffd"


def test_mig_instances_are_matched_with_their_uuids() -> None:
    slices = [mig_instance(1, place) for place in range(2)]
    gpus = [idle_gpu(0), *slices]
    listed = parse_list(nvidia_list(gpus))
    assert {key: one.uuid for key, one in listed.items()} == {
        (slices[0].parent_uuid, place): one.uuid for place, one in enumerate(slices)
    }
    assert [one.uuid for one in parse_xml(nvidia_xml(gpus), 0.0, lambda: listed)] == [
        one.uuid for one in gpus
    ]
    # Without UUIDs there is nothing to pin to.
    assert [one.uuid for one in parse_xml(nvidia_xml(gpus), 0.0)] == [gpus[0].uuid]
    # CSV tells nothing of instances but that they are there.
    table = parse_csv(nvidia_csv(gpus), nvidia_apps(gpus), 0.0, lambda: listed)
    assert [one.uuid for one in table] == [one.uuid for one in gpus]
    assert idle(table) == [gpus[0].uuid]


def test_amd_gpus_are_numbered_as_hip_does() -> None:
    gpus = [idle_gpu(3), idle_gpu(1)]
    answers = amd_smi_answers(gpus, wrapped=True)
    found = parse_amd_smi(
        answers["list -e"], answers["metric"], answers["process"], answers["static"], 0.0
    )
    assert [status.index for status in found] == [1, 3]
    assert all(status.uuid.startswith("GPU-de8287300da37c") for status in found)


@pytest.mark.parametrize(
    ("said", "place", "uuid"),
    [
        ("GPU-de8287300da37c72", None, "GPU-de8287300da37c72"),
        ("0x4edfb117a17a07d", None, "GPU-04edfb117a17a07d"),
        ("0x0", "0000:C1:00.0", "PCI-0000:c1:00.0"),
        ("N/A", "0000:C1:00.0", "PCI-0000:c1:00.0"),
        ("GPU-XX", None, "PCI-7"),
        (None, None, "PCI-7"),
    ],
)
def test_an_amd_uuid_is_what_rocr_takes(said: object, place: object, uuid: str) -> None:
    assert uuid_of(said, place, 7) == uuid


def test_amd_processes_that_cannot_be_read_are_not_nobody() -> None:
    answers = amd_smi_answers([idle_gpu()], wrapped=True)
    for listed in (
        "N/A",
        [{"process_info": "something new"}],
        [{"process_info": {"pid": "?"}}],
        None,
    ):
        said = json.dumps([{"gpu": 0, "process_list": listed}])
        (status,) = parse_amd_smi(
            answers["list -e"], answers["metric"], said, answers["static"], 0.0
        )
        assert status.unread == ("processes",)


def answers_of(tool: str, gpu: GpuStatus) -> list[str]:
    """All that a tool prints of a machine with this GPU."""
    amd, rocm = amd_smi_answers([gpu], wrapped=True), rocm_smi_answers([gpu])
    return {
        "xml": [nvidia_xml([gpu])],
        "csv": [nvidia_csv([gpu]), nvidia_apps([gpu])],
        "amd-smi": [amd["list -e"], amd["metric"], amd["process"], amd["static"]],
        "rocm-smi": [rocm["--showuse"], rocm["--showpids"]],
    }[tool]


TOOLS: dict[str, Callable[[list[str]], Parsed]] = {
    "xml": lambda said: parse_xml(said[0], 0.0),
    "csv": lambda said: parse_csv(said[0], said[1], 0.0),
    "amd-smi": lambda said: parse_amd_smi(said[0], said[1], said[2], said[3], 0.0),
    "rocm-smi": lambda said: parse_rocm_smi(said[0], said[1], 0.0),
}
LEAVES = {
    "xml": r">([^<>]*)<",
    "csv": r"(?:^|, )([^,\n]*)",
    "amd-smi": r'(?<=: )("[^"]*"|[\d.]+)',
    "rocm-smi": r'(?<=: )("[^"]*"|[\d.]+)',
}
"""Where each tool writes a value."""
SMALL = BUSY.processes[0].model_copy(update={"memory_bytes": 4 * MIB})
CAUSES = {
    "utilisation": {"utilisation": 0.9},
    "memory": {"memory_used_bytes": 30 * GIB},
    "heat": {"temperature_c": 95.0},
    "process": {"processes": (SMALL,), "memory_used_bytes": 4 * MIB},
}


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("junk", ["N/A", "?", "", "[Unknown Error]", "\x7f", "-", "1e999"])
def test_a_gpu_busy_in_one_way_stays_busy_whichever_value_is_lost(
    tool: str, cause: str, junk: str
) -> None:
    texts = answers_of(tool, idle_gpu().model_copy(update=CAUSES[cause]))
    assert idle(TOOLS[tool](texts)) == []
    assert len(idle(TOOLS[tool](answers_of(tool, idle_gpu())))) == 1
    for which, text in enumerate(texts):
        for match in re.finditer(LEAVES[tool], text, re.MULTILINE):
            put = f'"{junk}"' if match[1].startswith('"') or "smi" in tool else junk
            said = [*texts]
            said[which] = text[: match.start(1)] + put + text[match.end(1) :]
            assert idle(TOOLS[tool](said)) == [], said[which]


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_mutilated_answer_never_makes_a_busy_gpu_idle(tool: str, data: st.DataObject) -> None:
    """Cut anywhere, with anything put in: what is lost leaves the other reasons."""
    texts = answers_of(tool, BUSY.model_copy(update={"temperature_c": 90.0}))
    which = data.draw(st.integers(0, len(texts) - 1))
    text = texts[which]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    put = data.draw(
        st.sampled_from(["", "N/A", "[N/A]", "0", "\x00", "<", '"', ",", "\n", "{}", "null"])
    )
    said = [*texts]
    said[which] = text[:start] + put + text[end:]
    assert idle(TOOLS[tool](said)) == []


@pytest.mark.parametrize("tool", TOOLS)
@given(text=st.text(max_size=300), data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_text_in_place_of_an_answer_is_survived(
    tool: str, text: str, data: st.DataObject
) -> None:
    texts = answers_of(tool, BUSY)
    said = [*texts]
    said[data.draw(st.integers(0, len(texts) - 1))] = text
    assert idle(TOOLS[tool](said)) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(value=json_values, data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_value_in_amds_json_is_survived_and_only_numbers_are_believed(
    value: object, data: st.DataObject
) -> None:
    """An idle GPU, but for one field that holds anything: if that can't be read, it isn't idle."""
    answers = amd_smi_answers([idle_gpu(used_bytes=283 * MIB)], wrapped=False)
    said = json.loads(answers["metric"])
    block, field = data.draw(
        st.sampled_from(
            [("usage", "gfx_activity"), ("mem_usage", "used_vram"), ("temperature", "hotspot")]
        )
    )
    said[0][block][field] = value
    found = parse_amd_smi(
        answers["list -e"], json.dumps(said), answers["process"], answers["static"], 0.0
    )
    (status,) = found
    believed = {
        "gfx_activity": status.utilisation,
        "used_vram": status.memory_used_bytes,
        "hotspot": status.temperature_c,
    }[field]
    if believed is None:
        assert idle(found) == []
    else:
        assert isinstance(value, int | float | str | dict)


def test_a_process_of_the_driver_that_is_nobody_here_keeps_its_name() -> None:
    (status,) = parse_xml(nvidia_xml([BUSY]), 0.0)
    (process,) = status.processes
    assert (process.name, process.user, process.memory_bytes) == (
        "python3 train.py",
        None,
        60 * GIB,
    )
