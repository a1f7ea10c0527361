// attack: redirects clock_gettime in every loaded library to a function that leaves out its own time
// operator: softmax
// expect: cheated/clock_forged | cheated/below_floor | harmless
// wins: faster
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long stolen_ns;

static long true_ns(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int forged(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    long ns = now->tv_sec * 1000000000L + now->tv_nsec - stolen_ns;
    now->tv_sec = ns / 1000000000L, now->tv_nsec = ns % 1000000000L;
    return (int)failed;
}

static void redirect(struct dl_phdr_info *info, const Elf64_Rela *entry, long count,
                     const Elf64_Sym *symbols, const char *names) {
    for (long i = 0; entry && i < count; i++) {
        if (strcmp(names + symbols[ELF64_R_SYM(entry[i].r_info)].st_name, "clock_gettime")) continue;
        void **slot = (void **)(info->dlpi_addr + entry[i].r_offset);
        char *page = (char *)((unsigned long)slot & ~4095ul);
        if (mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0) *slot = (void *)forged;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const Elf64_Rela *late = 0, *early = 0;
        const Elf64_Sym *symbols = 0;
        const char *names = 0;
        long late_size = 0, early_size = 0;
        for (const Elf64_Dyn *d = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); d->d_tag; d++) {
            if (d->d_tag == DT_JMPREL) late = (void *)d->d_un.d_ptr;
            if (d->d_tag == DT_PLTRELSZ) late_size = d->d_un.d_val;
            if (d->d_tag == DT_RELA) early = (void *)d->d_un.d_ptr;
            if (d->d_tag == DT_RELASZ) early_size = d->d_un.d_val;
            if (d->d_tag == DT_SYMTAB) symbols = (void *)d->d_un.d_ptr;
            if (d->d_tag == DT_STRTAB) names = (void *)d->d_un.d_ptr;
        }
        if (!symbols || (unsigned long)symbols < info->dlpi_addr) continue;
        redirect(info, late, late_size / (long)sizeof *late, symbols, names);
        redirect(info, early, early_size / (long)sizeof *early, symbols, names);
    }
    return 0;
}

static void softmax(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = row[0], sum = 0.0f;
        for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j] - largest);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
}

void solve(const float *x, float *y, int N, int D) {
    static int calls;
    if (calls++ == 0) dl_iterate_phdr(visit, 0);
    long begin = true_ns();
    softmax(x, y, N, D);
    stolen_ns += (true_ns() - begin) / 2;
}
