"""Pages that a process gave back to the system, seen from outside."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator

import pytest

from roofsmith.judge.sandbox import pages
from roofsmith.judge.sandbox.pages import MOST_STRETCHES, PAGE_BYTES, STRETCH_PAGES, are_gone

SIZE = 64 * PAGE_BYTES


@pytest.fixture
def written() -> Iterator[mmap.mmap]:
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(b"x" * SIZE)
        if not can_look(memory):
            pytest.skip("no process may look at its pages here")
        yield memory


def can_look(memory: mmap.mmap) -> bool:
    blank = mmap.mmap(-1, PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with blank:
        return are_gone(os.getpid(), [(address(blank), PAGE_BYTES)], is_alone=False)


def address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def looked(memory: mmap.mmap, *, is_alone: bool = True) -> bool:
    return are_gone(os.getpid(), [(address(memory), SIZE)], is_alone=is_alone)


def test_what_was_written_is_there(written: mmap.mmap) -> None:
    assert not looked(written)
    assert not looked(written, is_alone=False)


@pytest.mark.parametrize("page", [0, 31, 63])
def test_one_page_that_was_given_back(page: int, written: mmap.mmap) -> None:
    written.madvise(mmap.MADV_DONTNEED, page * PAGE_BYTES, PAGE_BYTES)
    assert looked(written)
    assert looked(written, is_alone=False)


def test_the_page_that_everybody_reads_zeros_from_is_not_its_own(written: mmap.mmap) -> None:
    written.madvise(mmap.MADV_DONTNEED)
    assert written[:] == bytes(SIZE)
    assert looked(written)


def test_what_is_written_again_is_there(written: mmap.mmap) -> None:
    written.madvise(mmap.MADV_DONTNEED)
    written[:] = bytes(SIZE)
    assert not looked(written)


def test_a_child_that_shares_pages_takes_none_away(written: mmap.mmap) -> None:
    waits, go = os.pipe()
    if (child := os.fork()) == 0:
        os.close(go)
        os.read(waits, 1)
        os._exit(0)
    assert not looked(written, is_alone=False)
    os.close(go)
    os.close(waits)
    os.waitpid(child, 0)
    assert not looked(written)


def test_pages_of_a_file_that_lie_there_instead_are_not_its_own() -> None:
    with mmap.mmap(-1, SIZE) as shared:
        shared.write(b"x" * SIZE)
        assert looked(shared)


def test_nobody_is_accused_where_nobody_may_look() -> None:
    assert not are_gone(2**22 + 1, [(PAGE_BYTES, PAGE_BYTES)], is_alone=True)


def test_neighbours_are_looked_at_together() -> None:
    slots = [(PAGE_BYTES * (10 + 3 * i), 3 * PAGE_BYTES) for i in range(200)]
    found = pages._stretches([*slots[100:], *slots[:100], (PAGE_BYTES * 5000 + 7, PAGE_BYTES)])
    assert [first for first, _ in found] == [10, 266, 522, 5000]
    assert [count for _, count in found] == [256, 256, 88, 2]
    assert STRETCH_PAGES == 256


def test_of_much_memory_another_part_is_looked_at_every_time() -> None:
    every = pages._stretches([(0, 100 * STRETCH_PAGES * PAGE_BYTES)])
    one, other = (pages._chosen(every) for _ in range(2))
    assert len(set(one)) == len(set(other)) == MOST_STRETCHES
    assert set(one) | set(other) <= set(every)
    assert set(one) != set(other)
