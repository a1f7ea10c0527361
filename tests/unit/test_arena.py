from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.arrays import DTYPE_BYTES, ArraySpec
from roofsmith.judge.correctness.poison import HUGE_GUARDS, UNWRITTEN
from roofsmith.judge.host.arena import ALIGNMENT_BYTES, GUARD_BYTES, Arena, lay_out

SPECS = (
    ArraySpec("x", "input", "float32", (3, 5)),
    ArraySpec("flag", "input", "uint8", (1,)),
    ArraySpec("y", "output", "float64", (7,)),
    ArraySpec("empty", "output", "int32", (0,)),
)


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena(SPECS, 3)
    yield made
    made.close()


specs = st.lists(
    st.tuples(
        st.sampled_from(["float32", "float64", "int8", "int32", "uint16"]),
        st.lists(st.integers(0, 40), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=20,
)


@given(specs)
def test_arrays_are_aligned_apart_and_inside_their_slot(
    shapes: list[tuple[str, list[int]]],
) -> None:
    arrays = [
        ArraySpec(f"a{i}", "input", dtype, tuple(shape))  # type: ignore[arg-type]
        for i, (dtype, shape) in enumerate(shapes)
    ]
    layout = lay_out(arrays)
    end = 0
    for array, offset in zip(layout.arrays, layout.offsets, strict=True):
        assert offset % ALIGNMENT_BYTES == 0
        assert offset - end >= GUARD_BYTES
        end = offset + array.size_bytes
        assert array.size_bytes == int(np.prod(array.shape)) * DTYPE_BYTES[array.dtype]
    assert layout.slot_bytes - end >= GUARD_BYTES
    assert layout.slot_bytes % ALIGNMENT_BYTES == 0


def test_arrays_begin_at_different_offsets_within_a_page() -> None:
    arrays = [ArraySpec(f"a{i}", "input", "float32", (4096,)) for i in range(16)]
    assert len({offset % 4096 for offset in lay_out(arrays).offsets}) == 16


def test_views_are_typed_shaped_and_aligned(arena: Arena) -> None:
    for slot in range(3):
        for spec in SPECS:
            view = arena.view(slot, spec.name)
            assert view.shape == spec.shape
            assert view.dtype == np.dtype(spec.dtype)
            assert arena.offset(slot, spec.name) % ALIGNMENT_BYTES == 0


def test_prepare_fills_inputs_and_poisons_the_rest(arena: Arena) -> None:
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    arena.view(1, "y").fill(1.0)
    arena.prepare(1, {"x": x})
    assert np.array_equal(arena.view(1, "x"), x)
    assert np.isnan(arena.view(1, "y")).all()
    assert arena.view(1, "flag")[0] == UNWRITTEN["uint8"]
    assert arena.overrun(1) is None


def test_slots_are_independent(arena: Arena) -> None:
    for slot in range(3):
        arena.prepare(slot, {"x": np.full((3, 5), slot, np.float32)})
    for slot in range(3):
        assert (arena.view(slot, "x") == slot).all()
        assert arena.overrun(slot) is None


@pytest.mark.parametrize("slot", [0, 1, 2])
@pytest.mark.parametrize("name", [spec.name for spec in SPECS])
@pytest.mark.parametrize("distance", [1, 4, ALIGNMENT_BYTES, GUARD_BYTES])
@pytest.mark.parametrize("side", ["before", "behind"])
def test_a_byte_beside_any_array_is_noticed(
    slot: int, name: str, distance: int, side: str, arena: Arena
) -> None:
    for each in range(3):
        arena.prepare(each, {})
    spec = next(s for s in SPECS if s.name == name)
    start = arena.offset(slot, name)
    at = start - distance if side == "before" else start + spec.size_bytes + distance - 1
    os.pwrite(arena.fd, b"\x00", at)
    assert arena.overrun(slot) is not None
    assert all(arena.overrun(each) is None for each in range(3) if each != slot)


def test_the_array_that_was_overrun_is_named(arena: Arena) -> None:
    arena.prepare(0, {})
    os.pwrite(arena.fd, b"\x00", arena.offset(0, "x") - 1)
    assert arena.overrun(0) == "in front of x"
    arena.prepare(0, {})
    os.pwrite(arena.fd, b"\x00", arena.offset(0, "y") + 7 * 8)
    assert arena.overrun(0) == "behind y"


def test_writing_inside_is_no_overrun(arena: Arena) -> None:
    arena.prepare(0, {})
    for spec in SPECS:
        arena.view(0, spec.name).fill(0)
    assert arena.overrun(0) is None


def test_ranges_cover_slots_with_their_guards(arena: Arena) -> None:
    size = arena.layout.slot_bytes
    assert arena.ranges([0, 2]) == [(0, size), (2 * size, size)]
    assert arena.size_bytes == 3 * size


def test_a_second_mapping_sees_the_same_memory(arena: Arena) -> None:
    arena.prepare(0, {"flag": np.array([7], np.uint8)})
    other = Arena(SPECS, 3, os.dup(arena.fd))
    assert other.view(0, "flag")[0] == 7
    other.view(0, "flag")[0] = 9
    assert arena.view(0, "flag")[0] == 9
    other.close()


def test_closing_gives_the_descriptor_back_once() -> None:
    made = Arena(SPECS, 1)
    fd = made.fd
    made.close()
    made.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_no_worker_can_cut_an_arena_off(arena: Arena) -> None:
    """The judge, which reads it, would be killed by SIGBUS."""
    with pytest.raises(PermissionError):
        os.ftruncate(arena.fd, 0)


def test_memory_that_is_not_shared_keeps_nothing_of_what_it_held(arena: Arena) -> None:
    own = Arena(SPECS, 3, is_shared=False)
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for one in (own, arena):
        one._bytes.fill(0xEE)
        one.prepare(1, {"x": x}, guard=HUGE_GUARDS[0])
    slot = slice(own.layout.slot_bytes, 2 * own.layout.slot_bytes)
    held = own._bytes[slot]
    assert (held == arena._bytes[slot]).all()
    assert not (held == 0xEE).any()
    assert own.overrun(1) is None
    assert own.fd == -1
    assert own.address % 4096 == 0
