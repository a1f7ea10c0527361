"""Whether a gain comes from a benchmark that repeats itself: what a candidate's source shows.

`audit` reads, and runs nothing. What it finds is settled by a trace of steps (`domain.transfer`),
and decided on in `analysis.transfer`.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.analysis.overfitting.groups_native import assumptions_native
from roofsmith.analysis.overfitting.groups_python import assumptions_python
from roofsmith.analysis.overfitting.inheritance import PLAIN_C, PYTHON, origin
from roofsmith.analysis.overfitting.native import kept_values_native
from roofsmith.analysis.overfitting.python import is_unparsable, kept_values_python, weights_in
from roofsmith.domain.kernel import Candidate, Language, SourceFile
from roofsmith.domain.transfer import Assumption, KeptValue

__all__ = ["Audit", "audit", "weights_of"]

NATIVE = (
    ".c", ".h", ".cc", ".cpp", ".cxx", ".c++", ".C", ".hh", ".hpp", ".hxx", ".h++", ".H", ".ipp",
    ".ixx", ".inl", ".tcc", ".tpp", ".txx", ".cu", ".cuh", ".hip",
)  # fmt: skip
_NO_CODE = (
    ".cfg", ".csv", ".gitignore", ".ini", ".json", ".jsonl", ".lock", ".md", ".rows", ".rst",
    ".toml", ".tsv", ".txt", ".yaml", ".yml",
)  # fmt: skip
"""Data, settings and prose; so is what has no suffix."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What a candidate's source shows."""

    kept_values: tuple[KeptValue, ...]
    assumptions: tuple[Assumption, ...]
    unread: tuple[str, ...] = ()
    """Paths of code that can't be read, which may keep what it likes."""


def audit(
    candidate: Candidate, incumbent: Candidate | None = None, reference: SourceFile | None = None
) -> Audit:
    """What a candidate keeps between calls, and what it takes for granted of its groups.

    Args:
        candidate: any text will do; what can't be parsed shows nothing. A kernel of that kind
            doesn't run either, but a repository's interpreter may be newer than this one.
        incumbent: what it has as well, made by the same statements, is marked as inherited.
        reference: its `setup` may name the weights.
    """
    weights = weights_of(candidate, reference)
    values, assumptions = _read(candidate, weights)
    old_values, old_assumptions = _read(incumbent, weights) if incumbent else ((), ())
    known = {origin(v, incumbent) for v in old_values} if incumbent and values else set()
    assumed = {(a.path, a.code, a.detail) for a in old_assumptions}
    return Audit(
        tuple(
            v.model_copy(update={"inherited": bool(known) and origin(v, candidate) in known})
            for v in values
        ),
        tuple(
            a.model_copy(update={"inherited": (a.path, a.code, a.detail) in assumed})
            for a in assumptions
        ),
        tuple(s.path for s in candidate.sources if _is_unread(s, candidate.language)),
    )


def weights_of(candidate: Candidate, reference: SourceFile | None = None) -> frozenset[str]:
    """Inputs that `setup` lists as `"weights"`, in the reference or in the candidate."""
    files = [*candidate.sources, *([reference] if reference is not None else [])]
    return frozenset().union(*(weights_in(f.text) for f in files if f.path.endswith(PYTHON)))


def _is_unread(source: SourceFile, language: Language) -> bool:
    name = source.path.rpartition("/")[2]
    if language == "command" and name.endswith(PYTHON):
        return is_unparsable(source.text)
    return "." in name and not name.endswith((*PYTHON, *NATIVE, *_NO_CODE))


def _read(
    candidate: Candidate, weights: frozenset[str]
) -> tuple[tuple[KeptValue, ...], tuple[Assumption, ...]]:
    values: list[KeptValue] = []
    assumptions: list[Assumption] = []
    for source in candidate.sources:
        path, text = source.path, source.text
        if path.endswith(PYTHON):
            values += kept_values_python(path, text, weights)
            assumptions += assumptions_python(path, text)
        elif path.endswith(NATIVE):
            plain_c = path.endswith(PLAIN_C)
            values += kept_values_native(path, text, weights, plain_c=plain_c)
            assumptions += assumptions_native(path, text, plain_c=plain_c)
    return tuple(values), tuple(assumptions)
