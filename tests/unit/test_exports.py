"""What the application offers is there, though none of it is imported before somebody asks."""

from __future__ import annotations

import pytest

from roofsmith import api


def test_every_name_is_found_at_its_home_and_no_module_is_called_like_it() -> None:
    assert "optimize" in api._HOME_OF
    for name in api._HOME_OF:
        assert getattr(api, name) is not None
    modules = {home.rpartition(".")[2] for home in api._HOME_OF.values()}
    assert not modules & set(api._HOME_OF), "its import would take the other's place"


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    assert api.doctor.examine is api.examine
    with pytest.raises(AttributeError, match="has no attribute 'no_such_command'"):
        api.no_such_command  # type: ignore[attr-defined]  # noqa: B018
