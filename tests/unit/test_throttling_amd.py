"""What AMD's tools say of clocks that are held down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fleet_stand_ins import AmdSmiError, fake_amdsmi
from simulated_fleet import idle_gpu

from roofsmith.api.clocks import noted
from roofsmith.domain.fleet import GpuStatus
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.cpu import CpuSource
from roofsmith.machine.fleet_amdsmi import VIOLATIONS, AmdSmiFleet, of_bits, of_violations

QUIET = dict.fromkeys(VIOLATIONS, False)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, ()),
        ({"active_prochot_thrm": True}, ("hw_thermal_slowdown",)),
        (
            {"active_socket_thrm": 1, "active_vr_thrm": True},
            ("hw_thermal_slowdown", "sw_thermal_slowdown"),
        ),
        ({"active_ppt_pwr": True}, ("sw_power_cap",)),
        ({"active_hbm_thrm": "N/A", "active_vr_thrm": None}, ()),
        ({"active_socket_thrm": "N/A"}, None),
        ({"active_prochot_thrm": 255}, None),
        ({"active_prochot_thrm": {"value": 0}}, None),
    ],
)
def test_violations_of_newer_gpus(changes: dict[str, Any], reasons: tuple[str, ...] | None) -> None:
    assert of_violations(QUIET | changes) == reasons


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0, ()),
        (1 << 0 | 1 << 16, ("sw_power_cap",)),
        (1 << 36, ("sw_thermal_slowdown",)),
        (1 << 44 | 1 << 47, ("hw_thermal_slowdown",)),
        (1 << 56, ("sw_power_cap",)),
        ((1 << 64) - 1, None), ("N/A", None), (None, None), (-1, None), (True, None),
        (1 << 70, None),
    ],
)  # fmt: skip
def test_bits_of_older_gpus(bits: object, reasons: tuple[str, ...] | None) -> None:
    assert of_bits(bits) == reasons


def read(**answers: Any) -> GpuStatus:
    """An idle GPU whose package has these functions in place of a new one's."""
    package = fake_amdsmi([idle_gpu()])
    del package.amdsmi_get_violation_status
    package = SimpleNamespace(**vars(package) | answers)
    (status,) = AmdSmiFleet(lambda: package).gpus()
    return status


def test_a_release_without_violations_or_a_gpu_without_them_has_bits() -> None:
    def unsupported(_: object) -> None:
        raise AmdSmiError

    hot = {"indep_throttle_status": 1 << 35, "throttle_status": 1}
    for more in ({}, {"amdsmi_get_violation_status": unsupported}):
        status = read(amdsmi_get_gpu_metrics_info=lambda _: hot, **more)
        assert (status.throttle_reasons, status.unread) == (("sw_thermal_slowdown",), ())
    assert read().unread == ("throttle_reasons",)
    assert read(amdsmi_get_gpu_metrics_info=unsupported).unread == ("throttle_reasons",)


def test_what_is_not_known_of_the_gpu_goes_into_the_records() -> None:
    devices = AmdSource(beside=("clocks locked",))
    found = noted(devices, "nobody knows")
    assert isinstance(found, AmdSource)
    assert found.beside == ("clocks locked", "nobody knows")
    host = CpuSource()
    assert noted(devices, None) is devices
    assert noted(host, "nobody knows") is host
