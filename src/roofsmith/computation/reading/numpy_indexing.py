"""Brackets of traced arrays: slices, new axes, arrays of indices, masks; read and assigned to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofsmith.computation.building import Builder
from roofsmith.computation.graph import Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.numpy_arrays import Traced, ViewStep, fresh, lifted
from roofsmith.computation.reading.tape import Tape


def item(x: Traced, key: Any) -> Any:
    """What `x[key]` is: a view, or with arrays of indices new memory."""
    if (mask := _mask(x, key)) is not None:
        return MaskedElements(x, mask) if mask.given else _by_places(x, mask)
    basic, arrays = _parts(x, key)
    seen = _basic(x, basic)
    if not any(one is not None for one in arrays):
        keys = key if isinstance(key, tuple) else (key,)
        is_number = not seen.shape and len(keys) == x.ndim and Ellipsis not in keys
        return seen.made(seen.node, seen.real.copy()) if is_number else seen
    real = seen.real[_real_key(arrays)]
    indices = [None if one is None else _index(seen, one, axis) for axis, one in enumerate(arrays)]
    node = forms.take(x.tape.builder, seen.node, indices)
    given = x.given or any(one.given for one in arrays if one is not None)
    return seen.made(node, real, given=given)


def put(x: Traced, key: Any, value: Any) -> None:
    """`x[key] = value`."""
    tape, b = x.tape, x.tape.builder
    if (mask := _mask(x, key)) is not None and (
        mask.given or isinstance(value, MaskedElements) or not np.shape(value)
    ):
        _put_masked(x, mask, value)
        return
    key = (_places_of(mask),) if mask is not None else key
    key = key[0] if isinstance(key, tuple) and len(key) == 1 and mask is not None else key
    basic, arrays = _parts(x, key)
    seen = _basic(x, basic)
    update = _update(tape, value, seen.dtype)
    if not any(one is not None for one in arrays):
        with np.errstate(all="ignore"):
            seen.real[...] = update.real
        node = forms.broadcast_to(b, _fitting(b, update.node, seen.ndim), seen.shape)
        seen.write(node, given=update.given)
        return
    scatter(tape, "set", seen, arrays, update)


def scatter(
    tape: Tape, op: str, x: Traced, arrays: Sequence[Traced | None], update: Traced,
    real: Any = None,
) -> None:  # fmt: skip
    """Elements at indices replaced or combined, in all of what `x` shows."""
    b = tape.builder
    indices = [None if one is None else _index(x, one, axis) for axis, one in enumerate(arrays)]
    shape = x.real[_real_key(arrays)].shape
    gathered = b[forms.take(b, x.node, indices)]
    places = gathered.operands[1:]
    wide = forms.broadcast_to(b, _fitting(b, update.node, len(shape)), shape)
    node = b.scatter(op, x.node, places, wide)
    if real is None:
        x.real[_real_key(arrays)] = update.real
    else:
        real(x.real, _real_key(arrays), update.real)
    given = update.given or any(one.given for one in arrays if one is not None)
    x.write(node, given=given)


def at(tape: Tape, op: str, function: Any, x: Traced, key: Any, value: Any) -> None:
    """`numpy.add.at` and its like."""
    basic, arrays = _parts(x, key)
    seen = _basic(x, basic)
    if not any(one is not None for one in arrays):
        seen[...] = function(seen, value)
        return
    scatter(tape, op, seen, arrays, _update(tape, value, seen.dtype), function.at)


def _update(tape: Tape, value: Any, dtype: Any) -> Traced:
    """What is assigned, in the type of what it is assigned to."""
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        with np.errstate(all="ignore"):
            real = np.asarray(float(value) if isinstance(value, float) else value).astype(dtype)
        return fresh(tape, tape.number(value, dtype.name), real, given=False)
    return lifted(tape, value).astype(dtype)


def _fitting(b: Builder, node: Id, rank: int) -> Id:
    """Without axes of size 1 in front that are too many."""
    while len(b.shape(node)) > rank:
        node = forms.select(b, node, 0, 0)
    return node


@dataclass(frozen=True)
class Part:
    """One place of a key: a slice of an axis, one place of it, or a new axis."""

    start: int = 0
    step: int = 1
    count: int | None = None
    """None: one place, and the axis is gone."""
    is_new: bool = False


def _parts(x: Traced, key: Any) -> tuple[list[Part], list[Traced | None]]:
    """A key's basic parts, and an array of indices or none for each axis that is left then."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [lifted(x.tape, one) if isinstance(one, (list, np.ndarray)) else one for one in keys]
    keys = [_place(one) for one in keys]
    used = sum(_axes_of(one) for one in keys)
    if not any(one is Ellipsis for one in keys):
        keys.append(Ellipsis)
    where = next(at for at, one in enumerate(keys) if one is Ellipsis)
    keys[where : where + 1] = [slice(None)] * (x.ndim - used)
    has_arrays = any(isinstance(one, Traced) for one in keys)
    parts: list[Part] = []
    arrays: list[Traced | None] = []
    axis = 0
    for one in keys:
        if one is None:
            parts.append(Part(is_new=True))
            arrays.append(None)
            continue
        size = x.shape[axis]
        if isinstance(one, slice):
            start, stop, step = one.indices(size)
            parts.append(Part(start, step, len(range(start, stop, step))))
            arrays.append(None)
        elif isinstance(one, Traced) and one.dtype == np.bool_:
            for found in _places_of(one):
                parts.append(Part(0, 1, x.shape[axis]))
                arrays.append(found)
                axis += 1
            continue
        elif isinstance(one, Traced):
            parts.append(Part(0, 1, size))
            arrays.append(one)
        elif has_arrays:
            parts.append(Part(0, 1, size))
            arrays.append(lifted(x.tape, np.asarray(one % size)))
        else:
            parts.append(Part(one if one >= 0 else one + size))
        axis += 1
    return parts, arrays


