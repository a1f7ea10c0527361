"""Values of a tile of elements as Triton writes them: loads with masks, and what is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import stripped
from roofsmith.proposers.schedules.matrix_products import HALVES
from roofsmith.proposers.schedules.triton import operations as t

LONGEST = 72
"""Letters from which on an expression gets a name. Chosen."""


@dataclass(frozen=True)
class TileValue:
    """A written value, and along which axes of the tile it varies."""

    text: str
    axes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TileAxis:
    """A loop variable that is a range: along one axis of the tile."""

    name: str
    """In the group."""
    variable: str
    """In the kernel, with its place in the tile."""
    mask: str = ""
    """Where it is inside; empty: everywhere."""
    step: str = "1"


@dataclass
class TileScope:
    """Statements between which the same variables exist."""

    names: frozenset[str]
    """Loop variables and steps that begin to exist here."""
    lines: list[str] = field(default_factory=list)
    known: dict[object, TileValue] = field(default_factory=dict)


@dataclass
class Values:
    """Writes expressions; names what is loaded, or used twice, in the scope where it belongs."""

    places: Mapping[str, e.Place]
    tile: dict[str, TileAxis]
    used: set[str]
    """Helpers."""
    taken: set[str]
    """Names that mean something already."""
    variables: frozenset[str]
    """All loop variables of the group."""
    scopes: list[TileScope]
    uses: Counter[e.Expression] = field(default_factory=Counter)
    instead: dict[str, TileValue] = field(default_factory=dict)
    """For buffers that aren't read but held: what stands for their elements."""
    conditions: tuple[TileValue, ...] = ()

    def count(self, values: Iterable[e.Expression]) -> None:
        """Values that will be written: what is in several is named."""
        seen: set[e.Expression] = set()

        def visit(one: e.Expression) -> None:
            self.uses[one] += 1
            if one not in seen:
                seen.add(one)
                for part in one.parts:
                    visit(part)

        for value in values:
            visit(value)

    def hold(self, name: str, value: TileValue) -> None:
        """A step's result is there from here on."""
        scope = self.scopes[-1]
        scope.names |= {name}
        scope.known[("held", name)] = value

    def name(self, stem: str) -> str:
        found, count = stem, 1
        while found in self.taken:
            count += 1
            found = f"{stem}{count}"
        self.taken.add(found)
        return found

    # -- indices ---------------------------------------------------------------------------

    def index(self, index: Size) -> TileValue:
        """A place as Triton writes it: what changes least comes first."""
        axes: frozenset[str] = frozenset()
        names: dict[str, str] = {}
        divided = dict(index.quotients)
        for name in sorted({n for factors, _ in index.terms for n in factors} - divided.keys()):
            if name in self.places:
                value = self._place(name)
                names[name], axes = value.text, axes | value.axes
            elif name in self.tile:
                names[name], axes = self.tile[name].variable, axes | {name}
        text = size_text(index, names, self._rank)
        return TileValue(text, axes)

    def _rank(self, name: str) -> int:
        """What varies along the tile comes last, scalars that are loop variables first."""
        order = list(self.tile)
        if name in order:
            return 2 + order.index(name)
        if name in self.places:
            return 1 + len(order)
        return 0 if name in self.variables else 1

    def _place(self, name: str) -> TileValue:
        if (found := self._known(("place", name))) is not None:
            return found
        match self.places[name]:
            case e.Quotient(index, size):
                inner = self.index(index)
                text = f"{bracketed(inner.text)} // {bracketed(size_text(size))}"
                axes = inner.axes
            case e.Remainder(index, size):
                inner = self.index(index)
                text = f"{bracketed(inner.text)} % {bracketed(size_text(size))}"
                axes = inner.axes
            case e.Chosen(chosen):
                inner = self.write(chosen)
                text, axes = f"tl.cast({stripped(inner.text)}, tl.int64)", inner.axes
        depends = e.names_in(e.Position("int64", Size.of(name)), self.places)
        return self._named("at", text, axes, depends, ("place", name))

    # -- values ----------------------------------------------------------------------------

    def write(self, value: e.Expression) -> TileValue:
        """A value's text; statements that it needs are in the scopes' lines."""
        key = (value, self.conditions)
        if (found := self._known(key)) is not None:
            return found
        written, stem = self._written(value)
        is_plain = written.text.isidentifier() or isinstance(value, e.Number | e.Argument | e.Held)
        if (isinstance(value, e.Read) and written.text.startswith("tl.load")) or (
            not is_plain and (self.uses[value] > 1 or len(written.text) > LONGEST)
        ):
            depends = e.names_in(value, self.places)
            return self._named(stem, stripped(written.text), written.axes, depends, key)
        return written

    def _written(self, value: e.Expression) -> tuple[TileValue, str]:
        match value:
            case e.Read():
                return self.load(value), f"{value.buffer}_value"
            case e.Argument():
                return TileValue(value.name), "value"
            case e.Number():
                return TileValue(t.number(value.value, value.dtype)), "value"
            case e.Held():
                found = self._known(("held", value.name))
                assert found is not None, value.name
                return found, value.name
            case e.Position():
                index = self.index(value.index)
                return TileValue(
                    f"({index.text})" if " " in index.text else index.text, index.axes
                ), "at"
            case e.Converted():
                inner = self.write(value.arg)
                text = t.converted(
                    inner.text, value.arg.dtype, value.dtype, is_scalar=not inner.axes
                )
                return TileValue(text, inner.axes), "value"
            case e.Within():
                return self._within(value), "value"
            case e.Operation():
                args = [self.write(arg) for arg in value.args]
                text = t.operation(value, [arg.text for arg in args], self.used)
                return TileValue(text, _all_axes(args)), "value"
            case _:
                raise AssertionError(value)

    def load(self, value: e.Read, *, other: str = "", raw: bool = False) -> TileValue:
        """A load, masked along the axes that it varies along.

        Args:
            other: in place of zero outside.
            raw: 16-bit floats stay what they are.
        """
        if value.buffer in self.instead:
            return self.instead[value.buffer]
        at = self.index(e.flat(value.index, value.shape))
        masks = [self.tile[name].mask for name in self.tile if name in at.axes]
        masks += [one.text for one in self.conditions if one.axes <= at.axes]
        mask = " & ".join(one for one in masks if one)
        zero = other or (
            "0.0" if value.dtype in t.FLOATS else "False" if value.dtype == "bool" else "0"
        )
        masked = f", mask={mask}, other={zero}" if mask else ""
        place = f" + {at.text}" if at.text != "0" else ""
        text = f"tl.load({value.buffer}{place}{masked})"
        if value.dtype in HALVES and not raw:
            text += ".to(tl.float32)"
        elif value.dtype == "bool":
            text += ".to(tl.int1)"
        return TileValue(text, at.axes)

    def _within(self, value: e.Within) -> TileValue:
        conditions = []
        for one in value.conditions:
            at = self.index(one.index)
            text = f"({at.text})" if " " in at.text else at.text
            parts = [f"({text} >= {bracketed(size_text(one.low))})"] if one.low is not None else []
            if one.high is not None:
                parts.append(f"({text} < {bracketed(size_text(one.high))})")
            conditions.append(TileValue(" & ".join(parts), at.axes))
        outside = self.write(value.outside)
        before = self.conditions
        self.conditions = (*before, *conditions)
        inside = self.write(value.inside)
        self.conditions = before
        test = " & ".join(one.text for one in conditions)
        text = f"tl.where({stripped(test)}, {stripped(inside.text)}, {stripped(outside.text)})"
        return TileValue(text, _all_axes([inside, outside, *conditions]))

    def store(self, buffer: str, at: TileValue, value: TileValue, extra: str = "") -> str:
        """A store of the tile's elements, masked."""
        masks = [self.tile[name].mask for name in self.tile if name in at.axes]
        mask = " & ".join(one for one in [*masks, extra] if one)
        place = f" + {at.text}" if at.text != "0" else ""
        masked = f", mask={mask}" if mask else ""
        return f"tl.store({buffer}{place}, {stripped(value.text)}{masked})"

    # -- names -----------------------------------------------------------------------------

    def _known(self, key: object) -> TileValue | None:
        for scope in self.scopes:
            if key in scope.known:
                return scope.known[key]
        return None

    def _named(
        self, stem: str, text: str, axes: frozenset[str], depends: Iterable[str], key: object
    ) -> TileValue:
        name = self.name(stem)
        scope = self.scopes[self._depth(depends)]
        scope.lines.append(f"{name} = {text}")
        value = TileValue(name, axes)
        scope.known[key] = value
        return value

    def _depth(self, depends: Iterable[str]) -> int:
        """The outermost scope in which all of it exists."""
        if self.conditions:  # they may be of any of these
            return len(self.scopes) - 1
        wanted = set(depends)
        for depth in reversed(range(len(self.scopes))):
            if wanted & self.scopes[depth].names:
                return depth
        return 0


