"""A C or C++ kernel as a syntax tree: its functions, loops, macros and calls.

Everything is read with tree-sitter, so comments, macros around functions and odd layout don't
matter. Positions are byte offsets into the UTF-8 text, as tree-sitter gives them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import tree_sitter_c
import tree_sitter_cpp
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.domain.kernel import Language
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.syntax import assigned, calls, strip_parens, text_of, walk, within

Element = Literal["float", "double"]
"""Floating-point types that kernels compute in."""

INTEGER = re.compile(r"\b(int|long|short|char|unsigned|\w*(size|ptrdiff|int\d+|intptr)_t)\b")
"""Types of whole numbers."""

_REALS: tuple[Element, ...] = ("float", "double")
_NAMES = ("identifier", "field_identifier")
_NAMED_TYPE = re.compile(
    r"^\s*(?:typedef|using|#\s*define)\s+(\w+)\s*(?:=|\s)\s*(\w+)\s*;?\s*$", re.MULTILINE
)
"""`typedef float real;`, `using real = float;` and `#define real float`."""

_OTHER_ELEMENTS = re.compile(
    r"\b\w*(?:half|bfloat16|fp8)\w*\b|(?<!cast)<\s*(?:unsigned|int|long|u?int\d+_t)\s*[,>]"
)
"""What else templates may be made for: half precision and whole numbers."""

_COMPARISONS = ("<", "<=", "!=")


@lru_cache
def _parser(language: Language) -> Parser:
    grammar = tree_sitter_c.language() if language == "c" else tree_sitter_cpp.language()
    return Parser(Grammar(grammar))


@dataclass(frozen=True, slots=True)
class CParameter:
    name: str
    type_text: str
    """As written, without the name: `const float*`."""
    pointer: bool
    const: bool

    @property
    def is_changed(self) -> bool:
        """Whether a call may change the argument itself: a reference, and not to what is const."""
        return "&" in self.type_text and "const" not in self.type_text


@dataclass(frozen=True)
class CFunction:
    node: Node
    name: str
    parameters: tuple[CParameter, ...]
    body: Node
    owner: str = ""
    """The class that it is a member of."""
    elements: Mapping[str, Element] = field(default_factory=dict)
    """Names that the file has for floating-point types."""

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Every `for` loop of the body, in source order, outer before inner."""
        return tuple(loops(self.body))

    @cached_property
    def mutated(self) -> frozenset[str]:
        """Names that are assigned or counted after their declaration, loop variables excepted."""
        return mutated_names(self.body)

    @cached_property
    def unsteady(self) -> frozenset[str]:
        """Mutated names, but for those that are only set anew, and read in the block that did."""
        mentions: dict[str, list[Node]] = {name: [] for name in self.mutated}
        for node in walk(self.body, "identifier"):
            if (name := text_of(node)) in mentions:
                mentions[name].append(node)
        targets = {target.id for target in assigned(self.body)}
        return frozenset(
            name for name, nodes in mentions.items() if not self._is_set_anew(nodes, targets)
        )

    def _is_set_anew(self, mentions: list[Node], targets: set[int]) -> bool:
        sets: list[Node] = []
        for mention in mentions:
            if (block := _setting_block(mention)) is not None:
                sets.append(block)
                continue
            if mention.id in targets or not sets or not within(mention, sets[-1]):
                return False
            outer = (a for a in _loops_around(mention, self.body) if not within(sets[-1], a))
            if any(text_of(mention) in mutated_names(around) for around in outer):
                return False
        return True

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The text of each name's declaration, up to its value: of parameters and locals."""
        found = {parameter.name: parameter.type_text for parameter in self.parameters}
        for node in walk(self.body, "declaration"):
            for declarator in node.children_by_field_name("declarator"):
                named = declarator.child_by_field_name("declarator") or declarator
                name = next((text_of(n) for n in walk(named, "identifier")), "")
                found[name] = text_of(node).split("=")[0]
        return found

    @cached_property
    def element_types(self) -> Mapping[str, Element]:
        """Floating-point element type by name: of parameters, locals, arrays and row pointers."""
        kinds = ((name, self._element_in(text)) for name, text in self.kinds.items())
        return {name: kind for name, kind in kinds if kind is not None}

    @cached_property
    def shapes(self) -> Mapping[str, tuple[Node, ...]]:
        """Sizes of all dimensions but the first, of arrays that have several, by name."""
        found = {}
        head = self.node.child_by_field_name("declarator")
        places = (head, self.body) if head is not None else (self.body,)
        outer = (node for place in places for node in walk(place, "array_declarator"))
        for node in outer:
            if node.parent is None or node.parent.type == "array_declarator":
                continue
            named, sizes = node, list[Node | None]()
            while named.type == "array_declarator":
                sizes.insert(0, named.child_by_field_name("size"))
                named = named.named_children[0]
            name = next((text_of(n) for n in walk(named, "identifier")), "")
            inner = tuple(size for size in sizes[named.type == "identifier" :] if size is not None)
            if inner:
                found[name] = inner
        return found

    def first_element(self, base: str) -> str:
        """The address of an array's first element, as C text, however many dimensions it has."""
        rank = len(self.shapes.get(base, ()))
        return f"&{base}{'[0]' * (rank + 1)}" if rank else base

    def _element_in(self, kind: str) -> Element | None:
        """The floating-point type that a declaration's text names."""
        words = re.findall(r"\w+", kind)
        found = (self.elements.get(word) for word in words)
        return next((element for element in found if element is not None), None)

    def is_integer(self, name: str) -> bool:
        """Whether a parameter or local is, points to or holds whole numbers."""
        return INTEGER.search(self.kinds.get(name, "")) is not None


