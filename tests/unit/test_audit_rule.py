"""What is a hardware number: sentences as people and programs write them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roofsmith.analysis.audit_quantities import LARGEST_ROUNDING, quantities, quantity_of
from roofsmith.analysis.audit_rule import hardware_numbers
from roofsmith.domain.facts import Citation, Fact
from roofsmith.specs.wiki import Wiki

SAID_OF_A_DEVICE = (
    "the H100 has 3.35 TB/s",
    "HBM bandwidth is 3.35 TB/s",
    "peak: 989 TFLOPS",
    "3,350 GB/s",
    "(3.35 TB/s)",
    "**3.35** TB/s",
    "3.35e12 byte/s",
    "3.35 x 10^12 byte/s",
    "4.0TB/s",
    "~2 TB/s of bandwidth is there",
    "memory bandwidth of 3.35 terabytes per second",
    "we have 3.35 TB/s to play with",
    "989/1979 TFLOPS",
    "989 TFLOPs dense peak",
    "this kernel needs more than the H100's 3.35 TB/s",
    "85% of the peak of 3.35 TB/s",
    "achieves the peak bandwidth of 3.35 TB/s",
    "peak bandwidth, 3.35 TB/s",
    "the H100's 3.35 TB/s limits this kernel",
    "the kernel moves 134 MB, and HBM gives 3.35 TB/s",
    "128 B/clk L1",
    "The L2 is 50 MB",
    "the tile fits the 50 MB L2",
    "50 MB of L2",
    "L2 cache (50 MB)",
    "L3 unified: 32 MiB, shared by 16",
    "memory: 24 GiB",
    "the machine has 256 GB",
    "each SM has 256 KB",
    "228 KB of shared memory per SM",
    "runs on an H100 with 80 GB",
    "80 GB HBM3",
    "132 SMs",
    "a 132-SM part",
    "SMs=132",
    "the H100 (132 SMs, 50 MB L2, 3.35 TB/s)",
    "L2=50MB",
    "H100: 3350GBps",
    "989 teraflops of dense bf16",
    "50 megabytes of L2",
    "1.98 gigahertz boost",
    "900 GB/s NVLink",
    "smem is 228 KB/SM",
    "SM count: 132",
    "warp size: 64",
    "max 2048 threads per SM",
    "at most 255 registers per thread",
    "an 80GB GPU",
    "two 24 GB cards",
    "boost clock 1.98 GHz",
    "1755 MHz SM clock",
    "TDP 700 W",
    "power limit 700 W",
    "ridge 295 FLOP/byte",
    "L2 latency is 200 cycles",
    "5120-bit memory bus",
    "memory.bandwidth_byte_per_s: 3.35e+12 byte/s",
    "caches.l2_bytes: 52428800 byte",
    "TDP: 700 W",
    "the H100 draws up to 700 W",
    "ridge: 295 FLOP/byte",
    "the intensity of 42 FLOP/byte is below the ridge of 295 FLOP/byte",
    "L2 latency: 200 cycles",
    "shared memory: 228 KB",
    "shared memory per SM: 228 KB",
    "max shared memory per block: 227 KB",
    "at most 227 KB of shared memory per block",
    "only 48 KB of shared memory is available",
    "the tile exceeds the 48 KB of shared memory",
    "LDS is 64 KB",
    "the GPU has 132 SMs and 228 KB of shared memory",
    "Hopper allows at most 255 registers per thread",
    "all 132 SMs",
    "from HBM at 3.35 TB/s",
    "an H100 reaches 3.35 TB/s",
    "one H100 can deliver up to 3.35 TB/s",
    "the GPU reaches 989 TFLOP/s",
    "achieves 60% of the 4.8 TB/s",
    "60 percent of the 4.8 TB/s",
    "reaches 63% of the memory bandwidth of 3.35 TB/s",
    "gets 2.1 of the 3.35 TB/s",
    "uses most of the 3.35 TB/s this GPU has",
    "65536 registers per SM",
    "65,536 registers/SM",
    "2048 threads per SM",
    "32 blocks per SM",
    "64 warps per SM",
    "32 wavefronts per CU",
    "65,536 32-bit registers per SM",
    "64K registers per SM",
    "1K 32-bit registers per thread at most",
    "the kernel needs 10 GB / 3.35 TB/s = 3 ms",
    "this needs 83.9 MFLOP / 989 TFLOP/s",
    "With 3.35 TB/s the kernel would need 10 us",
    "with only 3.35 TB/s of bandwidth the kernel could take 10 us",
    "The H100 moves at most 3.35 TB/s",
    "the GPU can stream 3.35 TB/s",
)
SAID_OF_A_KERNEL = (
    "reaches 2.1 TB/s",
    "achieved: 19.7 GB/s",
    "achieved bandwidth 2.1 TB/s",
    "effective bandwidth of 2.1 TB/s",
    "the kernel moves 134 MB at 2.1 TB/s",
    "the kernel runs at 1.9 TB/s on the H100",
    "2.1 TB/s is 63% of peak",
    "2.1 TB/s (63% of peak)",
    "at most 6.46 ms, moving 20.8 GB/s",
    "goal: 20.8 GB/s",
    "target >= 3.0 TB/s",
    "candidate: 2.1 TB/s",
    "5.1e+10 byte/s in that time",
    "clocks throttled to 1.2 GHz",
    "uses 48 KB of shared memory",
    "a 96 KB smem tile",
    "raises it from 1.8 to 2.1 TB/s",
    "expected 2.5 TB/s",
    "saves 33 MB of traffic",
    "stage 32 KB in shared memory",
    "8 warps per block, 2 blocks per SM",
    "working set of 33 MB",
    "33 MB fit the L2",
    "128 MiB are moved, more than the last-level cache holds",
    "85% of copy bandwidth at 134217728 byte, 2 threads (memory)",
    "moves 67 MB read + 67 MB written",
    "The tile of 32 KiB is loaded once",
    "softmax (variant 1): 40 registers a thread, 49,152 bytes of shared memory, no spills",
    "cache misses fetch 1.3e8 byte, 2.0x the 6.7e7 needed",
    "spilled 200 bytes a thread",
    "uses 168 registers per thread",
    "2 SMs idle",
    "32 of 32 threads",
    "128-bit loads",
    "83.9 MFLOP",
    "0.625 FLOP/byte",
    "took 12.5 s",
    "N=4096,D=4096",
    "softmax.py on NVIDIA H100 80GB HBM3: 1.2x",
    "fp16, 128 x 64 tiles",
    "tile 64x64 fits 48 KB of shared memory",
    "with 40 KB of shared memory per block, 5 blocks fit per SM",
    "allocate 100 KB of dynamic shared memory",
    "shared memory: 72 KB per block",
    "smem = 3 stages * 32 KB = 96 KB",
    "each block stages 2 x 16 KB in shared memory, 32 KB in total",
    "2 * 32 KB = 64 KB of LDS",
    "64 MB of HBM traffic",
    "removes 64 MB of HBM reads",
    "cut registers from 168 to 96 per thread so that 5 blocks fit on an SM",
    "use up to 64 registers per thread",
    "max 128 registers per thread via maxrregcount",
    "at most 64 registers per thread lets 4 blocks be resident",
    "at most 4 blocks per SM are resident because each needs 60 KB",
    "2 SMs cooperate via a cluster of 2",
    "run on 2 cores with OpenMP",
    "parallelise across all 2 cores",
    "pin the thread to core 1",
    "sm_90 wgmma 64x256x16",
    "bandwidth rises from 1.9 TB/s to 2.4 TB/s",
    "bandwidth goes up to 2.6 TB/s",
    "measured 1.7 TB/s DRAM, 52% of the roofline",
    "ncu says 1.9 TB/s DRAM throughput",
    "this should give 2.4 TB/s",
    "the inner loop takes 12 cycles per iteration, limited by the latency of FMA",
    "intensity is 42 FLOP/byte, well under the ridge",
    "the clock dropped to 1.4 GHz while it ran",
    "power draw hits 680 W",
    "occupancy rises from 25% to 50%",
    "this kernel on an H100 reaches 2.1 TB/s",
    "on the H100 reaches 2.1 TB/s",
    "the H100 kernel reaches 2.1 TB/s",
    "an H100 reaches 2.1 TB/s with this kernel",
    "60% of the 2.1 TB/s that the baseline reaches",
    "reaches 60% of the 20 GB/s goal",
    "2 blocks per SM",
    "launch 32 blocks per SM so that all are resident",
    "occupancy of 2048 threads per SM",
    "uses 40960 registers per SM",
    "runs 64 warps per SM",
    "needs 65536 registers per SM",
    "use 32 blocks per SM",
    "THREADS (kernel.cu:5): 256 -> 512, out of 64, 128, 256, 512",
    "a race at softmax.cu:132",
    "the H100 moves 2.1 TB/s in this kernel",
    "it needs 10 GB / 2.1 TB/s measured = 5 ms",
    "the kernel reaches 134 MB / 6.4 ms = 20.8 GB/s",
    "the goal is 134 MB / 20.8 GB/s",
    "reaches 2.1 TB/s of 3.0 TB/s that the baseline reaches",
    "with 2.1 TB/s the kernel is faster",
    "uses 40K registers per SM",
    "64K registers per SM are used by this kernel",
)
units = st.sampled_from(("byte/s", "FLOP/s", "Hz", "byte"))


@pytest.mark.parametrize("text", SAID_OF_A_DEVICE)
def test_of_a_device(text: str) -> None:
    assert hardware_numbers(text)


def test_what_a_page_says_is_of_a_device_by_the_page_s_own_names() -> None:
    """A fact that lost its citation is found, whichever it is."""
    sections = ("peak_rates.", "memory.", "caches.", "execution.", "occupancy.")
    facts = [
        entry.fact()
        for page in Wiki.load().pages
        for metric, entry in page.entries.items()
        if metric.startswith(sections)
    ]
    said = [str(fact).partition(" <- ")[0] for fact in facts if fact.value is not None]
    assert len(said) > 1000
    assert [text for text in said if not hardware_numbers(text)] == []


@pytest.mark.parametrize("text", SAID_OF_A_KERNEL)
def test_of_a_kernel(text: str) -> None:
    assert not hardware_numbers(text)


def test_both_in_one_sentence_are_told_apart() -> None:
    for text in (
        "the kernel reaches 2.1 TB/s of the 3.35 TB/s peak",
        "kernel moved 2.1 TB/s of 3.35 TB/s",
        "the kernel reaches 2.1 TB/s of the 3.35 TB/s",
    ):
        assert [number.text for number in hardware_numbers(text)] == ["3.35 TB/s"]


@pytest.mark.parametrize(
    ("text", "value", "unit", "same"),
    [
        ("3.35 TB/s", 3.35e12, "byte/s", True),
        ("3.35 TB/s", 3.352e12, "byte/s", True),
        ("3.35 TB/s", 3.36e12, "byte/s", False),
        ("3.35 TB/s", 3.35e12, "FLOP/s", False),
        ("3350 GB/s", 3.35e12, "byte/s", True),
        ("2000 GB/s", 2.039e12, "byte/s", False),
        ("3 TB/s", 3.35e12, "byte/s", False),
        ("3.4 TB/s", 3.35e12, "byte/s", False),
        ("5.3 TB/s", 5.325e12, "byte/s", True),
        ("1 SM", 1.4, "SM", False),
        ("3e+12 byte/s", 3.35e12, "byte/s", False),
        ("50 MB", 52428800, "byte", True),
        ("80 GB", 8e10, "byte", True),
        ("50 MiB", 5e7, "byte", False),
        ("1,979 TOP/s", 1.9789e15, "OP/s", True),
        ("1.98 GHz", 1.98e9, "Hz", True),
        ("132 SMs", 132, "SM", True),
        ("64K registers per SM", 65536, "register", True),
        ("65,536 32-bit registers per SM", 65536, "register", True),
        ("65K registers per SM", 65536, "register", False),
        ("5120 bit", 5120, "bit", True),
        ("700 W", 700, "W", True),
        ("256 FLOP/clk/CU", 256, "FLOP/clk/CU", True),
    ],
)
def test_a_quantity_says_what_a_fact_says(text: str, value: float, unit: str, same: bool) -> None:
    (found,) = quantities(text)
    assert found.says(_fact(value, unit)) == same


@given(st.floats(min_value=1e-3, max_value=1e18), units)
def test_what_a_fact_prints_says_the_fact(value: float, unit: str) -> None:
    fact = _fact(value, unit)
    number, printed_unit = str(fact).split(": ")[1].split(" <- ")[0].split(" ", 1)
    assert quantity_of(number, printed_unit).says(fact)


@given(st.floats(min_value=1e6, max_value=1e15), units, st.floats(min_value=1.001, max_value=50))
def test_another_value_does_not(value: float, unit: str, factor: float) -> None:
    fact = _fact(value, unit)
    number, printed_unit = str(fact).split(": ")[1].split(" <- ")[0].split(" ", 1)
    assert not quantity_of(number, printed_unit).says(_fact(value * factor, unit))


@given(st.floats(min_value=1, max_value=999), st.integers(0, 4))
def test_few_digits_are_no_licence(value: float, decimals: int) -> None:
    printed = f"{value:.{decimals}f}"
    off = abs(value / float(printed) - 1)
    assume(abs(off - LARGEST_ROUNDING) > 1e-6)
    assert quantity_of(printed, "TB/s").says(_fact(value * 1e12, "byte/s")) == (
        off < LARGEST_ROUNDING
    )


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    for number in hardware_numbers(text):
        assert number.text


def test_a_line_without_an_end_is_read_in_time_that_grows_with_it() -> None:
    assert len(hardware_numbers("moves 2 GB/s in L2 cache of the H100, " * 3000)) <= 3000


def _fact(value: float, unit: str) -> Fact:
    return Fact(metric="m", value=value, unit=unit, citation=Citation(path="wiki/x.yaml", line=1))
