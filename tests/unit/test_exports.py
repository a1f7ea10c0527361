"""What the application offers is there, though none of it is imported before somebody asks."""

from __future__ import annotations

import pytest

from roofsmith import app


def test_every_name_is_found_at_its_home_and_no_module_is_called_like_it() -> None:
    assert "optimize" in app._HOME_OF
    for name in app._HOME_OF:
        assert getattr(app, name) is not None
    modules = {home.rpartition(".")[2] for home in app._HOME_OF.values()}
    assert not modules & set(app._HOME_OF), "its import would take the other's place"


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    assert app.doctor.examine is app.examine
    with pytest.raises(AttributeError, match="has no attribute 'no_such_command'"):
        app.no_such_command  # type: ignore[attr-defined]  # noqa: B018
