"""Whether a candidate keeps the very thing that its incumbent kept.

A cache of the same name may hold more than it did. So what counts as inherited lies in the same
file, is found by the same key, and has the same text in every function that mentions it, and in
those of the candidate that these mention. Comments and layout don't matter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.transfer import KeptValue
from roofsmith.overfitting.hints import native_tree as native
from roofsmith.overfitting.hints.python import functions, parsed


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
    root = native.parse(source.text, plain_c=source.path.endswith(".c"))
    for node in native.nodes(root):
        if node.type == "function_definition":
            yield native.function_name(node), native.code(node)
        elif node.type in ("declaration", "preproc_def") and node.parent == root:
            declared = node.child_by_field_name("declarator") or node.child_by_field_name("name")
            yield native.name_of(declared), native.code(node)
