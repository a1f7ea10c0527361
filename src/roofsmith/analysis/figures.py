"""Numbers and texts for people: SI prefixes, ratios with intervals, text that can't play tricks.

Everything upstream is in SI base units; prefixes appear here and nowhere else. A number that isn't
known is `UNKNOWN`, never an empty cell and never 0.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Final

from roofsmith.analysis.compare import LARGEST_RATIO
from roofsmith.domain.measure import Measure
from roofsmith.wording import plural as plural

UNKNOWN = "UNKNOWN"

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SI_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_SHORT_UNITS = {"byte/s": "B/s", "byte": "B", "bytes": "B"}
_MAX_RATIO_DECIMALS = 4
_SHARE_SUFFIXES = ("_rate", "_fraction", "_share", "_share_static")
_INFINITE = 1e308
"""How the domain writes an infinite error."""

_ANSI_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNUSUAL = re.compile(r"[^ -~\n\t]")
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories: controls, formats, surrogates, private, unassigned, separators of lines."""


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits and no exponent: 0.0123, 1.23, 123, 1234."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - exponent)
    rounded = round(value, decimals)
    if rounded and math.floor(math.log10(abs(rounded))) > exponent:
        decimals = max(0, decimals - 1)
    return f"{rounded:.{decimals}f}"


def time(time_s: float | None) -> str:
    """A kernel's time, three digits: `85.0 ns`, `1.23 µs`, `110 ms`, `2.50 s`."""
    if time_s is None:
        return UNKNOWN
    if time_s == 0:
        return "0 s"
    for scale, unit in _TIME_UNITS:
        # 0.9995 so that what would print as 1000 of a unit prints as 1.00 of the next one.
        if abs(time_s) >= 0.9995 * scale:
            return f"{significant(time_s / scale)} {unit}"
    return f"{significant(time_s / 1e-9)} ns"


def measured(recorded: float | None, measure: Measure, *, named: bool = False) -> str:
    """What was measured, as its measure reads it: `1.23 ms`, `123.4 TFLOP/s`, `123.4`.

    Args:
        recorded: seconds, or what a record holds in their place.
        measure: of the campaign's target.
        named: say of which metric, where no heading does: `tokens_per_s 123.4`. A time needs none.
    """
    if recorded is None:
        return UNKNOWN
    if measure.is_time:
        return time(recorded)
    words = (measure.name if named else "", _plain(measure.value(recorded)), measure.unit)
    return one_line(" ".join(words))


def measured_interval(ci: tuple[float, float], measure: Measure) -> str:
    """A confidence interval of the same: `[1.21 ms, 1.26 ms]`."""
    if measure.is_time:
        return f"[{time(ci[0])}, {time(ci[1])}]"
    low, high = (_plain(end) for end in measure.interval(ci))
    return one_line(f"[{low}, {high}] {measure.unit}")


def _plain(value: float) -> str:
    """Four digits without a prefix, since its unit is anybody's."""
    return significant(value, 4) if 1e-6 <= abs(value) < 1e15 else f"{value:.4g}"


def share(fraction: float | None, bytes_only: bool) -> str:
    """Of the roofline: `41%`, or `<1% (bytes only)` where operations count for nothing.

    A floor of bytes alone may lie far too low, so how small a share of it is says nothing.
    """
    if fraction is None or not bytes_only:
        return percent(fraction)
    return f"{percent(fraction) if fraction >= LEAST_SHARE else '<1%'} (bytes only)"


LEAST_SHARE: Final = 0.01
"""Of a floor of bytes alone that is told. Chosen."""


