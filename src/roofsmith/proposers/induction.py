"""Pointers and indices that move by a constant in every iteration, rewritten as functions of it.

`for (i = 0; i < n; i++) s += *p++;` becomes `for (i = 0; i < n; i++) s += p[i];`, with `p += n;`
behind the loop where `p` is still needed; then the loop around it can be rewritten likewise
(induction-variable substitution: Allen & Kennedy, Optimizing Compilers for Modern Architectures,
section 4.5). So cards see one form of a kernel, however it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.affine import Atom, Monomial, NotRecognisedError, Polynomial, read_integer
from roofsmith.proposers.dependence import declared_names, is_needed_behind
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.source import CFunction, Loop, Source, loop_start, read_loop
from roofsmith.proposers.syntax import (
    assigned,
    assignment_of,
    calls,
    identifiers,
    strip_parens,
    text_of,
    walk,
    within,
)

_MAX_REWRITES = 64
_NAME = re.compile(r"[A-Za-z_]\w*")
_WIDE = re.compile(r"\b(int|long|size_t|ptrdiff_t|s?size_t|u?int(32|64)_t)\b")
_NARROW = re.compile(r"\b(char|short|u?int(8|16)_t|float|double)\b")
_ASSIGNS = re.compile(r"\+\+|--|[^=!<>]=[^=]")
_STRAIGHT = frozenset(
    (
        *("expression_statement", "compound_statement", "declaration", "init_declarator"),
        *("pointer_expression", "assignment_expression", "subscript_expression", "argument_list"),
        *("parenthesized_expression", "call_expression", "cast_expression", "unary_expression"),
        *("subscript_argument_list", "binary_expression", "comma_expression"),
        *("update_expression", "pointer_declarator"),
    )
)
"""What may lie between a step and the loop's body: all of it runs in every iteration."""
_LOOPS = ("for_statement", "while_statement", "do_statement")
_LEAVES = ("break_statement", "continue_statement", "return_statement", "goto_statement")


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop as it counts: `count` is 0, 1, ... in C text, up to below `total`."""

    loop: Loop
    count: str
    step: int
    """Of `count`, from one iteration to the next."""
    total: str | None
    """None where it may come to less than 0."""
    header: SourceEdit | None = None
    """A `while` made to count."""
    name: str = ""
    """What such a loop moves itself, which has to stand still first."""


@dataclass(frozen=True, slots=True)
class Step:
    """The one place that moves a name, by `amount` in every iteration."""

    name: str
    node: Node
    amount: str

    @property
    def statement(self) -> Node | None:
        """The statement that does nothing else."""
        parent = self.node.parent
        return parent if parent is not None and parent.type == "expression_statement" else None


def without_moving(source: Source) -> Source:
    """The source with each such name replaced, as far as can be told.

    Not where macros assign: what those move isn't seen.
    """
    macros = walk(source.root, "preproc_def", "preproc_function_def")
    if any(_ASSIGNS.search(text_of(macro)) for macro in macros):
        return source
    for _ in range(_MAX_REWRITES):
        edits = next(_rewrites(source), None)
        if edits is None:
            break
        source = source.edited(edits)
    return source


def _rewrites(source: Source) -> Iterator[list[SourceEdit]]:
    for function in source.functions:
        called = (source.named(name) for name, _ in calls(function.body))
        by_reference = any(p.is_changed for found in called for f in found for p in f.parameters)
        has_labels = any(walk(function.body, "goto_statement"))
        if function.name.startswith("roofsmith_") or by_reference or has_labels:
            continue
        for node in reversed(list(walk(function.body, *_LOOPS))):
            edits = _countdown(function, node) or _declared_before(function, node)
            edits = edits or _single_update(node) or _pointer_loop(function, node)
            if edits is not None:
                yield edits
            if node.type == "do_statement":
                continue
            turns = _turns(function, node)
            if turns is None or _is_marked(node) or any(walk(turns.loop.body, *_LEAVES)):
                continue
            for step in _steps(function, turns):
                if turns.name not in ("", step.name):
                    continue
                edits = _rewritten(function, turns, step)
                if edits is not None:
                    yield edits
        yield from _straight_moves(function)
        yield from _set_again(function)


def _straight_moves(function: CFunction) -> Iterator[list[SourceEdit]]:
    """`p += n;` between loops: from there on it is `p + n`."""
    changed = [text_of(target) for target in assigned(function.body)]
    for statement in reversed(function.body.named_children):
        change = assignment_of(statement)
        if change is None or change[1] not in ("+=", "-=") or change[0].type != "identifier":
            continue
        name = text_of(change[0])
        amount = _amount(strip_parens(statement.named_children[0]), name)
        mentions = [n for n in walk(function.body, "identifier") if text_of(n) == name]
        later = [node for node in mentions if node.start_byte > statement.end_byte]
        moves = any(node.start_byte > statement.end_byte for node in _changes(function, name))
        is_fixed = amount is not None and not identifiers(change[2]) & set(changed)
        if amount is not None and is_fixed and not moves and _moves(function, name):
            edits = [edit for node in later for edit in _moved(node, name, amount)]
            yield [SourceEdit.replace(statement, ""), *edits]


def _changes(function: CFunction, name: str) -> Iterator[Node]:
    return (target for target in assigned(function.body) if text_of(target) == name)


def _countdown(function: CFunction, node: Node) -> list[SourceEdit] | None:
    """`for (i = n; i > 0; i--)`, `for (i = n; i--;)` and `do ... while (--n)`, where nothing reads
    the counter: counted from 0."""
    condition, body = (node.child_by_field_name(field) for field in ("condition", "body"))
    update = node.child_by_field_name("update")
    if condition is None or body is None:
        return None
    (name, way), start = _tested(condition), loop_start(node)
    parts = [] if update is None else list(_parts(update))
    counts = [_amount(part, name) for part in parts if name in identifiers(part)]
    others = [text_of(part) for part in parts if name not in identifiers(part)]
    if node.type == "do_statement" and way == "--i":
        kind, counter, total = "long ", _counter(function), name
    elif start is not None and start[0] == name and not _reads_memory(start[2]):
        if (way, counts) not in (("", ["-1"]), ("i--", [])):
            return None
        kind, counter = "" if start[1] is None else f"{start[1]} ", name
        total = text_of(start[2]) if start[2].type == "identifier" else f"({text_of(start[2])})"
    else:
        return None
    moved = {text_of(target) for target in assigned(node)} - {name}
    is_own = start is not None and start[1] is not None
    if name in identifiers(body) or moved & set(_NAME.findall(total)):
        return None
    if not is_own and is_needed_behind(function, node, name):
        return None
    changes = ", ".join((f"{counter}++", *others))
    header = f"for ({kind}{counter} = 0; {counter} < {total}; {changes}) "
    edits = [SourceEdit(node.start_byte, body.start_byte, header)]
    return edits if start else [*edits, SourceEdit(body.end_byte, node.end_byte, "")]


def _tested(condition: Node) -> tuple[str, str]:
    """The name that a condition compares with 0, and how it counts it: `i--`, `--i` or not."""
    node = strip_parens(condition)
    if operator_of(node) in (">", "!=") and text_of(node.named_children[-1]) == "0":
        node = strip_parens(node.named_children[0])
    if node.type != "update_expression" or operator_of(node) != "--":
        return (text_of(node) if node.type == "identifier" else ""), ""
    counted = text_of(node)
    return counted.strip("- "), "--i" if counted[0] == "-" else "i--"


def _single_update(node: Node) -> list[SourceEdit] | None:
    """`i++, p++` in a loop's header: all but the counter's goes to the end of the body."""
    update, body = (node.child_by_field_name(f) for f in ("update", "body"))
    condition = node.child_by_field_name("condition")
    if update is None or body is None or condition is None or any(walk(body, *_LEAVES)):
        return None
    parts = list(_parts(update))
    kept = [part for part in parts if identifiers(part) & identifiers(condition)]
    if len(parts) < 2 or len(kept) != 1:
        return None
    code = " ".join(f"{text_of(part)};" for part in parts if part not in kept)
    header = SourceEdit.replace(update, text_of(kept[0]))
    if body.type == "compound_statement":
        return [header, SourceEdit.before(body.children[-1], f"{code} ")]
    return [header, SourceEdit.before(body, "{ "), SourceEdit.after(body, f" {code} }}")]


def _declared_before(function: CFunction, node: Node) -> list[SourceEdit] | None:
    """`for (float *p = x, *q = y; ...)`: declared in front of the loop, in a block if need be."""
    initial = node.child_by_field_name("initializer")
    declared = [] if initial is None else initial.children_by_field_name("declarator")
    pointers = [d.child_by_field_name("declarator") for d in declared]
    if initial is None or len(pointers) < 2:
        return None
    if any(one is None or one.type != "pointer_declarator" for one in pointers):
        return None
    names = declared_names(initial)
    mentions = (n for n in walk(function.body, "identifier") if text_of(n) in names)
    is_alone = node.parent is not None and node.parent.type == "compound_statement"
    is_free = is_alone and all(within(mention, node) for mention in mentions)
    opened, closed = ("", "") if is_free else ("{ ", " }")
    before = SourceEdit.before(node, f"{opened}{text_of(initial)} ")
    return [before, SourceEdit.replace(initial, ";"), SourceEdit.after(node, closed)]


def _set_again(function: CFunction) -> Iterator[list[SourceEdit]]:
    """`p = x;` where `p` is `x` already."""
    for statement in walk(function.body, "expression_statement"):
        change, block = assignment_of(statement), statement.parent
        if change is None or change[1] != "=" or block is None:
            continue
        value = _value_at(function, statement, text_of(change[0]))
        if value is not None and text_of(value) == text_of(change[2]):
            is_free = block.type == "compound_statement"
            yield [SourceEdit.replace(statement, "" if is_free else ";")]


def _parts(update: Node) -> Iterator[Node]:
    if update.type != "comma_expression":
        yield update
        return
    for part in update.named_children:
        yield from _parts(part)


def _pointer_loop(function: CFunction, node: Node) -> list[SourceEdit] | None:
    """`for (const float *p = x; p < x + n; p++)`, `for (; p < end; p++)`: a counter in the
    pointer's place."""
    initial, body = (node.child_by_field_name(f) for f in ("initializer", "body"))
    condition, update = (node.child_by_field_name(f) for f in ("condition", "update"))
    if condition is None or update is None or body is None or not condition.named_children:
        return None
    left, right = condition.named_children[0], condition.named_children[-1]
    named: Node | None = left
    first: Node | None = left
    if initial is not None:
        declared = initial.children_by_field_name("declarator")
        target = declared[0] if initial.type == "declaration" and len(declared) == 1 else initial
        named = target.child_by_field_name("declarator") or target.child_by_field_name("left")
        first = target.child_by_field_name("value") or target.child_by_field_name("right")
    if named is None or first is None or operator_of(condition) not in ("<", "!="):
        return None
    name, step = _declared_name(named), _amount(update, text_of(left))
    moved = {text_of(node) for node in assigned(body)}
    fixed = not (identifiers(first) | identifiers(right) | {name}) & moved
    if text_of(left) != name or not fixed or step is None or "-" in step:
        return None
    is_own = initial is not None and initial.type == "declaration"
    if not _is_pointer(function, name) or (not is_own and is_needed_behind(function, node, name)):
        return None
    if _reads_memory(first) or _reads_memory(right):
        return None
    counter, start = _counter(function), text_of(first)
    start = start if first.type == "identifier" else f"({start})"
    distance = _distance(function, node, first, right)
    turns = _turns_of(distance, step)
    turn = f"{counter}++" if turns is not None or step == "1" else f"{counter} += {step}"
    total = _written(distance if turns is None else turns)
    header = f"for (long {counter} = 0; {counter} < {total}; {turn}) "
    mentions = [n for n in walk(body, "identifier") if text_of(n) == name]
    offset = counter if turns is None or step == "1" else f"{counter} * {step}"
    edits = [edit for n in mentions for edit in _moved(n, start, offset)]
    return [SourceEdit(node.start_byte, body.start_byte, header), *edits]