@dataclass(frozen=True)
class Loop:
    """A `for` loop. Canonical if it counts one variable up from `lower` to `upper` by `step`."""

    node: Node
    body: Node
    variable: str | None = None
    declared_type: str | None = None
    """Type of the variable where the loop declares it; None if it was declared before."""
    lower: Node | None = None
    upper: Node | None = None
    inclusive: bool = False
    """The condition is `<=`."""
    step: str | None = None
    """Text of the increment: `1` for `i++`."""

    @property
    def canonical(self) -> bool:
        """One variable, counted up, with readable bounds."""
        return None not in (self.variable, self.lower, self.upper, self.step)

    @property
    def upper_text(self) -> str:
        assert self.upper is not None
        text = text_of(self.upper)
        return f"({text}) + 1" if self.inclusive else text

    @cached_property
    def innermost(self) -> bool:
        """No loop of any kind inside."""
        kinds = ("for_statement", "while_statement", "do_statement", "for_range_loop")
        return next(walk(self.body, *kinds), None) is None


def read_loop(node: Node) -> Loop:
    """What can be told of a `for_statement`; not canonical where it is anything unusual."""
    body = node.child_by_field_name("body")
    assert body is not None
    start = loop_start(node)
    limit = _loop_limit(node)
    if start is None or limit is None:
        return Loop(node, body)
    variable, declared_type, lower = start
    name, upper, inclusive = limit
    step = _loop_step(node, variable)
    is_set = any(text_of(target) == variable for target in assigned(body))
    if name != variable or step is None or is_set:
        return Loop(node, body)
    return Loop(node, body, variable, declared_type, lower, upper, inclusive, step)


def counted_up(node: Node) -> Loop:
    """A loop that counts down by one as if it counted up: the same iterations in another order."""
    body, start, condition, update = (
        node.child_by_field_name("body"), loop_start(node),
        node.child_by_field_name("condition"), node.child_by_field_name("update"),
    )  # fmt: skip
    assert body is not None
    if start is None or condition is None or update is None:
        return Loop(node, body)
    variable, declared_type, upper = start
    left, sign = condition.child_by_field_name("left"), operator_of(condition)
    lower = condition.child_by_field_name("right")
    ticks = (f"{variable}--", f"--{variable}", f"{variable}-=1", f"{variable}={variable}-1")
    counts_down = re.sub(r"\s+", "", text_of(update)) in ticks and sign == ">="
    is_set = any(text_of(target) == variable for target in assigned(body))
    if not counts_down or is_set or left is None or text_of(left) != variable:
        return Loop(node, body)
    return Loop(node, body, variable, declared_type, lower, upper, inclusive=True, step="1")


def loop_start(node: Node) -> tuple[str, str | None, Node] | None:
    """What a loop's header sets: the name, its type where it is declared there, its value."""
    initial = node.child_by_field_name("initializer")
    if initial is None:
        return None
    if initial.type == "declaration":
        declarators = initial.children_by_field_name("declarator")
        kind = initial.child_by_field_name("type")
        if len(declarators) != 1 or declarators[0].type != "init_declarator" or kind is None:
            return None
        name = declarators[0].child_by_field_name("declarator")
        value = declarators[0].child_by_field_name("value")
        declared: str | None = text_of(kind)
    elif initial.type == "assignment_expression":
        name = initial.child_by_field_name("left")
        value = initial.child_by_field_name("right")
        declared = None
    else:
        return None
    if name is None or value is None or name.type != "identifier":
        return None
    return text_of(name), declared, value


