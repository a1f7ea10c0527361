"""Arrays that write down what NumPy is asked to do with them, beside doing it on small draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofsmith.computation.graph import Constant, Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.tape import Tape

Real = Any
"""A NumPy array."""


@dataclass
class ViewedMemory:
    """What several views share."""

    node: Id
    given: bool
    """Whether what is in it depends on arrays that the reference is given."""
    is_array: bool = False
    """Whether it has a place even without axes: other numbers aren't changed, but made anew."""
    version: int = 0


@dataclass(frozen=True)
class ViewStep:
    """One view of a view: the elements it shows, and a whole in which these are replaced."""

    shown: Callable[[Id], Id]
    replaced: Callable[[Id, Id], Id]


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """Looks like an array; has a real one of the same numbers, and a node."""

    functions: Mapping[Any, Callable[..., Any]] = {}
    """What is known of `numpy`; set where they are defined."""
    ufunc: Callable[..., Any]
    """What `__array_ufunc__` does."""
    item_of: Callable[[Traced, Any], Any]
    put: Callable[[Traced, Any, Any], None]

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, tape: Tape, real: Real, memory: ViewedMemory, steps: tuple[ViewStep, ...] = ()
    ) -> None:
        """A view of some memory, all of it without steps."""
        self.tape, self.real, self.memory, self.steps = tape, real, memory, steps
        self._read: tuple[int, Id] | None = None
        self.weak: type | None = None
        """Of a number that is Python's own: it takes the type of what it is combined with."""

    @property
    def node(self) -> Id:
        if self._read is None or self._read[0] != self.memory.version:
            node = self.memory.node
            for step in self.steps:
                node = step.shown(node)
            self._read = (self.memory.version, node)
        return self._read[1]

    @property
    def given(self) -> bool:
        """Whether it depends on given arrays."""
        return self.memory.given

    def write(self, node: Id, *, given: bool) -> None:
        """Replace what it shows; the real numbers are the caller's part."""
        if (test := self.tape.condition) is not None:
            node, given = self.tape.builder.apply("where", test.node, node, self.node), True
        wholes = [self.memory.node]
        for step in self.steps[:-1]:
            wholes.append(step.shown(wholes[-1]))
        for step, whole in zip(reversed(self.steps), reversed(wholes), strict=False):
            node = step.replaced(whole, node)
        self.memory.node = node
        self.memory.given |= given
        self.memory.version += 1

    def viewed(self, real: Real, step: ViewStep) -> Traced:
        """The same memory in another way."""
        return Traced(self.tape, real, self.memory, (*self.steps, step))

    def made(self, node: Id, real: Real, *, given: bool | None = None) -> Traced:
        return fresh(self.tape, node, real, given=self.given if given is None else given)

    def known(self, what: str) -> Real:
        """Its numbers, where they don't depend on given arrays.

        Raises:
            Unreadable: they do.
        """
        if self.given:
            raise self.tape.refuse(f"{what} decides what is computed")
        return self.real

    # What arrays have.
    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.real.shape)

    @property
    def dtype(self) -> Any:
        return self.real.dtype

    @property
    def ndim(self) -> int:
        return int(self.real.ndim)

    @property
    def size(self) -> int:
        return int(self.real.size)

    @property
    def itemsize(self) -> int:
        return int(self.real.itemsize)

    @property
    def nbytes(self) -> int:
        return int(self.real.nbytes)

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        return np.transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802 - NumPy's name
        return np.swapaxes(self, -1, -2)

    @property
    def flat(self) -> Any:
        return np.reshape(self, -1)

    def __len__(self) -> int:
        return len(self.real)

    def __iter__(self) -> Iterator[Any]:
        """Along the first axis."""
        return (self[place] for place in range(len(self)))

    def __bool__(self) -> bool:
        """Only of what is known without the given arrays."""
        return bool(self.known("a condition on computed values"))

    def __int__(self) -> int:
        return int(self.known("int() of a computed value"))

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.known("float() of a computed value"))

    def item(self, *place: int) -> Any:
        return self.known("item() of a computed value").item(*place)

    def tolist(self) -> Any:
        return self.known("tolist() of computed values").tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Real:
        """Only of what is known, too: elsewhere numbers would leave the graph unseen."""
        del copy
        return self.known("an array whose numbers leave NumPy").astype(dtype or self.dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        return Traced.ufunc(self.tape, ufunc, method, args, options)

    def __array_function__(self, function: Any, kinds: Any, args: Any, options: Any) -> Any:
        del kinds
        known = Traced.functions.get(function)
        if known is None:
            return Traced.functions[None](self.tape, function, args, options)
        return known(self.tape, *args, **options)

    def __getitem__(self, key: Any) -> Any:
        return Traced.item_of(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        Traced.put(self, key, value)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Traced:
        wanted = np.dtype(dtype)
        node = converted(self.tape, self.node, wanted.name)
        with np.errstate(all="ignore"):
            return self.made(node, self.real.astype(wanted))

    def view(self, dtype: Any = None, *_: Any) -> Traced:
        """As NumPy's, of the same type."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            raise self.tape.refuse("a view of the same bits as another type isn't read")
        return self.viewed(self.real, ViewStep(lambda x: x, lambda _, part: part))

    def fill(self, value: Any) -> None:
        self[...] = value

    def __getattr__(self, name: str) -> Any:
        """Methods are the functions of the same name."""
        if name.startswith("_"):
            raise AttributeError(name)
        renamed = {"flatten": "ravel", "dot": "dot", "conj": "conjugate"}.get(name, name)
        function = getattr(np, renamed, None)
        if function is None or not hasattr(np.ndarray, name):
            raise AttributeError(f"arrays that are read have no {name!r}")
        if name in ("flatten", "copy"):
            return lambda *_, **__: self.made(forms.reshape(
                self.tape.builder, self.node, (-1,) if name == "flatten" else self.shape,
            ), self.real.flatten() if name == "flatten" else self.real.copy())  # fmt: skip
        if name in ("reshape", "transpose"):

            def spread(*args: Any, **options: Any) -> Any:
                args = args if len(args) == 1 or not args else (args,)
                return function(self, *args, **options)

            return spread
        if name == "sort":

            def sorted_in_place(axis: int = -1, **_: Any) -> None:
                self[...] = np.sort(self, axis=axis)

            return sorted_in_place
        return lambda *args, **options: function(self, *args, **options)


def _anew(name: str) -> Callable[[Traced, Any], Any]:
    def applied(self: Traced, other: Any) -> Any:
        is_number = not self.shape and not self.steps and not self.memory.is_array
        return getattr(
            np.lib.mixins.NDArrayOperatorsMixin, f"__{'' if is_number else 'i'}{name}__"
        )(self, other)

    return applied


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Traced, f"__i{_name}__", _anew(_name))


def fresh(tape: Tape, node: Id, real: Real, *, given: bool) -> Traced:
    """An array with memory of its own."""
    return Traced(tape, np.asarray(real), ViewedMemory(node, given))


def converted(tape: Tape, node: Id, dtype: str) -> Id:
    """In another type; to bool whether it isn't 0."""
    b, known = tape.builder, tape.builder[node]
    if dtype == "bool" and known.dtype != "bool":
        return b.apply("ne", node, b.constant(0, known.dtype))
    if isinstance(known, Constant) and known.dtype != dtype:
        with np.errstate(all="ignore"):
            return b.constant(np.asarray(known.value).astype(dtype).item(), dtype)
    return b.cast(node, dtype)


LARGEST_TABLE = 64
"""Numbers of an array that isn't given and has no rule, and is written out. Chosen."""


def lifted(tape: Tape, value: Any) -> Traced:
    """Anything that an array is made of."""
    if isinstance(value, Traced):
        return value
    if isinstance(value, (list, tuple)) and any(_has_traced(one) for one in value):
        rows = [lifted(tape, one) for one in value]
        common = np.result_type(*(row.dtype for row in rows))
        nodes = [forms.expand(tape.builder, row.astype(common).node, 0) for row in rows]
        real = np.stack([row.real for row in rows]).astype(common)
        given = any(row.given for row in rows)
        return fresh(tape, tape.builder.concat(0, *nodes), real, given=given)
    real = np.array(value)
    if real.dtype.kind not in "biuf":
        raise tape.refuse(f"elements of type {real.dtype} aren't read")
    number = value if real.ndim == 0 else None
    return fresh(tape, _table(tape, real, number), real, given=False)


def _has_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_traced, value))
    return isinstance(value, Traced)


