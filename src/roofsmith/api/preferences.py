"""What a user agreed to once, and takes back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofsmith.api.wiring import default_proposers
from roofsmith.config import Settings
from roofsmith.errors import UsageError
from roofsmith.proposers.model.endpoint import Endpoint
from roofsmith.store.preferences import agree, agreed_model

NOBODY = "none"


@dataclass(frozen=True, slots=True)
class Consent:
    """Where kernels may be sent without being told so each time."""

    folder: Path
    model: str | None
    """None: nowhere."""
    proposers: str
    """Who is asked where nobody is named."""


def consent(settings: Settings, model: str | None = None) -> Consent:
    """What the user agreed to.

    Args:
        settings: where that is kept.
        model: what the user agrees to now; `none` takes it back; None leaves it as it is.

    Raises:
        UsageError: it names no model, or there is no folder for it.
    """
    folder = settings.config_dir
    if folder is None:
        raise UsageError("neither HOME nor XDG_CONFIG_HOME says where this is kept")
    if model is not None:
        agree(folder, None if model == NOBODY else Endpoint.parse(model).name)
    return Consent(folder, agreed_model(folder), default_proposers(settings))
