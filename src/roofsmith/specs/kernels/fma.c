/* Peak rate of fused multiply-adds on vector registers.
 *
 * Every chain `a = a * x + y` waits for itself, so there must be at least latency x ports of them:
 * 4 cycles x 2 ports = 8 on x86, 4 x 4 = 16 on the widest Arm cores. All chains and both operands
 * live in named locals and fit the register file (16 registers with AVX2, 32 with AVX-512 and on
 * aarch64), so that the loop is nothing but arithmetic: no loads, no spills.
 *
 * Build with -DREAL=float or -DREAL=double.
 */
#include "team.h"

typedef REAL vector __attribute__((vector_size(VECTOR_BYTES)));

#if defined(__AVX512F__) || defined(__aarch64__)
#define CHAINS 24
#define EACH(do) \
    do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) \
    do(12) do(13) do(14) do(15) do(16) do(17) do(18) do(19) do(20) do(21) do(22) do(23)
#else
#define CHAINS 12
#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11)
#endif

#define UNROLL 4

struct work {
    long trips;
    REAL sink[MAX_THREADS];
};

static void fma_chains(int thread, int threads, void *context)
{
    struct work *work = context;
    (void)threads;
    /* The fixed point of a * x + y is y / (1 - x) = 1: no overflow, no denormals, ever. */
    vector x = (vector){0} + (REAL)0.75, y = (vector){0} + (REAL)0.25;
    OPAQUE(x);
    OPAQUE(y);
#define DECLARE(i) vector a##i = (vector){0} + (REAL)(i);
#define STEP(i) a##i = a##i * x + y;
#define USE(i) OPAQUE(a##i);
    EACH(DECLARE)
    EACH(USE)
    for (long trip = 0; trip < work->trips; trip++) {
        EACH(STEP)
        EACH(STEP)
        EACH(STEP)
        EACH(STEP)
    }
#define ADD(i) x += a##i;
    EACH(ADD)
    work->sink[thread] = x[0];
}

/* rates[r]: FLOP/s of repetition r, all threads together; -1 where threads could not be started. */
void solve(double *rates, int repeats, int threads, int microseconds)
{
    static struct work work;
    const double flops_per_trip =
        2.0 * UNROLL * CHAINS * (double)(VECTOR_BYTES / sizeof(REAL)) * threads;
    /* Long enough for the time asked for; this also wakes the cores from their idle states. */
    work.trips = 1000;
    double time_s = run_team(threads, fma_chains, &work);
    while (time_s >= 0 && time_s < 1e-6 * microseconds) {
        work.trips = time_s > 1e-5 ? (long)(1.2e-6 * microseconds / time_s * work.trips)
                                   : 10 * work.trips;
        time_s = run_team(threads, fma_chains, &work);
    }
    for (int r = 0; r < repeats; r++) {
        time_s = run_team(threads, fma_chains, &work);
        rates[r] = time_s > 0 ? flops_per_trip * work.trips / time_s : -1.0;
    }
}
