"""The base of every domain noun: frozen, closed to unknown keys, identified by its content."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict

from roofsmith.wording import printable


class Value(BaseModel):
    """An immutable value. Unknown keys are errors; equality is by content.

    Its validator is made when it is first needed: a process needs few of them, and most as a part
    of a record.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Described(Value):
    """A value whose fields' docstrings are their descriptions, for whom a schema or a default is
    written out.

    Others do without: the source of every class would be parsed each time a process starts, and
    most processes only measure.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)


Told: TypeAlias = Annotated[str, AfterValidator(printable)]
"""Words of others, `printable`."""


def canonical_json(payload: Any) -> str:
    """One spelling per content: sorted keys, no white space, no NaN."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_id(value: Value | str | bytes) -> str:
    """SHA-256 (hex) of a value's canonical JSON, or of a text or bytes as they are."""
    if isinstance(value, Value):
        data = canonical_json(value.model_dump(mode="json")).encode()
    elif isinstance(value, str):
        data = value.encode()
    else:
        data = value
    return hashlib.sha256(data).hexdigest()