def _loop_limit(node: Node) -> tuple[str, Node, bool] | None:
    condition = node.child_by_field_name("condition")
    if condition is None or condition.type != "binary_expression":
        return None
    left = condition.child_by_field_name("left")
    right = condition.child_by_field_name("right")
    if left is None or right is None:
        return None
    sign = operator_of(condition)
    if sign in (">", ">="):
        left, right, sign = right, left, {">": "<", ">=": "<="}[sign]
    left = strip_parens(left)
    if left.type != "identifier" or sign not in _COMPARISONS:
        return None
    return text_of(left), right, sign == "<="


def _loop_step(node: Node, variable: str) -> str | None:
    update = node.child_by_field_name("update")
    if update is None:
        return None
    text = re.sub(r"\s+", "", text_of(update))
    if text in (f"{variable}++", f"++{variable}", f"{variable}={variable}+1"):
        return "1"
    for prefix in (f"{variable}+=", f"{variable}={variable}+"):
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    return None


@dataclass(frozen=True, slots=True)
class Macro:
    parameters: tuple[str, ...]
    body: str
    """In one line."""


class Source:
    """One kernel file, parsed."""

    def __init__(self, text: str, language: Language = "c") -> None:
        self.text = text
        self.language: Language = language
        self._tree = _parser(language).parse(text.encode())

    @property
    def root(self) -> Node:
        return self._tree.root_node

    @cached_property
    def functions(self) -> tuple[CFunction, ...]:
        found = (
            _read_function(node, self.elements) for node in walk(self.root, "function_definition")
        )
        return tuple(function for function in found if function is not None)

    @cached_property
    def elements(self) -> Mapping[str, Element]:
        """Names of floating-point types: C's own, those that the file defines for them, and
        parameters of templates, where the whole file names one such type."""
        names: dict[str, Element] = {real: real for real in _REALS}
        for one, other in _NAMED_TYPE.findall(self.text):
            real, name = (one, other) if one in _REALS else (other, one)
            if real in _REALS:
                names[name] = real
        used = {real for real in _REALS if re.search(rf"\b{real}\b", self.text)}
        if len(used) == 1 and not _OTHER_ELEMENTS.search(self.text):
            for node in walk(self.root, "type_parameter_declaration"):
                names |= {text_of(name): min(used) for name in walk(node, "type_identifier")}
        return names

    @cached_property
    def types(self) -> frozenset[str]:
        """Names that the file uses for types."""
        return frozenset(text_of(node) for node in walk(self.root, "type_identifier"))

    def function(self, name: str) -> CFunction | None:
        """The definition of `name`, if this file has it; the first, if it has several."""
        return next(iter(self.named(name)), None)

    def named(self, name: str) -> tuple[CFunction, ...]:
        """What a call of `name` may reach: `a::f` is the class's or namespace's, or else any `f`,
        since `a` may be a parameter of a template."""
        scope, _, plain = name.rpartition("::")
        found = self._by_name.get(plain, ())
        return tuple(f for f in found if scope and f.owner == scope.split("::")[-1]) or found

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[CFunction, ...]]:
        names = dict.fromkeys(function.name for function in self.functions)
        return {name: tuple(f for f in self.functions if f.name == name) for name in names}

    @cached_property
    def macros(self) -> Mapping[str, Macro]:
        """Function-like macros, by name."""
        found = {}
        for node in walk(self.root, "preproc_function_def"):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            listed = node.child_by_field_name("parameters")
            if name is not None and value is not None and listed is not None:
                names = tuple(text_of(parameter) for parameter in listed.named_children)
                body = text_of(value).replace("\\\n", " ").strip()
                found[text_of(name)] = Macro(names, body)
        return found

    def reachable(self, entry: str) -> tuple[CFunction, ...]:
        """`entry` and every function of this file that it calls, directly or not; entry first."""
        order: list[CFunction] = []
        waiting = [entry]
        while waiting:
            for function in self.named(waiting.pop(0)):
                if function not in order:
                    order.append(function)
                    waiting += [name for name, _ in calls(function.body)]
        return tuple(order)

    def edited(self, edits: Sequence[SourceEdit]) -> Source:
        """The source after the edits, parsed anew."""
        return Source(apply_edits(self.text, edits), self.language)

    def insert_helpers(self, code: str) -> SourceEdit:
        """An edit that puts helper functions after all includes and helpers at the top level.

        A file without includes gets them before everything but leading comments.
        """
        place = 0
        for node in self.root.children:
            is_function = node.type == "function_definition"
            helper = _read_function(node, self.elements) if is_function else None
            inserted = helper is not None and helper.name.startswith("roofsmith_")
            if node.type == "preproc_include" or inserted:
                place = node.end_byte
        if place == 0:
            first = next((n for n in self.root.children if n.type != "comment"), None)
            place = 0 if first is None else first.start_byte
        return SourceEdit(place, place, f"\n{code.strip()}\n\n")

    def include(self, header: str) -> list[SourceEdit]:
        """An edit that includes `<header>`, behind the others; none if the file does already."""
        names = (re.escape(header), "c" + re.escape(header.removesuffix(".h")))
        if re.search(rf"^\s*#\s*include\s*<({'|'.join(names)})>", self.text, re.MULTILINE):
            return []
        others = [n for n in self.root.named_children if n.type == "preproc_include"]
        at = others[-1].end_byte if others else 0
        return [SourceEdit(at, at, f"#include <{header}>\n")]


