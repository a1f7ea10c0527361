"""Drivers that lock clocks: NVML's and rocm-smi's, both simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated_drivers import AMD_UUID, UUID, SimulatedNvml, SimulatedRocmSmi

from roofsmith.domain.clocks import ClockSettings
from roofsmith.errors import MachineError
from roofsmith.machine.clocks import ClockDriver
from roofsmith.machine.clocks_amd import RocmSmiClocks, sustained_share
from roofsmith.machine.clocks_nvidia import NvmlClocks
from roofsmith.machine.rocm_smi import rocm_smi


class ClockDriverConformance:
    """What every clock driver does. Subclasses give the fixtures `driver` and `uuid`."""

    def test_a_lock_and_its_undoing_leave_what_was_there(
        self, driver: ClockDriver, uuid: str
    ) -> None:
        driver.require_lockable(uuid)
        before = driver.settings(uuid)
        for _ in range(2):
            locked = driver.lock(uuid)
            assert locked.rule
            assert locked.sm_hz is None or locked.sm_hz > 1e8
            driver.restore(uuid, before)
            driver.restore(uuid, before)
            assert driver.settings(uuid) == before
            driver.require_lockable(uuid)

    def test_an_unknown_gpu_is_an_error_for_people(self, driver: ClockDriver) -> None:
        strange = "GPU-no-such-device"
        for question in (driver.require_lockable, driver.settings, driver.lock):
            assert strange in _complaint(question, strange)
        assert strange in _complaint(driver.restore, strange, ClockSettings())

    def test_the_way_by_hand_names_the_gpu(self, driver: ClockDriver, uuid: str) -> None:
        assert uuid in driver.by_hand(uuid)


def _complaint(question: Callable[..., Any], *arguments: Any) -> str:
    try:
        question(*arguments)
    except MachineError as error:
        return str(error)
    raise AssertionError("no MachineError was raised")


class TestNvmlClocks(ClockDriverConformance):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> NvmlClocks:
        return NvmlClocks(SimulatedNvml(tmp_path / "driver.json"), may_administer=lambda: True)

    @pytest.fixture
    def uuid(self) -> str:
        return UUID


class TestRocmSmiClocks(ClockDriverConformance):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> RocmSmiClocks:
        smi = SimulatedRocmSmi(tmp_path / "levels.json")
        return RocmSmiClocks(2.1e9, ask=smi, is_root=lambda: True)

    @pytest.fixture
    def uuid(self) -> str:
        return AMD_UUID


def capped(tmp_path: Path, **of_smi: bool) -> tuple[RocmSmiClocks, SimulatedRocmSmi]:
    smi = SimulatedRocmSmi(tmp_path / "levels.json", **of_smi)
    return RocmSmiClocks(2.1e9, ask=smi, is_root=lambda: True), smi


def test_an_amd_gpu_is_capped_at_the_documented_share(tmp_path: Path) -> None:
    driver, smi = capped(tmp_path)
    assert driver.lock(AMD_UUID).sm_hz == 1.9e9
    assert smi.levels() == {"0": "auto", "1": "perf_determinism"}
    assert sustained_share() == 1900 / 2100


def test_an_amd_gpu_that_cannot_be_capped_says_so(tmp_path: Path) -> None:
    driver, smi = capped(tmp_path, supported=False)
    with pytest.raises(MachineError, match="Not supported"):
        driver.lock(AMD_UUID)
    assert set(smi.levels().values()) == {"auto"}


def test_a_reset_that_rocm_smi_only_pretends_is_noticed(tmp_path: Path) -> None:
    driver, _ = capped(tmp_path, stuck=True)
    driver.lock(AMD_UUID)
    with pytest.raises(MachineError, match="perf_determinism still"):
        driver.restore(AMD_UUID, ClockSettings())


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda driver, smi: smi.set_levels({"0": "auto", "1": "manual"}), "manual already"),
        (lambda driver, smi: setattr(smi, "partition", "CPX"), "partitioned"),
    ],
)
def test_an_amd_gpu_that_is_shared_or_set_is_refused(
    spoil: Callable[[RocmSmiClocks, SimulatedRocmSmi], None], said: str, tmp_path: Path
) -> None:
    driver, smi = capped(tmp_path)
    spoil(driver, smi)
    with pytest.raises(MachineError, match=said):
        driver.require_lockable(AMD_UUID)


def test_without_root_rocm_smi_is_not_asked_to_change_anything(tmp_path: Path) -> None:
    smi = SimulatedRocmSmi(tmp_path / "levels.json")
    driver = RocmSmiClocks(2.1e9, ask=smi, is_root=lambda: False)
    for change in (
        lambda: driver.require_lockable(AMD_UUID),
        lambda: driver.restore(AMD_UUID, ClockSettings()),
    ):
        with pytest.raises(MachineError, match="only root"):
            change()


def test_an_unknown_maximum_is_not_guessed(tmp_path: Path) -> None:
    smi = SimulatedRocmSmi(tmp_path / "levels.json")
    with pytest.raises(MachineError, match="maximum clock"):
        RocmSmiClocks(None, ask=smi, is_root=lambda: True).require_lockable(AMD_UUID)


def test_without_rocm_smi_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="not installed"):
        rocm_smi("--showuniqueid")
