"""What a user agreed to once, and takes back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofsmith.config import Settings
from roofsmith.domain.kernel import MODULE_LANGUAGES, Language
from roofsmith.errors import UsageError
from roofsmith.proposers.model.endpoint import Endpoint, key_of
from roofsmith.store.preferences import agree, agreed_model

NOBODY = "none"
DEFAULT_PROPOSERS = "recipes,sweep"
MODULE_PROPOSERS = "recipes,inductor,sweep"


@dataclass(frozen=True, slots=True)
class Consent:
    """Where kernels may be sent without being told so each time."""

    folder: Path
    model: str | None
    """None: nowhere."""
    proposers: str
    """Who is asked where nobody is named."""


def default_proposers(settings: Settings, language: Language | None = None) -> str:
    """Recipes and sweep, and the model that this user agreed to once, if there is a key for it.

    Without either, no kernel leaves this machine. Where kernels are modules, whose references are
    PyTorch, TorchInductor is asked too.

    Raises:
        UsageError: what was agreed to names no model.
    """
    free = MODULE_PROPOSERS if language in MODULE_LANGUAGES else DEFAULT_PROPOSERS
    model = agreed_model(settings.config_dir)
    if model is None:
        return free
    endpoint = Endpoint.parse(model)
    if endpoint.base_url is None and key_of(endpoint.key_name) is None:
        return free
    return f"{free},{endpoint.name}"


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
