"""Which judge it was: verdicts of one can't be counted with those of another.

The version is a hash of what the code does. Two judges have the same one if they differ in
docstrings, comments and formatting, or in where their files lie and what these are called; any
other change of the code makes another. It is the same on all versions of Python from 3.11 on, for
the syntax tree is read field by field, without what later versions add.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_ELSEWHERE = ("steps", "sizes")
"""Folders of judge/ that judge no kernels: what answers while steps of training are traced, and
what watches how much of its arrays a kernel touches."""
_RULES = "roofsmith.analysis."
"""Where the statistics and rules are; what the judge doesn't import of it changes no verdict."""
_SKIPPED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields that follow from the rest, or say how it is spelt."""


@cache
def judge_version() -> str:
    """12 hexadecimal digits of the SHA-256 of the code that verdicts on kernels come from.

    That is the judge's own, without this file's, and what it imports of `roofsmith.analysis`,
    directly or not.
    """
    return version_of(_PACKAGE)


@cache
def judge_digest() -> str:
    """12 hexadecimal digits of the SHA-256 of the files that may decide a verdict, comments
    included: quick enough to be asked in a round."""
    folders = (_PACKAGE / "judge", _PACKAGE / "analysis")
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]


def judge_sources() -> set[Path]:
    """The files that `judge_version` is a digest of."""
    return sources_of(_PACKAGE)


def version_of(package: Path) -> str:
    """As `judge_version`, of the package `roofsmith` that lies in a folder."""
    modules = {_module(path, package): ast.parse(path.read_bytes()) for path in sources_of(package)}
    unknown = dict.fromkeys(modules, "")
    alone = {name: _digest(_code(tree, _names(tree, unknown))) for name, tree in modules.items()}
    whole = (_digest(_linked(tree, alone)) for tree in modules.values() if _statements(tree))
    return _digest(sorted(whole))[:12]


def sources_of(package: Path) -> set[Path]:
    """As `judge_sources`, of the package `roofsmith` that lies in a folder."""
    judge = package / "judge"
    waiting = [
        path
        for path in judge.rglob("*.py")
        if path.relative_to(judge).parts[0] not in _ELSEWHERE and path != judge / "version.py"
    ]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _rules_in(path, package)
    return found


def _rules_in(path: Path, package: Path) -> Iterator[Path]:
    """Files of `_RULES` that a file imports."""
    for module, name, _ in _imports(ast.parse(path.read_bytes())):
        for dotted in (module, f"{module}.{name}"):
            file = package.joinpath(*dotted.split(".")[1:])
            for candidate in (file.with_suffix(".py"), file / "__init__.py"):
                if dotted.startswith(_RULES) and candidate.is_file():
                    yield candidate


def _module(path: Path, package: Path) -> str:
    """A file's name in imports: `roofsmith.judge.parent`."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join((package.name, *(part for part in parts if part != "__init__")))


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _linked(tree: ast.Module, digests: Mapping[str, str]) -> Iterator[str]:
    """A file's code, and where what it imports comes from: of modules, what is in them.

    Args:
        tree: of the file.
        digests: of the judge's modules, by name, each without what it imports.
    """
    yield from _code(tree, _names(tree, digests))
    yield from sorted(
        f"{digests.get(module, '')} {name} {alias}"
        for module, name, alias in set(_imports(tree))
        if f"{module}.{name}" not in digests
    )


def _names(tree: ast.Module, digests: Mapping[str, str]) -> dict[str, str]:
    """What stands for the judge's modules in a file's code: their names, and its own for them."""
    aliases = {alias: f"{module}.{name}" for module, name, alias in _imports(tree)}
    own = {alias: digests[module] for alias, module in aliases.items() if module in digests}
    return {**digests, **own}


def _imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """What is imported of this package: from which module, its name there, its name here."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if _is_own(module):
                yield from ((module, alias.name, alias.asname or alias.name) for alias in names)
            case ast.Import(names=names):
                for alias in names:
                    if _is_own(alias.name):
                        parent, _, name = alias.name.rpartition(".")
                        yield parent, name, alias.asname or alias.name


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == "roofsmith"


def _code(node: object, names: Mapping[str, str]) -> Iterator[str]:
    """What a tree does, as words; what `names` has is written as it says there."""
    match node:
        case ast.Name(id=name) if name in names:
            yield names[name]
        case ast.Constant(value=str(text)) if text in names:
            yield names[text]
        case ast.JoinedStr():
            yield from ("JoinedStr", "[")
            for part in _joined(node):
                yield from _code(part, names)
            yield "]"
        case ast.AST():
            yield from (type(node).__name__, "(")
            for field, value in ast.iter_fields(node):
                if field not in _SKIPPED and value is not None and value != []:
                    yield field
                    yield from _code(value, names)
            yield ")"
        case list():
            yield "["
            for item in _statements(node):
                yield from _code(item, names)
            yield "]"
        case _:
            yield f"{type(node).__name__} {node!a}"


def _statements(block: ast.Module | list[object]) -> list[object]:
    """Without what does nothing (docstrings, `pass`) and imports of this package."""
    items = block.body if isinstance(block, ast.Module) else block
    return [item for item in items if not _does_nothing(item)]


def _does_nothing(item: object) -> bool:
    match item:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Import() | ast.ImportFrom():
            return any(True for _ in _imports(item))
    return False


def _joined(node: ast.JoinedStr) -> Iterator[object]:
    """The parts of an f-string: some versions of Python cut its text into more of them."""
    text = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
            continue
        if text:
            yield text
        text = ""
        yield part
    if text:
        yield text