def _read_function(node: Node, elements: Mapping[str, Element]) -> CFunction | None:
    body = node.child_by_field_name("body")
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    if body is None or declarator is None:
        return None
    name = declarator.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters")
    if name is None or listed is None or name.type not in _NAMES:
        return None
    parameters = (_read_parameter(p) for p in listed.named_children)
    given = tuple(parameter for parameter in parameters if parameter is not None)
    return CFunction(node, text_of(name), given, body, _owner(node), elements)


def _owner(node: Node) -> str:
    around = node.parent
    while around is not None and around.type not in ("struct_specifier", "class_specifier"):
        around = around.parent
    name = None if around is None else around.child_by_field_name("name")
    return "" if name is None else text_of(name)


def _setting_block(mention: Node) -> Node | None:
    """The block in which a mention gives a name a new value, without reading the old one."""
    around = mention.parent
    while around is not None and around.type == "pointer_declarator":
        around = around.parent
    if around is None or around.parent is None:
        return None
    value = around.child_by_field_name("value") or around.child_by_field_name("right")
    is_new = around.type == "init_declarator" or (
        around.type == "assignment_expression"
        and operator_of(around) == "="
        and around.child_by_field_name("left") == mention
        and around.parent.type == "expression_statement"
    )
    names = set() if value is None else {text_of(node) for node in walk(value, "identifier")}
    if around.type in ("declaration", "init_declarator") and value is None:
        return around.parent  # declared, without a value yet
    block = around.parent.parent
    is_block = block is not None and block.type == "compound_statement"
    return block if is_new and is_block and text_of(mention) not in names else None


def _loops_around(node: Node, body: Node) -> list[Node]:
    found, around = [], node.parent
    while around is not None and around != body:
        if around.type in ("for_statement", "while_statement", "do_statement"):
            found.append(around)
        around = around.parent
    return found


def _read_parameter(node: Node) -> CParameter | None:
    if node.type != "parameter_declaration":
        return None
    declarator = node.child_by_field_name("declarator")
    if declarator is None:
        return None
    name = next(walk(declarator, "identifier"), None)
    if name is None:
        return None
    pointer = declarator.type in ("pointer_declarator", "array_declarator")
    whole, label = text_of(node), text_of(name)
    kind = re.sub(rf"\b{re.escape(label)}\b", "", whole).strip()
    before_star = r"\bconst\b[^*]*\*" if "*" in whole else r"\bconst\b"
    const = pointer and re.search(before_star, whole) is not None
    return CParameter(label, kind, pointer, const)


def mutated_names(body: Node) -> frozenset[str]:
    """Names that are assigned or counted after their declaration, loop variables excepted."""
    headers = {
        part.id
        for loop in loops(body)
        if loop.canonical
        for part in (loop.node.child_by_field_name(f) for f in ("initializer", "update"))
        if part is not None
    }
    return frozenset(
        text_of(target)
        for target in assigned(body)
        if target.type == "identifier" and target.parent and target.parent.id not in headers
    )


def loops(node: Node) -> list[Loop]:
    """Every `for` loop in the node, in source order, outer before inner."""
    return [read_loop(found) for found in walk(node, "for_statement")]


def outermost_loops(node: Node) -> list[Loop]:
    """Loops in the node that are in no other `for` loop of the node."""
    if node.type == "for_statement":
        return [read_loop(node)]
    return [loop for child in node.children for loop in outermost_loops(child)]
