"""YAML with line numbers, for targets and wiki pages that people write.

Stricter than YAML: a key may appear once, keys are text, and only numbers, text, lists and
mappings exist. `true`, dates and the like are read as text, so that a dimension may be called `on`
and a flag `yes`; so is `12:30`, which YAML takes for 750.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from roofsmith.errors import UsageError

Location = tuple[str | int, ...]
"""Keys and indices that lead to a value."""

_MAX_NODES = 20_000
_MAX_DEPTH = 20
_SAFELY_DEEP = 1000
"""libyaml's binding recurses without a limit; it ends the process at some ten thousand levels."""
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:null")


def shipped_table(package: str, name: str) -> Any:
    """What a YAML file of a package of ours holds."""
    text = (files(package) / name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A mapping, and the line that each part of it stands on."""

    path: Path
    data: dict[str, Any]
    lines: Mapping[Location, int] = field(repr=False)

    def where(self, location: Location) -> str:
        """`target.yaml:12`: the line of a value or, if it isn't there, of what should hold it."""
        while location and location not in self.lines:
            location = location[:-1]
        return f"{self.path}:{self.lines[location]}" if location else f"{self.path}"


def parse_yaml(
    text: str, path: Path, error_type: type[UsageError], *, start_from: str
) -> YamlDocument:
    """Read a document whose top is a mapping.

    Args:
        text: the document.
        path: its file, for messages.
        error_type: what is raised.
        start_from: where somebody finds a good document, for whom wrote none.

    Raises:
        error_type: it isn't YAML, or YAML that isn't accepted here; names the line.
    """
    try:
        loader = _loader(text)
        node = loader.get_single_node()
        reader = _Reader(path, loader, error_type)
        data = {} if node is None else reader.value(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark or yaml.Mark("", 0, 0, 0, "", 0)
        line = min(mark.line, text.count("\n")) + 1  # libyaml's end lies behind the last line
        raise error_type(f"{path}:{line}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise error_type(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise error_type(f"{path}: nested too deeply") from error
    if not isinstance(data, dict):
        raise error_type(
            f"{path}: expected `key: value` lines, found a {type(data).__name__}", hint=start_from
        )
    return YamlDocument(path, data, reader.lines)


def _loader(text: str) -> Any:
    """libyaml's, 15 times faster, if it is there and the text can't be too deep for it.

    A level costs a bracket, or a column of a line.
    """
    deepest = text.count("[") + text.count("{") + max(map(len, text.split("\n")))
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return (fast if deepest < _SAFELY_DEEP else yaml.SafeLoader)(text)


class _Reader:
    """Turns YAML's nodes into plain values and notes their lines."""

    def __init__(self, path: Path, loader: Any, error_type: type[UsageError]) -> None:
        self.path = path
        self._error_type = error_type
        self.lines: dict[Location, int] = {}
        self._loader = loader
        self._nodes = 0

    def value(self, node: yaml.Node, at: Location) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or len(at) > _MAX_DEPTH:  # also what aliases expand to
            raise self._wrong(node, "too big or too deeply nested")
        self.lines.setdefault(at, node.start_mark.line + 1)
        match node:
            case yaml.MappingNode():
                return self._mapping(node, at)
            case yaml.SequenceNode():
                return [self.value(item, (*at, index)) for index, item in enumerate(node.value)]
            case _:
                return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(key, "a key must be text")
            if key.value in values:
                first = self.lines[*at, key.value]
                raise self._wrong(key, f"key {key.value!r} is on line {first} already")
            self.lines[*at, key.value] = key.start_mark.line + 1
            values[key.value] = self.value(item, (*at, key.value))
        return values

    def _scalar(self, node: yaml.Node) -> Any:
        if node.tag not in _NUMBERS or ":" in node.value:
            return node.value
        try:
            return self._loader.construct_object(node)
        except ValueError as error:  # such as an integer of thousands of digits
            raise self._wrong(node, f"not a number that can be used: {error}") from error

    def _wrong(self, node: yaml.Node, why: str) -> UsageError:
        return self._error_type(f"{self.path}:{node.start_mark.line + 1}: {why}")
