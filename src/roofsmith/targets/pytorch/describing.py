"""In a worker: what a user's file computes, seen and put into words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from roofsmith.computation.reading.torch_devices import quick_draws
from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.targets.pytorch.degenerate import degenerate
from roofsmith.targets.pytorch.looking import Looker, SeenModel, leaves
from roofsmith.targets.pytorch.program import (
    Axis,
    GivenInput,
    PyTorchProgram,
    PyTorchRequest,
    Result,
)
from roofsmith.targets.pytorch.sizes import (
    Sizes,
    find_sizes,
    other_workload,
    result_shapes,
    scaled,
)
from roofsmith.targets.pytorch.text import WRITTEN
from roofsmith.targets.pytorch.user_file import (
    Callee,
    Refused,
    UserFile,
    arguments,
    is_name,
    made,
)

LOOKED_AT = 1 << 20
"""Elements of an input that are looked at. Chosen: a thousandth off, at most."""
CORNER = 16
"""Along each axis, what is looked at before a tensor as large is made to compare with. Chosen."""
SORTED_FROM = 4
"""Whole numbers that aren't in ascending order by chance. Chosen."""
UNIFORM_WIDTH = 12**0.5
"""Range of uniform numbers over their standard deviation."""


def draw_of(tensor: torch.Tensor, shape: Sequence[Axis], below: str | None = None) -> str:
    """An expression for a tensor of this type and like numbers.

    Args:
        tensor: one that was given.
        shape: in dims.
        below: a dim that its whole numbers are less than.
    """
    size = ", ".join(map(str, shape))
    sized = f"({size}{',' if len(shape) == 1 else ''})"
    kind = str(tensor.dtype)
    if tensor.numel() == 0:
        return f"torch.empty({sized}, dtype={kind})"
    if found := _pattern(tensor, shape):
        return found
    flat = tensor.detach().reshape(-1)[:LOOKED_AT].cpu()
    if tensor.dtype == torch.bool:
        return f"torch.rand({sized}) < {flat.float().mean().item():.2g}"
    if not tensor.dtype.is_floating_point:
        low, high = int(tensor.min()), int(tensor.max())
        if below is not None and low < high / 8:  # chance
            low = 0
        drawn = f"torch.randint({low}, {below or high + 1}, {sized}, dtype={kind})"
        is_sorted = tensor.dim() == 1 and high > low and bool((tensor.diff() >= 0).all())
        return f"{drawn}.sort().values" if is_sorted and len(tensor) > SORTED_FROM else drawn
    cast = "" if tensor.dtype == torch.float32 else f".to({kind})"
    drawn = _floats(flat.double(), sized)
    return f"({drawn}){cast}" if cast and " " in drawn.replace(", ", "") else drawn + cast


def _floats(flat: torch.Tensor, sized: str) -> str:
    finite = flat[flat.isfinite()]
    if finite.numel() == 0:
        return f"torch.full({sized}, {_number(flat[0])})"
    if finite.numel() < flat.numel():  # a mask that is added
        share = 1 - finite.numel() / flat.numel()
        lost = _number(flat[~flat.isfinite()][0])
        return f"torch.where(torch.rand({sized}) < {share:.2g}, {lost}, {_floats(finite, sized)})"
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return f"torch.full({sized}, {low!r})"
    mean, std = float(finite.mean()), float(finite.std(correction=0))
    is_uniform = finite.numel() >= 16 and high - low < 1.1 * UNIFORM_WIDTH * std
    if low >= 0 and high <= 1 and (is_uniform or finite.numel() < 16):
        return f"torch.rand({sized})"
    if is_uniform:
        return f"{low:.2g} + {high - low:.2g} * torch.rand({sized})"
    if low >= 0:
        return f"{mean:.2g} * torch.rand({sized}) * 2"
    plain = f"torch.randn({sized})"
    if abs(std - 1) > 0.2:
        plain = f"{std:.2g} * {plain}"
    return f"{mean:.2g} + {plain}" if abs(mean) > 0.2 * std else plain


def _number(value: torch.Tensor) -> str:
    return f'float("{value.item()}")'


def _pattern(tensor: torch.Tensor, shape: Sequence[Axis]) -> str | None:
    """What isn't drawn: triangles, and 0, 1, 2, ... along the last axis."""
    sized = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    if tensor.dim() >= 2 and tensor.shape[-1] > 1 and tensor.shape[-2] > 1:
        for turn in ("tril", "triu"):
            corner = tensor[(slice(CORNER),) * tensor.dim()]
            if all(torch.equal(one, getattr(torch, turn)(torch.ones_like(one)))
                   for one in (corner, tensor)):  # fmt: skip
                return f"torch.ones({sized}, dtype={tensor.dtype}).{turn}()"
    if tensor.dim() and tensor.shape[-1] > 2 and tensor.dtype in (torch.int32, torch.int64):
        line = torch.arange(tensor.shape[-1], dtype=tensor.dtype)
        if torch.equal(tensor, line.expand_as(tensor)):
            made = f"torch.arange({shape[-1]}, dtype={tensor.dtype})"
            return made if len(shape) == 1 else f"{made}.expand{sized}.contiguous()"
    return None


