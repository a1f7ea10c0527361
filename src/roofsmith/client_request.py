"""Has callgrind simulate the calls of a kernel, and nothing else that its worker does.

Simulated, the start of Python takes thirteen seconds. So callgrind begins without, and is told when
to begin: by a client request, an instruction sequence that does nothing anywhere else and that
Valgrind's translator looks for. Sequence and numbers: valgrind.h and callgrind.h, which Valgrind
installs for this purpose. Standard library only, like the worker that uses it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TOOL = ord("C") << 24 | ord("T") << 16
_START, _STOP = _TOOL + 4, _TOOL + 5
"""VG_USERREQ__START_INSTRUMENTATION and _STOP_."""
_REQUEST = bytes.fromhex(
    "4889f8"  # mov rax, rdi: the request and its five arguments
    "31d2"  # xor edx, edx: the answer outside of Valgrind
    "48c1c703" "48c1c70d" "48c1c73d" "48c1c733"  # rol rdi, 3, 13, 61, 51: all the way round
    "4887db"  # xchg rbx, rbx
    "4889d0"  # mov rax, rdx
    "c3"  # ret
)  # fmt: skip

CAN_BEGIN_LATE = sys.platform.startswith("linux") and platform.machine() == "x86_64"
"""Whether the sequence for this machine is known here; if not, callgrind simulates everything."""


@contextmanager
def simulated() -> Iterator[None]:
    """Have callgrind simulate what runs in the block, if it runs this process."""
    if not CAN_BEGIN_LATE:
        yield
        return
    everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    with mmap.mmap(-1, mmap.PAGESIZE, prot=everything) as page:
        page.write(_REQUEST)
        code = ctypes.c_char.from_buffer(page)
        request = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)(ctypes.addressof(code))
        try:
            request((ctypes.c_ulong * 6)(_START))
            yield
        finally:
            request((ctypes.c_ulong * 6)(_STOP))
            del code  # a page that something points into can't be closed
