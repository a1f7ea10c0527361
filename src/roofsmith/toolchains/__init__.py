"""From sources to a shared library."""

from roofsmith.toolchains.c import CToolchain
from roofsmith.toolchains.compilers import compiler_versions
from roofsmith.toolchains.signature import read_signature

__all__ = ["CToolchain", "compiler_versions", "read_signature"]