PLAIN = (bool, int, float, str, type(None), torch.dtype)


def read_program(request: PyTorchRequest) -> PyTorchProgram:
    """Import the file, run what it holds on tensors without numbers, and describe it.

    Raises:
        Refused: it can't be used.
    """
    file = UserFile(Path(request.path), request.shown)
    file.load()
    name = file.found(request.name)
    given, draws_itself = _given(file, request)
    callee = made(file, name, request.free_bytes)
    own_names = {*WRITTEN, file.module.__name__}
    names = _input_names(callee, given, own_names)
    if not names:
        raise Refused(
            f"{file.shown}: get_inputs() gives no tensor", "return what it is called with"
        )
    looker = Looker(file, callee, given)
    if (getter := file.getter("get_workloads")) is not None:
        with file.blaming("get_workloads()"):
            looker.find_sizes(getter())
    first = looker.seen({leaf.path: tuple(leaf.tensor.shape) for leaf in looker.inputs})
    sizes = find_sizes(looker, names)
    shapes = result_shapes(sizes, first)
    workloads, notes, own, numbers = _workloads(request, sizes, first)
    weights = _weight_names(callee, {*own_names, *names.values(), *sizes.given})
    taken = {*own_names, *names.values(), *sizes.given, *weights.values()}
    state, told = _state(looker, callee, sizes, first)
    inputs = tuple(_inputs(looker, names, sizes, first))
    sized = {path: f"{names[of]}.shape[{axis}]" for path, (of, axis) in looker.sizes.items()}
    told += degenerate(looker, callee, sizes, first, inputs, request.atol)
    return PyTorchProgram(
        module=file.module.__name__, name=name, kind=callee.kind,
        init_inputs=callee.init_inputs,
        call=_call(given, {**names, **sized}),
        inputs=inputs,
        weights=tuple(
            GivenInput(name=flat, dtype=_kind(callee.weights[key]), weight=key,
                  shape=tuple(callee.weights[key].shape) or (1,),
                  is_number=callee.weights[key].dim() == 0)
            for key, flat in weights.items() if key in first.used_weights - set(state)
        ),
        results=tuple(_results(first, shapes, taken)),
        state=tuple(state), held=callee.held, is_narrow=_is_narrow(looker, sizes),
        draws_itself=draws_itself, dims=sizes.given,
        workloads=tuple(workloads), own=tuple(own) if draws_itself else (),
        listed=tuple(numbers), notes=(*notes, *told),
    )  # fmt: skip


def _given(file: UserFile, request: PyTorchRequest) -> tuple[Any, bool]:
    """What `get_inputs` gives, and whether it gives other numbers each time.

    Inputs may take more than the memory: no more than a piece is drawn of each, or looked at.
    """
    with quick_draws(whole=False):
        before = _pieces(_on_host(file, file.given(), request))
        given = _on_host(file, file.given(), request)
    return given, not all(map(torch.equal, before, _pieces(given)))


def _pieces(given: Any) -> list[torch.Tensor]:
    tensors = [one for _, one in leaves(given) if isinstance(one, torch.Tensor)]
    return [one.detach().reshape(-1)[:LOOKED_AT].clone() for one in tensors]


