"""What runs beside a server's event loop: one measurement at a time, until somebody cancels it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

from roofsmith.mcp.working import CancelledWorkError, Ears, awaited, machine


def test_two_measurements_wait_for_each_other() -> None:
    first, second = Ears(), Ears()
    with machine(first):
        second.cancel()
        with pytest.raises(CancelledWorkError), machine(second):
            pytest.fail("both at once")
    with machine(Ears()):
        pass


def test_a_cancelled_call_ends_its_work_and_hears_no_more() -> None:
    ears, future, told = Ears(), Future[int](), list[str]()

    async def report(count: float, said: str) -> None:
        told.append(said)

    async def talk() -> None:
        ears.stage("time", "N=1")
        ears.progress(0.25)
        call = asyncio.ensure_future(awaited(future, ears, report))
        while not told:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(talk())
    assert told == ["time N=1 25%"]
    with pytest.raises(CancelledWorkError):
        ears.heed()
