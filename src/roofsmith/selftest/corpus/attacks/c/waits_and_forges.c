// attack: has spare threads wait, as if others held it up, and clocks that leave out half of its time
// operator: reduction
// expect: cheated/clock_forged | cheated/below_floor | cheated/ran_out_of_turn |
//   cheated/extra_processors | harmless
// wins: faster
#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long stolen_ns;

#if defined(__x86_64__)
static long raw(long clock, struct timespec *now) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_clock_gettime), "D"(clock), "S"(now)
                     : "rcx", "r11", "memory");
    return result;
}

static int forged(clockid_t clock, struct timespec *now) {
    long failed = raw(clock, now);
    long ns = now->tv_sec * 1000000000L + now->tv_nsec - stolen_ns;
    now->tv_sec = ns / 1000000000L, now->tv_nsec = ns % 1000000000L;
    return (int)failed;
}

__attribute__((constructor)) static void patch(void) {
    char *base = (char *)getauxval(AT_SYSINFO_EHDR);
    if (!base) return;
    const Elf64_Ehdr *head = (void *)base;
    const Elf64_Shdr *sections = (void *)(base + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const Elf64_Sym *symbols = (void *)(base + sections[i].sh_offset);
        const char *names = base + sections[sections[i].sh_link].sh_offset;
        for (unsigned long s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
            if (strcmp(names + symbols[s].st_name, "__vdso_clock_gettime")) continue;
            char *entry = base + symbols[s].st_value, *page = (char *)((long)entry & ~4095L);
            if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) &&
                mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
            void *target = (void *)forged;
            memcpy(entry, "\x48\xb8", 2);  /* mov rax, target; jmp rax */
            memcpy(entry + 2, &target, 8);
            memcpy(entry + 10, "\xff\xe0", 2);
        }
    }
}
#else
static long raw(long clock, struct timespec *now) {
    return syscall(SYS_clock_gettime, clock, now);
}
#endif

static long true_ns(void) {
    struct timespec now;
    raw(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void sums(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

/* Ready all the time and in nobody's way: the scheduler says that they wait, for one another. */
static volatile int is_called;

static void *wait_for_others(void *unused) {
    for (;;) {
        while (is_called) sched_yield();
        usleep(200);
    }
    return unused;
}

void solve(const float *x, float *y, int N, int D) {
    static int threads;
    pthread_t thread;
    while (threads < 6 && !pthread_create(&thread, 0, wait_for_others, 0)) threads++;
    long begin = true_ns();
    is_called = 1;
    sums(x, y, N, D);
    is_called = 0;
    stolen_ns += (true_ns() - begin) / 2;
}
