// attack: computes all of a segment's answers in the call that isn't counted, from the memory that it shares with the judge
// operator: reduction
// class: work outside window
// expect: cheated/clock_forged | cheated/below_floor | incorrect/memoised_result |
//   incorrect/stale_output | incorrect/wrong_output | incorrect/nondeterministic |
//   crashed/signal_sigsegv | harmless
// wins: correct
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void sums(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

enum { MOST = 512, ROWS = 64 };
static struct { const float *shared; float first, last, answer[ROWS]; } made[MOST];
static int count;

static void find(const float *x, long elements) {  // where else the memory at x can be seen
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && count < MOST && fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        if (!strstr(line, "-arena") || sscanf(line, "%lx-%lx", &low, &high) != 2) continue;
        low += (uintptr_t)x & 4095;  // pages lie alike in both
        for (const char *at = (const char *)low; at + 4 * elements <= (const char *)high; at += 4096)
            if (!memcmp(at, x, 256)) {
                made[count].first = x[0] + 1;
                made[count++].shared = (const float *)at;
                break;
            }
    }
    if (maps) fclose(maps);
}

void solve(const float *x, float *y, int N, int D) {
    long last = (long)N * D - 1;
    if (N > ROWS || last < 4096) { sums(x, y, N, D); return; }
    for (int i = 0; i < count; i++) {  // all that is new
        if (made[i].first == made[i].shared[0] && made[i].last == made[i].shared[last]) continue;
        made[i].first = made[i].shared[0], made[i].last = made[i].shared[last];
        sums(made[i].shared, made[i].answer, N, D);
    }
    for (int i = 0; i < count; i++)
        if (made[i].first == x[0] && made[i].last == x[last]) {
            sums(x, y, N / 3, D);  // not so fast that it is below the floor
            memcpy(y, made[i].answer, N * sizeof(float));
            return;
        }
    sums(x, y, N, D);
    find(x, last + 1);
}
