"""Border iterations apart from the rest, whose body then tests nothing."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.affine import NotRecognisedError, Polynomial, read_integer
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CostEstimate, amdahl, constants, lines_of
from roofsmith.proposers.dependence import breaks
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.recipes._simd import directive
from roofsmith.proposers.source import CFunction, Loop, loops, outermost_loops, read_loop
from roofsmith.proposers.syntax import assigned, strip_parens, text_of, walk, within

FEW = 16
"""Iterations of a loop between two numbers, such as a filter's, that isn't worth three loops."""
_GAIN = 3.0
"""Of a loop that vectorises once nothing is tested in it, short of all lanes: loads at a distance
of one element each overlap. Chosen."""
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_LABELS = ("goto_statement", "labeled_statement", "storage_class_specifier")
"""What a body can't be written twice with."""


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison of a loop's variable, the same in all iterations but those at a border."""

    node: Node
    side: Literal["low", "high"]
    edge: Polynomial
    """First iteration from which on its value is known, or the first from which on it isn't."""
    value: bool
    """In between."""


@dataclass(frozen=True, slots=True)
class Split:
    """A loop whose body tests where it stands."""

    function: CFunction
    loop: Loop
    tests: tuple[Test, ...]


def apply(context: CardContext) -> CardChange | None:
    """Run the first and the last iterations with their tests, and those between without."""
    found = list(_outermost(context))
    if not found:
        return None
    names = constants(context.source)
    loops_ = (SourceEdit.replace(split.loop.node, _block(split, {}, names)) for split in found)
    edits = [*context.source.include("stddef.h"), *loops_]
    where = lines_of([split.loop for split in found])
    return context.changed(edits, f"Run border iterations apart in the loop at {where}")


def _outermost(context: CardContext) -> Iterator[Split]:
    """Loops to split that are in no other one."""
    names = constants(context.source)
    for function in context.functions:
        taken: list[Node] = []
        for loop in function.loops:
            if _is_split(loop) or any(within(loop.node, node) for node in taken):
                taken.append(loop.node)
            elif not directive(loop) and (split := _read(function, loop, names)):
                taken.append(loop.node)
                yield split


def _is_split(loop: Loop) -> bool:
    bounds = [text_of(bound) for bound in (loop.lower, loop.upper) if bound is not None]
    is_one = any(f"{loop.variable}_{end}" in b for b in bounds for end in ("low", "high"))
    return is_one or any(map(_is_split, outermost_loops(loop.body)))


def _read(
    function: CFunction,
    loop: Loop,
    names: Mapping[str, int],
    known: Container[tuple[int, int]] = (),
) -> Split | None:
    """The loop with those of its tests that aren't `known`; None where nothing can be won."""
    kind = function.kinds.get(loop.variable or "", loop.declared_type or "int")
    if not loop.canonical or loop.step != "1" or re.search(r"\b(float|double|auto)\b", kind):
        return None
    ends = _ends(loop, names)
    if ends is not None and ends[1] - ends[0] <= FEW:
        return None
    if _MAY_EQUAL.search(text_of(loop.node).partition("{")[0]):
        return None
    inside = loops(loop.body)
    if any(inner.variable == loop.variable for inner in inside) or _leaves(loop):
        return None
    if re.search(rf"\b{loop.variable}_(low|high)\b", text_of(function.node)):
        return None
    is_unsigned = "unsigned" in kind or re.search(r"\b(size_t|uint\d+_t)\b", kind) is not None
    found = _tests(function, loop, names, is_unsigned=is_unsigned)
    tests = tuple(test for test in found if _place(test.node) not in known)
    return Split(function, loop, tests) if tests else None


_MAY_EQUAL = re.compile(r"!=")
"""`i != n` may begin beyond its bound."""


def _leaves(loop: Loop) -> bool:
    """Whether the body can't be written more than once, or ends the loop."""
    return any(walk(loop.body, *_LABELS)) or breaks(loop)


