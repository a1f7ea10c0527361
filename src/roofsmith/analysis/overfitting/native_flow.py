"""Follows what a C, C++, CUDA or HIP file keeps between calls: statics, and what is put into them.

Every function on the host is read as somebody calls it; branches are read one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from roofsmith.analysis.overfitting import native_calls as calls
from roofsmith.analysis.overfitting import native_tree as tree
from roofsmith.analysis.overfitting.native_scope import arguments, file_scope, static_result
from roofsmith.analysis.overfitting.stores import Guard, Store
from roofsmith.analysis.overfitting.tokens import (
    NOTHING,
    Tokens,
    aligned,
    computed,
    kept,
    keyed,
    only,
    roots,
    union,
)

_ENDS = ("return_statement", "throw_statement", "goto_statement")
"""What leaves the function, or much of it."""
_LEAVES = (*_ENDS, "break_statement", "continue_statement")


@dataclass(slots=True)
class _Frame:
    env: dict[str, Tokens]
    guards: list[Guard] = field(default_factory=list)
    references: set[str] = field(default_factory=set)
    """Locals that stand for what they were bound to."""
    emptied: set[str] = field(default_factory=set)
    """Places that this call has emptied, whatever they held."""
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
        """Every function, also those that run on a GPU: its memory outlives calls as well."""
        for function in tree.functions(self._root):
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
        frame.guards[depth:] = [guard for guard in frame.guards[depth:] if guard.ends]

    def _statement(self, node: Node, frame: _Frame) -> None:
        match node.type:
            case "declaration":
                self._declaration(node, frame)
            case "if_statement":
                self._branch(node, frame)
            case "for_statement" | "while_statement" | "do_statement" | "for_range_loop":
                self._loop(node, frame)
            case "switch_statement":
                condition = node.child_by_field_name("condition")
                body = node.child_by_field_name("body")
                self._guarded(self.of(condition, frame), condition, [body], frame)
            case "return_statement":
                frame.returned |= union(self.of(c, frame) for c in node.named_children)
            case "expression_statement":
                for child in node.named_children:
                    self.of(child, frame)
            case "compound_statement" | "try_statement" | "else_clause":
                for child in node.named_children:
                    self._block(child, frame)
            case "case_statement" | "labeled_statement" | "catch_clause":
                for child in node.named_children:
                    self._block(child, frame)
            case _:
                self.of(node, frame)

    def _declaration(self, node: Node, frame: _Frame) -> None:
        outlives = tree.outlives_calls(node)
        for child in node.named_children:
            is_declared = "declarator" in child.type or child.type == "identifier"
            name = tree.name_of(child) if is_declared else ""
            if not name:
                continue
            value = child.child_by_field_name("value") if child.type == "init_declarator" else None
            found = self.of(value, frame) if value is not None else NOTHING
            if outlives:
                frame.env[name] = kept(name)
                if value is not None:  # made in the first call, and never again
                    self._store(name, NOTHING, computed(found), frame, is_guarded=True)
                continue
            frame.env[name] = found
            if any(c.type == "reference_declarator" for c in tree.nodes(child)):
                frame.references.add(name)

    def _branch(self, node: Node, frame: _Frame) -> None:
        condition = node.child_by_field_name("condition")
        test = self.of(condition, frame)
        taken = node.child_by_field_name("consequence")
        self._guarded(test, condition, [taken, node.child_by_field_name("alternative")], frame)
        if only(test, "kept") and tree.ends_with(taken, _LEAVES):
            # What follows runs only where nothing was found.
            frame.guards.append(Guard(test, tree.written(condition), tree.ends_with(taken, _ENDS)))

    def _loop(self, node: Node, frame: _Frame) -> None:
        body = node.child_by_field_name("body")
        if node.type == "for_range_loop":
            name = tree.name_of(node.child_by_field_name("declarator"))
            frame.env[name] = self.of(node.child_by_field_name("right"), frame)
            self._block(body, frame)
            return
        condition = node.child_by_field_name("condition")
        parts = [c for c in node.named_children if c not in (body, condition, None)]
        found = [self.of(part, frame) for part in parts if part.type != "comment"]
        test = self.of(condition, frame)
        if not self._is_left_open(node, condition, frame):
            test = NOTHING
        begin = node.child_by_field_name("initializer")
        counter = begin.child_by_field_name("declarator") if begin is not None else None
        test |= union(found) | frame.env.get(tree.name_of(counter), NOTHING)
        self._guarded(test, condition, [body], frame)

    def _is_left_open(self, loop: Node, condition: Node | None, frame: _Frame) -> bool:
        """Whether what outlives the call decides if a loop runs, rather than how often."""
        asked = {tree.written(n) for n in tree.nodes(condition) if n.type == "identifier"}
        asked &= tree.changed_names(loop)
        kept_ones = {n for n in asked if only(self._name(n, frame, looks=False), "kept")}
        return bool(kept_ones) or not asked

    def _guarded(
        self, test: Tokens, condition: Node | None, blocks: Sequence[Node | None], frame: _Frame
    ) -> None:
        """What runs only if something that outlives the call is so, or not."""
        guards = bool(only(test, "kept"))
        before = len(frame.guards)
        if guards:
            frame.guards.append(Guard(test, tree.written(condition)))
        for block in blocks:
            self._block(block, frame)
        if guards:
            del frame.guards[before]

    # -- stores -----------------------------------------------------------------------------

    def _store(
        self, place: str, key: Tokens, value: Tokens, frame: _Frame, found_by: str = "",
        *, is_guarded: bool = False, in_place: bool = False,
    ) -> None:  # fmt: skip
        if place in frame.emptied:
            return
        tests = union(only(guard.test, "identity", "version") for guard in frame.guards)
        text = found_by or (frame.guards[-1].text if frame.guards else "")
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
                again = name in roots(value, "kept")  # q = q ? q : pack(w)
                self._store(name, NOTHING, computed(value), frame, is_guarded=again)
            elif name in frame.references and only(found, "kept"):
                self._put(found, value, frame, "")
            else:
                frame.env[name] = value
            return
        if only(found, "kept"):
            key = target.child_by_field_name("indices") or target.child_by_field_name("index")
            self._put(found, value, frame, tree.written(key))
        elif base := tree.first_name(target):
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
            case "conditional_expression":
                return self._choice(node, frame)
            case "sizeof_expression" | "type_descriptor" | "number_literal" | "string_literal":
                return NOTHING
            case "declaration":
                self._declaration(node, frame)
                return NOTHING
            case _:
                return union(self.of(c, frame, looks=looks) for c in node.named_children)

    def _choice(self, node: Node, frame: _Frame) -> Tokens:
        """`test ? a : b`: what it depends on, and the test beside what outlives the call."""
        condition = node.child_by_field_name("condition")
        test = self.of(condition, frame)
        sides = ("consequence", "alternative")
        return self._only_if(test, condition, [node.child_by_field_name(s) for s in sides], frame)

    def _only_if(
        self, test: Tokens, condition: Node | None, parts: Sequence[Node | None], frame: _Frame
    ) -> Tokens:
        guards = bool(only(test, "kept"))
        if guards:
            frame.guards.append(Guard(test, tree.written(condition)))
        found = union(self.of(part, frame) for part in parts)
        if guards:
            frame.guards.pop()
        return found | only(test, "kept", "identity", "version")

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
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = tree.written(node.child_by_field_name("operator"))
        found = self.of(left, frame)
        if operator in ("||", "&&", "or", "and"):
            return found | self._only_if(found, left, [right], frame)
        if operator in ("%", "&") and tree.is_alignment(left, right):
            return aligned(found)
        sides = found | self.of(right, frame)
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
        if calls.TICKETS.fullmatch(name):
            return computed(union(found[1:]))
        self._writes(name, arguments, found, frame)
        if function is not None and function.type == "lambda_expression":
            return self.of(function, frame)
        return computed(union(found)) | self._holds.get(name, NOTHING)

    def _method(self, function: Node, arguments: Sequence[Node], frame: _Frame) -> Tokens:
        name = tree.written(function.child_by_field_name("field")).partition("<")[0].strip()
        found = [self.of(a, frame) for a in arguments]
        puts, fills = name in calls.PUTS, name in calls.FILLS
        base = self.of(function.child_by_field_name("argument"), frame, looks=not (puts or fills))
        if name == "_version":
            return frozenset(("version", root) for _, root in only(base, "tensor"))
        places = roots(base, "kept")
        key = keyed(found[0]) if found else NOTHING
        if name == "clear" and not frame.guards:
            frame.emptied |= places
        for place in places if puts else ():
            value = computed(union(found[1:]) if len(found) > 1 else union(found))
            self._store(place, key, value, frame, tree.written(arguments[0]) if arguments else "")
        for place in places if fills else ():
            self._store(place, NOTHING, computed(union(found)), frame)
        if name in calls.LOOKS and places:
            return base | only(key, "identity", "version")
        if calls.TICKETS.fullmatch(name):
            return computed(union(found))
        if name in calls.FACTS:
            return only(base, "kept", "identity", "version")
        return base | (computed(union(found)) if not places else NOTHING)

    def _once(self, arguments: Sequence[Node], frame: _Frame) -> None:
        """`std::call_once(flag, f, ...)`: runs in the first call only."""
        flag = tree.written(arguments[0])
        frame.guards.append(Guard(kept(flag), flag))
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
            elif (local := tree.first_name(argument)) and not only(tokens, "tensor"):
                frame.env[local] = frame.env.get(local, NOTHING) | made

    def _is_written(self, name: str, place: int) -> bool:
        if calls.COPIES.fullmatch(name):
            return place == 0
        function = self._functions.get(name.partition("<")[0].strip())
        return function is None or tree.may_write(function, place)
