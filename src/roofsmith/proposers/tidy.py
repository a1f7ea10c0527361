"""What a card writes, as somebody would write it who edits the file.

Constants are folded, no name hides another that didn't, what nobody needs any more is gone, and
lines are indented as the file's are.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.domain.kernel import Language
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.source import Source
from roofsmith.proposers.syntax import text_of, walk, within

_CONDITIONS = ("if_statement", "while_statement", "conditional_expression", "condition_clause")
_TRUTHS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||")
_MOST_PASSES = 20
"""Of folding: each takes an operator off, and cards leave a handful in a place."""


def tidied(before: str, after: str, language: Language) -> str:
    """The text of a card, whose functions that it changed are folded and indented."""
    if before == after:
        return after
    for _ in range(_MOST_PASSES):
        source = Source(after, language)
        changed = _changed(before, source)
        edits = [edit for f in changed for edit in (*_folds(f), *_unused(f, before))]
        edits = edits or next(filter(None, (_unhidden(f, before, source) for f in changed)), [])
        if not edits:
            break
        after = apply_edits(after, _apart(edits))
    after = _without_blanks(before, after)
    source, was = Source(after, language), Source(before, language)
    unit = _unit(before)
    lines = after.split("\n")
    new = _new_lines(before, after)
    for function in _changed(before, source):
        own = next((f.node for f in was.functions if f.name == _name(source, function)), None)
        is_regular = own is None or _indented(before.split("\n"), own, unit) == _rows(before, own)
        rows = range(function.start_point.row, function.end_point.row + 1)
        for row, line in zip(rows, _indented(lines, function, unit), strict=True):
            if is_regular or row in new:
                lines[row] = line
    return "\n".join(lines)


def _name(source: Source, node: Node) -> str:
    return next((f.name for f in source.functions if f.node == node), "")


def _rows(text: str, node: Node) -> list[str]:
    return text.split("\n")[node.start_point.row : node.end_point.row + 1]


def _new_lines(before: str, after: str) -> set[int]:
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return {
        row for tag, _, _, low, high in matcher.get_opcodes() if tag != "equal"
        for row in range(low, high)
    }  # fmt: skip


def _changed(before: str, source: Source) -> list[Node]:
    """Functions that weren't in the file as they are."""
    return [f.node for f in source.functions if text_of(f.node) not in before]


def _without_blanks(before: str, after: str) -> str:
    """The text without lines that became blank where something was taken away."""
    new, lines = _new_lines(before, after), after.split("\n")
    return "\n".join(
        line for row, line in enumerate(lines)
        if line.strip() or row not in new or row in (0, len(lines) - 1) or not line
    )  # fmt: skip


def _apart(edits: list[SourceEdit]) -> list[SourceEdit]:
    """Those that don't lie in one another; the rest has its turn in the next pass."""
    kept: list[SourceEdit] = []
    for edit in sorted(edits, key=lambda one: (one.start, -one.end)):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


# -- constants --------------------------------------------------------------------------------


def _folds(function: Node) -> Iterator[SourceEdit]:
    """Expressions and branches that a number decides."""
    for node in walk(function):
        match node.type:
            case "binary_expression" if operator_of(node) in ("&&", "||"):
                yield from _logic(node)
            case "unary_expression" if operator_of(node) == "!":
                if (value := _bit(node.named_children[0])) is not None:
                    yield SourceEdit.replace(node, str(1 - value))
            case "conditional_expression":
                condition, yes, no = (
                    node.child_by_field_name(part)
                    for part in ("condition", "consequence", "alternative")
                )
                if condition is not None and (value := _bit(condition)) is not None:
                    chosen = yes if value else no
                    if chosen is not None:
                        yield SourceEdit.replace(node, text_of(chosen))
            case "if_statement":
                yield from _branch(node)
            case _:
                pass