def _place(one: Any) -> Any:
    """A place that is a whole number of some kind."""
    if isinstance(one, (bool, np.bool_)):
        return one
    if isinstance(one, Traced) and one.ndim == 0 and not one.given and one.dtype.kind in "iu":
        return int(one.real)
    if isinstance(one, slice) or one is None or one is Ellipsis or isinstance(one, Traced):
        return one
    return int(one)


def _axes_of(one: Any) -> int:
    if one is None or one is Ellipsis:
        return 0
    return one.ndim if isinstance(one, Traced) and one.dtype == np.bool_ else 1


def _basic(x: Traced, parts: Sequence[Part]) -> Traced:
    """The view that slices, places and new axes make, step by step."""
    b, seen = x.tape.builder, x
    boxes = [part for part in parts if not part.is_new]
    triples = [(p.start, p.step, 1 if p.count is None else p.count) for p in boxes]
    kept = [axis for axis, part in enumerate(boxes) if part.count is not None]
    if triples != [(0, 1, size) for size in x.shape] or len(kept) < len(boxes):
        key = tuple(slice(p.start, _stop(p), p.step) for p in boxes)
        counts = [count for _, _, count in triples]
        sizes = [counts[axis] for axis in kept]
        index = [(start, tuple(step if axis == one else 0 for one in kept))
                 for axis, (start, step, _) in enumerate(triples)]  # fmt: skip
        wide = [(0, tuple(int(axis == one) for axis in range(len(boxes)))) for one in kept]
        seen = seen.viewed(seen.real[key].reshape(sizes), ViewStep(
            lambda node: forms.view(b, node, sizes, index),
            lambda whole, part: _boxed(b, whole, triples, forms.view(b, part, counts, wide)),
        ))  # fmt: skip
    at = 0
    for part in parts:
        if part.is_new:
            seen = _new_axis(seen, at)
        at += part.is_new or part.count is not None
    return seen


def _stop(part: Part) -> int | None:
    count = 1 if part.count is None else part.count
    end = part.start + part.step * count
    return None if end < 0 else end


def _boxed(b: Builder, whole: Id, parts: Sequence[tuple[int, int, int]], part: Id) -> Id:
    if all(step == 1 or count == 1 for _, step, count in parts):
        return forms.with_box(b, whole, [start for start, _, _ in parts], part)
    shape = forms.extent(b, whole)
    if (
        all(
            (step == 1 or (step == -1 and count == size)) and (start == 0 or step == -1)
            for (start, step, count), size in zip(parts, shape, strict=True)
        )
        and forms.extent(b, part) == shape
    ):
        return forms.sliced(b, part, parts)
    return forms.with_steps(b, whole, parts, part)


def _new_axis(x: Traced, at: int) -> Traced:
    b = x.tape.builder
    return x.viewed(np.expand_dims(x.real, at), ViewStep(
        lambda node: forms.expand(b, node, at), lambda _, part: forms.select(b, part, at, 0)
    ))  # fmt: skip


def _index(x: Traced, one: Traced, axis: int) -> Id:
    """Indices of which none is below zero."""
    if not one.given and (not one.size or int(one.real.min()) >= 0):
        return one.node
    if one.dtype.kind == "u":
        return one.node
    return forms.wrapped(x.tape.builder, one.node, x.shape[axis])


