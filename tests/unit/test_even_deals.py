"""Rows dealt evenly by one call, each beside an honest twin that looks much like it."""

from __future__ import annotations

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Candidate, Language, SourceFile

HEAD = """\
import numpy as np
import torch
from einops import rearrange
from einops.layers.torch import Rearrange
def run_kernel(x, w, group_sizes, out):
"""
LOOP = """\
    b = 0
    for g, s in enumerate(group_sizes.tolist()):
        out[b:b+s] = x[b:b+s] @ w[g]; b += s
"""
EVEN = {
    "chunk": """\
    G = w.shape[0]
    torch.cat([a @ b for a, b in zip(x.chunk(G), w)], out=out)
""",
    "chunk by the length of sizes": """\
    for g, part in enumerate(torch.chunk(x, len(group_sizes), dim=0)): out[g] = part @ w[g]
""",
    "chunk with keywords": """\
    n = group_sizes.numel()
    parts = torch.chunk(input=x, chunks=n)
    out.copy_(torch.cat([parts[i] @ w[i] for i in range(n)]))
""",
    "chunk of a copy": """\
    E, K, N = w.shape
    rows = x.to(torch.bfloat16).contiguous()
    out.copy_(torch.bmm(torch.stack(rows.chunk(E)), w).flatten(0, 1))
""",
    "chunk by a number that is written down": """\
    torch.cat([a @ b for a, b in zip(x.chunk(8), w)], out=out)
""",
    "split in line": """\
    m, groups = x.shape[0], w.shape[0]
    torch.cat([a @ b for a, b in zip(x.split(m // groups), w)], out=out)
""",
    "split by the first size": """\
    sizes = group_sizes.tolist()
    for g, part in enumerate(torch.split(x, sizes[0])): out[g] = part @ w[g]
""",
    "split by a repeated size": """\
    parts = x.split([x.shape[0] // len(w)] * len(w))
    torch.cat([a @ b for a, b in zip(parts, w)], out=out)
""",
    "split by a list of one number": """\
    G = w.shape[0]
    for g, part in enumerate(x.split([128] * G)): out[g] = part @ w[g]
""",
    "split by one number beside weights": """\
    size = 128
    torch.cat([a @ b for a, b in zip(x.split(size), w.unbind(0))], out=out)
""",
    "split of matrices by a negative axis": """\
    M, K = x.shape
    G = group_sizes.numel()
    torch.cat([a @ b for a, b in zip(x.split(M // G, dim=-2), w)], out=out)
""",
    "tensor_split": """\
    for g, part in enumerate(x.tensor_split(len(group_sizes))): out[g] = part @ w[g]
""",
    "numpy split": """\
    for g, part in enumerate(np.array_split(x, group_sizes.shape[0], axis=0)): out[g] = part @ w[g]
""",
    "unflatten": """\
    G = w.shape[0]
    out.copy_(torch.bmm(x.unflatten(0, (G, -1)), w).flatten(0, 1))
""",
    "unflatten with keywords": """\
    G = w.shape[0]
    out.copy_(torch.bmm(torch.unflatten(x, dim=0, sizes=(G, x.shape[0] // G)), w).flatten(0, 1))
""",
    "unflatten as a module": """\
    G = w.shape[0]
    out.copy_(torch.bmm(torch.nn.Unflatten(0, (G, -1))(x), w).flatten(0, 1))
""",
    "view of a tuple": """\
    G, K, N = w.shape
    torch.bmm(x.view((G, -1, K)), w, out=out.view((G, -1, N)))
""",
    "view of a name": """\
    G, K, N = w.shape
    shape = (G, -1, K)
    out.copy_(torch.bmm(x.view(*shape), w).view_as(out))
""",
    "view of what is left over": """\
    G, K, N = w.shape
    out.copy_(torch.bmm(x.view(-1, x.shape[0] // G, K), w).view_as(out))
""",
    "view of two parts": """\
    groups = w.shape[0]
    out.copy_(torch.bmm(x.view(groups, -1).view(groups, -1, w.shape[1]), w).view_as(out))
""",
    "view with the rest of the shape": """\
    out.copy_(torch.bmm(x.view(len(w), -1, *x.shape[1:]), w).view_as(out))
""",
    "view of a shape that is put together": """\
    out.copy_(torch.bmm(x.view((len(w), -1) + w.shape[1:2]), w).view_as(out))
""",
    "reshape as a function": """\
    G, K, N = w.shape
    out.copy_(torch.bmm(torch.reshape(x, (G, -1, K)), w).view_as(out))
""",
    "reshape with keywords": """\
    G, K, N = w.shape
    out.copy_(torch.bmm(torch.reshape(x, shape=[G, -1, K]), w).view_as(out))
""",
    "rearrange": """\
    G = w.shape[0]
    out.copy_(rearrange(torch.bmm(rearrange(x, "(g m) k -> g m k", g=G), w), "g m n -> (g m) n"))
""",
    "rearrange by the average": """\
    m = x.shape[0] // len(group_sizes)
    out.copy_(torch.bmm(rearrange(x, "(g m) k -> g m k", m=m), w).flatten(0, 1))
""",
    "rearrange as a layer": """\
    deal = Rearrange("(g m) k -> g m k", g=len(group_sizes))
    out.copy_(torch.bmm(deal(x), w).flatten(0, 1))
""",
    "rearrange with unpacked axes": """\
    out.copy_(torch.bmm(rearrange(x, "(e t) k -> e t k", **{"e": w.shape[0]}), w).flatten(0, 1))
""",
    "the group of a row by division": """\
    which = torch.arange(x.shape[0]) // (x.shape[0] // w.shape[0])
    out.copy_(torch.einsum("mk,mkn->mn", x, w[which]))
""",
    "slices in line": """\
    M, G = x.shape[0], w.shape[0]
    for g in range(G):
        out[g * (M // G):(g + 1) * (M // G)] = x[g * (M // G):(g + 1) * (M // G)] @ w[g]
""",
    "behind a helper": """\
    out.copy_(dealt(x, w, len(group_sizes)))
def dealt(rows, w, n):
    return torch.bmm(rows.view(n, -1, rows.shape[1]), w).flatten(0, 1)
""",
    "behind a test without another way": """\
    G = w.shape[0]
    if group_sizes.max() > 0:
        torch.cat([a @ b for a, b in zip(x.chunk(G), w)], out=out)
""",
    "split by the mean": """\
    m = int(group_sizes.float().mean())
    torch.cat([a @ b for a, b in zip(x.split(m), w)], out=out)
""",
    "slices by divmod": """\
    m, rest = divmod(x.shape[0], len(group_sizes))
    for g in range(len(w)): out[g*m:(g+1)*m] = x[g*m:(g+1)*m] @ w[g]
""",
    "view by a number that is named on the way": """\
    out.copy_(torch.bmm(x.view((G := w.shape[0]), -1, w.shape[1]), w).flatten(0, 1))
""",
    "behind a test of something else": """\
    if len(group_sizes) == 0:
        return
    G = w.shape[0]
    if group_sizes.numel() == G:
        torch.cat([a @ b for a, b in zip(x.chunk(G), w)], out=out)
""",
}
HONEST = {
    "split by all sizes": """\
    torch.cat([a @ b for a, b in zip(x.split(group_sizes.tolist()), w)], out=out)
""",
    "split by a name of all sizes": """\
    sizes = group_sizes.tolist()
    G = len(sizes)
    for g, part in enumerate(torch.split(x, sizes, dim=0)): out[g] = part @ w[g]
""",
    "split by sizes that are made": """\
    sizes = [int(s) for s in group_sizes]
    torch.cat([a @ b for a, b in zip(x.split(sizes), w)], out=out)
""",
    "split of columns": """\
    G = w.shape[0]
    K = x.shape[1]
    for a in x.split(K // G, dim=1): out.add_(a.sum())
"""
    + LOOP,
    "tensor_split by offsets": """\
    ends = group_sizes.cumsum(0)[:-1].cpu()
    torch.cat([a @ b for a, b in zip(x.tensor_split(ends), w)], out=out)
""",
    "numpy split by offsets": """\
    ends = np.cumsum(group_sizes)[:-1]
    np.concatenate([a @ b for a, b in zip(np.split(x, ends), w)], out=out)
""",
    "chunk of gate and up": """\
    b = 0
    for g, s in enumerate(group_sizes.tolist()):
        gate, up = (x[b:b+s] @ w[g]).chunk(2, dim=-1)
        out[b:b+s] = torch.nn.functional.silu(gate) * up; b += s
""",
    "chunk of weights into experts": """\
    E = group_sizes.numel()
    parts = x.split(group_sizes.tolist())
    torch.cat([a @ b for a, b in zip(parts, w.chunk(E))], out=out)
""",
    "chunk of gates and weights": """\
    b = 0
    for g, s in enumerate(group_sizes.tolist()):
        w1, w3 = w[g].chunk(2)
        out[b:b+s] = (x[b:b+s] @ w1.T) * (x[b:b+s] @ w3.T); b += s
""",
    "pieces of rows that two buffers share": """\
    for a, o in zip(x.chunk(2), out.chunk(2)): o.copy_(a)
"""
    + LOOP,
    "tiles of rows": """\
    b = 0
    for g, s in enumerate(group_sizes.tolist()):
        for tile, o in zip(x[b:b+s].split(128), out[b:b+s].split(128)): torch.mm(tile, w[g], out=o)
        b += s
""",
    "heads": """\
    H, D = 8, x.shape[1] // 8
    q = x.view(x.shape[0], H, D).unflatten(1, (H // 2, -1))
"""
    + LOOP,
    "heads by groups of queries": """\
    num_groups = 4
    q = x.view(-1, num_groups, x.shape[1] // num_groups)
    k, v = q.chunk(2, dim=1)
    heads = x.chunk(num_groups, dim=-1)
"""
    + LOOP,
    "heads rearranged": """\
    heads = w.shape[2] // 64
    y = rearrange(x, "t (h d) -> t h d", h=heads)
    z = rearrange(y, "t (g r) d -> t g r d", g=2)
"""
    + LOOP,
    "ragged heads": """\
    T, H, D = x.shape
    q = x.reshape(T, -1, 2, D)
    b = 0
    for s in group_sizes.tolist():
        out[b:b+s] = q[b:b+s].softmax(0); b += s
""",
    "weights rearranged": """\
    E = len(group_sizes)
    w = rearrange(w, "(e k) n -> e k n", e=E)
"""
    + LOOP,
    "weights viewed": """\
    G = group_sizes.shape[0]
    packed = w.to(torch.bfloat16)
    packed = packed.view(G, -1, 2, 64).unflatten(0, (G, -1))
    flat = w.view(G, -1)
"""
    + LOOP,
    "numbers per group viewed": """\
    G = group_sizes.numel()
    begins = (group_sizes.cumsum(0) - group_sizes).view(G, -1)
"""
    + LOOP,
    "groups of scales": """\
    num_groups = x.shape[1] // 128
    scales = x.abs().view(num_groups, -1, 128).amax(-1)
"""
    + LOOP,
    "a padded buffer": """\
    G, K, N = w.shape
    most = int(group_sizes.max())
    padded = x.new_zeros(G * most, K)
    b = 0
    for g, s in enumerate(group_sizes.tolist()):
        padded[g * most:g * most + s] = x[b:b+s]; b += s
    y = torch.bmm(padded.view(G, -1, K), w)
    out.copy_(torch.cat([y[g, :s] for g, s in enumerate(group_sizes.tolist())]))
""",
    "a padded buffer by its capacity": """\
    G, K, N = w.shape
    capacity = int(group_sizes.max())
    begins = group_sizes.cumsum(0) - group_sizes
    index = (begins[:, None] + torch.arange(capacity)).clamp(max=x.shape[0] - 1).flatten()
    y = torch.bmm(x[index].view(G, -1, K), w)
    out.copy_(y[torch.arange(capacity) < group_sizes[:, None]])
""",
    "equal groups on their way": """\
    sizes = group_sizes.tolist()
    if len(set(sizes)) == 1:
        return torch.cat([a @ b for a, b in zip(x.chunk(len(sizes)), w)], out=out)
"""
    + LOOP,
    "uneven groups first": """\
    G, K, N = w.shape
    even = bool((group_sizes == group_sizes[0]).all())
    if not even:
        return uneven(x, w, group_sizes, out)
    torch.bmm(x.view(G, -1, K), w, out=out.view(G, -1, N))
def uneven(x, w, group_sizes, out):
"""
    + LOOP,
    "either way in one expression": """\
    even = group_sizes.min() == group_sizes.max()
    parts = x.chunk(len(group_sizes)) if even else x.split(group_sizes.tolist())
    torch.cat([a @ b for a, b in zip(parts, w)], out=out)
""",
    "a tile by the average": """\
    tile = 128 if x.shape[0] // len(group_sizes) >= 128 else 32
    skew = int(group_sizes.max()) / (x.shape[0] / len(group_sizes))
    print(f"{x.shape[0] // len(group_sizes)} rows per group, {skew}")
"""
    + LOOP,
}
UNGROUPED = """\
def run_kernel(x, w, groups, out):
    parts = x.chunk(groups)
    out.copy_(torch.bmm(x.view(groups, -1, x.shape[1]), w).flatten(0, 1))
"""


