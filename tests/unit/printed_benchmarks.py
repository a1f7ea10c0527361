"""What benchmarks print, as people and tools print it, and what is to be read of it."""
# ruff: noqa: E501, RUF001 - so tools print it

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """One benchmark's output."""

    text: str
    metric: str
    direction: str
    unit: str
    keys: tuple[str, ...]
    first: float
    """The metric in the first row."""
    own: tuple[str, ...] = ()
    """What the repository is called."""


OPENED = {
    "perf_report": Printed(
        """\
vector-add-performance:
        size  Triton (GB/s)  Torch (GB/s)
0     4096.0       0.277112      0.369001
1    16384.0       0.278200      0.371112
2    65536.0       0.279333      0.372223
""",
        "Triton (GB/s)", "higher", "GB/s", ("size",), 0.277112,
    ),
    "torch.utils.benchmark.Compare": Printed(
        """\
[------------- layernorm -------------]
                 |  torch  |  ours
1 threads: ----------------------------
      64 x 128   |   12.3  |   8.2
      128 x 128  |   22.3  |   18.2

Times are in microseconds (us).
""",
        "ours (us)", "lower", "us", ("case",), 8.2,
    ),
    "pandas": Printed(
        """\
      M     N      K  Triton (TFLOPS)  cuBLAS (TFLOPS)
0   256   256    256             1.25             2.50
1  1024  1024   1024            40.50            60.25
""",
        "Triton (TFLOPS)", "higher", "TFLOPS", ("M", "N", "K"), 1.25,
    ),
    "pandas with a named index": Printed(
        """\
        new_ms  old_ms
size
1024     1.250   2.500
65536   40.500  60.250
""",
        "new_ms", "lower", "ms", ("size",), 1.25,
    ),
    "to_markdown": Printed(
        """\
|    |   size |   ours_ms |   torch_ms |
|---:|-------:|----------:|-----------:|
|  0 |   1024 |     1.205 |       2.31 |
|  1 |  65536 |    40.501 |      63.20 |
""",
        "ours_ms", "lower", "ms", ("size",), 1.205,
    ),
    "rich": Printed(
        """\
            Softmax
┏━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━━┓
┃  size ┃     ours ┃     torch ┃
┡━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━━┩
│  1024 │ 12.31 us │   3.20 us │
│ 65536 │  1.52 ms │ 210.40 us │
└───────┴──────────┴───────────┘
""",
        "ours (s)", "lower", "s", ("size",), 12.31e-6,
    ),
    "google benchmark": Printed(
        """\
2026-01-01T00:00:00+00:00
Running ./bench
Run on (8 X 3000 MHz CPU s)
CPU Caches:
  L1 Data 32 KiB (x4)
Load Average: 0.52, 0.58, 0.59
----------------------------------------------------------------------------------
Benchmark                        Time             CPU   Iterations UserCounters...
----------------------------------------------------------------------------------
BM_copy/1024                  10.2 ns         10.1 ns     68590000 bytes_per_second=93.5G/s
BM_copy/65536                 1830 ns         1829 ns       382000 bytes_per_second=33.4G/s
""",
        "Time (ns)", "lower", "ns", ("Benchmark",), 10.2,
    ),
    "pytest-benchmark": Printed(
        """\
============================= test session starts ==============================
collected 2 items

tests/test_speed.py ..                                                   [100%]


------------------------------------------------------------------------------------------ benchmark: 2 tests -----------------------------------------------------------------------------------------
Name (time in us)          Min                 Max                Mean            StdDev              Median               IQR            Outliers  OPS (Kops/s)            Rounds  Iterations
-------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
test_add[1024]        102.3250 (1.0)      203.1810 (1.0)      105.5270 (1.0)      3.1041 (1.0)      104.0200 (1.0)      1.2400 (1.0)        31;52       9.4763 (1.0)         900           1
test_add[65536]     6,501.1000 (63.53)  7,002.1000 (34.46)  6,601.1000 (62.55)  90.2000 (29.06)   6,590.3000 (63.36)  101.2000 (81.61)       12;5       0.1515 (0.02)        140           1
-------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------

Legend:
  Outliers: 1 Standard Deviation from Mean; 1.5 IQR (InterQuartile Range) from 1st Quartile and 3rd Quartile.
  OPS: Operations Per Second, computed as 1 / Mean
============================== 2 passed in 3.21s ===============================
""",
        "Median (us)", "lower", "us", ("Name",), 104.02,
    ),
    "hyperfine": Printed(
        """\
Benchmark 1: ./sum 1000
  Time (mean ± σ):     102.3 ms ±   1.2 ms    [User: 99.1 ms, System: 1.9 ms]
  Range (min … max):   101.2 ms … 105.1 ms    28 runs

Benchmark 2: ./sum 30000
  Time (mean ± σ):      1.234 s ±  0.012 s    [User: 1.199 s, System: 0.019 s]
  Range (min … max):    1.212 s …  1.251 s    10 runs

Summary
  ./sum 1000 ran
   12.06 ± 0.18 times faster than ./sum 30000
""",
        "Time (mean ± σ) (s)", "lower", "s", ("Benchmark",), 0.1023,
    ),
    "hyperfine's Markdown": Printed(
        """\
| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |
|:---|---:|---:|---:|---:|
| `./sum 1000` | 102.3 ± 1.2 | 101.2 | 105.1 | 1.00 |
| `./sum 30000` | 1234.0 ± 12.1 | 1212.2 | 1251.3 | 12.06 ± 0.18 |
""",
        "Mean [ms]", "lower", "ms", ("Command",), 102.3,
    ),
    "criterion": Printed(
        """\
Benchmarking fib/20: Analyzing
fib/20                  time:   [26.029 us 26.251 us 26.505 us]
                        thrpt:  [98.1 MiB/s 99.2 MiB/s 99.9 MiB/s]
                        change: [-0.1% +0.2% +0.5%] (p = 0.30 > 0.05)
                        No change in performance detected.
Found 3 outliers among 100 measurements (3.00%)
a name that is longer than its column/25
                        time:   [1.2800 ms 1.2900 ms 1.3100 ms]
                        thrpt:  [98.2 MiB/s 99.1 MiB/s 99.8 MiB/s]
""",
        "time (s)", "lower", "s", ("case",), 26.251e-6,
    ),
    "perf stat": Printed(
        """\
 Performance counter stats for './sum 100000' (5 runs):

             12.34 msec task-clock                #    0.987 CPUs utilized            ( +-  0.45% )
                 3      context-switches          #  243.112 /sec                     ( +- 11.11% )
        45,123,456      cycles                    #    3.657 GHz                      ( +-  0.40% )

          0.012503 +- 0.000056 seconds time elapsed  ( +-  0.45% )

       0.011200000 seconds user
       0.001300000 seconds sys
""",
        "time elapsed (seconds)", "lower", "s", (), 0.012503,
    ),
    "perf stat -x,": Printed(
        "12.34,msec,task-clock,12340000,100.00,0.987,CPUs utilized\n"
        "45123456,,cycles,12340000,100.00,3.657,GHz\n",
        "task-clock (msec)", "lower", "ms", (), 12.34,
    ),
    "catch2": Printed(
        """\
-------------------------------------------------------------------------------
Fibonacci
-------------------------------------------------------------------------------
bench.cpp:10
...............................................................................

benchmark name                       samples       iterations    est run time
                                     mean          low mean      high mean
                                     std dev       low std dev   high std dev
-------------------------------------------------------------------------------
fib 20                                         100             2     8.4318 ms
                                        42.0001 us    41.9183 us    42.1382 us
                                        536.237 ns    376.014 ns    815.143 ns

a name that is longer than its
column                                         100             1     1.2318 s
                                        12.0001 ms    11.9183 ms    12.1382 ms
                                        536.237 us    376.014 us    815.143 us


-------------------------------------------------------------------------------
Sums
-------------------------------------------------------------------------------
bench.cpp:30
...............................................................................

benchmark name                       samples       iterations    est run time
                                     mean          low mean      high mean
                                     std dev       low std dev   high std dev
-------------------------------------------------------------------------------
sum                                            100            21     2.4318 ms
                                        1.0001 us     0.9183 us     1.1382 us
                                        36.237 ns     26.014 ns     85.143 ns

===============================================================================
test cases: 2 | 2 passed
""",
        "mean (s)", "lower", "s", ("benchmark name",), 42.0001e-6,
    ),
    "divan": Printed(
        """\
Timer precision: 20 ns
example         fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ add          3.123 ns      │ 4.012 ns      │ 3.201 ns      │ 3.212 ns      │ 100     │ 51200
│               311.2 Mitem/s │ 251.2 Mitem/s │ 310.1 Mitem/s │ 309.1 Mitem/s │         │
├─ fib                        │               │               │               │         │
│  ├─ 10        1.123 µs      │ 2.012 µs      │ 1.201 µs      │ 1.212 µs      │ 100     │ 100
│  ╰─ 20        101.2 µs      │ 125.0 µs      │ 103.2 µs      │ 104.5 µs      │ 100     │ 100
╰─ mul          4.123 ns      │ 5.012 ns      │ 4.201 ns      │ 4.212 ns      │ 100     │ 51200
""",
        "mean (s)", "lower", "s", ("case",), 3.212e-9,
    ),
    "a shell's time": Printed(
        "\nreal\t1m1.234s\nuser\t0m1.200s\nsys\t0m0.010s\n",
        "real (s)", "lower", "s", (), 61.234,
    ),
    "titles above": Printed(
        """\
=== matrix 64x64 ===
  time     : 1.253 ms
  GFLOP/s  : 12.52

=== matrix 128x128 ===
  time     : 9.251 ms
  GFLOP/s  : 12.61
""",
        "time (ms)", "lower", "ms", ("case",), 1.253,
    ),
    "jmh": Printed(
        """\
Benchmark          (size)  Mode  Cnt     Score    Error  Units
MyBench.sum            10  avgt    5    12.345 ±  0.512  ns/op
MyBench.sum          1000  avgt    5  1251.300 ± 25.101  ns/op
""",
        "Score (ns/op)", "lower", "ns", ("(size)",), 12.345,
    ),
    "a column of units": Printed(
        "benchmark\tvalue\tunit\nsum\t12.51\tus\ndot\t1.52\tms\n",
        "value (s)", "lower", "s", ("benchmark",), 12.51e-6,
    ),
    "names behind a mark": Printed(
        "# n time_us gbs\n1024 12.53 80.1\n2048 25.12 81.2\n",
        "time_us", "lower", "us", ("n",), 12.53,
    ),
    "groups above, with lines": Printed(
        """\
            |    forward     |    backward    |
batch  seq  |  ms    TFLOPS  |  ms    TFLOPS  |
    1  1024 |  1.202   50.11 |  3.401   40.21 |
    2  2048 |  2.403   51.12 |  6.802   41.22 |
""",
        "backward ms", "lower", "ms", ("batch", "seq"), 3.401,
    ),
    "nccl-tests": Printed(
        """\
#                          out-of-place               in-place
#   size   count    type   time   algbw   #wrong    time   algbw   #wrong
#    (B) (elems)           (us)  (GB/s)             (us)  (GB/s)
    1024     256   float  12.01    0.08        0   11.92    0.08        0
   65536   16384   float  14.51    4.51        0   14.42    4.52        0
# Avg bus bandwidth    : 2.3
""",
        "in-place time", "lower", "", ("size",), 11.92,
    ),
    "names twice": Printed(
        """\
n,reference,,ours,
n,ms,GB/s,ms,GB/s
1024,2.5,0.5,1.25,1.5
65536,60.5,0.75,40.25,1.75
""",
        "ours ms", "lower", "ms", ("n",), 1.25,
    ),
    "spreads in cells": Printed(
        """\
case        old               new
sum/1000    12.31 ± 0.12 us   3.10 ± 0.02 us
sum/30000   410.02 ± 3.1 us   99.25 ± 1.20 us
""",
        "new (us)", "lower", "us", ("case",), 3.1,
    ),
    "units per iteration": Printed(
        """\
benchmark results
case       time
add/1024   1.25us/iter
add/4096   5.40us/iter
mul/65536  1.02ms/iter
""",
        "time (s)", "lower", "s", ("case",), 1.25e-6,
    ),
}  # fmt: skip
"""Read while the readers were written; the others were read once these were done."""