def _table(tape: Tape, real: Real, number: Any) -> Id:
    b, dtype = tape.builder, real.dtype.name
    if real.ndim == 0:
        return tape.number(number, dtype)
    if real.size and bool((real == real.flat[0]).all()):
        return forms.full(b, real.shape, tape.number(real.flat[0].item(), dtype))
    for axis in range(real.ndim):
        if real.shape[axis] < 3 or real.dtype == np.bool_:
            continue
        line = np.moveaxis(real, axis, -1)
        row = line.reshape(-1, line.shape[-1])[0]
        step = row[1] - row[0]
        ruled = row[0] + step * np.arange(len(row), dtype=row.dtype)
        if bool((line == ruled).all()):
            made = progression(tape, row[0].item(), step.item(), len(row), dtype)
            for _ in range(real.ndim - 1 - axis):
                made = forms.expand(b, made, len(b.shape(made)))
            return forms.broadcast_to(b, made, real.shape)
    if real.size > LARGEST_TABLE:
        raise tape.refuse(f"an array of {real.size} numbers that isn't among the inputs")
    parts = [forms.expand(b, tape.number(one.item(), dtype), 0) for one in real.reshape(-1)]
    return forms.reshape(b, b.concat(0, *parts), real.shape)


def progression(tape: Tape, first: Any, step: Any, count: int, dtype: str) -> Id:
    """first, first + step, ..."""
    b = tape.builder
    made = b.arange(count, dtype)
    if step != 1:
        made = b.apply("mul", made, _known(tape, step, dtype))
    return made if first == 0 else b.apply("add", made, _known(tape, first, dtype))


def _known(tape: Tape, value: Any, dtype: str) -> Id:
    """A number that dims may decide, if it is whole."""
    if float(value).is_integer() and not isinstance(value, float):
        return tape.builder.dimension(int(value), dtype)
    return tape.number(value, dtype)


def sequence(axes: Any, rank: int) -> Sequence[int]:
    """Axes as NumPy takes them: none is all, one is one."""
    if axes is None:
        return range(rank)
    return [axis % rank for axis in ((axes,) if isinstance(axes, int) else axes)]
