"""What a Python kernel keeps between calls, read from its syntax tree; nothing is run."""

from __future__ import annotations

import ast
import warnings

from roofsmith.analysis.overfitting.places import Module
from roofsmith.analysis.overfitting.plainer import plainer
from roofsmith.analysis.overfitting.python_flow import Flow
from roofsmith.analysis.overfitting.stores import kept_values, unfollowed
from roofsmith.analysis.overfitting.tokens import TooMuchError, classify
from roofsmith.domain.transfer import KeptValue


def kept_values_python(
    path: str, text: str, weights: frozenset[str] = frozenset()
) -> tuple[KeptValue, ...]:
    """Everything that a module keeps and shouldn't, or may keep with care (W1).

    Args:
        path: of the file.
        text: of the file; in what can't be parsed, nothing is found.
        weights: arguments known to be weights.
    """
    try:
        tree = parsed(text)
        if tree is None:
            return ()
        flow = _followed(Module(plainer(tree)))
    except (RecursionError, TooMuchError):
        return (unfollowed(path),)
    weights |= declared_weights(tree)
    found = kept_values(path, flow.stores, flow.lookups, weights)
    found += [
        KeptValue(name=text, path=path, line=line, bucket=seen.bucket, key=text, says=seen.says)
        for line, text, target in flow.weak
        if (seen := classify(target, target, weights)) is not None and seen.bucket != "W1"
    ]
    return tuple(sorted(found, key=lambda value: (value.line, value.name)))


def _followed(module: Module) -> Flow:
    """Read twice where something may be changed by another name, and isn't."""
    flow = Flow(module)
    flow.read()
    if module.settle(store.place for store in flow.stores):
        flow = Flow(module)
        flow.read()
    return flow


def parsed(text: str) -> ast.Module | None:
    """The syntax tree; None where there is none.

    Raises:
        TooMuchError: Python may run it, but it is nested too deeply to be looked at.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError) as error:
        raise TooMuchError from error


def is_unparsable(text: str) -> bool:
    """Whether this interpreter has no syntax tree of it, whatever another one has."""
    try:
        return parsed(text) is None
    except TooMuchError:  # a finding, not a gap
        return False


def weights_in(text: str) -> frozenset[str]:
    """Names that a module's `setup` lists as `"weights"`; none in what can't be read."""
    try:
        tree = parsed(text)
    except TooMuchError:
        return frozenset()
    return declared_weights(tree) if tree is not None else frozenset()


def declared_weights(tree: ast.Module) -> frozenset[str]:
    """Names that a dictionary lists under `"weights"`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            is_key = isinstance(key, ast.Constant) and key.value == "weights"
            if is_key and isinstance(value, (ast.List, ast.Tuple, ast.Set)):
                names = (e.value for e in value.elts if isinstance(e, ast.Constant))
                found |= {name for name in names if isinstance(name, str)}
    return frozenset(found)
