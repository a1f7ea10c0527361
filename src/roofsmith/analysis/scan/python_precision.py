"""Where a Python module leaves it to a default how exact its products of float32 are.

PyTorch's documentation of TF32 ("TensorFloat-32 on Ampere (and later) devices", in its notes on
CUDA semantics): matrix products are exact by default since 1.12, convolutions aren't. Triton's of
`tl.dot`: `input_precision` is "tf32" by default where the device has it.
"""

from __future__ import annotations

import ast
import re

from roofsmith.analysis.scan.python_names import Module, parsed
from roofsmith.analysis.scan.rules import Remarks

_CONVOLUTIONS = re.compile(
    r"torch\.(nn\.functional\.)?conv(_transpose|_tbc)?([123]d)?|torch\.convolution"
    r"|torch\.nn\.(Lazy)?Conv(Transpose)?[123]d|torch\.nn\.(RNN|LSTM|GRU)"
)
_EXACT = re.compile(r"torch\.backends\.(cudnn\.)?(allow_tf32|(conv\.|rnn\.)?fp32_precision)")
_DOTS = ("triton.language.dot",)
_CHOOSES = frozenset(("allow_tf32", "input_precision"))


def tf32_by_default(path: str, text: str) -> Remarks:
    """Products that are computed in TF32 because nobody says otherwise."""
    found = Remarks(path)
    module = parsed(text, found, Module)
    if module is None:
        return found
    names = {
        module.dotted(node) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)
    }
    leaves_it = not any(_EXACT.fullmatch(name) for name in names if name is not None)
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or (name := module.dotted(node.func)) is None:
            continue
        chooses = any(keyword.arg in _CHOOSES for keyword in node.keywords) or len(node.args) > 3
        if (leaves_it and _CONVOLUTIONS.fullmatch(name)) or (name in _DOTS and not chooses):
            found.add("tf32_by_default", node.lineno, name)
    return found