def _counter(function: CFunction) -> str:
    """A new name."""
    used = identifiers(function.body)
    names = (f"rs_turn{number or ''}" for number in count())
    return next(name for name in names if name not in used)


def _reads_memory(node: Node) -> bool:
    return any(walk(node, "subscript_expression", "pointer_expression", "call_expression"))


def _value_at(function: CFunction, loop: Node, name: str) -> Node | None:
    """What a local was declared as, if that is still its value where a loop begins."""
    declared = [n for n in walk(function.body, "init_declarator") if _declared_name(n) == name]
    value = declared[0].child_by_field_name("value") if len(declared) == 1 else None
    if value is None or _reads_memory(value):
        return None
    begin, end, around = declared[0].start_byte, loop.start_byte, loop.parent
    while around is not None and not within(declared[0], around):
        end = around.end_byte if around.type in _LOOPS else end
        around = around.parent
    changes = (node for part in {name, *identifiers(value)} for node in _changes(function, part))
    moved = any(begin < node.start_byte < end and not within(node, loop) for node in changes)
    return None if moved else value


def _distance(function: CFunction, loop: Node, first: Node, last: Node) -> Polynomial | str:
    """Elements between two addresses, or C text where their base doesn't cancel."""
    first, last = (_value_at(function, loop, text_of(end)) or end for end in (first, last))
    written = f"({text_of(last)}) - ({text_of(first)})"
    try:
        apart = read_integer(last, {}) - read_integer(first, {})
    except NotRecognisedError:
        return written
    atoms = (atom for monomial, _ in apart.terms for atom in monomial)
    return written if any(_is_pointer(function, atom.text) for atom in atoms) else apart