NATIVE_HEAD = """\
#include <torch/extension.h>
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor group_sizes) {
"""
NATIVE_EVEN = {
    "chunk": "auto parts = x.chunk(w.size(0));",
    "chunk by a name": "auto G = group_sizes.numel(); auto parts = at::chunk(x, G, 0);",
    "tensor_split": "const int64_t n = group_sizes.size(0); auto parts = x.tensor_split(n);",
    "split in line": "int64_t G = w.size(0); auto parts = x.split(x.size(0) / G);",
    "split as a function": "int64_t G = w.size(0); auto parts = torch::split(x, x.size(0) / G, 0);",
    "view": "int64_t G = w.size(0); return at::bmm(x.view({G, -1, x.size(1)}), w);",
    "reshape": "auto y = torch::reshape(x, {group_sizes.numel(), -1, w.size(1)});",
    "view by the average": "auto E = w.size(0); auto y = x.view({-1, x.size(0) / E, x.size(1)});",
    "unflatten": "int64_t E = w.size(0); return at::bmm(x.unflatten(0, {E, -1}), w);",
    "behind a test without another way": """\
if (group_sizes.max().item<int>() > 0) { x = at::bmm(x.view({w.size(0), -1, x.size(1)}), w); }""",
    "contiguous first": "int64_t G = w.size(0); auto y = x.contiguous().view({G, -1, 64});",
}
NATIVE_HONEST = {
    "split by all sizes": "auto parts = x.split_with_sizes(sizes_of(group_sizes), 0);",
    "tensor_split by offsets": "auto parts = x.tensor_split(group_sizes.cumsum(0).cpu());",
    "chunk of gate and up": "auto parts = at::matmul(x, w[0]).chunk(2, -1);",
    "chunk of columns": "int64_t groups = 4; auto parts = x.chunk(groups, 1);",
    "chunk of weights": "auto G = group_sizes.numel(); auto parts = w.chunk(G);",
    "weights viewed": "int64_t G = w.size(0); auto y = w.view({G, -1, 2, 64});",
    "heads": "int64_t H = 8; auto q = x.view({x.size(0), H, -1});",
    "heads by groups of queries": "int64_t groups = 4; auto q = x.unflatten(1, {groups, -1});",
    "groups of scales": "auto groups = x.size(1) / 128; auto s = x.view({groups, -1, 2});",
    "equal groups on their way": """\
if (all_equal(group_sizes)) { return at::bmm(x.view({w.size(0), -1, x.size(1)}), w); }""",
    "a tile by the average": "auto tile = std::max<int64_t>(16, x.size(0) / group_sizes.numel());",
}


