"""What drivers' tools print, recorded and mutilated: never an exception, never idle by mistake."""

from __future__ import annotations

import re

import pytest
from fleet_stand_ins import rocm_smi_answers
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_fleet import GIB, NOBODY_PID, busy_gpu, idle_gpu

from roofsmith.domain.fleet import MIB, GatePolicy, GpuStatus
from roofsmith.machine.fleet_tools import amd_uuid, celsius, share, size_bytes, words
from roofsmith.machine.idle import busy_reasons
from roofsmith.machine.rocm_smi import parse_rocm_smi

POLICY = GatePolicy(samples=1, window_s=0.0)
BUSY = busy_gpu(pid=NOBODY_PID)
Parsed = tuple[GpuStatus, ...]


def idle(found: Parsed) -> list[str]:
    return [status.uuid for status in found if not busy_reasons((status,), POLICY, ())]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("0", 0.0), ("0 %", 0.0), ("0.0", 0.0), ("37 %", 0.37), ("37.5%", 0.375), (100, 1.0),
        ("N/A", None), ("[N/A]", None), ("", None), (None, None), ("-1", None), ("101 %", None),
        ("0 C", None), (True, None), ("1e2", None), ({"value": 4, "unit": "%"}, None),
        ("nan", None), (float("inf"), None), ([0], None),
    ],
)  # fmt: skip
def test_utilisation_is_a_share_whatever_the_tool_prints(said: object, meant: float | None) -> None:
    assert share(said) == meant


def test_other_quantities() -> None:
    assert celsius("38 C") == celsius("38.0") == celsius(38) == 38.0
    assert celsius("-273") is celsius("65535") is celsius("38 %") is celsius("N/A") is None
    assert size_bytes(283, "MB") == 283 * MIB
    assert size_bytes("4096") == 4096
    assert size_bytes("12 parsecs") is size_bytes("-4") is size_bytes("[N/A]") is None
    assert words("[Not Found]") is words("N/A") is words(b"  ") is words(7) is None
    assert words(b"/usr/bin/python3\xff") == "/usr/bin/python3\ufffd"


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
    assert amd_uuid(said, place, 7) == uuid


LEAF = r'(?<=: )("[^"]*"|[\d.]+)'
"""Where rocm-smi writes a value."""
SMALL = BUSY.processes[0].model_copy(update={"memory_bytes": 4 * MIB})
CAUSES = {
    "utilisation": {"utilisation": 0.9},
    "memory": {"memory_used_bytes": 30 * GIB},
    "heat": {"temperature_c": 95.0},
    "process": {"processes": (SMALL,), "memory_used_bytes": 4 * MIB},
}


def answers_of(gpu: GpuStatus) -> list[str]:
    """All that rocm-smi prints of a machine with this GPU."""
    said = rocm_smi_answers([gpu])
    return [said["--showuse"], said["--showpids"]]


def parsed(said: list[str]) -> Parsed:
    return parse_rocm_smi(said[0], said[1], 0.0)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("junk", ["N/A", "?", "", "[Unknown Error]", "\x7f", "-", "1e999"])
def test_a_gpu_busy_in_one_way_stays_busy_whichever_value_is_lost(cause: str, junk: str) -> None:
    texts = answers_of(idle_gpu().model_copy(update=CAUSES[cause]))
    assert idle(parsed(texts)) == []
    assert len(idle(parsed(answers_of(idle_gpu())))) == 1
    for which, text in enumerate(texts):
        for match in re.finditer(LEAF, text, re.MULTILINE):
            said = [*texts]
            said[which] = f'{text[: match.start(1)]}"{junk}"{text[match.end(1) :]}'
            assert idle(parsed(said)) == [], said[which]


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_mutilated_answer_never_makes_a_busy_gpu_idle(data: st.DataObject) -> None:
    """Cut anywhere, with anything put in: what is lost leaves the other reasons."""
    said = answers_of(BUSY.model_copy(update={"temperature_c": 90.0}))
    which = data.draw(st.integers(0, len(said) - 1))
    text = said[which]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    put = data.draw(
        st.sampled_from(["", "N/A", "[N/A]", "0", "\x00", "<", '"', ",", "\n", "{}", "null"])
        | st.text(max_size=300)
    )
    said[which] = text[:start] + put + text[end:]
    assert idle(parsed(said)) == []
