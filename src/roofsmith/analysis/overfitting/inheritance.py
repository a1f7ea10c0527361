"""Whether a candidate keeps the very thing that its incumbent kept.

A cache of the same name may hold more than it did. So what counts as inherited lies in the same
file, is found by the same key, and is made by the same statements: those of the branch that stores
it, those before it that bind or fill what is used there, and the functions of the candidate that
they call. Comments and layout don't matter. Whatever can't be followed is not the same.
"""

from __future__ import annotations

from roofsmith.analysis.overfitting.native_origin import NativeOrigin
from roofsmith.analysis.overfitting.native_tree import parse
from roofsmith.analysis.overfitting.python import parsed
from roofsmith.analysis.overfitting.python_origin import PythonOrigin
from roofsmith.analysis.overfitting.tokens import TooMuchError
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.transfer import KeptValue

PYTHON = (".py",)
PLAIN_C = (".c",)


def origin(value: KeptValue, candidate: Candidate) -> tuple[str, ...]:
    """All that two kept values have in common if they are the same one.

    Args:
        value: that a candidate keeps.
        candidate: all of its files: what is stored may be computed in another one.
    """
    said = (value.path, value.name, value.bucket, value.key, str(value.versioned), value.says)
    return (*said, *_made(value, candidate))


def _made(value: KeptValue, candidate: Candidate) -> tuple[str, ...]:
    lines = value.stored or (value.line,)
    is_python = value.path.endswith(PYTHON)
    files = {s.path: s.text for s in candidate.sources if s.path.endswith(PYTHON) == is_python}
    try:
        if not is_python:
            roots = {p: parse(t, plain_c=p.endswith(PLAIN_C)) for p, t in files.items()}
            return NativeOrigin(roots).of(value.path, lines)
        trees = {path: found for path, text in files.items() if (found := parsed(text)) is not None}
        return PythonOrigin(trees).of(value.path, lines)
    except (RecursionError, TooMuchError):
        return tuple(source.text for source in candidate.sources)