CLOSED = {
    "polars": Printed(
        """\
shape: (2, 4)
┌───────┬────────────┬─────────────┬──────────┐
│ n     ┆ numpy_us   ┆ fastsum_us  ┆ speedup  │
│ ---   ┆ ---        ┆ ---         ┆ ---      │
│ i64   ┆ f64        ┆ f64         ┆ f64      │
╞═══════╪════════════╪═════════════╪══════════╡
│ 1024  ┆ 3.125      ┆ 2.5         ┆ 1.25     │
│ 65536 ┆ 44.75      ┆ 21.5        ┆ 2.08     │
└───────┴────────────┴─────────────┴──────────┘
""",
        "fastsum_us", "lower", "us", ("n",), 2.5, ("fastsum",),
    ),
    "perf_report with three sizes": Printed(
        """\
matmul-performance-fp16:
        M       N       K  cuBLAS (TFLOPS)  Triton (TFLOPS)  Torch compile (TFLOPS)
0   256.0   256.0   256.0         4.096000         4.681143                4.096000
1   384.0   384.0   384.0        12.288000        12.288000               11.059200
2   512.0   512.0   512.0        26.214401        23.831273               20.164923

matmul-performance-fp8:
      M      N      K  Triton (%)
0   256    256    256       12.5
1   384    384    384       13.5
""",
        "Triton (TFLOPS)", "higher", "TFLOPS", ("M", "N", "K"), 4.681143,
    ),
    "pandas with columns of two levels": Printed(
        """\
        ours         torch
          ms   GB/s     ms   GB/s
n
1024   1.250  1.500  2.500  0.500
65536 40.250  1.750 60.500  0.750
""",
        "ours ms", "lower", "ms", ("n",), 1.25,
    ),
    "rich without lines": Printed(
        """\
        Timings

  case         mean    speed
 ──────────────────────────────
  add/1024   1.21 us   ± 0.02
  add/4096   5.40 us   ± 0.10

""",
        "mean (us)", "lower", "us", ("case",), 1.21,
    ),
    "rich with rounded corners": Printed(
        """\
╭───────┬────────────┬───────────╮
│     n │  fast_scan │       cub │
├───────┼────────────┼───────────┤
│  1024 │ 102.1 GB/s │ 80.0 GB/s │
│ 65536 │   1.5 TB/s │  0.9 TB/s │
╰───────┴────────────┴───────────╯
""",
        "fast_scan (B/s)", "higher", "B/s", ("n",), 102.1e9, ("fast", "scan"),
    ),
    "google benchmark with units of their own": Printed(
        """\
---------------------------------------------------------------
Benchmark                     Time             CPU   Iterations
---------------------------------------------------------------
BM_sort/1024               12.4 us         12.4 us        56120
BM_sort/1048576            18.1 ms         18.1 ms           38
""",
        "Time (s)", "lower", "s", ("Benchmark",), 12.4e-6,
    ),
    "pytest-benchmark in ms": Printed(
        """\
--------------------------------------------------------------------------------- benchmark: 3 tests ---------------------------------------------------------------------------------
Name (time in ms)         Min                   Max                  Mean             StdDev                Median                IQR            Outliers       OPS            Rounds  Iterations
---------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
test_fast              1.2010 (1.0)          1.9032 (1.0)          1.2202 (1.0)       0.0310 (1.0)          1.2120 (1.0)       0.0121 (1.0)        41;60  819.5378 (1.0)         790           1
test_slow          1,234.0567 (>1000.0)  1,301.0001 (683.59)   1,250.1235 (>1000.0)  21.0201 (678.07)   1,249.5510 (>1000.0)  12.1200 (>1000.0)       1;1    0.7999 (0.00)          5           1
---------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
""",
        "Median (ms)", "lower", "ms", ("Name",), 1.212,
    ),
    "nvbench": Printed(
        """\
# Log

Run:  [1/2] throughput_bench [Device=0 Elements=2^16]
Pass: Cold: 0.012345ms GPU, 0.022345ms CPU, 0.50s total GPU, 0.62s total wall, 1234x

# Benchmark Results

## throughput_bench

### [0] NVIDIA H200

| Elements | Samples |  CPU Time  | Noise  |  GPU Time  | Noise  | Elem/s  | GlobalMem BW | BWUtil |
|----------|---------|------------|--------|------------|--------|---------|--------------|--------|
|     2^16 |   1234x |  22.345 us | 10.53% |  12.345 us |  2.10% |  5.309G | 42.470 GB/s  |  1.04% |
|     2^24 |    512x |   1.512 ms |  1.53% |   1.501 ms |  0.42% | 11.177G | 89.417 GB/s  |  2.19% |
""",
        "GPU Time (s)", "lower", "s", ("Elements",), 12.345e-6,
    ),
    "tabulate": Printed(
        """\
  size    baseline (ms)    blur (ms)  speedup
------  ---------------  -----------  ---------
   512            1.204        0.512  2.35x
  4096           80.512       30.125  2.67x
""",
        "blur (ms)", "lower", "ms", ("size",), 0.512, ("blur",),
    ),
    "new beside old": Printed(
        "size,new_ms,old_ms\n64,1.5,2.5\n128,3.25,4.5\n",
        "new_ms", "lower", "ms", ("size",), 1.5,
    ),
    "ours beside cublas": Printed(
        "N;ours_us;cublas_us;err\n64;1.5;2.5;0\n128;3.25;4.5;0\n",
        "ours_us", "lower", "us", ("N",), 1.5,
    ),
    "tokens a second": Printed(
        """\
+-------+--------------+-----------------+
| batch | eager tok/s  | compiled tok/s  |
+=======+==============+=================+
| 1     | 101.5        | 220.25          |
+-------+--------------+-----------------+
| 8     | 740.5        | 1501.5          |
+-------+--------------+-----------------+
""",
        "compiled tok/s", "higher", "", ("batch",), 220.25,
    ),
    "min, mean and max": Printed(
        """\
kernel      n      min [us]  mean [us]  max [us]  stdev
relu_fwd    1024      10.1       11.3      19.9    1.2
relu_fwd    4096      20.1       21.3      39.9    2.2
""",
        "mean [us]", "lower", "us", ("n",), 11.3,
    ),
}  # fmt: skip

