"""Whether a gain comes from a benchmark that repeats itself: hints in a candidate's source.

`audit` reads, and runs nothing. A hint rejects nothing by itself: a trace of steps
(`domain.transfer`) decides, by the rule in `overfitting.rule`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.analysis.group_names import group_hints
from roofsmith.domain.kernel import Candidate, Language, SourceFile
from roofsmith.domain.transfer import Assumption, KeptValue
from roofsmith.overfitting.hints import native_tree
from roofsmith.overfitting.hints.native import cache_hints_native
from roofsmith.overfitting.hints.python import (
    cache_hints_python,
    functions,
    is_unparsable,
    parsed,
    weights_in,
)

__all__ = ["Audit", "audit", "weights_of"]

PYTHON = (".py",)
PLAIN_C = (".c",)
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
    """What a candidate's source hints at."""

    kept_values: tuple[KeptValue, ...]
    assumptions: tuple[Assumption, ...]
    unread: tuple[str, ...] = ()
    """Paths of code that can't be read, which may keep what it likes."""


def audit(
    candidate: Candidate, incumbent: Candidate | None = None, reference: SourceFile | None = None
) -> Audit:
    """What a candidate may keep between calls, and may take for granted of its groups.

    Args:
        candidate: any text will do; what can't be parsed shows nothing. A kernel of that kind
            doesn't run either, but a repository's interpreter may be newer than this one.
        incumbent: what it has as well, in functions of the same text, is marked as inherited.
        reference: its `setup` may name the weights.
    """
    weights = weights_of(candidate, reference)
    values, assumptions = _values(candidate, weights), _assumptions(candidate)
    old = _values(incumbent, weights) if incumbent is not None and values else ()
    known = {origin(v, incumbent) for v in old if incumbent is not None}
    assumed = {(a.path, a.code, a.detail) for a in (_assumptions(incumbent) if incumbent else ())}
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


def _values(candidate: Candidate, weights: frozenset[str]) -> tuple[KeptValue, ...]:
    return tuple(value for s in candidate.sources for value in _values_in(s, weights))


def _values_in(source: SourceFile, weights: frozenset[str]) -> Iterator[KeptValue]:
    if source.path.endswith(PYTHON):
        yield from cache_hints_python(source.path, source.text, weights)
    elif source.path.endswith(NATIVE):
        plain_c = source.path.endswith(PLAIN_C)
        yield from cache_hints_native(source.path, source.text, weights, plain_c=plain_c)


def _assumptions(candidate: Candidate) -> tuple[Assumption, ...]:
    code = [s for s in candidate.sources if s.path.endswith((*PYTHON, *NATIVE))]
    return tuple(hint for source in code for hint in group_hints(source.path, source.text))


# A cache of the same name may hold more than it did. So what counts as inherited lies in the same
# file, is found by the same key, and has the same text in every function that mentions it, and in
# those of the candidate that these mention. Comments and layout don't matter.
def origin(value: KeptValue, candidate: Candidate) -> tuple[str, ...]:
    """All that two kept values have in common if they are the same one."""
    said = (value.path, value.name, value.bucket, value.key, str(value.versioned))
    is_python = value.path.endswith(".py")
    files = [s for s in candidate.sources if s.path.endswith(".py") == is_python]
    try:
        known = [(s.path, name, text) for s in files for name, text in _functions(s)]
    except RecursionError:
        return tuple(s.text for s in candidate.sources)
    own = value.name.rpartition(".")[2]
    waiting = [text for path, name, text in known
               if path == value.path and own in (name, *_words(text))]  # fmt: skip
    found: set[str] = set()
    while waiting:
        text = waiting.pop()
        if text not in found:
            found.add(text)
            words = _words(text)
            waiting += [other for _, name, other in known if name in words]
    return (*said, *sorted(found))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def _functions(source: SourceFile) -> Iterator[tuple[str, str]]:
    """Names and texts of functions, and of what stands outside of them by the names it binds."""
    if source.path.endswith(".py"):
        tree = parsed(source.text)
        yield from ((f.name, ast.unparse(f)) for f in (functions(tree) if tree else ()))
        for statement in tree.body if tree else ():
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                yield ast.unparse(statement).partition(" ")[0], ast.unparse(statement)
        return
    root = native_tree.parse(source.text, plain_c=source.path.endswith(".c"))
    for node in native_tree.nodes(root):
        if node.type == "function_definition":
            yield native_tree.function_name(node), native_tree.code(node)
        elif node.type in ("declaration", "preproc_def") and node.parent == root:
            declared = node.child_by_field_name("declarator") or node.child_by_field_name("name")
            yield native_tree.name_of(declared), native_tree.code(node)
