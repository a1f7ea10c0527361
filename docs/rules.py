"""docs/rules.md: every rule with the modules that enforce it and the tests that prove it.

The rules are rules.toml's. A test says which of them it proves, with `@pytest.mark.rule("id")`;
markers are read from the tests' syntax, so that nothing is imported or run.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "roofsmith"
NOT_ENFORCED = "What is not enforced"

_HEAD = """\
<!-- Written by `make docs`; edits are lost. -->

# Rules

People who optimize kernels for a living, and those who write rules for agents that do, agree on
most of what follows. Here every rule is enforced by code, and the tests beside it fail without it;
or it is listed [below](#what-is-not-enforced) with the reason why not. Modules are those of
`src/roofsmith/`, tests those of `tests/`.

The version of the rules is recorded when a campaign begins and whenever it is resumed. `roofsmith
verify` recomputes everything that its own version concluded. Of another version it checks the
facts: the chain, which kernel each round was compared with, medians of the samples, totals,
commits, and that what was kept had passed and was measured to be faster. What today's rules would
conclude otherwise is a note, and so is a rendered file that reads otherwise or is missing; the exit
code stays 0:

```
verified: 51 records, 24 rounds, ...; no fact is contradicted
decided by older rules (version 1; today's is 2): chain, samples, medians ...: 3 notes
note: round 8: decision is recorded as "kept: ..."; "rolled back: vetoed: ..." follows
```

What can't be looked at, such as commits in a repository that isn't there, is named as not checked.
"""


class Rule(NamedTuple):
    """What a rule says, and where it is enforced."""

    topic: str
    words: str
    modules: tuple[str, ...]
    """Ends of paths below `src/roofsmith/`, long enough to be one module's alone."""


def rules() -> dict[str, Rule]:
    """Every enforced rule by its id."""
    return {
        name: Rule(topic, said[0], tuple(said[1:]))
        for topic, section in _file().items()
        if topic != NOT_ENFORCED
        for name, said in section.items()
    }


def reasons() -> Mapping[str, str]:
    """What isn't enforced, and why."""
    return _file()[NOT_ENFORCED]


def proofs(tests: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Rule id to the tests that are marked with it, as `test_x.py::test_y`."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        for name, marked in _marked(ast.parse(path.read_text(encoding="utf-8")).body):
            for rule in marked:
                found.setdefault(rule, []).append(f"{path.name}::{name}")
    return found


def page() -> str:
    """The whole page."""
    known, proven = rules(), proofs()
    parts = [_HEAD]
    for topic in dict.fromkeys(rule.topic for rule in known.values()):
        rows = [
            f"| {rule.words} | {_ticked(map(module, rule.modules))} | {_ticked(proven[name])} |"
            for name, rule in known.items()
            if rule.topic == topic
        ]
        head = "| rule | module | test |\n|---|---|---|"
        parts.append("\n".join((f"## {topic}\n\n{head}", *rows)) + "\n")
    rows = [f"| {words} | {reason} |" for words, reason in reasons().items()]
    parts.append("\n".join((f"## {NOT_ENFORCED}\n\n| rule | why not |\n|---|---|", *rows)) + "\n")
    return "\n".join(parts)


def module(ending: str) -> str:
    """The one module of that ending.

    Raises:
        ValueError: there are several, or none.
    """
    found = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob(f"*{Path(ending).name}")]
    found = [name for name in found if f"/{name}".endswith(f"/{ending}")]
    if len(found) != 1:
        raise ValueError(f"rules.toml: {ending} is {len(found)} modules: {', '.join(found)}")
    return found[0]


def _file() -> Mapping[str, Mapping[str, str]]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _marked(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _marked(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef):
            names = [name for mark in node.decorator_list for name in _ids(mark)]
            if names:
                yield prefix + node.name, names


def _ids(mark: ast.expr) -> list[str]:
    match mark:
        case ast.Call(func=func, args=args) if ast.unparse(func) == "pytest.mark.rule":
            return [ast.literal_eval(arg) for arg in args]
        case _:
            return []


def _ticked(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