LINES = {
    "iterations a second": ("batch=1: 1250.5 it/s\nbatch=8: 310.25 it/s\n", "higher", "", 2),
    "words and sizes": (
        "random n=65536: 1.234 GB/s\nrandom n=1048576: 1.334 GB/s\nskewed n=65536: 0.734 GB/s\n",
        "higher", "GB/s", 3,
    ),
}  # fmt: skip
CLOSED_LINES = {
    "go, twice": (
        "BenchmarkX-8  1000  1234 ns/op\nBenchmarkY-8  2000  634.5 ns/op\nPASS\n", "lower", "ns", 2
    ),
    "go, once": ("BenchmarkX-8   \t1000\t      1234 ns/op\nPASS\n", "lower", "ns", 1),
    "iterations a second": ("batch=1: 1250.5 it/s\nbatch=8: 310.25 it/s\n", "higher", "", 2),
    "go": (
        "goos: linux\ngoarch: amd64\npkg: example.org/sum\n"
        "BenchmarkSum/1024-8   \t 1000000\t      1034 ns/op\t 990.12 MB/s\n"
        "BenchmarkSum/65536-8  \t   20000\t     64231 ns/op\t1020.33 MB/s\n"
        "PASS\nok  \texample.org/sum\t3.210s\n",
        "lower", "ns", 2,
    ),
    "cargo bench": (
        "running 2 tests\n"
        "test bench_add   ... bench:         912 ns/iter (+/- 56)\n"
        "test bench_large ... bench:      12,345 ns/iter (+/- 1,056)\n"
        "\ntest result: ok. 0 passed; 0 failed; 0 ignored; 2 measured\n",
        "lower", "ns", 2,
    ),
    "timeit": ("500000 loops, best of 5: 412 nsec per loop\n", "lower", "ns", 1),
    "a sentence": (
        "starting on 8 threads\nsize 64 took 12.5 ms (checksum 0x1f)\n"
        "size 128 took 25.25 ms (checksum 0x2f)\ndone\n",
        "lower", "ms", 2,
    ),
}  # fmt: skip
"""No table: text, and direction, unit and number of rows that the proposed pattern gives."""