def _bit(node: Node) -> int | None:
    """0 or 1, through parentheses."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_children:
        node = node.named_children[0]
    text = text_of(node)
    return int(text) if node.type == "number_literal" and text in ("0", "1") else None


def _logic(node: Node) -> Iterator[SourceEdit]:
    left, right = node.named_children[0], node.named_children[-1]
    for bit, other in ((_bit(left), right), (_bit(right), left)):
        if bit is None:
            continue
        if bit == (operator_of(node) == "||"):
            if other is right or not any(walk(other, "call_expression", "update_expression")):
                yield SourceEdit.replace(node, str(bit))
        elif _is_truth(other) or _is_asked(node):
            yield SourceEdit.replace(node, text_of(other))
        return


def _is_truth(node: Node) -> bool:
    """Whether an expression is 0 or 1 anyway."""
    while node.type == "parenthesized_expression" and node.named_children:
        node = node.named_children[0]
    return operator_of(node) in _TRUTHS if node.type == "binary_expression" else False


def _is_asked(node: Node) -> bool:
    """Whether nobody wants more of an expression than whether it is 0."""
    around = node.parent
    while around is not None and around.type == "parenthesized_expression":
        node, around = around, around.parent
    if around is None:
        return False
    is_logic = around.type == "binary_expression" and operator_of(around) in ("&&", "||")
    return is_logic or around.type in _CONDITIONS


def _branch(node: Node) -> Iterator[SourceEdit]:
    condition, yes = (node.child_by_field_name(part) for part in ("condition", "consequence"))
    value = None if condition is None else _bit(condition)
    if value is None or yes is None:
        return
    no = node.child_by_field_name("alternative")
    if no is not None and no.type == "else_clause":
        no = no.named_children[-1]
    chosen = yes if value else no
    in_block = node.parent is not None and node.parent.type == "compound_statement"
    if chosen is None:
        yield SourceEdit.replace(node, "" if in_block else ";")
        return
    text = text_of(chosen)
    plain = chosen.type == "compound_statement" and not any(
        child.type == "declaration" for child in chosen.named_children
    )
    if in_block and plain and chosen.named_children:
        deeper = chosen.named_children[0].start_point.column - node.start_point.column
        first, *rest = text.strip()[1:-1].strip().split("\n")
        text = "\n".join([first, *(re.sub(rf"^\s{{0,{max(deeper, 0)}}}", "", r) for r in rest)])
    yield SourceEdit.replace(node, text)


# -- names ------------------------------------------------------------------------------------


def _declared(node: Node) -> Iterator[Node]:
    """The names that a declaration gives."""
    for declarator in node.children_by_field_name("declarator"):
        name: Node | None = declarator
        while name is not None and name.type != "identifier":
            name = name.child_by_field_name("declarator")
        if name is not None:
            yield name


def _uses(node: Node, name: str) -> list[Node]:
    return [one for one in walk(node, "identifier") if text_of(one) == name]


def _unused(function: Node, before: str) -> Iterator[SourceEdit]:
    """Declarations of names that were needed, and whose last use is gone."""
    for node in walk(function, "declaration"):
        names = [text_of(name) for name in _declared(node)]
        if len(names) != 1 or any(walk(node, "call_expression", "assignment_expression")):
            continue
        was = len(re.findall(rf"\b{names[0]}\b", before))
        in_block = node.parent is not None and node.parent.type == "compound_statement"
        if in_block and was > 1 and len(_uses(function, names[0])) == 1:
            yield SourceEdit.replace(node, "")


def _scope(node: Node) -> Node | None:
    """What a declaration holds in: a block or a loop."""
    around = node.parent
    while around is not None and around.type not in ("compound_statement", "for_statement"):
        around = around.parent
    return around


def _unhidden(function: Node, before: str, source: Source) -> list[SourceEdit]:
    """Another name for one that hides a parameter or what a block around declares; only what a card
    hid, and nothing that a macro names."""
    macros = " ".join(
        text_of(node) for node in walk(source.root, "preproc_def", "preproc_function_def")
    )
    outer = {text_of(n): function for p in walk(function, "parameter_declaration")
             for n in _declared(p)}  # fmt: skip
    places = [(d, n) for d in walk(function, "declaration") for n in _declared(d)]
    for declaration, name in places:
        text, scope = text_of(name), _scope(declaration)
        hides = text in outer or any(
            text_of(other) == text and other != name and scope is not None and within(scope, above)
            and above != scope
            for above, other in ((_scope(d) or function, n) for d, n in places)
        )  # fmt: skip
        is_old = before.count(text_of(declaration)) > 0 and text not in outer
        if not hides or scope is None or is_old or re.search(rf"\b{text}\b", macros):
            continue
        new = next(
            made for k in range(1, 100)
            if not re.search(rf"\b{(made := f'{text}_{k}')}\b", source.text)
        )  # fmt: skip
        return [
            SourceEdit.replace(one, new)
            for one in _uses(scope, text)
            if one.start_byte >= name.start_byte
        ]
    return []


# -- indentation ------------------------------------------------------------------------------


def _unit(text: str) -> str:
    """What a level of a file is indented by; four blanks where nothing is."""
    margins = [line[: len(line) - len(line.lstrip())] for line in text.split("\n") if line.strip()]
    if sum("\t" in margin for margin in margins) > len(margins) // 4:
        return "\t"
    steps = Counter(
        len(after) - len(before)
        for before, after in itertools.pairwise(margins)
        if 1 < len(after) - len(before) <= 8
    )
    return " " * (steps.most_common(1)[0][0] if steps else 4)


def _indented(lines: list[str], function: Node, unit: str) -> list[str]:
    """The lines of a function, each as deep as it lies; what goes on with a statement moves along
    with its first line."""
    first, last = function.start_point.row, function.end_point.row
    places = _Places(lines)
    places.goes_on(function)
    body = function.child_by_field_name("body")
    if body is not None:
        places.block(body, 0)
    base, found = _margin(lines[first]), dict[int, str]()
    for row in range(first, last + 1):
        line, (depth, head) = lines[row], places.of.get(row, (0, None))
        text = line.lstrip()
        if row == first or not text or re.match(r"#\s*(?!pragma)", text):
            found[row] = line if text else ""
        elif head is None:
            found[row] = base + unit * depth + text
        else:
            more = len(_margin(line)) - len(_margin(lines[head]))
            found[row] = _margin(found[head]) + " " * max(more, 0) + text
    return list(found.values())


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


class _Places:
    """By row: how many levels deep it lies, or the row of the statement that it goes on with."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.of: dict[int, tuple[int, int | None]] = {}

    def goes_on(self, node: Node) -> None:
        """Rows behind a node's first: others override those of what is in it."""
        for row in range(node.start_point.row + 1, node.end_point.row + 1):
            self.of[row] = (0, node.start_point.row)

    def block(self, node: Node, depth: int) -> None:
        """Braces and what is between them."""
        rows = range(node.start_point.row + 1, node.end_point.row)
        self.of |= dict.fromkeys(rows, (depth + 1, None))
        for child in node.children:
            if child.type in ("{", "}"):
                self._begins(child, depth)
            else:
                self._statement(child, depth + 1)

    def _statement(self, node: Node, depth: int) -> None:
        self.goes_on(node)
        self._begins(node, depth)
        if node.type == "compound_statement":
            self.block(node, depth)
        elif node.type == "case_statement":
            for child in node.named_children:
                if child.type.endswith(("statement", "declaration", "comment")):
                    self._statement(child, depth + 1)
        else:
            for name in ("body", "consequence", "alternative"):
                if (part := node.child_by_field_name(name)) is not None:
                    self._part(part, node, depth)

    def _part(self, part: Node, node: Node, depth: int) -> None:
        """The body of a loop or a branch, or what follows an else."""
        if part.type == "else_clause":
            self._begins(part, depth)
            self._part(part.named_children[-1], part, depth)
        elif part.type == "compound_statement":
            self._begins(part, depth)
            self.block(part, depth)
        elif part.type.endswith(("statement", "declaration")):
            is_below = part.start_point.row > node.start_point.row
            self._statement(part, depth + is_below)

    def _begins(self, node: Node, depth: int) -> None:
        """What is first in its line lies so deep."""
        row, column = node.start_point
        line = self._lines[row].encode()
        if not line[:column].strip():
            self.of[row] = (depth, None)
