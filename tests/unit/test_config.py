"""Where roofsmith keeps its files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from roofsmith.config import Settings
from roofsmith.errors import UsageError

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
