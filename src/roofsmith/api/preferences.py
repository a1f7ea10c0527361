"""What a user agreed to once, and takes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from roofsmith.config import Settings
from roofsmith.domain.kernel import TRITON_LANGUAGES, Language
from roofsmith.domain.price import Price
from roofsmith.errors import UsageError
from roofsmith.proposers.model.endpoint import Endpoint, key_of
from roofsmith.store.files import storage_errors, write_file
from roofsmith.yaml_document import parse_yaml

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
    free = MODULE_PROPOSERS if language in TRITON_LANGUAGES else DEFAULT_PROPOSERS
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


MODEL, PRICES = "model", "prices.yaml"
_FORM = "a line per model such as `NAME: {input: 0.5, output: 2}`, in USD per million tokens"


def agreed_model(folder: Path | None) -> str | None:
    """The model to which kernels may be sent where no proposer is named; None: to none.

    Raises:
        StorageError: the file is there and can't be read.
    """
    if folder is None or not (path := folder / MODEL).exists():
        return None
    with storage_errors("read", path):
        return path.read_text(encoding="utf-8", errors="replace").strip() or None


def agree(folder: Path, model: str | None) -> None:
    """Remember the user's consent; None takes it back.

    Raises:
        StorageError: it can't be written.
    """
    path = folder / MODEL
    if model is not None:
        write_file(path, f"{model}\n".encode(), durable=True)
    else:
        with storage_errors("write", path):
            path.unlink(missing_ok=True)


def own_prices(folder: Path | None) -> Mapping[str, Price]:
    """The user's prices, by the model's name.

    Raises:
        UsageError: a line of them is none.
        StorageError: the file is there and can't be read.
    """
    if folder is None or not (path := folder / PRICES).exists():
        return {}
    with storage_errors("read", path):
        text = path.read_text(encoding="utf-8", errors="replace")
    document = parse_yaml(text, path, UsageError, start_from=_FORM)
    found = {}
    for name, said in document.data.items():
        try:
            found[name] = Price.model_validate(said)
        except ValidationError as error:
            what = error.errors()[0]["msg"]
            raise UsageError(f"{document.where((name,))}: {what}", hint=_FORM) from error
    return found