def _written(distance: Polynomial | str) -> str:
    if isinstance(distance, str):
        return distance
    return distance.render().replace("(ptrdiff_t)", "(long)")


def _turns_of(distance: Polynomial | str, step: str) -> Polynomial | None:
    """How many steps a distance is; None where that can't be told."""
    if isinstance(distance, str):
        return None
    if step.isdigit():
        whole = all(factor % int(step) == 0 for _, factor in distance.terms)
        return Polynomial.of((m, f // int(step)) for m, f in distance.terms) if whole else None
    atom = Atom(step)
    if any(atom not in monomial for monomial, _ in distance.terms):
        return None
    return Polynomial.of((_without(atom, monomial), factor) for monomial, factor in distance.terms)


def _without(atom: Atom, monomial: Monomial) -> Monomial:
    place = monomial.index(atom)
    return monomial[:place] + monomial[place + 1 :]


def _is_pointer(function: CFunction, name: str) -> bool:
    return any(
        node.type in ("pointer_declarator", "array_declarator")
        for node in _declarators(function) if _declared_name(node) == name
    )  # fmt: skip


def _is_marked(node: Node) -> bool:
    before = node.prev_named_sibling
    is_directive = before is not None and before.type == "preproc_call"
    return is_directive and before is not None and "scop" not in text_of(before).split()


def _turns(function: CFunction, node: Node) -> Turns | None:
    """How a loop counts; None if that can't be told."""
    if node.type == "while_statement":
        return _counted(function, node)
    loop = read_loop(node)
    if not loop.canonical or loop.step is None or not loop.step.isdigit() or int(loop.step) < 1:
        return None
    assert loop.lower is not None
    assert loop.upper is not None
    first, name = text_of(loop.lower), loop.variable or ""
    if first == "0":
        steady = not identifiers(loop.upper) & {text_of(n) for n in assigned(loop.body)}
        grows = all(n.type in ("identifier", "number_literal") for n in _leaves_of(loop.upper))
        is_told = loop.step == "1" and steady and grows
        return Turns(loop, name, int(loop.step), loop.upper_text if is_told else None)
    if identifiers(loop.lower) & {text_of(n) for n in assigned(node)}:
        return None
    return Turns(loop, f"({name} - ({first}))", int(loop.step), None)


def _leaves_of(node: Node) -> Iterator[Node]:
    """The operands of a product; anything else is one operand."""
    node = strip_parens(node)
    if node.type == "binary_expression" and operator_of(node) == "*":
        for child in node.named_children:
            yield from _leaves_of(child)
    else:
        yield node


def _counted(function: CFunction, node: Node) -> Turns | None:
    """`while (p < end) { ...; p++; }` and `while (n--)`, if nothing reads `p` or `n` later."""
    condition, body = (node.child_by_field_name(f) for f in ("condition", "body"))
    if condition is None or body is None:
        return None
    while condition.type in ("condition_clause", "parenthesized_expression"):
        condition = condition.named_children[0]
    left, right, sign = condition, condition, "!="
    if condition.type == "binary_expression":
        left, right, sign = (
            condition.named_children[0], condition.named_children[-1], operator_of(condition),
        )  # fmt: skip
    is_countdown = condition == left or text_of(right).rstrip("uU") == "0"
    counts_here = left.type == "update_expression" and text_of(left).endswith("--")
    named = left.named_children[0] if counts_here else left
    name, moved = text_of(named), {text_of(target) for target in assigned(body)}
    if named.type != "identifier" or is_needed_behind(function, node, name) or _reads_memory(right):
        return None
    counter = _counter(function)
    if is_countdown and sign in (">", "!="):
        value = _value_at(function, node, name)
        is_name = value is not None and value.type in ("identifier", "number_literal")
        total, amount = text_of(value) if value is not None and is_name else name, "-1"
    elif sign in ("<", "!=") and not identifiers(right) & moved and not counts_here:
        total, amount = _written(_distance(function, node, named, right)), "1"
    else:
        return None
    header = f"for (long {counter} = 0; {counter} < {total}; {counter}++) "
    made = SourceEdit(node.start_byte, body.start_byte, header)
    turns = Turns(Loop(node, body), counter, 1, None, made, "" if counts_here else name)
    if counts_here:
        return None if name in identifiers(body) else turns
    steps = {step.name: step for step in _steps(function, turns)}
    return turns if name in steps and steps[name].amount == amount else None


def _steps(function: CFunction, turns: Turns) -> Iterator[Step]:
    """What moves by a constant, once in every iteration."""
    body = turns.loop.body
    targets = [target for target in assigned(body) if target.type == "identifier"]
    names = Counter(text_of(target) for target in targets)
    own = declared_names(body) | {turns.loop.variable}
    for target in targets:
        name = text_of(target)
        change = target.parent
        if name in own or change is None or names[name] > 1:
            continue
        amount = _amount(change, name)
        used = set(_NAME.findall(amount or ""))
        if amount is None or used & {*names, *own} or not _always_runs(change, body):
            continue
        if _moves(function, name):
            yield Step(name, change, amount)


def _moves(function: CFunction, name: str) -> bool:
    """Whether a name is a pointer or a wide integer whose address nobody takes."""
    kind = function.kinds.get(name, "")
    declared = [node for node in _declarators(function) if _declared_name(node) == name]
    if len(declared) != 1:
        return False
    is_pointer = declared[0].type in ("pointer_declarator", "array_declarator")
    whole = _WIDE.search(kind) is not None and not _NARROW.search(kind)
    taken = (
        operator_of(node) == "&" and text_of(node.named_children[-1]) == name
        for node in walk(function.body, "pointer_expression")
    )
    return (is_pointer or whole) and not any(taken)


def _declarators(function: CFunction) -> Iterator[Node]:
    """What declares each parameter and local."""
    for node in walk(function.node, "declaration", "parameter_declaration"):
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            yield declarator if value is None else declarator.named_children[0]


def _declared_name(declarator: Node) -> str:
    return next((text_of(n) for n in walk(declarator, "identifier")), "")


def _amount(change: Node, name: str) -> str | None:
    """By how much `p++`, `p += 4`, `p = p + n` or `p -= 1` moves; None for anything else."""
    if change.type == "update_expression":
        return "1" if operator_of(change) == "++" else "-1"
    parts = assignment_of(change)
    if parts is None:
        return None
    _, sign, right = parts
    if sign == "=" and right.type == "binary_expression" and operator_of(right) in "+-":
        if text_of(right.named_children[0]) != name:
            return None
        sign, right = f"{operator_of(right)}=", right.named_children[-1]
    text = text_of(right)
    plain = all(n.type in ("identifier", "number_literal") for n in _leaves_of(right))
    if sign not in ("+=", "-=") or not plain or any(walk(right, "call_expression")):
        return None
    return text if sign == "+=" else f"-({text})"


def _always_runs(node: Node, body: Node) -> bool:
    around: Node | None = node
    while around is not None and around != body:
        around = around.parent
        if around is None or around.type not in _STRAIGHT or operator_of(around) in ("&&", "||"):
            return False
    return True


def _rewritten(function: CFunction, turns: Turns, step: Step) -> list[SourceEdit] | None:
    """The edits that make a name stand still; None where that can't be done."""
    offset = _offset(turns, step.amount)
    after = _behind(function, turns, step)
    if offset is None or after is None:
        return None
    past = f"{offset} + {step.amount}" if step.amount[0] != "-" else f"{offset} {step.amount}"
    edits = [*after, *([turns.header] if turns.header else [])]
    mentions = [n for n in walk(turns.loop.body, "identifier") if text_of(n) == step.name]
    others = [node for node in mentions if not within(node, step.node)]
    if step.statement is not None:
        block = step.statement.parent
        is_free = block is not None and block.type == "compound_statement"
        edits.append(SourceEdit.replace(step.statement, "" if is_free else ";"))
    else:
        if step.node.type != "update_expression" or _shares_statement(step, others):
            return None
        is_prefix = text_of(step.node)[0] in "+-"
        edits += _moved(step.node, step.name, past if is_prefix else offset)
    for node in others:
        edits += _moved(node, step.name, offset if node.end_byte <= step.node.start_byte else past)
    return edits


def _shares_statement(step: Step, others: list[Node]) -> bool:
    statement: Node | None = step.node
    while statement is not None and not statement.type.endswith(("statement", "declaration")):
        statement = statement.parent
    return statement is None or any(within(node, statement) for node in others)


def _offset(turns: Turns, amount: str) -> str | None:
    """How far a name has moved, as C text."""
    if amount.lstrip("-").isdigit() and int(amount) % turns.step == 0:
        factor = int(amount) // turns.step
        return turns.count if factor == 1 else f"(long){turns.count} * {factor}"
    return f"(long){turns.count} * {amount}" if turns.step == 1 else None


def _moved(node: Node, name: str, offset: str) -> list[SourceEdit]:
    """A mention of a name, so much further on."""
    parent = node.parent
    if parent is not None and parent.type == "pointer_expression" and operator_of(parent) == "*":
        return [SourceEdit.replace(parent, f"{name}[{offset}]")]
    is_array = parent is not None and parent.child_by_field_name("argument") == node
    if parent is not None and parent.type == "subscript_expression" and is_array:
        index = parent.named_children[-1]
        if index.type == "subscript_argument_list":
            index = index.named_children[0]
        start = [] if text_of(node) == name else [SourceEdit.replace(node, name)]
        opened, closed = ("", "") if index.named_child_count == 0 else ("(", ")")
        before = SourceEdit.before(index, f"{offset} + {opened}")
        return [*start, before, SourceEdit.after(index, closed)]
    is_index = parent is not None and parent.type.startswith("subscript")
    moved = f"{name} + {offset}"
    return [SourceEdit.replace(node, moved if is_index else f"({moved})")]


def _behind(function: CFunction, turns: Turns, step: Step) -> list[SourceEdit] | None:
    """What moves the name on behind the loop, if anything needs it; None if it can't be told."""
    node = turns.loop.node
    if not is_needed_behind(function, node, step.name):
        return []
    if turns.total is None:
        return None
    if turns.total == "1" or step.amount == "1":
        amount = turns.total if step.amount == "1" else step.amount
    else:
        amount = f"({turns.total}) * ({step.amount})"
    parent = node.parent
    line = f" {step.name} += {amount};"
    if parent is not None and parent.type == "compound_statement":
        return [SourceEdit.after(node, line)]
    return [SourceEdit.before(node, "{ "), SourceEdit.after(node, f"{line} }}")]