def _tests(
    function: CFunction, loop: Loop, names: Mapping[str, int], *, is_unsigned: bool
) -> Iterator[Test]:
    changed = {text_of(target) for target in assigned(loop.node)} - {loop.variable}
    local = _locals(function, loop)
    for node in walk(loop.body, "binary_expression"):
        header = node.parent
        if operator_of(node) not in _MIRRORED or header is None or header.type == "for_statement":
            continue
        try:
            left, right = (read_integer(node.named_children[k], local) for k in (0, -1))
        except NotRecognisedError:
            continue
        test = _test(node, loop, left - right, _ranges(loop, node, names), operator_of(node))
        if test is None or (is_unsigned and _goes_below(left - right)):
            continue
        used = set(re.findall(r"[A-Za-z_]\w*", test.edge.render())) - {"ptrdiff_t"}
        whole = all(function.is_integer(name) or name in names for name in used)
        declared = {text_of(n) for d in walk(loop.body, "declaration") for n in _named(d)}
        if whole and not used & (changed | declared | {loop.variable}):
            yield test


def _goes_below(difference: Polynomial) -> bool:
    """Whether a constant is taken off: unsigned numbers have nothing below 0."""
    return len(difference.terms) > 2 or any(not m and f < 0 for m, f in difference.terms)


def _named(declaration: Node) -> Iterator[Node]:
    for declarator in declaration.children_by_field_name("declarator"):
        name = declarator.child_by_field_name("declarator") or declarator
        yield from walk(name, "identifier")


def _locals(function: CFunction, loop: Loop) -> dict[str, Polynomial]:
    """What names that the body declares and never changes stand for."""
    known: dict[str, Polynomial] = {}
    seen: set[str] = set()
    for declared in walk(loop.body, "init_declarator"):
        name, value = (declared.child_by_field_name(f) for f in ("declarator", "value"))
        if name is None or value is None or name.type != "identifier":
            continue
        label, around = text_of(name), declared.parent
        if (
            around is not None
            and around.parent is not None
            and around.parent.type == "for_statement"
        ):
            continue
        if label in seen:
            known.pop(label, None)
        elif label not in function.mutated and function.is_integer(label):
            with suppress(NotRecognisedError):
                known[label] = read_integer(value, known)
        seen.add(label)
    return known


