"""In a worker: what of a computation a kernel could leave out, and nobody would notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from roofsmith.targets.pytorch.looking import SHORT_BYTES, Looker, SeenModel, leaves
from roofsmith.targets.pytorch.program import GivenInput
from roofsmith.targets.pytorch.sizes import Sizes, scaled
from roofsmith.targets.pytorch.user_file import Callee


def degenerate(
    looker: Looker,
    callee: Callee,
    sizes: Sizes,
    first: SeenModel,
    inputs: Sequence[GivenInput],
    atol: float | None,
) -> list[str]:
    """What a kernel could leave out unseen: tried on draws, at sizes that take no time."""
    small = scaled(sizes, lambda seen: seen.takes_long, sizes.given, first)
    seen = looker.works(sizes.shapes(small))
    if seen is None or seen.moved_bytes > SHORT_BYTES:
        return []

    def drawn() -> dict[str, torch.Tensor]:
        shapes = sizes.shapes(small)
        made = {one.path: eval(one.draw, {"torch": torch}, small) for one in inputs}
        return {path: one.reshape(shapes[path]) for path, one in made.items()}

    def results(given: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        weights = {key: one.clone() for key, one in callee.weights.items()}
        copies = {path: one.clone() for path, one in given.items()}
        with torch.no_grad():
            found = callee(weights, looker.with_tensors(copies))
        changed = [copies[one.path] for one in inputs if one.is_changed]
        return [one for _, one in leaves(found) if isinstance(one, torch.Tensor)] + changed

    def are_same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
        return len(one) == len(other) and all(map(_is_close, one, other))

    torch.manual_seed(0)
    try:
        before, after = drawn(), drawn()
        truth = results(before)
        if are_same(truth, results(after)):
            return ["degenerate: other inputs give the same results, so a constant passes for them"]
        told = [
            f"degenerate: the results don't depend on {one.name}: nobody would notice a kernel that"
            " doesn't read it"
            for one in inputs
            if not one.is_changed and not torch.equal(before[one.path], after[one.path])
            and are_same(truth, results({**before, one.path: after[one.path]}))
        ]  # fmt: skip
    except Exception:  # noqa: BLE001  user code may raise anything: then nothing is said of it
        return []
    largest = max((float(one.abs().max()) for one in truth if one.numel()), default=0.0)
    if atol is not None and largest <= atol:
        told.append(
            f"degenerate: no result is above {largest:.2g}, so the set's own tolerance of {atol:g}"
            " lets zeros pass; here they are wrong"
        )
    return told


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results are the same but for rounding."""
    if one.shape != other.shape or not one.is_floating_point():
        return bool(torch.equal(one, other))
    return bool(torch.allclose(one.double(), other.double(), rtol=1e-5, atol=0, equal_nan=True))