def duration(wall_s: float) -> str:
    """How long people waited: `4.2 s`, `1 min 52 s`, `2 h 05 min`."""
    if wall_s < 59.95:
        return f"{wall_s:.1f} s" if wall_s >= 1 else time(wall_s)
    minutes, seconds = divmod(round(wall_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def money(usd: float | None) -> str:
    """An amount: `$1.25`, `$0.0041`."""
    if usd is None:
        return UNKNOWN
    return f"${usd:.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def quantity(value: float | None, unit: str) -> str:
    """A value with an SI prefix and three digits: `23.1 GB/s`, `1.21 TFLOP/s`, `67.1 MFLOP`."""
    if value is None:
        return UNKNOWN
    short = _SHORT_UNITS.get(unit, unit)
    for scale, prefix in _SI_PREFIXES:
        if abs(value) >= 0.9995 * scale:
            return f"{significant(value / scale)} {prefix}{short}"
    return f"{significant(value)} {short}"


def size(size_bytes: float | None) -> str:
    """A capacity in binary units, as caches are sold: `32 KiB`, `1.5 MiB`."""
    if size_bytes is None:
        return UNKNOWN
    for scale, unit in _BINARY_UNITS:
        if size_bytes >= scale:
            return f"{size_bytes / scale:.4g} {unit}"
    return "0 B"


def intensity(flop_per_byte: float | None) -> str:
    """Arithmetic intensity: `0.625 FLOP/byte`."""
    return UNKNOWN if flop_per_byte is None else f"{significant(flop_per_byte)} FLOP/byte"


def counter(value: float | None, unit: str, name: str = "") -> str:
    """A profiler's counter: `577 M`, `2.30 /cycle`; as a share where its name says it is one."""
    if value is None:
        return UNKNOWN
    if unit in ("fraction", "ratio") or (unit == "1" and name.endswith(_SHARE_SUFFIXES)):
        return percent(value)
    if unit in ("", "1"):
        if value.is_integer() and abs(value) < 10_000:
            return f"{value:.0f}"
        return quantity(value, "").strip() if abs(value) >= 10_000 else significant(value)
    if unit == "s":
        return time(value)
    if unit.startswith("1/"):
        return f"{significant(value)} {unit.removeprefix('1')}"
    return quantity(value, unit)


def percent(fraction: float | None) -> str:
    """A share: `93%`, `9.3%`, `0.42%`."""
    if fraction is None:
        return UNKNOWN
    share = 100 * fraction
    if abs(share) >= 9.95 or share == 0:
        return f"{share:.0f}%"
    return f"{significant(share, 2)}%"


def delta(fraction: float | None) -> str:
    """A change with its sign: `+12%`, `-0.42%`."""
    if fraction is None:
        return UNKNOWN
    return percent(fraction) if fraction < 0 else f"+{percent(fraction)}"


def speedup(value: float | None, times: str = "x") -> str:
    """A ratio alone: `1.23x`, `12.3x`, `731x`."""
    return UNKNOWN if value is None else f"{value:.{_ratio_decimals(value)}f}{times}"


def ratio(value: float | None, ci: tuple[float, float] | None = None, times: str = "x") -> str:
    """A ratio with its interval: `1.23x [1.20, 1.26]`.

    Takes one decimal more where the interval's two ends would otherwise print the same. Of an
    interval that is open on one side the other end is said.
    """
    if value is None:
        return UNKNOWN
    if ci is None:
        return speedup(value, times)
    most = LARGEST_RATIO * (1 - 1e-9)  # a mean of open ends is rounded
    has_low, has_high = ci[0] > 1 / most, ci[1] < most
    if not (has_low and has_high):
        known = f", at least {speedup(ci[0], times)}" if has_low else " (no interval)"
        return speedup(value, times) + (f", at most {speedup(ci[1], times)}" if has_high else known)
    decimals = _ratio_decimals(value)
    while (
        decimals < _MAX_RATIO_DECIMALS
        and ci[0] != ci[1]
        and f"{ci[0]:.{decimals}f}" == f"{ci[1]:.{decimals}f}"
    ):
        decimals += 1
    low, high = (f"{end:.{decimals}f}" for end in ci)
    return f"{value:.{decimals}f}{times} [{low}, {high}]"


def _ratio_decimals(value: float) -> int:
    """Two decimals up to 10, one up to 100, none above."""
    if abs(value) < 9.995:
        return 2
    return 1 if abs(value) < 99.95 else 0


def error(value: float) -> str:
    """A relative error: `3.2e-07`, `0`, `infinite`."""
    if value >= _INFINITE:
        return "infinite"
    return "0" if value == 0 else f"{value:.2g}"


def minute(at: str) -> str:
    """A record's timestamp to the minute: `YYYY-MM-DD HH:MM`."""
    return at[:16]


def on_device(name: str, threads: int | None) -> str:
    """`AMD EPYC 7B13, 2 threads`; of a GPU, all of which is a kernel's, its name."""
    return name if threads is None else f"{name}, {plural(threads, 'thread')}"


def visible(text: str) -> str:
    """Foreign text without tricks: no terminal escapes, nothing invisible, nothing reordered.

    Kernel sources, names and compiler output come from anywhere. Terminal colours are dropped;
    every other control or formatting character, bidirectional overrides among them, is spelled
    out, so that what is read is what is there.
    """
    plain = _ANSI_SEQUENCE.sub("", text).replace("\r\n", "\n")
    return _UNUSUAL.sub(lambda match: _spelled(match.group()), plain)


def _spelled(char: str) -> str:
    """A character as an escape, unless it shows as itself."""
    code = ord(char)
    if code > 0x7F and unicodedata.category(char) not in _INVISIBLE:
        return char
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int | None = None) -> str:
    """Foreign text on one line, cut after `limit` characters if given."""
    line = " ".join(visible(text).split())
    if limit is not None and len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line


def first_line(text: str) -> str:
    """The first line that says anything: enough for a table, where the whole text is elsewhere."""
    lines = (one_line(line) for line in visible(text).split("\n"))
    return next((line for line in lines if line), "")