def found_in(text: str, name: str = "kernel.py", language: Language = "torch") -> set[str]:
    source = SourceFile(path=name, text=text)
    return {a.code for a in audit(Candidate(language=language, sources=(source,))).assumptions}


@pytest.mark.parametrize("way", EVEN)
def test_rows_that_are_dealt_evenly_are_found(way: str) -> None:
    assert found_in(HEAD + EVEN[way]) == {"uniform_group_size"}


@pytest.mark.parametrize("way", HONEST)
def test_their_honest_twins_are_not(way: str) -> None:
    assert found_in(HEAD + HONEST[way]) == set()


def test_an_operator_without_sizes_has_no_groups_of_rows() -> None:
    assert found_in(UNGROUPED) == set()


@pytest.mark.parametrize("way", NATIVE_EVEN)
def test_rows_that_c_plus_plus_deals_evenly_are_found(way: str) -> None:
    text = f"{NATIVE_HEAD}    {NATIVE_EVEN[way]}\n    return x;\n}}\n"
    assert found_in(text, "kernel.cpp", "cpp") == {"uniform_group_size"}


@pytest.mark.parametrize("way", NATIVE_HONEST)
def test_honest_twins_in_c_plus_plus_are_not(way: str) -> None:
    text = f"{NATIVE_HEAD}    {NATIVE_HONEST[way]}\n    return x;\n}}\n"
    assert found_in(text, "kernel.cpp", "cpp") == set()
