"""Follows what a C, C++, CUDA or HIP file keeps between calls: statics, and what is put into them.

Every function on the host is read as somebody calls it; branches are read one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from roofsmith.analysis.overfitting import native_tree as tree
from roofsmith.analysis.overfitting.native_scope import arguments, file_scope, static_result
from roofsmith.analysis.overfitting.stores import Store
from roofsmith.analysis.overfitting.tokens import (
    NOTHING,
    Tokens,
    computed,
    kept,
    keyed,
    only,
    roots,
    union,
)

_LOOKS = ("find", "count", "contains", "at", "equal_range", "lower_bound")
_PUTS = ("emplace", "insert", "try_emplace", "insert_or_assign")
_FILLS = ("assign", "push_back", "emplace_back", "push", "store", "append")
_FACTS = (
    "size", "sizes", "numel", "dim", "stride", "strides", "scalar_type", "dtype", "device",
    "is_contiguous", "options", "capacity", "empty", "end", "resize", "reserve", "clear", "erase",
)  # fmt: skip
_COPIES = re.compile(r"(std::)?(memcpy|memmove|wmemcpy)|(cuda|hip)Memcpy\w*")
_LEAVES = ("return_statement", "break_statement", "continue_statement", "throw_statement")


@dataclass(slots=True)
class _Frame:
    env: dict[str, Tokens]
    guards: list[tuple[Tokens, str]] = field(default_factory=list)
    references: set[str] = field(default_factory=set)
    """Locals that stand for what they were bound to."""
    returned: Tokens = NOTHING


class NativeFlow:
    """Everything that a file keeps between calls, and where it looks it up."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._functions = {tree.function_name(f): f for f in tree.functions(root)}
        self._kept = frozenset(file_scope(root))
        self._holds = {name: static_result(f) for name, f in self._functions.items()}
        """What functions return of their own statics: a singleton."""
        self._line = 0
        self.stores: list[Store] = []
        self.lookups: dict[str, set[int]] = {}

    def read(self) -> None:
        """Every function that runs on the host."""
        for function in tree.functions(self._root):
            if not tree.is_device_code(function):
                frame = _Frame(dict(arguments(function)))
                self._block(function.child_by_field_name("body"), frame)

    # -- statements -------------------------------------------------------------------------

    def _block(self, node: Node | None, frame: _Frame) -> None:
        if node is None:
            return
        depth = len(frame.guards)
        body = node.named_children if node.type == "compound_statement" else [node]
        for statement in body:
            self._line = tree.line_of(statement)
            self._statement(statement, frame)
        del frame.guards[depth:]

    def _statement(self, node: Node, frame: _Frame) -> None:
        match node.type:
            case "declaration":
                self._declaration(node, frame)
            case "if_statement":
                self._branch(node, frame)
            case "for_statement" | "while_statement" | "do_statement" | "for_range_loop":
                for child in node.named_children:
                    is_body = "statement" in child.type or child.type == "declaration"
                    self._block(child, frame) if is_body else self.of(child, frame)
            case "return_statement":
                frame.returned |= union(self.of(c, frame) for c in node.named_children)
            case "expression_statement":
                for child in node.named_children:
                    self.of(child, frame)
            case "compound_statement" | "try_statement" | "else_clause" | "switch_statement":
                for child in node.named_children:
                    self._block(child, frame)
            case "case_statement" | "labeled_statement" | "catch_clause":
                for child in node.named_children:
                    self._block(child, frame)
            case _:
                self.of(node, frame)

    def _declaration(self, node: Node, frame: _Frame) -> None:
        head = tree.written(node)
        outlives = re.match(r"(inline )?(static|thread_local)\b", head) is not None
        for child in node.named_children:
            name = (
                tree.name_of(child)
                if "declarator" in child.type or child.type == "identifier"
                else ""
            )
            if not name:
                continue
            value = child.child_by_field_name("value") if child.type == "init_declarator" else None
            found = self.of(value, frame) if value is not None else NOTHING
            if outlives:
                frame.env[name] = kept(name)
                if value is not None:  # made in the first call, and never again
                    self._store(name, NOTHING, found, frame, is_guarded=True)
                continue
            frame.env[name] = found
            if any(c.type == "reference_declarator" for c in tree.nodes(child)):
                frame.references.add(name)

    def _branch(self, node: Node, frame: _Frame) -> None:
        condition = node.child_by_field_name("condition")
        test = self.of(condition, frame) if condition is not None else NOTHING
        guards = bool(only(test, "kept"))
        if guards:
            frame.guards.append((test, tree.written(condition)))
        taken = node.child_by_field_name("consequence")
        self._block(taken, frame)
        self._block(node.child_by_field_name("alternative"), frame)
        if guards and not _leaves(taken):
            frame.guards.pop()  # else: what follows runs only where nothing was found

    # -- stores -----------------------------------------------------------------------------

    def _store(
        self, place: str, key: Tokens, value: Tokens, frame: _Frame, found_by: str = "",
        *, is_guarded: bool = False, in_place: bool = False,
    ) -> None:  # fmt: skip
        tests = union(only(test, "identity", "version") for test, _ in frame.guards)
        text = found_by or (frame.guards[-1][1] if frame.guards else "")
        guarded = is_guarded or bool(frame.guards)
        self.stores.append(
            Store(place, self._line, key | tests, value, text, guarded, in_place=in_place)
        )

    def _assign(self, target: Node, value: Tokens, frame: _Frame) -> None:
        while target.type == "parenthesized_expression" and target.named_children:
            target = target.named_children[0]
        found = self.of(target, frame, looks=False)
        if target.type == "identifier":
            name = tree.written(target)
            is_place = name in self._kept and name not in frame.env
            if is_place or found == kept(name):
                self._store(name, NOTHING, computed(value), frame)
            elif name in frame.references and only(found, "kept"):
                self._put(found, value, frame, "")
            else:
                frame.env[name] = value
            return
        if only(found, "kept"):
            key = target.child_by_field_name("indices") or target.child_by_field_name("index")
            self._put(found, value, frame, tree.written(key))
        elif base := _first_name(target):
            is_local = not only(frame.env.get(base, NOTHING), "tensor")
            if is_local:
                frame.env[base] = frame.env.get(base, NOTHING) | computed(value)

    def _put(self, found: Tokens, value: Tokens, frame: _Frame, found_by: str) -> None:
        """Store into memory or a container that is kept."""
        key = only(found, "identity", "version")
        for place in roots(found, "kept"):
            self._store(place, key, computed(value), frame, found_by, in_place=not key)

    # -- expressions ------------------------------------------------------------------------

    def of(self, node: Node | None, frame: _Frame, *, looks: bool = True) -> Tokens:
        """What an expression depends on; what it assigns is stored on the way."""
        if node is None:
            return NOTHING
        match node.type:
            case "identifier":
                return self._name(tree.written(node), frame, looks=looks)
            case "qualified_identifier":
                return self._name(tree.written(node).rpartition("::")[2], frame, looks=looks)
            case "assignment_expression":
                return self._assignment(node, frame)
            case "update_expression":
                return self.of(node.child_by_field_name("argument"), frame, looks=False)
            case "subscript_expression":
                return self._element(node, frame, looks=looks)
            case "pointer_expression":
                found = self.of(node.child_by_field_name("argument"), frame, looks=looks)
                return computed(found) if tree.written(node).startswith("*") else found
            case "field_expression":
                return self.of(node.child_by_field_name("argument"), frame, looks=looks)
            case "call_expression":
                return self._call(node, frame)
            case "binary_expression":
                return self._binary(node, frame)
            case "lambda_expression":
                return self._lambda(node, frame)
            case "sizeof_expression" | "type_descriptor" | "number_literal" | "string_literal":
                return NOTHING
            case "declaration":
                self._declaration(node, frame)
                return NOTHING
            case _:
                return union(self.of(c, frame, looks=looks) for c in node.named_children)

    def _lambda(self, node: Node, frame: _Frame) -> Tokens:
        """What it returns, as if it were called where it stands."""
        before, frame.returned = frame.returned, NOTHING
        self._block(node.child_by_field_name("body"), frame)
        made, frame.returned = frame.returned, before
        return made

    def _name(self, name: str, frame: _Frame, *, looks: bool) -> Tokens:
        if name in frame.env:
            found = frame.env[name]
        else:
            found = kept(name) if name in self._kept else NOTHING
        if looks:
            for place in roots(found, "kept"):
                self.lookups.setdefault(place, set()).add(self._line)
        return found

    def _assignment(self, node: Node, frame: _Frame) -> Tokens:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        value = self.of(right, frame)
        if left is None:
            return value
        operator = tree.written(node.child_by_field_name("operator"))
        if operator not in ("=", ""):
            value = computed(value) | self.of(left, frame, looks=False)
        self._assign(left, value, frame)
        return value

    def _element(self, node: Node, frame: _Frame, *, looks: bool) -> Tokens:
        base = self.of(node.child_by_field_name("argument"), frame, looks=looks)
        index = node.child_by_field_name("indices") or node.child_by_field_name("index")
        key = self.of(index, frame)
        if only(base, "kept"):
            return base | only(keyed(key), "identity", "version")
        return computed(base)

    def _binary(self, node: Node, frame: _Frame) -> Tokens:
        sides = self.of(node.child_by_field_name("left"), frame) | self.of(
            node.child_by_field_name("right"), frame
        )
        operator = tree.written(node.child_by_field_name("operator"))
        return keyed(sides) if operator in ("==", "!=", "<", ">", "<=", ">=") else sides

    def _call(self, node: Node, frame: _Frame) -> Tokens:
        function = node.child_by_field_name("function")
        given = node.child_by_field_name("arguments")
        arguments = list(given.named_children) if given is not None else []
        name = tree.written(function)
        if function is not None and function.type == "field_expression":
            return self._method(function, arguments, frame)
        if name.endswith("call_once") and arguments:
            self._once(arguments, frame)
            return NOTHING
        found = [self.of(a, frame) for a in arguments]
        if re.match(
            r"(reinterpret|static|const|bit)_cast|std::(move|forward|make_(pair|tuple))", name
        ):
            return union(found)
        if re.fullmatch(r"(std::)?(memcmp|equal)", name):
            return union(computed(f) for f in found)
        self._writes(name, arguments, found, frame)
        if function is not None and function.type == "lambda_expression":
            return self.of(function, frame)
        return computed(union(found)) | self._holds.get(name, NOTHING)

    def _method(self, function: Node, arguments: Sequence[Node], frame: _Frame) -> Tokens:
        name = tree.written(function.child_by_field_name("field")).partition("<")[0].strip()
        found = [self.of(a, frame) for a in arguments]
        puts, fills = name in _PUTS, name in _FILLS
        base = self.of(function.child_by_field_name("argument"), frame, looks=not (puts or fills))
        if name == "_version":
            return frozenset(("version", root) for _, root in only(base, "tensor"))
        places = roots(base, "kept")
        key = keyed(found[0]) if found else NOTHING
        for place in places if puts else ():
            value = computed(union(found[1:]) if len(found) > 1 else union(found))
            self._store(place, key, value, frame, tree.written(arguments[0]) if arguments else "")
        for place in places if fills else ():
            self._store(place, NOTHING, computed(union(found)), frame)
        if name in _LOOKS and places:
            return base | only(key, "identity", "version")
        if name in _FACTS:
            return only(base, "kept", "identity", "version")
        return base | (computed(union(found)) if not places else NOTHING)

    def _once(self, arguments: Sequence[Node], frame: _Frame) -> None:
        """`std::call_once(flag, f, ...)`: runs in the first call only."""
        flag = tree.written(arguments[0])
        frame.guards.append((kept(flag), flag))
        found = [self.of(a, frame) for a in arguments[1:]]
        self._writes(tree.written(arguments[1]) if len(arguments) > 1 else "", arguments[2:],
                     found[1:], frame)  # fmt: skip
        frame.guards.pop()

    def _writes(
        self, name: str, arguments: Sequence[Node], found: Sequence[Tokens], frame: _Frame
    ) -> None:
        """What a function writes through its pointers, made of what the others hold."""
        made = only(computed(union(found)), "data")
        if not made:
            return
        for place, (argument, tokens) in enumerate(zip(arguments, found, strict=False)):
            if not self._is_written(name, place):
                continue
            if only(tokens, "kept"):
                self._put(tokens, made, frame, "")
            elif (local := _first_name(argument)) and not only(tokens, "tensor"):
                frame.env[local] = frame.env.get(local, NOTHING) | made

    def _is_written(self, name: str, place: int) -> bool:
        if _COPIES.fullmatch(name):
            return place == 0
        function = self._functions.get(name.partition("<")[0].strip())
        if function is None:
            return True
        declared = tree.parameters(function)
        if place >= len(declared):
            return False
        text = tree.written(declared[place])
        return ("*" in text or "&" in text or "[" in text) and not text.startswith("const ")


def _first_name(node: Node | None) -> str:
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("argument") or (
            node.named_children[0] if node.named_children else None
        )
    return tree.written(node)


def _leaves(body: Node | None) -> bool:
    if body is None:
        return False
    last = body.named_children[-1] if body.named_children else None
    return body.type in _LEAVES or (last is not None and last.type in _LEAVES)
