"""Where roofsmith keeps its files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from roofsmith.config import Settings
from roofsmith.domain.fleet import GatePolicy
from roofsmith.domain.health import ThrottleReason
from roofsmith.errors import UsageError
from roofsmith.machine.nvml import THROTTLE_REASONS

HERE = Path("/somewhere")


@pytest.mark.parametrize(
    ("environment", "cache"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.cache/roofsmith"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": "/big"}, "/big/roofsmith"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": "relative"}, "/home/ada/.cache/roofsmith"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": "/big", "ROOFSMITH_CACHE": "/own"}, "/own"),
    ],
)
def test_the_cache_goes_where_the_environment_says(environment: dict[str, str], cache: str) -> None:
    assert Settings.from_environment(environment, HERE).cache_dir == Path(cache)


@pytest.mark.parametrize(
    ("environment", "wiki"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.config/roofsmith/wiki"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/ada"}, "/etc/ada/roofsmith/wiki"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": "x"}, "/home/ada/.config/roofsmith/wiki"),
        ({"HOME": "/home/ada", "ROOFSMITH_WIKI": "/facts"}, "/facts"),
    ],
)
def test_own_wiki_pages_lie_where_the_environment_says(
    environment: dict[str, str], wiki: str
) -> None:
    assert Settings.from_environment(environment, HERE).wiki_dir == Path(wiki)


def test_without_a_home_there_are_no_own_pages() -> None:
    assert Settings.from_environment({"ROOFSMITH_CACHE": "/own"}, HERE).wiki_dir is None


def test_a_relative_wiki_is_refused() -> None:
    with pytest.raises(UsageError, match="ROOFSMITH_WIKI=facts is not an absolute path"):
        Settings.from_environment({"HOME": "/home/ada", "ROOFSMITH_WIKI": "facts"}, HERE)


def test_a_wiki_that_is_named_must_be_a_folder(tmp_path: Path) -> None:
    usual = Settings.from_environment({"HOME": str(tmp_path)}, HERE)
    assert usual.own_pages() == usual.wiki_dir
    named = {"HOME": str(tmp_path), "ROOFSMITH_WIKI": str(tmp_path / "facts")}
    with pytest.raises(UsageError, match="facts is no folder"):
        Settings.from_environment(named, HERE).own_pages()
    (tmp_path / "facts").mkdir()
    assert Settings.from_environment(named, HERE).own_pages() == tmp_path / "facts"


def test_a_relative_cache_is_refused() -> None:
    with pytest.raises(UsageError, match="not an absolute path"):
        Settings.from_environment({"ROOFSMITH_CACHE": "cache"}, HERE)


def test_no_home_is_said() -> None:
    with pytest.raises(UsageError, match="HOME"):
        Settings.from_environment({}, HERE)


def test_campaigns_are_named_by_target_and_time() -> None:
    settings = Settings.from_environment({"HOME": "/home/ada"}, HERE)
    directory = settings.campaign_dir("softmax", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC))
    assert directory == HERE / "campaigns" / "softmax-20260304-050607"


def test_the_gate_is_configured_field_by_field() -> None:
    home = {"HOME": "/home/u", "ROOFSMITH_LEASES": "/shared/leases"}
    given = {
        "ROOFSMITH_GATE_GIVE_UP_S": "0", "ROOFSMITH_GATE_MAX_TEMPERATURE_C": "none",
        "ROOFSMITH_GATE_MUST_LIST_PROCESSES": "false",
        "ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS": "hw_slowdown, sw_power_cap",
    }  # fmt: skip
    found = Settings.from_environment({**home, **given}, Path("/w"))
    assert found.gate.give_up_s == 0
    assert found.gate.wait_s == GatePolicy().wait_s
    assert found.gate.max_temperature_c is None
    assert not found.gate.must_list_processes
    assert found.gate.blocking_throttle_reasons == ("hw_slowdown", "sw_power_cap")
    assert found.lease_dir == Path("/shared/leases")
    blind = Settings.from_environment(
        {**home, "ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS": "none"}, Path("/w")
    )
    assert blind.gate.blocking_throttle_reasons == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ROOFSMITH_GATE_GIVE_UP_S", "an hour"),
        ("ROOFSMITH_GATE_MAX_UTILISATION", "5"),
        ("ROOFSMITH_GATE_PATIENCE", "1"),
        ("ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS", "hw_slowdown,none"),
        ("ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS", "hw_slow_down"),
        ("ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS", "nonesuch"),
        ("ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS", ","),
        ("ROOFSMITH_LEASES", "leases"),
    ],
)
def test_what_the_gate_cant_use_is_said(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{name}={value}"):
        Settings.from_environment({"HOME": "/home/u", name: value}, Path("/w"))


def test_a_throttle_reason_is_one_that_drivers_name() -> None:
    misspelt = {"HOME": "/home/u", "ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS": "hw_slow_down"}
    with pytest.raises(UsageError, match=r"hw_slow_down: .*'hw_slowdown'"):
        Settings.from_environment(misspelt, Path("/w"))
    assert set(get_args(ThrottleReason)) == set(THROTTLE_REASONS.values())