def _all_axes(values: Sequence[TileValue]) -> frozenset[str]:
    return frozenset().union(*(value.axes for value in values))


def bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def size_text(size: Size, names: Mapping[str, str] | None = None, rank: object = None) -> str:
    """A size or an index in Python; variables before sizes, so that products are in 64 bits."""
    if not size.terms:
        return "0"
    names, order = names or {}, rank if callable(rank) else (lambda _: 1)
    divided = dict(size.quotients)

    def factor(name: str) -> str:
        if name in divided:
            whole, by = (bracketed(size_text(one, names, rank)) for one in divided[name])
            return f"({whole} // {by})"
        return names.get(name, name)

    def key(term: tuple[tuple[str, ...], int]) -> tuple[object, ...]:
        factors, count = term
        return (max((order(n) for n in factors), default=1), count < 0, -len(factors), factors)

    written = ""
    for factors, count in sorted(size.terms, key=key):
        known = sorted(factors, key=lambda name: (order(name) == 1, name))
        parts = [factor(name) for name in known]
        if abs(count) != 1 or not parts:
            parts.append(str(abs(count)))
        product = " * ".join(parts)
        if written:
            written += f" {'-' if count < 0 else '+'} {product}"
        else:
            written = f"-{product}" if count < 0 else product
    return written
