"""PyTorch as a reference sees it while it is read: every device is the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

HALVES = (torch.float16, torch.bfloat16)
DRAWN = 2**20 + 7
"""Random numbers of a large array, which come again and again. Chosen: no multiple of a row, and
drawn within milliseconds, where 8192 x 8192 weights take a second for each of a dozen draws."""


class HostTensors(TorchFunctionMode):  # type: ignore[misc]
    """Calls that name a GPU are done on the host; attention is done in its few steps."""

    def __enter__(self) -> Any:
        """Generators, which no mode sees, are the host's, too."""
        self._generator = torch.Generator
        torch.Generator = lambda *_, **__: self._generator()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        torch.Generator = self._generator
        super().__exit__(*raised)

    def __torch_function__(
        self, function: Any, kinds: Any, args: Any = (), options: dict[str, Any] | None = None
    ) -> Any:
        """One call of PyTorch's."""
        del kinds
        options = dict(options or {})
        name = getattr(function, "__name__", "")
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name == "pin_memory":
            return args[0]
        if options.get("device") is not None:
            options["device"] = "cpu"
        if name == "to" and len(args) > 1:
            args = (args[0], *("cpu" if _is_device(one) else one for one in args[1:]))
        if options.get("out") is not None:
            return _into(options.pop("out"), self.__torch_function__(function, (), args, options))
        if function is functional.scaled_dot_product_attention:
            return attention(*args, **options)
        if function is functional.embedding_bag:
            return bags(*args, **options)
        return function(*args, **options)


@contextmanager
def quick_draws(*, whole: bool = True) -> Iterator[None]:
    """Large arrays of random numbers hold a few, repeated: what is read doesn't hang on them.

    Args:
        whole: False: only the first numbers are drawn, and the rest takes no memory.
    """

    def repeated(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
            if tensor.numel() <= 2 * DRAWN or not tensor.is_contiguous():
                return draw(tensor, *args, **options)
            flat, block = tensor.data.view(-1), draw(tensor.data.new_empty(DRAWN), *args, **options)
            end = flat.numel() // DRAWN * DRAWN if whole else DRAWN
            flat[:end].view(-1, DRAWN).copy_(block)
            if whole:
                flat[end:].copy_(block[: flat.numel() - end])
            return tensor

        return drawn

    def filled(name: str) -> Callable[..., Any]:
        def made(*size: Any, generator: Any = None, **options: Any) -> torch.Tensor:
            needs = options.pop("requires_grad", False)
            empty = torch.empty(*size, **options)
            return getattr(empty, name)(generator=generator).requires_grad_(needs)

        return made

    with (
        patch.object(torch.Tensor, "uniform_", repeated(torch.Tensor.uniform_)),
        patch.object(torch.Tensor, "normal_", repeated(torch.Tensor.normal_)),
        patch.object(torch, "rand", filled("uniform_")),
        patch.object(torch, "randn", filled("normal_")),
    ):
        yield


def _into(out: Any, result: Any) -> Any:
    """What `out=` does, as copies; not every such call can be traced."""
    if isinstance(out, torch.Tensor):
        return out.copy_(result)
    for one, made in zip(out, result, strict=True):
        one.copy_(made)
    return out


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) or (
        isinstance(value, str) and value.split(":")[0] in ("cuda", "hip", "xpu", "mps", "cpu")
    )


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """What `scaled_dot_product_attention` is documented to compute; halves in float32 inside."""
    if dropout_p:
        torch.rand(())  # random numbers are refused where they are drawn
    dtype = query.dtype
    if dtype in HALVES:
        query, key, value = query.float(), key.float(), value.float()
    if enable_gqa and query.size(-3) != key.size(-3):
        times = query.size(-3) // key.size(-3)
        key, value = (one.repeat_interleave(times, -3) for one in (key, value))
    factor = 1.0 / query.size(-1) ** 0.5 if scale is None else scale
    scores = torch.matmul(query, key.transpose(-2, -1)) * factor
    if is_causal:
        rows = torch.arange(scores.size(-2))[:, None]
        columns = torch.arange(scores.size(-1))[None, :]
        scores = torch.where(columns <= rows, scores, float("-inf"))
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = torch.where(attn_mask, scores, float("-inf"))
        else:
            scores = scores + attn_mask
    return torch.matmul(torch.softmax(scores, -1), value).to(dtype)


def bags(
    indices: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor | None = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    mode: str = "mean", sparse: bool = False, per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """What `embedding_bag` is documented to compute, in operations that are read, where it can."""
    if max_norm is not None or padding_idx is not None or (offsets is not None and mode == "max"):
        return functional.embedding_bag(
            indices, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            per_sample_weights, include_last_offset, padding_idx,
        )  # fmt: skip
    rows = functional.embedding(indices, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if offsets is None:
        return rows.amax(1) if mode == "max" else rows.mean(1) if mode == "mean" else rows.sum(1)
    starts = offsets[:-1] if include_last_offset else offsets
    bag = (torch.arange(len(indices))[:, None] >= starts[None, :]).sum(1) - 1
    total = weight.new_zeros(len(starts), weight.size(1)).index_add(0, bag, rows)
    if mode == "sum":
        return total
    ones = weight.new_ones(len(indices))
    counts = weight.new_zeros(len(starts)).index_add(0, bag, ones)
    return total / counts.clamp_min(1)[:, None]