def _on_host(file: UserFile, given: Any, request: PyTorchRequest) -> Any:
    """What `get_inputs` gives, in the host's memory."""

    def moved(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        if one.device.type != "cpu" and request.language in HOST_LANGUAGES:
            raise Refused(
                f"{file.shown}: get_inputs() gives a tensor on {one.device}, and a kernel in"
                f" {request.language} runs on the host's processors",
                "leave the device out, or choose another --framework",
            )
        return one.detach().cpu()

    return torch.utils._pytree.tree_map(moved, given)


def _input_names(callee: Callee, given: Any, taken: set[str]) -> dict[str, str]:
    """Names of the tensors that are given, by path: the parameters', where there are such and they
    aren't taken."""
    import inspect

    target = callee.function
    forward = target.forward if isinstance(target, torch.nn.Module) else target
    positional, named = arguments(given)
    try:
        bound = inspect.signature(forward).bind(*positional, **named).arguments
        known = [*bound]
    except (TypeError, ValueError):
        known = []
    found: dict[str, str] = {}
    for path, one in leaves(given):
        if not isinstance(one, torch.Tensor):
            continue
        first, *rest = path.replace("['", "[").replace("']", "]").strip("[]").split("][") or [""]
        base = known[int(first)] if first.isdigit() and int(first) < len(known) else first
        parts = [base or (known[0] if known else "x"), *rest]
        found[path] = _free("_".join(parts), {*taken, *found.values()})
    return found


def _free(wanted: str, taken: Iterable[str]) -> str:
    """A name like that one which is nobody's, and no word of Python or C."""
    plain = "".join(
        one if one.isascii() and (one.isalnum() or one == "_") else "_" for one in wanted
    )
    plain = plain if plain[:1].isalpha() else f"a{plain}"
    used = set(taken)
    numbered = (f"{plain}_{number}" for number in itertools.count(2))
    return next(
        n for n in itertools.chain([plain, f"{plain}_"], numbered) if is_name(n) and n not in used
    )


def _weight_names(callee: Callee, taken: set[str]) -> dict[str, str]:
    """Flat names of the weights, by dotted name."""
    found: dict[str, str] = {}
    for key in callee.weights:
        found[key] = _free(key.replace(".", "_"), {*taken, *found.values()})
    return found


def _kind(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _inputs(
    looker: Looker, names: Mapping[str, str], sizes: Sizes, first: SeenModel
) -> Iterable[GivenInput]:
    for leaf in looker.inputs:
        shape = sizes.axes(leaf.path)
        yield GivenInput(
            name=names[leaf.path], dtype=_kind(leaf.tensor), shape=shape or (1,), path=leaf.path,
            is_number=not shape,
            draw=draw_of(leaf.tensor, shape, _bound(sizes, leaf.path)),
            is_changed=leaf.path in first.changed,
        )  # fmt: skip


def _bound(sizes: Sizes, path: str) -> str | None:
    """The dim that an input's whole numbers are below; None: a number, or none."""
    name = sizes.bounds.get(path)
    return name if name in sizes.given else None


def _results(
    first: SeenModel, shapes: Sequence[tuple[Axis, ...]], taken: set[str]
) -> Iterable[Result]:
    used = set(taken)
    alone = len([one for one in first.returned if one.same_as is None]) == 1
    for index, (one, shape) in enumerate(zip(first.returned, shapes, strict=True)):
        if one.same_as is not None:
            continue
        said = "_".join(part.strip("'") for part in one.path.strip("[].").split("]["))
        wanted = "out" if alone else f"out{index}" if not said or said[0].isdigit() else said
        name = _free(wanted if wanted not in used else f"{wanted}_out", used)
        used.add(name)
        kind = str(one.dtype).removeprefix("torch.")
        yield Result(name=name, dtype=kind, shape=shape, path=one.path)


def _call(given: Any, names: Mapping[str, str]) -> str:
    def told(value: Any, path: str) -> str:
        if path in names:
            return names[path]
        if isinstance(value, dict):
            return (
                "{"
                + ", ".join(f"{k!r}: {told(v, f'{path}[{k!r}]')}" for k, v in value.items())
                + "}"
            )
        if isinstance(value, (list, tuple)):
            inner = ", ".join(told(one, f"{path}[{index}]") for index, one in enumerate(value))
            if isinstance(value, list):
                return f"[{inner}]"
            return f"({inner}{',' if len(value) == 1 else ''})"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, PLAIN):
            return repr(value)
        raise Refused(
            f"get_inputs() gives {type(value).__name__}{f' at {path}' if path else ''}",
            "give tensors, numbers, and lists and dicts of them",
        )

    if isinstance(given, dict):
        return ", ".join(f"{key}={told(value, f'[{key!r}]')}" for key, value in given.items())
    if isinstance(given, (list, tuple)):
        return ", ".join(told(one, f"[{index}]") for index, one in enumerate(given))
    return told(given, "")


_Listed = tuple[
    list[dict[str, int]], list[str], list[tuple[int, dict[str, int]]], list[tuple[int, ...]]
]
"""Sizes that kernels are judged on, what is said about them, those that the file draws, and which
of its list each is."""


def _workloads(request: PyTorchRequest, sizes: Sizes, first: SeenModel) -> _Listed:
    """The sizes that were asked for, that the file lists, or that follow from its inputs."""
    if request.workloads:
        return [_asked(sizes, dims) for dims in request.workloads], [], [], []

    def is_too_much(seen: SeenModel) -> bool:
        return seen.flops > request.most_flop or seen.moved_bytes > request.most_bytes

    listed = _listed(sizes, is_too_much)
    if listed is not None:
        return listed
    dims, notes = scaled(sizes, is_too_much, sizes.given, first), []
    if dims != sizes.given:
        given, now = (",".join(f"{k}={d[k]}" for k in d) for d in (sizes.given, dims))
        notes.append(
            f"get_inputs() gives {given}, which would take a plain kernel too long here: {now} is"
            " taken; --workload says otherwise"
        )
    elif is_too_much(first):
        notes.append("a call takes a plain kernel long, and no size of its inputs may be smaller")
    other = other_workload(sizes, dims)
    if other is None:
        notes.append("no size of its inputs may be another: there is one workload")
    return [dims, *([other] if other else [])], notes, [], []


def _listed(sizes: Sizes, is_too_much: Callable[[SeenModel], bool]) -> _Listed | None:
    """The sizes of what `get_workloads` gives, each like `get_inputs`; None where there is none."""
    file = sizes.looker.file
    getter = file.getter("get_workloads")
    if getter is None:
        return None
    found: list[dict[str, int]] = []
    notes: list[str] = []
    own: list[tuple[int, dict[str, int]]] = []
    numbers: list[tuple[int, ...]] = []
    with file.blaming("get_workloads()"):
        listed = getter()
        for number, given in enumerate(listed, 1):
            try:
                dims = sizes.of(given)
                seen = sizes.looker.seen(sizes.shapes(dims))
            except Refused as why:
                notes.append(f"workload {number} of get_workloads() is left out: {why.message}")
                continue
            smaller = scaled(sizes, is_too_much, dims, seen)
            if smaller != dims:
                was, now = (",".join(f"{k}={d[k]}" for k in d) for d in (dims, smaller))
                notes.append(f"{was} would take a plain kernel too long here: {now} is taken")
            elif dims not in (*found, sizes.given) and _draws(getter, number - 1):
                own.append((number - 1, dims))
            if smaller in found:
                notes.append(f"workload {number} has the sizes of another")
                numbers[found.index(smaller)] += (number - 1,)
            else:
                found.append(smaller)
                numbers.append((number - 1,))
    if not found:
        raise Refused(
            f"{file.shown}: get_workloads() gives nothing to judge on", next(iter(notes), None)
        )
    return found, notes, own, numbers


def _draws(getter: Callable[[], Any], number: int) -> bool:
    """Whether a list holds other numbers each time, and not the sizes alone."""
    drawn = []
    for listed in (getter(), getter()):
        if not isinstance(listed, list):
            return False
        drawn.append(_pieces(listed[number]))
        if any(one.is_meta for one in drawn[-1]):
            return False
    return not all(map(torch.equal, *drawn))


def _asked(sizes: Sizes, dims: Mapping[str, int]) -> dict[str, int]:
    """Sizes that were asked for, with the given ones for the rest.

    Raises:
        Refused: there is no such dim, or it doesn't run so.
    """
    if strange := dims.keys() - sizes.given.keys():
        known = ",".join(f"{name}={size}" for name, size in sizes.given.items())
        raise Refused(f"--workload: there is no {sorted(strange)[0]}", f"its dims are {known}")
    whole = {**sizes.given, **dims}
    sizes.looker.seen(sizes.shapes(whole))
    return whole


def _state(
    looker: Looker, callee: Callee, sizes: Sizes, first: SeenModel
) -> tuple[list[str], list[str]]:
    """Buffers that a call changes and no result depends on; what is said about them.

    Raises:
        Refused: a result depends on one.
    """
    changed = [key for key in callee.weights if key in first.changed_weights]
    if not changed:
        return [], []
    small = scaled(sizes, lambda seen: seen.takes_long, sizes.given, first)
    below = min((small[name] for name in sizes.bounds.values() if name in small), default=None)
    drawn, results = looker.drawn(sizes.shapes(small), below), []
    for shift in (0, 1):
        weights = {key: one.clone() for key, one in callee.weights.items()}
        for key in changed:
            weights[key] += shift
        with torch.no_grad():
            found = callee(weights, torch.utils._pytree.tree_map(_copied, drawn))
        results.append([one for _, one in leaves(found) if isinstance(one, torch.Tensor)])
    if not all(map(torch.equal, *results)):
        raise Refused(
            f"{looker.file.shown}: a call reads and changes {changed[0]}, so that no call is like"
            " another",
            "make it an argument, and return what it becomes",
        )
    return changed, [
        f"a call also changes {', '.join(changed)}, which no result depends on, and which kernels"
        " leave alone; for a module that is applied, not trained, end __init__ with self.eval()"
    ]


def _is_narrow(looker: Looker, sizes: Sizes) -> bool:
    """Whether it computes in less than float64 even of such inputs."""
    try:
        return looker.seen(sizes.shapes(sizes.given), exact=True).narrow
    except Refused:  # types that don't go together
        return True


def _copied(one: Any) -> Any:
    return one.clone() if isinstance(one, torch.Tensor) else one
