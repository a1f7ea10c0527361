"""The packed matrix product's sizes."""

from __future__ import annotations

import pytest

from roofsmith.domain.device import Device
from roofsmith.proposers.recipes._gemm import blocking_for


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("real", ["float", "double"])
def test_the_register_tile_fits_the_registers(vector_bytes: int, real: str) -> None:
    device = Device(kind="cpu", name="any", cores=1, vector_bytes=vector_bytes)
    blocking = blocking_for(device, real)
    registers = 32 if vector_bytes == 64 else 16
    assert blocking.mr * blocking.nv + blocking.nv + 1 <= max(registers, 19)
    assert blocking.mc % blocking.mr == 0
    assert all(getattr(blocking, name) in values for name, values in blocking.choices.items())
