"""What the application offers is there, though none of it is imported before somebody asks."""

from __future__ import annotations

import pytest

from roofsmith import app


def test_every_name_has_one_home_and_is_found_there() -> None:
    own = {"settings", "new_directory", "new_demo_directory"}
    assert set(app.__all__) == set(app._HOME_OF) | own
    assert not own & set(app._HOME_OF)
    for name in app.__all__:
        assert getattr(app, name) is not None


def test_no_module_is_called_like_what_the_application_offers() -> None:
    """Its import would take the other's place."""
    modules = {home.rpartition(".")[2] for home in app._HOMES}
    assert not modules & set(app.__all__)


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    assert app.doctor.examine is app.examine
    with pytest.raises(AttributeError, match="has no attribute 'no_such_command'"):
        app.no_such_command  # type: ignore[attr-defined]  # noqa: B018
