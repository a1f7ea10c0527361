"""Reading a candidate's source before it is judged: advice that explains, never a verdict.

Measurements decide. What is found here says where to look: it goes into the notes of a judgement.
The one exception is a target that demands custom code: `library_calls` is its gate.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Literal

from roofsmith.analysis.scan.native import scan_native
from roofsmith.analysis.scan.native_libraries import library_calls_native
from roofsmith.analysis.scan.python_extensions import is_binding
from roofsmith.analysis.scan.python_libraries import library_calls_python
from roofsmith.analysis.scan.python_names import Module, bound_by, parsed, uses
from roofsmith.analysis.scan.rules import Remarks, matches, meanings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language
from roofsmith.domain.remark import Remark

_Grammar = Literal["python", "c", "cpp"]
_GRAMMARS: dict[Language, _Grammar] = {**dict.fromkeys(MODULE_LANGUAGES, "python"), "c": "c"}
_BY_SUFFIX: dict[str, _Grammar] = {
    ".py": "python", ".c": "c",
    ".h": "cpp", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp",
    ".inl": "cpp", ".cu": "cpp", ".cuh": "cpp", ".hip": "cpp",
}  # fmt: skip
"""Of a repository's files; what is in none of these languages isn't read."""

MEASURING = ("judge", "clocks")
"""Names of remarks on what a repository's benchmark measures with, the worst first."""
MOST_REMARKS = 20
"""Beyond these only the number is told: whoever reads the file sees the rest."""


def scan(candidate: Candidate) -> tuple[Remark, ...]:
    """Everything remarkable that a candidate's sources do, file by file.

    Any text will do; one that can't be parsed gets a remark that says so.
    """
    remarks: list[Remark] = []
    for source in candidate.sources:
        match _grammar(candidate, source.path):
            case "python":
                remarks += scan_python(source.path, source.text).in_order
            case "c" | "cpp" as native:
                remarks += scan_native(source.path, source.text, plain_c=native == "c").in_order
            case None:
                continue
    return tuple(remarks)


def remarks_on(candidate: Candidate) -> tuple[str, ...]:
    """What `scan` finds, in lines for people."""
    found = [remark.text for remark in scan(candidate)]
    rest = len(found) - MOST_REMARKS
    more = [f"{rest} more remarks on the source"] if rest > 0 else []
    return (*found[:MOST_REMARKS], *more)


def with_remarks(
    judgement: Judgement, candidate: Candidate, incumbent: Candidate | None = None
) -> Judgement:
    """The judgement, with what the candidate's source shows among its notes.

    Of a repository, only of files that the incumbent hasn't got as they are: the rest is no news.
    What such files begin to do to clocks, or to what measures, is recorded as well.
    """
    measuring: list[Remark] = []
    if incumbent is not None and candidate.language == "command":
        known = set(incumbent.sources)
        news = tuple(source for source in candidate.sources if source not in known)
        candidate = candidate.model_copy(update={"sources": news})
        before = {(one.name, one.path, one.detail) for one in scan(incumbent)}
        measuring = [
            one
            for one in scan(candidate)
            if one.name in MEASURING and (one.name, one.path, one.detail) not in before
        ]
        measuring.sort(key=lambda one: MEASURING.index(one.name))
    notes = (*judgement.notes, *remarks_on(candidate))
    return judgement.model_copy(update={"notes": notes, "remarks": tuple(measuring[:MOST_REMARKS])})


def library_calls(candidate: Candidate, definitions: Sequence[str] = ()) -> tuple[Remark, ...]:
    """Where a candidate leaves its work to a library: for targets that demand custom code.

    Memory, streams and questions about the device are no work. Names that are put together at run
    time count as calls, since nobody can tell what they are.

    Args:
        candidate: whose sources are read.
        definitions: macros of its command line, such as `N=4`.
    """
    own = frozenset(PurePosixPath(source.path).parts[0] for source in candidate.sources)
    modules = frozenset(name.removesuffix(".py") for name in own)
    one = DIALECTS.get(candidate.language)
    dialect = frozenset(name.partition(".")[0] for name in one.modules) if one else frozenset()
    remarks: list[Remark] = []
    for source in candidate.sources:
        match _grammar(candidate, source.path):
            case "python":
                remarks += library_calls_python(source.path, source.text, modules, dialect).in_order
            case "c" | "cpp" as native:
                remarks += library_calls_native(
                    source.path, source.text, plain_c=native == "c", definitions=definitions,
                    allowed=is_binding if candidate.language in MODULE_LANGUAGES else None,
                ).in_order  # fmt: skip
            case None:
                continue
    return tuple(remarks)


def _grammar(candidate: Candidate, path: str) -> _Grammar | None:
    """What a file is read as: by the kernel's language, in a repository by its own name, and so is
    what lies beside a module, which may have it compiled."""
    by_name = _BY_SUFFIX.get(PurePosixPath(path).suffix)
    if candidate.language == "command":
        return by_name
    by_language = _GRAMMARS.get(candidate.language, "cpp")
    return by_name or by_language if candidate.language in MODULE_LANGUAGES else by_language


def scan_python(path: str, text: str) -> Remarks:
    """Remarks on a module; a text that isn't Python gets one that says so."""
    found = Remarks(path)
    module = parsed(text, found, Module)
    if module is None:
        return found
    for name, line in uses(module):
        for remark in meanings(name, "python"):
            found.add(remark, line, name)
    held = {bound_by(part) for node in module.tree.body for part in _targets(node)}
    for node in ast.walk(module.tree):
        for remark, line, name in (*_attributes(module, node), *_kept(node, held)):
            found.add(remark, line, name)
    return found


def _targets(node: ast.stmt) -> Iterator[ast.AST]:
    return ast.walk(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else iter(())


def _attributes(module: Module, node: ast.AST) -> Iterator[tuple[str, int, str]]:
    """What attributes of anything lead to, also where a class defines them."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from ((remark, node.lineno, node.name) for remark in meanings(node.name, "methods"))
    elif isinstance(node, ast.Attribute):
        yield from ((remark, node.lineno, node.attr) for remark in meanings(node.attr, "methods"))
        full = module.dotted(node) or node.attr
        is_changed = isinstance(node.ctx, ast.Store) and module.is_imported(node)
        if is_changed and not matches(full, "torch.backends"):
            yield "judge", node.lineno, full


def _kept(function: ast.AST, held: set[str | None]) -> Iterator[tuple[str, int, str]]:
    """What a function changes of the module's own values, and what it counts up."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    nodes = tuple(ast.walk(function))
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name in shared:
                yield "state", node.lineno, name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name in held:
                yield "state", node.lineno, name
            case ast.AugAssign(target=ast.Name(id=name)) if name in shared:
                yield "counts_calls", node.lineno, name