def _ranges(loop: Loop, node: Node, names: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Lowest and highest value of variables of the loops around a test that numbers bound."""
    found = {}
    for inner in loops(loop.body):
        if not within(node, inner.body) or not inner.canonical or inner.step != "1":
            continue
        ends = _ends(inner, names)
        if ends is not None:
            found[str(inner.variable)] = (ends[0], ends[1] - 1)
    return found


def _number(node: Node, names: Mapping[str, int]) -> int | None:
    try:
        return read_integer(strip_parens(node), {}).value(names)
    except NotRecognisedError:
        return None


def _test(
    node: Node, loop: Loop, difference: Polynomial, ranges: Mapping[str, tuple[int, int]], sign: str
) -> Test | None:
    """`difference SIGN 0`, solved for the loop's variable; None where it isn't in it just once."""
    factor = _factor(difference, str(loop.variable))
    if factor not in (1, -1):
        return None
    if factor == -1:
        difference, sign = -difference, _MIRRORED[sign]
    low = high = 0
    rest = []
    for monomial, times in difference.terms:
        name = monomial[0].text if len(monomial) == 1 else ""
        if name in ranges:
            ends = [times * end for end in ranges[name]]
            low, high = low + min(ends), high + max(ends)
        elif name != loop.variable:
            rest.append((monomial, -times))
    if low > high:
        return None
    edge = Polynomial.of(rest)
    is_number = all(not monomial for monomial, _ in edge.terms)
    if is_number:
        start = edge + Polynomial.constant((sign in ("<=", ">", "==", "!=")) - low)
        return Test(node, "low", start, sign in (">", ">=", "!="))
    end = edge + Polynomial.constant((sign in ("<=", ">")) - high)
    return Test(node, "high", end, sign in ("<", "<=", "!="))


def _factor(difference: Polynomial, name: str) -> int:
    """How often a name is added; 0 where it is in a product or an expression, too."""
    at = [(m, f) for m, f in difference.terms if any(_mentions(atom.text, name) for atom in m)]
    alone = len(at) == 1 and len(at[0][0]) == 1 and at[0][0][0].text == name
    return at[0][1] if alone else 0


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _block(split: Split, known: Mapping[tuple[int, int], bool], names: Mapping[str, int]) -> str:
    """What stands in the place of a loop: a branch where loops in it are split as well, whose own
    iterations are few to test; else up to three loops."""
    border = _edited(split.loop.body, known, ())
    inside = {**known, **{_place(test.node): test.value for test in split.tests}}
    nested = [
        found
        for inner in outermost_loops(split.loop.body)
        if not directive(inner) and (found := _read(split.function, inner, names, inside))
    ]
    blocks = [(one, _block(one, inside, names)) for one in nested]
    interior = _edited(split.loop.body, inside, blocks)
    return _branched(split, border, interior) if nested else _apart(split, border, interior)


def _branched(split: Split, border: str, interior: str) -> str:
    """One loop that asks once an iteration."""
    name, cast = split.loop.variable, _signed(split)
    asked = [f"{cast}{name} {sign} {edge}" for sign, edge in _edges(split)]
    assert split.loop.lower is not None
    header = _header(split, text_of(split.loop.lower), split.loop.upper_text)
    inner, outer = (
        text if text.startswith("{") else f"{{\n{text}\n}}" for text in (interior, border)
    )
    return f"{header} {{\nif ({' && '.join(asked)}) {inner} else {outer}\n}}"


def _apart(split: Split, border: str, interior: str) -> str:
    """The first iterations, those between, the last ones: those at a border that is tested."""
    assert split.loop.lower is not None
    name, lower, upper = split.loop.variable, text_of(split.loop.lower), split.loop.upper_text
    low, high, cast = f"{name}_low", f"{name}_high", _signed(split)
    begin, end = (
        text if text.isdigit() or not cast else f"{cast}({text})" for text in (lower, upper)
    )
    firsts, lasts = ([edge for s, edge in _edges(split) if s == sign] for sign in (">=", "<"))
    lines = ["{ /* nothing is tested in between */"]
    if firsts:
        first, *more = firsts
        is_plain = first.isdigit() and begin.isdigit() and int(first) >= int(begin)
        lines += [f"ptrdiff_t {low} = {first};", *_clamped(low, "<", more)]
        lines += [*_clamped(low, ">", [end]), *_clamped(low, "<", [] if is_plain else [begin])]
    if lasts:
        last, *more = lasts
        is_less = re.fullmatch(rf"(\(ptrdiff_t\))?{re.escape(upper)} - \d+", last)
        lines += [f"ptrdiff_t {high} = {last};", *_clamped(high, ">", more)]
        lines += [*_clamped(high, ">", [] if is_less else [end]),
                  *_clamped(high, "<", [low if firsts else begin])]  # fmt: skip
    back = f"({_kind(split)})" if cast else ""
    after, until = f"{back}{low}" if firsts else lower, f"{back}{high}" if lasts else upper
    if firsts:
        lines.append(f"{_header(split, lower, after)} {border}")
    lines.append(f"{_header(split, after, until)} {interior}")
    if lasts:
        lines.append(f"{_header(split, until, upper)} {border}")
    return "\n".join([*lines, "}"])


def _clamped(name: str, sign: str, edges: Iterable[str]) -> list[str]:
    return [f"if ({name} {sign} {edge}) {name} = {edge};" for edge in dict.fromkeys(edges)]


def _edges(split: Split) -> list[tuple[str, str]]:
    """Between which values nothing is tested: signs and ends."""
    said = (
        (">=" if test.side == "low" else "<", _spelled(test.edge.render())) for test in split.tests
    )
    return list(dict.fromkeys(said))


def _spelled(edge: str) -> str:
    """`(ptrdiff_t)N - 1`, where the constant came first."""
    number, _, rest = edge.partition(" + ")
    if rest and re.fullmatch(r"-?\d+", number) and " - " not in rest:
        value = int(number)
        return f"{rest} {'-' if value < 0 else '+'} {abs(value)}"
    return edge if re.fullmatch(r"\w+", edge) else f"({edge})"


def _header(split: Split, lower: str, upper: str) -> str:
    name, kind = split.loop.variable, split.loop.declared_type
    return f"for ({f'{kind} ' if kind else ''}{name} = {lower}; {name} < {upper}; {name}++)"


def _kind(split: Split) -> str:
    name = split.loop.variable or ""
    kind = split.loop.declared_type or split.function.kinds.get(name, "int")
    return re.sub(rf"\b{name}\b\s*$", "", kind).strip()


def _signed(split: Split) -> str:
    """A cast in front of what may be unsigned; empty where nothing is."""
    is_unsigned = re.search(r"\bunsigned\b|\b(size_t|uint\d+_t)\b", _kind(split)) is not None
    return "(ptrdiff_t)" if is_unsigned else ""


def _place(node: Node) -> tuple[int, int]:
    return node.start_byte, node.end_byte


def _edited(
    body: Node, known: Mapping[tuple[int, int], bool], nested: Iterable[tuple[Split, str]]
) -> str:
    """The body with what is known of its tests, and with split loops in the place of theirs."""
    base, edits, taken = body.start_byte, [], []
    for split, block in nested:
        node = split.loop.node
        taken.append(node)
        edits.append(SourceEdit(node.start_byte - base, node.end_byte - base, block))
    for node in walk(body, "binary_expression"):
        if _place(node) in known and not any(within(node, one) for one in taken):
            text = str(int(known[_place(node)]))
            edits.append(SourceEdit(node.start_byte - base, node.end_byte - base, text))
    return apply_edits(text_of(body), edits)


def predict(context: CardContext) -> float:
    """The loops directly around the tests vectorise, in the iterations that are in no border."""
    names = constants(context.source)
    sizes = names | (dict(context.dims[0]) if context.dims else {})
    estimate, shares = CostEstimate(context), dict[Node, float]()
    for split in _outermost(context):
        inside = loops(split.loop.node)
        found = [one for loop in inside if (one := _read(split.function, loop, names))]
        for one in found:
            for node in {_around(inside, test.node).node for test in one.tests}:
                shares[node] = shares.get(node, 1.0) * _interior(one, sizes)
    work = (estimate.inside([read_loop(node)]).times(shares[node]) for node in shares)
    share = estimate.share(sum((each.total for each in work), 0.0))
    return amdahl(context, share, min(_GAIN, float(context.lanes)))


def _interior(split: Split, sizes: Mapping[str, int]) -> float:
    """The part of the iterations that tests nothing, halfway through the loops around; a half where
    it can't be told."""
    middles, around, parent = dict(sizes), list[Loop](), split.loop.node.parent
    while parent is not None:
        around += [read_loop(parent)] if parent.type == "for_statement" else []
        parent = parent.parent
    for loop in reversed(around):
        ends = _ends(loop, middles)
        if ends is not None and loop.variable is not None:
            middles[loop.variable] = sum(ends) // 2
    ends = _ends(split.loop, middles)
    edges = [(test.side, test.edge.value(middles)) for test in split.tests]
    if ends is None or any(edge is None for _, edge in edges):
        return 0.5
    low = max([ends[0], *(edge or 0 for side, edge in edges if side == "low")])
    high = min([ends[1], *(edge or 0 for side, edge in edges if side == "high")])
    return max(0.0, min(1.0, (high - low) / max(1, ends[1] - ends[0])))


def _ends(loop: Loop, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    low, high = (None if n is None else _number(n, sizes) for n in (loop.lower, loop.upper))
    return None if low is None or high is None else (low, high + loop.inclusive)


def _around(found: list[Loop], node: Node) -> Loop:
    """The innermost of the loops around a node."""
    return [loop for loop in found if within(node, loop.node)][-1]


CARD = Card(
    id="split-borders",
    title="Border iterations apart",
    category="vectorisation",
    answers=frozenset(("compute", "latency", "memory", "unknown")),
    rationale="A test of where the loop stands is the same in all iterations but a few, and keeps "
    "the loop scalar or costs a mask in each of them.",
    expected_counter="instructions",
    expected_change="down by the tests, and by the lanes of a vector where these kept it scalar",
    source="Allen & Kennedy, Optimizing Compilers for Modern Architectures, 2001, section 5.7 "
    "(index-set splitting)",
    apply=apply,
    predict=predict,
)
