"""C code of vector types and helpers, in GCC's vector extensions (gcc.gnu.org/onlinedocs/gcc,
"Using Vector Instructions through Built-in Functions"), which clang understands as well."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.proposers.recipes._code import rendered
from roofsmith.proposers.source import Element

_NATIVE = {16: ("__SSE2__", ""), 32: ("__AVX__", "256")}
"""By bytes: where x86 has one instruction for a maximum; as the select, it takes the second operand
for NaN."""
_STREAM = {
    16: ("__SSE2__", "_mm", "__m128"),
    32: ("__AVX__", "_mm256", "__m256"),
    64: ("__AVX512F__", "_mm512", "__m512"),
}


@dataclass(frozen=True, slots=True)
class VectorType:
    """Names and widths of one element type."""

    element: Element
    lanes: int

    @property
    def suffix(self) -> str:
        """`f` or `d`: ends every name that belongs to this element type."""
        return "f" if self.element == "float" else "d"

    @property
    def name(self) -> str:
        return f"roofsmith_v{self.suffix}"

    def function(self, operation: str) -> str:
        """The name of a helper, such as `roofsmith_vmaxf`."""
        return f"roofsmith_v{operation}{self.suffix}"

    @property
    def code(self) -> str:
        """Type, loads, stores, selects and folds."""
        return self._rendered("vectors")

    @property
    def exp_code(self) -> str:
        """The vector exponential, for the element type."""
        return rendered("expf" if self.element == "float" else "exp", vector=True)

    @property
    def scratch_code(self) -> str:
        """`roofsmith_scratch_*`: a row to work on."""
        return self._rendered("scratch")

    @property
    def stream_code(self) -> str:
        """Writes to memory without reading it into the cache first.

        `roofsmith_vstream*` writes one vector, `roofsmith_stream_*` a whole row.
        """
        return self._rendered("stream")

    def _rendered(self, template: str) -> str:
        is_float = self.element == "float"
        size_bytes = self.lanes * (4 if is_float else 8)
        stream = _STREAM.get(size_bytes)
        return rendered(
            template,
            element=self.element,
            integer="int" if is_float else "long long",
            size_bytes=size_bytes,
            align=4 if is_float else 8,
            lanes=self.lanes,
            suffix=self.suffix,
            packed="ps" if is_float else "pd",
            orders=self._orders,
            native=_NATIVE.get(size_bytes),
            stream=stream and (*stream[:2], stream[2] + ("" if is_float else "d")),
        )

    @property
    def _orders(self) -> list[str]:
        """Turns of the lanes by a half, a quarter and so on, until one lane is left."""
        halves = [self.lanes >> turn for turn in range(1, self.lanes.bit_length())]
        lanes = range(self.lanes)
        return [", ".join(str((lane + half) % self.lanes) for lane in lanes) for half in halves]
