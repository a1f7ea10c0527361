"""What a user keeps in a folder of the own configuration: a consent, and prices of models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.price import Price
from roofsmith.errors import UsageError
from roofsmith.store.files import storage_errors, write_file
from roofsmith.yaml_document import parse_yaml

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
