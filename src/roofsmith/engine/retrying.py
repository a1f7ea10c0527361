"""A GPU that failed is given one more chance: its driver may have reset it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from roofsmith.errors import DeviceFailedError
from roofsmith.ports import Observer

Found = TypeVar("Found")


def once_more(attempt: Callable[[], Found], observer: Observer) -> Found:
    """What an attempt gives, the second one after the device failed the reference.

    The reference's process was ended with the failure, and starts anew when it is asked.

    Raises:
        DeviceFailedError: it failed again.
    """
    try:
        return attempt()
    except DeviceFailedError as error:
        observer.stage("once more", f"the GPU failed: {error.message}")
        return attempt()