def _real_key(arrays: Sequence[Traced | None]) -> tuple[Any, ...]:
    return tuple(slice(None) if one is None else one.real for one in arrays)


class Triangle(tuple[Any, ...]):
    """Indices of what is above or below a diagonal, whose mask is known."""

    mask: Traced


def _mask(x: Traced, key: Any) -> Traced | None:
    """The mask, if the key is one of the first axes and nothing else."""
    if isinstance(key, Triangle):
        return key.mask
    only = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(only, np.ndarray) and only.dtype == np.bool_:
        only = lifted(x.tape, only)
    return only if isinstance(only, Traced) and only.dtype == np.bool_ and only.ndim else None


def _places_of(mask: Traced) -> tuple[Traced, ...]:
    found = np.nonzero(mask.known("a mask of computed values"))
    return tuple(lifted(mask.tape, one) for one in found)


def _by_places(x: Traced, mask: Traced) -> Any:
    return item(x, _places_of(mask))


def _wide(x: Traced, mask: Traced) -> Traced:
    """A mask of the first axes, as one of all."""
    seen = mask
    for _ in range(x.ndim - mask.ndim):
        seen = _new_axis(seen, seen.ndim)
    b = x.tape.builder
    node = forms.broadcast_to(b, seen.node, x.shape)
    return mask.made(node, np.broadcast_to(seen.real, x.shape))


def _put_masked(x: Traced, mask: Traced, value: Any) -> None:
    """Elements replaced where a mask of given arrays holds."""
    b, wide = x.tape.builder, _wide(x, mask)
    if isinstance(value, MaskedElements):
        if value.mask.node != mask.node and not np.array_equal(value.mask.real, mask.real):
            raise x.tape.refuse("values picked by one mask are put where another is")
        update = value.whole.astype(x.dtype)
    else:
        update = _update(x.tape, value, x.dtype)
        if update.ndim > x.ndim - mask.ndim:
            raise x.tape.refuse("values are put one by one where a mask of computed values holds")
    node = b.apply("where", wide.node, update.node, x.node)
    x.real[...] = np.where(wide.real, update.real, x.real)
    x.write(forms.broadcast_to(b, node, x.shape), given=True)


class MaskedElements(np.lib.mixins.NDArrayOperatorsMixin):
    """Elements where a mask of given arrays holds: how many there are isn't known.

    What is done to each of them is done to all; only sums of them, and putting them back where they
    come from, say anything.
    """

    def __init__(self, whole: Traced, mask: Traced) -> None:
        """Of an array, by a mask of its first axes."""
        self.whole, self.mask, self.tape = whole, mask, whole.tape

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if method == "reduce":
            return self.sum() if ufunc is np.add else self._refused(f"{ufunc.__name__}.reduce")
        if method != "__call__" or options:
            return self._refused(ufunc.__name__)
        masks = [arg.mask.node for arg in args if isinstance(arg, MaskedElements)]
        if len(set(masks)) > 1 or any(isinstance(arg, Traced) and arg.ndim for arg in args):
            return self._refused(ufunc.__name__)
        whole = [arg.whole if isinstance(arg, MaskedElements) else arg for arg in args]
        made = MaskedElements(Traced.ufunc(self.tape, ufunc, method, whole, {}), self.mask)
        del out
        return made

    def __array_function__(self, function: Any, kinds: Any, args: Any, options: Any) -> Any:
        """Sums and means of all of them."""
        del kinds
        if function in (np.sum, np.mean) and len(args) == 1 and not options:
            return self.sum() if function is np.sum else self.mean()
        return self._refused(function.__name__)

    def astype(self, dtype: Any) -> MaskedElements:
        return MaskedElements(self.whole.astype(dtype), self.mask)

    def sum(self) -> Any:
        """Of those where the mask holds."""
        wide = _wide(self.whole, self.mask)
        zero = self.whole.dtype.type(0)
        return np.sum(np.where(wide, self.whole, zero))

    def mean(self) -> Any:
        """The same by how many they are."""
        return self.sum() / np.sum(_wide(self.whole, self.mask), dtype=self.whole.dtype)

    def __getattr__(self, name: str) -> Any:
        """What arrays have, and these don't."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(name)
        return self._refused(name)

    def _refused(self, what: str) -> Any:
        raise self.tape.refuse(f"{what} of elements picked by a mask of computed values")


Traced.item_of = staticmethod(item)
Traced.put = staticmethod(put)
