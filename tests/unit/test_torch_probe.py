"""What doctor hears of PyTorch and Triton, as far as they got in their time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from roofsmith.errors import MachineError
from roofsmith.machine import frameworks

TORCH = """print('{"torch": null, "arch_list": ["sm_90"]}', flush=True)\n"""
SEES = {"torch": None, "arch_list": ["sm_90"]}
PATIENT_S = 300.0


def asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, deadline_s: float = PATIENT_S
) -> dict[str, object] | None:
    """What a probe that does `program` brought."""
    probe = folder / "probe.py"
    probe.write_text(program)
    monkeypatch.setattr(frameworks, "torch_probe", SimpleNamespace(__file__=str(probe)))
    return frameworks.ask_torch(deadline_s)


def test_both_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = TORCH + """print('{"triton": null}')"""
    assert asked(tmp_path, monkeypatch, program) == SEES | {"triton": None}


@pytest.mark.slow
def test_the_real_probe_speaks_that_language() -> None:
    found = frameworks.ask_torch(PATIENT_S)
    assert {"torch", "arch_list"} <= set(found)
    assert ("triton" in found) == (found["torch"] is None)


def test_what_torch_said_counts_though_triton_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, deadline_s = tmp_path / "ready", 0.25
    program = f"{TORCH}open({str(ready)!r}, 'w')\nimport time; time.sleep(600)"
    while not ready.exists():  # on a busy machine Python itself may take that long
        deadline_s *= 2
        found = asked(tmp_path, monkeypatch, program, deadline_s)
    assert found == SEES


def test_silence_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(tmp_path, monkeypatch, "import time; time.sleep(600)", 0.1) is None


def test_a_torch_that_ends_the_process_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os; os.write(2, b'undefined symbol'); os._exit(9)"
    with pytest.raises(MachineError, match=r"exit status 9\): undefined symbol"):
        asked(tmp_path, monkeypatch, program)


def test_a_triton_that_ends_the_process_is_triton_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(tmp_path, monkeypatch, TORCH + "import os; os._exit(9)")
    assert found == SEES | {"triton": "importing it ends the process (exit status 9)"}
