"""Which inputs are a model's weights, by their names."""

from __future__ import annotations

import re

_WEIGHT = re.compile(
    r"w\d*|wt|w_\w+|\w+_w|w(q|k|v|o|qkv|gate|up|down)|(\w+_)?(weights?|embeddings?|filters?)(_\w+)?"
    r"|lora_[ab]|gamma|beta|bias",
    re.IGNORECASE,
)
_NO_WEIGHT = re.compile(r"scale|grad|amax|zero|(^|_)d(w|y|out)$|act|workspace", re.IGNORECASE)


def is_weight_name(name: str) -> bool:
    """Whether an argument's name is one that parameters of a model have; a scale's never is."""
    return _WEIGHT.fullmatch(name) is not None and _NO_WEIGHT.search(name) is None
